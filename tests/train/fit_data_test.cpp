// Training on data sets of any samples: several inputs and targets, numbers, lists of different lengths, rows of
// tensors.
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

constexpr auto line = sequential(sublayer<"line">(nn::linear{.in_features = 3, .out_features = 1}));
using line_model = model<line, input<"N", 3>>;

struct point {
  tensor<float, extents<3>> x;
  float y = 0;
};
// Points in a plane.
struct plane {
  std::int64_t count = 0;
  std::int64_t size() const { return count; }
  point operator[](std::int64_t i) const {
    point p{tensor<float, extents<3>>::uninitialized({3}), 0};
    const float a = static_cast<float>(i % 7) / 7, b = static_cast<float>(i % 5) / 5, c = static_cast<float>(i % 3) / 3;
    auto out = p.x.writable();
    out[0] = a, out[1] = b, out[2] = c;
    p.y = 2 * a - b + 0.5F * c + 1;
    return p;
  }
};
const auto squared = [](const value& y, const value& t) { return reduce_mean(square(reshape(y, t.shape()) - t)); };

// Tokens of a sentence, and its class: whether its first token is in the second half.
struct sentence {
  std::vector<std::int64_t> tokens;
  std::int64_t label = 0;
};
struct sentences {
  std::int64_t size() const { return 64; }
  sentence operator[](std::int64_t i) const {
    sentence s;
    for (std::int64_t k = 0; k < 3 + i % 4; ++k) s.tokens.push_back((i * 7 + k * 5) % 11 + 1);
    s.label = s.tokens[0] > 6;
    return s;
  }
};
constexpr auto bag =
    sequential(sublayer<"table">(nn::embedding{.num_embeddings = 12, .embedding_dim = 8}),
               nn::reduce_mean{.axes = axes(1)}, sublayer<"head">(nn::linear{.in_features = 8, .out_features = 2}));

constexpr auto shifted =
    topology(sublayer<"line">(nn::linear{.in_features = 3, .out_features = 1}), sublayer<"sum">(nn::add{}),
             connect<"x", "line.input">, connect<"line.output", "sum.lhs">, connect<"offset", "sum.rhs">,
             connect<"sum.output", "output">);

template <class F> std::string message(F f) {
  try {
    f();
  } catch (const error& e) { return e.what(); }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training_on_any_data)

BOOST_AUTO_TEST_CASE(aggregates_with_numbers) {
  const plane data{90};
  for (const int threads : {1, 2})
    for (const std::int64_t shards : {1, 4}) {
      line_model net({.seed = 1, .threads = threads});
      const auto report = fit(net, data, squared, optim::adam{.lr = 0.05},
                              {.epochs = 60, .batch = 30, .validation = plane{20}, .shards = shards});
      BOOST_TEST(report.epochs.back().loss < 3e-3);
      BOOST_TEST(std::isnan(report.epochs.back().accuracy));
      BOOST_TEST(*report.epochs.back().validation_loss < 3e-3);
      BOOST_TEST(!report.epochs.back().validation_accuracy.has_value());
      const auto found = predict(net, data, 32);
      BOOST_REQUIRE(found.size() == 1U);
      BOOST_TEST((found[0].shape() == shape{90, 1}));
      for (std::int64_t i = 0; i < 90; ++i)
        BOOST_TEST(std::abs(found[0].elements<float>()[static_cast<std::size_t>(i)] - data[i].y) < 0.1);
    }
}

BOOST_AUTO_TEST_CASE(rows_of_tensors_are_the_same_samples) {
  const plane data{40};
  auto x = tensor<float, extents<dyn, 3>>::uninitialized({40, 3});
  auto y = tensor<double, extents<dyn>>::uninitialized({40});  // in the type of the output
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto p = data[i];
    std::memcpy(x.writable().data() + 3 * i, p.x.data().data(), 12);
    y.writable()[static_cast<std::size_t>(i)] = p.y;
  }
  line_model a({.seed = 1}), b({.seed = 1});
  fit(a, data, squared, optim::sgd{.lr = 0.1}, {.epochs = 3, .batch = 16});
  fit(b, dataset::of_tensors(x, y), squared, optim::sgd{.lr = 0.1}, {.epochs = 3, .batch = 16});
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
}

BOOST_AUTO_TEST_CASE(lists_of_different_lengths_are_filled_up) {
  model<bag, port_input<"input", std::int64_t, "N", "T">> net({.seed = 1});
  const auto report =
      fit(net, sentences{}, loss::cross_entropy{}, optim::adam{.lr = 0.05}, {.epochs = 40, .batch = 16});
  BOOST_TEST(report.epochs.back().accuracy > 0.9);
  const auto found = evaluate(net, sentences{}, metric::accuracy{}, metric::f1{});
  BOOST_REQUIRE(found.size() == 2U);
  BOOST_TEST(found[0].name == "accuracy");
  BOOST_TEST(found[0].value > 0.9);
  BOOST_TEST(found[1].value > 0.8);
  // Samples are padded with zeros to the longest of their batch.
  const std::int64_t indices[] = {0, 3};
  std::vector<std::int64_t> tokens(12, -1), labels(2);
  void* const to[] = {tokens.data(), labels.data()};
  const auto source = source_of(sentences{});
  BOOST_TEST((source.batch_shapes(indices)[0] == shape{2, 6}));
  source.read(indices, to);
  BOOST_TEST((tokens == std::vector<std::int64_t>{1, 6, 11, 0, 0, 0, 11, 5, 10, 4, 9, 3}));
}

BOOST_AUTO_TEST_CASE(several_inputs_and_targets) {
  const plane data{60};
  const auto samples = dataset::map(
      data, [](const point& p) { return std::tuple(p.x, std::array<float, 1>{p.y}, p.y, std::uint8_t(p.y > 1.5F)); });
  const auto of_lists = [](view<const value> outputs, view<const value> targets) {
    const value y = reshape(outputs[0], targets[0].shape());
    return reduce_mean(square(y - targets[0] * 2)) + reduce_mean(square(y * cast<float>(targets[1]))) * 0.0F;
  };
  model<shifted, port_input<"x", float, "N", 3>, port_input<"offset", float, "N", 1>> net({.seed = 1});
  const auto report = fit(net, samples, of_lists, optim::adam{.lr = 0.05}, {.epochs = 60, .batch = 20});
  BOOST_TEST(report.epochs.back().loss < 1e-2);
}

namespace {
// A plane that counts reads; some samples cannot be read.
struct watched {
  plane points;
  std::int64_t broken = -1;  // samples with i % broken == 3
  std::atomic<std::int64_t>* reads = nullptr;
  std::int64_t size() const { return points.size(); }
  point operator[](std::int64_t i) const {
    if (reads) ++*reads;
    if (broken > 0 && i % broken == 3) throw std::runtime_error("its file is cut");
    return points[i];
  }
};
// Sentences that count how often they are read.
struct counted {
  sentences all;
  std::atomic<std::int64_t>* reads;
  std::int64_t size() const { return all.size(); }
  sentence operator[](std::int64_t i) const { return ++*reads, all[i]; }
};
std::vector<float> weights_of(const line_model& net) {
  const auto w = net.parameters().find("line.weight")->value();
  return {w.elements<float>().begin(), w.elements<float>().end()};
}
}  // namespace

BOOST_AUTO_TEST_CASE(threads_read_ahead_with_the_same_bits) {
  for (const std::int64_t shards : {1, 4}) {
    std::vector<float> first;
    for (const int readers : {0, 1, 3}) {
      line_model net({.seed = 3});
      const auto report = fit(net, plane{90}, squared, optim::sgd{.lr = 0.1},
                              {.epochs = 3,
                               .batch = 20,
                               .validation = plane{33},
                               .seed = 5,
                               .read_threads = readers,
                               .read_ahead = 3,
                               .shards = shards});
      BOOST_TEST(report.epochs.size() == 3u);
      BOOST_TEST((report.epochs[2].waited >= 0 && report.epochs[2].waited <= report.seconds));
      if (first.empty()) first = weights_of(net);
      else BOOST_TEST(weights_of(net) == first);
    }
  }
}
BOOST_AUTO_TEST_CASE(samples_are_read_once_an_epoch) {
  std::atomic<std::int64_t> reads = 0;
  model<bag, port_input<"input", std::int64_t, "N", "T">> net;
  fit(net, counted{{}, &reads}, loss::cross_entropy{}, optim::sgd{}, {.epochs = 2, .batch = 10});
  BOOST_TEST(reads == 2 * 64);
}
BOOST_AUTO_TEST_CASE(changes_of_samples_differ_between_epochs) {
  std::vector<float> first;
  for (const int readers : {0, 2})
    for (const std::int64_t shards : {1, 2}) {
      std::mutex lock;
      std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;  // seed, epoch, index
      const auto noisy = dataset::map(
          plane{70},
          [&](const point& p, const augment::position& at) {
            const std::lock_guard guard(lock);
            BOOST_TEST(seen.emplace(at.seed, at.epoch, at.index).second);
            point q = p;
            q.y += static_cast<float>(philox(random_state(at), 0).uniform<double>(0));
            return q;
          },
          9);
      const auto data = noisy | dataset::skip(4) | dataset::shuffle(2);
      line_model net({.seed = 3});
      fit(net, data, squared, optim::sgd{.lr = 0.1},
          {.epochs = 3, .batch = 40, .seed = 5, .read_threads = readers, .shards = shards});
      BOOST_TEST(seen.size() == 3u * 66u);
      for (const auto& [seed, epoch, index] : seen)
        BOOST_TEST((seed == 9 && epoch >= 0 && epoch < 3 && index >= 4 && index < 70));
      BOOST_TEST(dataset::epoch() == 0);
      if (shards == 2) continue;
      if (first.empty()) first = weights_of(net);
      else BOOST_TEST(weights_of(net) == first);
    }
}
BOOST_AUTO_TEST_CASE(a_sample_that_cannot_be_read_ends_training) {
  for (const int readers : {0, 2}) {
    line_model net;
    const auto train = [&] {
      fit(net, watched{{90}, 80}, squared, optim::sgd{.lr = 0.1}, {.batch = 20, .seed = 5, .read_threads = readers});
    };
    BOOST_CHECK_THROW(train(), sample_error);
    const std::string why = message(train);
    const bool named = why == "fit: sample 3 of the training data cannot be read: its file is cut" ||
                       why == "fit: sample 83 of the training data cannot be read: its file is cut";
    BOOST_TEST(named, why);
  }
}
BOOST_AUTO_TEST_CASE(samples_that_cannot_be_read_are_left_out_and_counted) {
  // Training continues as if the invalid samples did not exist: the same batches, the mean over valid samples.
  for (const std::int64_t shards : {1, 2}) {
    std::vector<float> first;
    for (const int readers : {0, 2}) {
      line_model net({.seed = 3});
      const auto report = fit(net, watched{{90}, 10}, squared, optim::sgd{.lr = 0.1},
                              {.epochs = 2,
                               .batch = 20,
                               .validation = watched{{50}, 10},
                               .seed = 5,
                               .read_threads = readers,
                               .on_error = sample_failure::skip,
                               .shards = shards});
      BOOST_TEST(report.epochs[0].skipped == 9);
      BOOST_TEST(report.epochs[1].skipped == 9);
      BOOST_TEST(report.epochs[1].loss < report.epochs[0].loss);
      BOOST_TEST((report.epochs[1].validation_loss && std::isfinite(*report.epochs[1].validation_loss)));
      if (first.empty()) first = weights_of(net);
      else BOOST_TEST(weights_of(net) == first);
    }
  }
  // One batch of all samples: the valid ones alone give the same step.
  struct some {
    plane points{90};
    std::int64_t size() const { return 81; }
    point operator[](std::int64_t i) const { return points[i / 9 * 10 + (i % 9 < 3 ? i % 9 : i % 9 + 1)]; }
  };
  line_model with({.seed = 3}), without({.seed = 3});
  fit(with, watched{{90}, 10}, squared, optim::sgd{.lr = 0.1}, {.batch = 90, .on_error = sample_failure::skip});
  fit(without, some{}, squared, optim::sgd{.lr = 0.1}, {.batch = 90});
  const auto a = weights_of(with), b = weights_of(without);
  for (std::size_t k = 0; k < a.size(); ++k) BOOST_TEST(std::abs(a[k] - b[k]) < 1e-5F);
  // A model with a fixed batch size cannot leave samples out.
  model<line, input<10, 3>> fixed;
  const std::string why = message(
      [&] { fit(fixed, watched{{90}, 10}, squared, optim::sgd{}, {.batch = 10, .on_error = sample_failure::skip}); });
  BOOST_TEST(why.find("the model has a fixed batch size") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_said) {
  line_model net({.seed = 1});
  const auto fitted = [&](const auto& data) {
    return message([&] { fit(net, data, squared, optim::sgd{}, {.batch = 4}); });
  };
  const auto data = plane{8};
  BOOST_TEST(fitted(dataset::map(data, [](const point& p) { return p.x; })) ==
             "fit: samples of the training data have 1 field; expected at least 2: the inputs of the model in their "
             "order, then the targets");
  BOOST_TEST(fitted(dataset::map(data, [](const point& p) { return std::pair(p.y, p.x); })) ==
             "fit: the model takes [Nx3]; field 0 of the training data gives [N]");
  BOOST_TEST(fitted(dataset::map(data, [](const point& p) { return std::tuple(p.x, p.y, p.y); })) ==
             "loss: it takes one output and one target; got 1 output(s) and 2 target(s); expected a loss of lists, as "
             "[](view<const value> outputs, view<const value> targets)");
  BOOST_TEST(fitted(dataset::map(data, [](const point& p) -> point {
               if (p.y > 2) throw std::runtime_error("no such reading");
               return p;
             })).ends_with("cannot be read: no such reading"));
  const auto ragged =
      dataset::map(data, [](const point& p) { return std::pair(std::vector<float>(p.y > 1.5F ? 4U : 2U), p.y); });
  BOOST_TEST(holds(fitted(ragged), "3"));
}

BOOST_AUTO_TEST_SUITE_END()
