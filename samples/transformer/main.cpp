// Byte-level language model: a causal transformer of two layers, trained by `fit` on windows of tokens. A tenth of the
// text is the test set.
//
//   transformer [EPOCHS [PERPLEXITY [FILE]]]      fails if the perplexity of the test set is larger
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>
import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t tokens = 256, features = 64, length = 128;

// A custom layer: sum of a token embedding and a position embedding.
struct embed_at_positions {
  constexpr auto forward(auto& s, const auto& ids) const {
    const auto start = initializer::normal(0, 0.02);
    const auto token = s.parameter("token", shape{tokens, features}, start),
               position = s.parameter("position", shape{length, features}, start);
    return embedding(token, ids) + embedding(position, positions(ids, 1));
  }
};
constexpr nn::transformer_encoder_layer block{.d_model = features,
                                              .nhead = 4,
                                              .dim_feedforward = 4 * features,
                                              .dropout = 0,
                                              .activation = nn::feedforward_activation::gelu,
                                              .norm_first = true,
                                              .causal = true};
constexpr auto net = sequential(embed_at_positions{}, block, block, nn::layer_norm{{features}},
                                nn::linear{.in_features = features, .out_features = tokens});
using ids = port_input<"input", std::int64_t, "N", "T">;

// Continues a text until no positions are left. The stream caches keys and values, so each token computes one position.
std::string written(const model<net, ids>& writer, const tokenizer& bytes, const std::string& begin) {
  auto pen = stream(reference_factory<net, ids>(writer).create(), {.positions = length});
  sampler draw({.temperature = 0.7, .top_k = 20}, {.seed = 7});
  std::vector<std::int64_t> text = bytes.encode(begin);
  std::vector<float> scores(tokens);
  for (std::size_t read = 0; pen.step(std::span(&text[read], 1), scores);)
    if (++read == text.size()) text.push_back(draw(scores));
  return bytes.decode(text);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 13;
  const double largest = argc > 2 ? std::atof(argv[2]) : 9;
  std::ifstream file(argc > 3 ? argv[3] : LAMINA_TEXT, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const tokenizer bytes = byte_tokenizer();
  const std::vector<std::int64_t> all = bytes.encode(text);
  const auto cut = all.begin() + std::ssize(all) * 9 / 10;
  const auto train = datasets::token_windows(std::vector(all.begin(), cut), length, 32);
  const auto test = datasets::token_windows(std::vector(cut, all.end()), length);

  model<net, ids> writer({.seed = 1});
  fit(writer, train, loss::cross_entropy{}, optim::adamw{.lr = 4e-3},
      {.epochs = epochs, .batch = 16, .schedule = optim::cosine{.warm_up = 20}, .observer = progress_bar()});
  const double perplexity = evaluate(writer, test, metric::perplexity{})[0].value;
  std::printf("perplexity %.2f on held-out text; a sample:\n%s\n", perplexity, written(writer, bytes, "The ").c_str());
  return perplexity <= largest ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "transformer: %s\n", e.what());
  return 2;
}
