// A text model as a named net: an embedding, an LSTM and a linear layer memorize one sentence; the predictor then
// generates it character by character.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
import lamina;

using namespace lamina;

namespace {

const std::string sentence = "nets are put together by name while a program runs, and run as one plan. ";
const std::string letters = " abcdefghijklmnopqrstuvwxyz,.";
constexpr std::int64_t length = 24, sequences = 8;

std::int64_t number_of(char c) { return static_cast<std::int64_t>(letters.find(c)); }

// Feeds [length, sequences] characters that start anywhere in the sentence; each target is the following character.
void feed(graph::workspace& ws, std::int64_t step) {
  matrix<std::int64_t> now(length, sequences), next(length, sequences);
  for (std::int64_t s = 0; s < sequences; ++s)
    for (std::int64_t t = 0; t < length; ++t) {
      const auto at = static_cast<std::size_t>(step * 13 + s * 31 + t);
      now.writable(t, s) = number_of(sentence[at % sentence.size()]);
      next.writable(t, s) = number_of(sentence[(at + 1) % sentence.size()]);
    }
  ws.feed("now", now);
  ws.feed("next", next);
}

}  // namespace

int main() {
  graph::model m("text", {.seed = 3});
  graph::model::scope guard(m);
  auto now = m.input("now", {dtype::int64, {"T", "N"}}), next = m.input("next", {dtype::int64, {"T", "N"}});
  const auto count = static_cast<std::int64_t>(letters.size());
  auto h = graph::lstm(graph::embedding(now, count, 16), 48);
  auto scores = m.main().output("scores", graph::fc(h, count));
  auto loss = m.main().output("loss", cross_entropy(scores, next));
  m.add_gradient_operators({loss});
  m.add_updates(optim::adam{.lr = 0.01}, {.max_gradient_norm = 1});

  graph::workspace ws;
  ws.run_once(m.init());
  ws.create(m.main());
  for (std::int64_t step = 0; step < 400; ++step) {
    feed(ws, step);
    ws.run("text");
  }

  ws.create(m.predictor("writer", {"now"}, {"scores"}));
  std::string written = "nets are ";
  while (written.size() < sentence.size()) {
    matrix<std::int64_t> so_far(static_cast<std::int64_t>(written.size()), 1);
    for (std::size_t i = 0; i < written.size(); ++i)
      so_far.writable(static_cast<std::int64_t>(i), 0) = number_of(written[i]);
    ws.feed("now", so_far);
    ws.run("writer");
    const auto all = ws.fetch_numbers<float>("scores");
    const auto last = all.end() - count;
    written += letters[static_cast<std::size_t>(std::max_element(last, all.end()) - last)];
  }
  std::printf("%s\n", written.c_str());
  return written == sentence ? 0 : 1;
}
