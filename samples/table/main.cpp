// Regression on a table: a net predicts how far a beam bends from four other columns. A fifth of the rows is the test
// set.
//
//   table [FILE.csv [CURVE.svg]]      FILE.csv has the columns load, length, width, height and bend
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

import lamina;

using namespace lamina;

namespace {

constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 32}, nn::relu{},
                                nn::linear{.in_features = 32, .out_features = 32}, nn::relu{},
                                nn::linear{.in_features = 32, .out_features = 1});

// Standardization: subtracts the mean of each column and divides by its standard deviation.
struct scale {
  lamina::vector<float> mean, deviation;
  explicit scale(const matrix<float>& rows)
      : mean(evaluate(reduce_mean(rows, {0}))), deviation(evaluate(sqrt(reduce_mean(square(rows - mean), {0})))) {}
  lamina::vector<float> operator()(const lamina::vector<float>& row) const {
    return evaluate((row - mean) / deviation);
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const auto number = column_kind::number;
  const auto table = datasets::csv(
      argc > 1 ? argv[1] : LAMINA_TABLE,
      {.targets = {"bend"}, .kinds = {{"load", number}, {"length", number}, {"width", number}, {"height", number}}});
  const auto [train, test] = dataset::split(table, 0.8, 1);
  // Means and deviations come from the training rows only, read as one batch.
  sample_batch all;
  all.read(source_of(train), permutation(train.size(), 0, 0));
  const scale inputs(all.tensor(0)), target(all.tensor(1));
  const auto scaled =
      dataset::map([&](const any_sample& row) { return std::pair(inputs(row.fields[0]), target(row.fields[1])); });

  model<net, input<"N", 4>> learner({.seed = 1});
  const auto report =
      fit(learner, train | scaled | dataset::cache(), loss::mse{}, optim::adamw{.lr = 5e-3},
          {.epochs = 100, .batch = 32, .schedule = optim::cosine{}, .validation = test | scaled | dataset::cache()});
  const auto found = evaluate(learner, test | scaled, metric::r2{}, metric::rmse{}, metric::mae{});
  const double deviation = target.deviation(0);
  std::printf("%d training rows, %d test rows: R2 %.4f, RMSE %.3f, MAE %.3f\n", static_cast<int>(train.size()),
              static_cast<int>(test.size()), found[0].value, deviation * found[1].value, deviation * found[2].value);
  if (argc > 2)
    write_file_atomically(argv[2], [&](writer& file) {
      file.write(learning_curve(report, "How far beams bend", {}, "Mean squared error, in deviations"));
    });
  return found[0].value >= 0.98 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "table: %s\n", e.what());
  return 2;
}
