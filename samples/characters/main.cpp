// Character-level language model: trains a GRU on a document of this project, then generates text as a stream, one
// character per step.
//
//   characters [--text FILE] [--steps N] [--below LOSS] [--threads N]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

import lamina;
namespace la = lamina;
namespace nn = lamina::nn;

double uniform(std::mt19937& r) { return static_cast<double>(r()) / 4294967296.0; }

constexpr std::int64_t letters = 96, hidden = 128, turns = 48, samples = 32;

// Codes: 0 is newline, 1 is space, then the other printable characters. Any other character counts as a space.
std::int64_t code_of(char c) { return c == '\n' ? 0 : c > ' ' && c < 127 ? c - 31 : 1; }
char letter_of(std::int64_t code) { return code == 0 ? '\n' : static_cast<char>(code + 31); }

inline constexpr auto writer = la::sequential(nn::gru{.input_size = letters, .hidden_size = hidden},
                                              nn::linear{.in_features = hidden, .out_features = letters});
using writer_model = la::model<writer, la::input<"T", "N", letters>>;

std::string sample_of(const writer_model& net, std::string_view begin, std::size_t length) {
  auto pen = la::stream(la::reference_factory<writer, la::input<"T", "N", letters>>(net).create());
  std::vector<float> letter(letters), scores(letters);
  std::string text(begin);
  std::mt19937 random(7);
  for (std::size_t i = 0; text.size() < length; ++i) {
    std::fill(letter.begin(), letter.end(), 0.f);
    letter[static_cast<std::size_t>(code_of(text[i]))] = 1;
    pen.step(std::span<const float>(letter), scores);
    if (i + 1 < text.size()) continue;  // still reading the prompt
    double total = 0;
    for (auto& s : scores) total += s = std::exp(s / 0.7f);
    double at = uniform(random) * total;
    std::size_t next = 0;
    while (next + 1 < scores.size() && (at -= static_cast<double>(scores[next])) > 0) ++next;
    text += letter_of(static_cast<std::int64_t>(next));
  }
  return text;
}

int main(int count, char** arguments) {
  std::string path = LAMINA_TEXT;
  long steps = 3000;
  double below = 2.0;
  int threads = 2;
  for (int i = 1; i + 1 < count; i += 2) {
    std::string_view name = arguments[i];
    if (name == "--text") path = arguments[i + 1];
    else if (name == "--steps") steps = std::atol(arguments[i + 1]);
    else if (name == "--below") below = lamina::number_in(arguments[i + 1]).value_or(0);
    else if (name == "--threads") threads = std::atoi(arguments[i + 1]);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < 4096) {
    std::fprintf(stderr, "characters: %s is missing or shorter than 4096 characters\n", path.c_str());
    return 2;
  }

  writer_model net({.seed = 1, .threads = threads});
  la::training step(net, la::loss::cross_entropy{}, la::optim::adam{.lr = 4e-3});
  la::tensor<float, la::extents<turns, samples, letters>> x;
  la::matrix<std::int64_t> next(turns, samples);
  std::mt19937 random(1);
  double mean = std::log(static_cast<double>(letters));
  for (long k = 1; k <= steps && mean >= below; ++k) {
    auto in = x.writable();
    auto out = next.writable();
    std::fill(in.begin(), in.end(), 0.f);
    for (std::int64_t n = 0; n < samples; ++n) {
      auto from = static_cast<std::size_t>(uniform(random) * static_cast<double>(text.size() - turns - 1));
      for (std::int64_t t = 0; t < turns; ++t) {
        in[static_cast<std::size_t>((t * samples + n) * letters + code_of(text[from + static_cast<std::size_t>(t)]))] =
            1;
        out[static_cast<std::size_t>(t * samples + n)] = code_of(text[from + static_cast<std::size_t>(t) + 1]);
      }
    }
    mean += 0.05 * (step(x, next) - mean);
    if (k % 50 == 0) std::printf("step %4ld   loss %.3f nats per character\n", k, mean);
  }
  std::printf("\nloss %.3f; a sample:\n%s\n", mean, sample_of(net, "The ", 400).c_str());
  return mean < below ? 0 : 1;
}
