// Sorts short messages into three classes: a tokenizer is trained on them, a net takes the mean of the vectors of a message's
// tokens. The messages are drawn from words, of which two thirds say nothing about the class.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
import lamina;

using namespace lamina;

namespace {
constexpr const char* classes[] = {"weather", "food", "sport"};
constexpr const char* common[] = {"the", "today", "really", "was", "my", "a", "very", "this"};
constexpr const char* typical[][8] = {{"rain", "sunny", "clouds", "storm", "windy", "forecast", "snow", "thunder"},
                                      {"soup", "bread", "tasty", "cooking", "cheese", "recipe", "salad", "baked"},
                                      {"goal", "match", "running", "team", "referee", "scored", "tennis", "won"}};

struct messages {
  std::vector<std::string> texts;
  lamina::vector<std::int64_t> labels;
};
messages drawn(std::int64_t count, std::int64_t seed) {
  messages all{{}, lamina::vector<std::int64_t>(count)};
  const philox random(seed);
  std::uint64_t position = 0;
  const auto below = [&](float n) { return static_cast<std::size_t>(random.uniform(position++) * n); };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t label = below(3), length = 3 + below(7);
    std::string s;
    // One typical word in ten is of any class.
    for (std::size_t k = 0; k < length; ++k)
      s += std::string(k ? " " : "") + (k % 3 == 1 ? typical[below(10) ? label : below(3)] : common)[below(8)];
    all.texts.push_back(s + (below(2) ? "!" : "."));
    all.labels.writable()[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(label);
  }
  return all;
}
}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  const messages train = drawn(512, 1), test = drawn(256, 2);
  const auto tokens = wordpiece::train(train.texts, {.size = 120, .special = {"[PAD]", "[UNK]"}});

  graph::model m("classifier", {.seed = 1});
  graph::model::scope guard(m);
  auto ids = m.input("ids", {dtype::int64, {"N", "T"}}), mask = m.input("mask", {dtype::int64, {"N", "T"}});
  auto label = m.input("label", {dtype::int64, {"N"}});
  const ir::value kept = unsqueeze(cast<float>(mask), {2});  // what fills up counts nothing
  const ir::value mean = reduce_sum(graph::embedding(ids, tokens.size(), 16) * kept, {1}) / reduce_sum(kept, {1});
  auto scores = m.main().output("scores", graph::fc(mean, 3));
  auto loss = m.main().output("loss", cross_entropy(scores, label));
  m.add_gradient_operators({loss});
  m.add_updates(optim::adam{.lr = 0.02});

  graph::workspace ws;
  ws.run_once(m.init());
  ws.create(m.main());
  const auto feed = [&](const messages& all) {
    const auto batch = tokens.encode_batch(all.texts);
    ws.feed("ids", batch.ids);
    ws.feed("mask", batch.mask);
    ws.feed("label", all.labels);
  };
  feed(train);
  for (int k = 0; k < steps; ++k) ws.run("classifier");
  ws.create(m.predictor("sorter", {"ids", "mask"}, {"scores"}));
  feed(test);
  ws.run("sorter");
  const auto found = ws.fetch_numbers<float>("scores");
  int right = 0;
  for (std::size_t i = 0; i < test.texts.size(); ++i) {
    const auto best = std::max_element(&found[3 * i], &found[3 * i] + 3) - &found[3 * i];
    right += best == test.labels.data()[i];
    if (i < 3) std::printf("%-8s %s\n", classes[static_cast<std::size_t>(best)], test.texts[i].c_str());
  }
  return std::printf("%d of 256 messages are in their class\n", right), right >= 230 ? 0 : 1;
}
