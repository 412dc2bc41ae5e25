// Character-level language model: a small Llama-style decoder with rotary position embeddings, grouped-query attention
// and SwiGLU. It is trained on a document of this project, then generates text as a stream with a key/value cache: each
// character computes one position, not the whole sequence again.
//
//   decoder [--text FILE] [--steps N] [--below LOSS] [--threads N]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

import lamina;
namespace la = lamina;
namespace nn = lamina::nn;

constexpr std::int64_t letters = 96, features = 64, positions = 128, samples = 8;

// Codes: 0 is newline, 1 is space, then the other printable characters. Any other character counts as a space.
std::int64_t code_of(char c) { return c == '\n' ? 0 : c > ' ' && c < 127 ? c - 31 : 1; }
char letter_of(std::int64_t code) { return code == 0 ? '\n' : static_cast<char>(code + 31); }

constexpr auto around(auto layer) { return nn::residual{la::sequential(nn::rms_norm{{features}}, layer)}; }
inline constexpr auto block =
    la::sequential(around(nn::grouped_query_attention{.embed_dim = features, .num_heads = 4, .num_kv_heads = 2}),
                   around(nn::swiglu{.in_features = features, .hidden_features = 160}));
inline constexpr auto decoder = la::sequential(nn::embedding{letters, features}, block, block, nn::rms_norm{{features}},
                                               nn::linear{.in_features = features, .out_features = letters});
using characters = la::port_input<"input", std::int64_t, "N", "T">;
using writer = la::model<decoder, characters>;

std::string sample_of(const writer& net, std::string text, std::size_t length) {
  auto pen = la::stream(la::reference_factory<decoder, characters>(net).create(), {.positions = positions});
  la::sampler draw({.temperature = 0.7, .top_k = 20, .top_p = 0.95}, {.seed = 7});
  std::vector<float> scores(letters);
  for (std::size_t read = 0; text.size() < length;) {
    if (pen.remaining() == 0) {  // the cache is full: restart with the last half of the window
      pen.reset();
      read -= positions / 2;
    }
    const std::int64_t letter = code_of(text[read++]);
    if (!pen.step(std::span(&letter, 1), scores)) break;
    if (read == text.size()) text += letter_of(draw(scores));
  }
  return text;
}

int main(int count, char** arguments) {
  std::string path = LAMINA_TEXT;
  long steps = 1500;
  double below = 1.0;
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
    std::fprintf(stderr, "decoder: %s is missing or shorter than 4096 characters\n", path.c_str());
    return 2;
  }

  writer net({.seed = 1, .threads = threads});
  la::training step(net, la::loss::cross_entropy{}, la::optim::adam{.lr = 3e-3});
  la::tensor<std::int64_t, la::extents<samples, positions>> now, next;
  double mean = std::log(static_cast<double>(letters));
  for (long k = 1; k <= steps && mean >= below; ++k) {
    const la::philox random(1, 0, k);
    for (std::int64_t n = 0; n < samples; ++n) {
      const auto from = static_cast<std::size_t>(random.uniform<double>(static_cast<std::uint64_t>(n)) *
                                                 static_cast<double>(text.size() - positions - 1));
      for (std::int64_t t = 0; t < positions; ++t) {
        now.writable(n, t) = code_of(text[from + static_cast<std::size_t>(t)]);
        next.writable(n, t) = code_of(text[from + static_cast<std::size_t>(t) + 1]);
      }
    }
    mean += 0.05 * (step(now, next) - mean);
    if (k % 50 == 0) std::printf("step %4ld   loss %.3f nats per character\n", k, mean);
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string written = sample_of(net, "The ", 600);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::printf("\nloss %.3f; a sample, %.0f us per character:\n%s\n", mean,
              took.count() / static_cast<double>(written.size()), written.c_str());
  return mean < below ? 0 : 1;
}
