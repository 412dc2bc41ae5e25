// Text classification: sorts short messages into three classes. A tokenizer is trained on the messages; the net
// averages the embeddings of a message's tokens. The messages are random words; two thirds do not depend on the class.
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>
import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t tokens = 120;
constexpr const char* classes[] = {"weather", "food", "sport"};
constexpr const char* common[] = {"the", "today", "really", "was", "my", "a", "very", "this"};
constexpr const char* typical[][8] = {{"rain", "sunny", "clouds", "storm", "windy", "forecast", "snow", "thunder"},
                                      {"soup", "bread", "tasty", "cooking", "cheese", "recipe", "salad", "baked"},
                                      {"goal", "match", "running", "team", "referee", "scored", "tennis", "won"}};

constexpr auto net = sequential(nn::embedding_bag{.num_embeddings = tokens, .embedding_dim = 16, .padding_idx = 0},
                                nn::linear{.in_features = 16, .out_features = 3});

// A data set is any type with `size()` and `operator[]`; here a sample is a text and its class.
struct messages {
  std::int64_t count, seed;
  std::int64_t size() const { return count; }
  std::pair<std::string, std::int64_t> operator[](std::int64_t i) const {
    const philox random(seed, 0, i);
    std::uint64_t position = 0;
    const auto below = [&](float n) { return static_cast<std::size_t>(random.uniform(position++) * n); };
    const std::size_t label = below(3), length = 3 + below(7);
    std::string text;
    for (std::size_t k = 0; k < length; ++k) {
      const std::size_t kind = below(10) ? label : below(3);  // one typical word in ten is of a random class
      text += std::string(k ? " " : "") + (k % 3 == 1 ? typical[kind] : common)[below(8)];
    }
    return {text + (below(2) ? "!" : "."), static_cast<std::int64_t>(label)};
  }
};

}  // namespace

int main() {
  const messages train{512, 1}, test{256, 2};
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < train.size(); ++i) texts.push_back(train[i].first);
  const auto words = wordpiece::train(texts, {.size = tokens, .special = {"[PAD]", "[UNK]"}});

  // Token lists of different lengths are padded with 0, the id of [PAD], which the net excludes from the mean.
  const auto encode =
      dataset::map([&](const std::string& text, std::int64_t label) { return std::pair(words.encode(text), label); });
  model<net, port_input<"input", std::int64_t, "N", "T">> sorter({.seed = 1});
  fit(sorter, train | encode | dataset::cache(), loss::cross_entropy{}, optim::adam{.lr = 0.02},
      {.epochs = 10, .batch = 32});

  const double right = evaluate(sorter, test | encode, metric::accuracy{})[0].value;
  const matrix<float> scores = predict(sorter, test | encode | dataset::take(3))[0];
  const auto found = evaluate(argmax<1>(scores));
  for (std::int64_t i = 0; i < 3; ++i) std::printf("%-8s %s\n", classes[found(i)], test[i].first.c_str());
  std::printf("%.1f %% of %d messages are classified correctly\n", 100 * right, static_cast<int>(test.size()));
  return right >= 0.9 ? 0 : 1;
}
