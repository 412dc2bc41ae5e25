// A table of numbers: a net learns the last column from the others. A fifth of the rows is not trained on; training
// stops when it has not got better on them for a while, and the best parameters are kept.
//
//   table [FILE.csv] [--error LARGEST]
//
// FILE.csv has a line of names and then lines of numbers, with commas between them. Without a file the table is made
// here.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

import lamina;
namespace la = lamina;
namespace nn = lamina::nn;

namespace {

constexpr std::int64_t features = 4;
inline constexpr auto net = la::sequential(nn::linear{.in_features = features, .out_features = 32}, nn::relu{},
                                           nn::linear{.in_features = 32, .out_features = 32}, nn::relu{},
                                           nn::linear{.in_features = 32, .out_features = 1});
using model = la::model<net, la::input<"N", features>>;

using row = std::vector<double>;  // the features, then what is to be learned

// How long a beam bends: made up, with noise of 1 in 100.
std::vector<row> made() {
  std::vector<row> rows;
  const la::philox random(7);
  for (std::uint64_t i = 0; i < 1500; ++i) {
    auto number = [&](std::uint64_t k, double low, double high) {
      return low + (high - low) * random.uniform<double>(8 * i + k);
    };
    const double load = number(0, 1, 5), length = number(1, 1, 3), width = number(2, 0.5, 2), height = number(3, 1, 2);
    const double bend = load * length * length * length / (width * height * height * height);
    rows.push_back({load, length, width, height, bend + 0.01 * number(4, -1, 1)});
  }
  return rows;
}

std::vector<row> read(const char* path) {
  std::ifstream file(path);
  auto fail = [&](std::size_t line, const std::string& why) {
    throw std::runtime_error(std::string(path) + ":" + std::to_string(line) + ": " + why);
  };
  std::string line;
  if (!std::getline(file, line)) fail(1, "cannot be read, or has no line of names");
  std::vector<row> rows;
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    row values;
    for (std::size_t at = 0; at <= line.size();) {
      const auto end = std::min(line.find(',', at), line.size());
      const std::string word = line.substr(at, end - at);
      char* behind = nullptr;
      values.push_back(std::strtod(word.c_str(), &behind));
      if (word.empty() || *behind || !std::isfinite(values.back()))
        fail(number, "`" + la::printable(word) + "` is no number");
      at = end + 1;
    }
    if (values.size() != features + 1)
      fail(number, std::to_string(values.size()) + " columns; expected " + std::to_string(features + 1));
    rows.push_back(values);
  }
  if (rows.size() < 50) fail(rows.size() + 1, std::to_string(rows.size()) + " rows; expected at least 50");
  return rows;
}

// Rows as tensors: each column less its mean, over its deviation.
struct table {
  la::matrix<float> inputs, targets;
};
struct scale {
  double mean = 0, deviation = 1;
};

std::vector<scale> scales_of(const std::vector<row>& rows) {
  std::vector<scale> all(features + 1);
  const auto n = static_cast<double>(rows.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    double sum = 0, squares = 0;
    for (const auto& r : rows) sum += r[k];
    for (const auto& r : rows) squares += (r[k] - sum / n) * (r[k] - sum / n);
    all[k] = {sum / n, std::max(std::sqrt(squares / n), 1e-12)};
  }
  return all;
}
table tensors_of(const std::vector<row>& rows, const std::vector<scale>& scales) {
  const auto n = static_cast<std::int64_t>(rows.size());
  table t{la::matrix<float>(n, features), la::matrix<float>(n, 1)};
  auto x = t.inputs.writable(), y = t.targets.writable();
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; k <= features; ++k) {
      const auto v = static_cast<float>((rows[i][k] - scales[k].mean) / scales[k].deviation);
      if (k < features) x[i * features + k] = v;
      else y[i] = v;
    }
  return t;
}

// The mean square error of predictions, in deviations of the column that is learned.
double error_of(model& m, const table& t) {
  return static_cast<double>(la::item(la::evaluate(la::mse(m(t.inputs), t.targets))));
}

struct trained {
  model best;
  double error;
};

trained train(const std::vector<row>& rows, const table& validation, const std::vector<scale>& scales) {
  constexpr std::int64_t batch = 32, max_epochs = 300, patience = 20;
  model learner({.seed = 1});
  la::training step(learner, la::loss::mse{}, la::optim::adamw{.lr = 3e-3});
  trained found{learner, std::numeric_limits<double>::infinity()};
  std::int64_t waited = 0;
  const auto count = static_cast<std::int64_t>(rows.size());
  for (std::int64_t epoch = 0; epoch < max_epochs && waited < patience; ++epoch) {
    step.rate(la::optim::cosine{.floor = 0.05}(3e-3, epoch, max_epochs));
    const auto order = la::permutation(count, 1, epoch);
    double sum = 0;
    for (std::int64_t first = 0; first < count; first += batch) {
      std::vector<row> some;
      for (std::int64_t i = first; i < std::min(first + batch, count); ++i)
        some.push_back(rows[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
      const table t = tensors_of(some, scales);
      sum += step(t.inputs, t.targets) * static_cast<double>(some.size());
    }
    const double error = error_of(learner, validation);
    ++waited;
    if (error < found.error) {
      found = {learner, error};
      waited = 0;
    }
    if (epoch % 25 == 0)
      std::printf("epoch %3lld   error %.4f   on rows that are not trained on %.4f\n", static_cast<long long>(epoch),
                  sum / static_cast<double>(count), error);
  }
  return found;
}

int run(const char* file, double largest) {
  auto rows = file ? read(file) : made();
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto order = la::permutation(count, 0, 0);
  std::vector<row> training, held_back;
  for (std::int64_t i = 0; i < count; ++i)
    (i < count / 5 ? held_back : training)
        .push_back(rows[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
  const auto scales = scales_of(training);  // not of the rows that are held back
  const table validation = tensors_of(held_back, scales);

  auto [best, error] = train(training, validation, scales);
  const double off = std::sqrt(error) * scales[features].deviation;
  std::printf("%zu rows trained on, %zu held back; off by %.4f, in a column that deviates by %.4f\n", training.size(),
              held_back.size(), off, scales[features].deviation);
  // The best parameters, for one row more.
  const auto one = best(tensors_of({held_back[0]}, scales).inputs);
  std::printf("the first of them: predicted %.3f, and it is %.3f\n",
              static_cast<double>(one(0, 0)) * scales[features].deviation + scales[features].mean,
              held_back[0][features]);
  return error < largest ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const char* file = nullptr;
  double largest = 0.01;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    if (word == "--error" && i + 1 < count) largest = std::atof(arguments[++i]);
    else file = arguments[i];
  }
  try {
    return run(file, largest);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "table: %s\n", e.what());
    return 2;
  }
}
