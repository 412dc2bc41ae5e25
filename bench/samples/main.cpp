// Per-sample evaluation (problem 18): 64 samples evaluated one by one in one plan, against a manual batch.
#include "arguments.h"
#include "measure.h"
#include "samples.h"

int main(int count, char** values) {
  using namespace bench;
  const arguments a = parse(count, values);
  report all;
  const struct {
    const char* shape;
    void (*alone)();
    void (*batch)();
  } problems[] = {{"64 x MLP 784-256-10", &samples::perceptron_alone, &samples::perceptron_batch},
                  {"64 x MLP 784-256-10, 1 to 8 rows", &samples::ragged_alone, &samples::ragged_batch},
                  {"64 x attention of products 8x16", &samples::attention_alone, &samples::attention_batch},
                  {"64 x GRU 64-128, 8 steps", &samples::gru_alone, &samples::gru_batch},
                  {"64 x LeNet 28x28", &samples::lenet_alone, &samples::lenet_batch},
                  {"64 x layers 784-256-10", &samples::perceptron_layer_alone, &samples::perceptron_layer_batch},
                  {"64 x layer GRU 64-128, 8 steps", &samples::gru_layer_alone, &samples::gru_layer_batch}};
  for (const auto& p : problems) {
    row r;
    r.problem = "18 per-sample evaluation";
    r.shape = p.shape;
    r.unit = "us";
    r.floor = "ratio >= 0.7";
    r.goal = "ratio >= 0.9";
    measure(r, p.alone, {{"a batch made by hand", "the same expressions", {}, p.batch}}, 1e-6);
    all.add(std::move(r));
  }
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
