// Updates accumulated over several batches: gradients of all samples, the bits of shards, the last group of an epoch.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "files.h"
#include "message.h"
#include "nets.h"

#include "nets_of_squares.h"
#include "plane.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using namespace plane_test;

namespace {
const loss::cross_entropy by_entropy;
}

BOOST_AUTO_TEST_SUITE(accumulation)

BOOST_AUTO_TEST_CASE(an_update_is_by_all_samples) {
  // 24 samples in batches of 5, 5, 5, 5 and 4 form one update per epoch; clipping applies to their sum.
  for (const std::int64_t n : {5, 8, 100}) {
    wide_model net({.seed = 1});
    numbers w = weights_of(net);
    fit(net, plane{24}, squared, optim::clipped{.base = optim::sgd{.lr = 0.1}, .norm = 0.3, .together = true},
        {.epochs = 3, .batch = 5, .accumulate = n});
    for (int t = 0; t < 3; ++t) {
      const numbers g = gradient(w, plane{24});
      double size = 0;
      for (double x : g) size += x * x;
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * g[i] * std::fmin(1, 0.3 / std::sqrt(size));
    }
    BOOST_TEST(distance(weights_of(net), w) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(groups_are_larger_batches) {
  for (const std::int64_t n : {2, 3, 7}) {
    wide_model a({.seed = 1}), b({.seed = 1});
    std::vector<std::int64_t> told;
    const auto found = fit(a, plane{50}, squared, optim::adam{.lr = 0.05},
                           {.epochs = 3,
                            .batch = 4,
                            .observer =
                                [&](const training_progress& p) {
                                  if (!p.epoch_ended) told.push_back(p.batches);
                                  return true;
                                },
                            .accumulate = n});
    const auto wanted = fit(b, plane{50}, squared, optim::adam{.lr = 0.05}, {.epochs = 3, .batch = 4 * n});
    BOOST_TEST(distance(weights_of(a), weights_of(b)) < 1e-11);
    BOOST_TEST(std::fabs(found.epochs[2].loss - wanted.epochs[2].loss) < 1e-11);
    const auto updates = (50 + 4 * n - 1) / (4 * n);
    BOOST_TEST(told.size() == static_cast<std::size_t>(3 * updates));
    BOOST_TEST(told[0] == updates);
  }
}

// Including random numbers and batch statistics.
BOOST_AUTO_TEST_CASE(powers_of_two_have_the_bits_of_shards) {
  const auto data = nets_test::squares(64, 1);
  for (const std::int64_t shards : {1, 2}) {
    nets_test::regular_model a({.seed = 1}), b({.seed = 1}), other({.seed = 1});
    fit(a, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 8, .shards = shards, .accumulate = 4});
    fit(b, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 32, .shards = 4 * shards});
    fit(other, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 8, .shards = shards});
    BOOST_TEST(nets_test::same_bits(a.parameters(), b.parameters()));
    BOOST_TEST(!nets_test::same_bits(a.parameters(), other.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(training_goes_on) {
  const auto data = nets_test::squares(70, 1);
  const test_files::folder dir;  // tests for several instruction sets run at once
  const std::string path = dir / "checkpoint";
  nets_test::regular_model whole({.seed = 1}), cut({.seed = 1});
  fit_options o{.epochs = 3, .batch = 8, .accumulate = 3};
  fit(whole, data, by_entropy, optim::adam{.lr = 0.01}, o);
  o.checkpoint = path;
  o.resume = true;
  int updates = 0;
  o.observer = [&](const training_progress&) { return ++updates != 4; };
  fit(cut, data, by_entropy, optim::adam{.lr = 0.01}, o);
  o.observer = {};
  fit(cut, data, by_entropy, optim::adam{.lr = 0.01}, o);
  BOOST_TEST(nets_test::same_bits(cut.parameters(), whole.parameters()));
  o.accumulate = 2;
  BOOST_TEST(message_of([&] { fit(cut, data, by_entropy, optim::adam{.lr = 0.01}, o); }) != "");
}

BOOST_AUTO_TEST_CASE(mistakes) {
  wide_model net({.seed = 1});
  for (const std::int64_t n : {0, -1, 4097})
    BOOST_TEST(message_of([&] {
                 fit(net, plane{8}, squared, optim::sgd{}, {.batch = 4, .accumulate = n});
               }).starts_with("fit: `accumulate` is " + std::to_string(n) + " with batches of 4; expected 1 to 4096"));
}

// Step by step: the bits of fit, including random numbers and batch statistics.
BOOST_AUTO_TEST_CASE(steps_have_the_bits_of_fit) {
  const auto data = nets_test::squares(48, 1);
  for (const std::int64_t n : {2, 3, 4}) {
    nets_test::regular_model a({.seed = 1}), b({.seed = 1});
    fit(a, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 1, .batch = 4, .seed = 5, .accumulate = n});
    training step(b, by_entropy, optim::adam{.lr = 0.01}, {.accumulate = n});
    const auto order = permutation(48, 5, 0);
    for (std::size_t first = 0; first < 48; first += 4) {
      sample_batch samples;
      samples.read(source_of(data), view<const std::int64_t>(order.data() + first, 4));
      const tensor<float, extents<dyn, 1, 6, 6>> x = samples.tensor(0);
      const lamina::vector<std::int64_t> labels = samples.tensor(1);
      step(x, labels);
    }
    BOOST_TEST(nets_test::same_bits(a.parameters(), b.parameters()), n);
  }
}

BOOST_AUTO_TEST_CASE(steps_of_an_update) {
  const auto one = tensors_of(plane{6}), two = tensors_of(plane{6, 6});
  const auto &x = one.first, &x2 = two.first;
  const auto &y = one.second, &y2 = two.second;
  wide_model net({.seed = 1});
  const numbers w = weights_of(net);
  training step(net, squared, optim::sgd{.lr = 0.1}, {.accumulate = 3});
  const double first = step(x, y);
  BOOST_TEST(std::fabs(first - item(evaluate(reduce_mean(square(reshape(net(x), {6}) - y))))) < 1e-12);
  step(x2, y2);
  BOOST_TEST(distance(weights_of(net), w) == 0);
  // Targets of another rank would need another program.
  BOOST_TEST(message_of([&] { step(x, matrix<double>(6, 1)); }) ==
             "training: targets changed type or rank after 2 of 3 batches of an update; expected the "
             "same in all");
  step.rate(0.2);
  step(x, y);
  const numbers of_first = gradient(w, plane{6}), of_second = gradient(w, plane{6, 6});
  numbers wanted = w;
  for (std::size_t i = 0; i < 4; ++i) wanted[i] -= 0.2 * (2 * of_first[i] + of_second[i]) / 3;
  BOOST_TEST(distance(weights_of(net), wanted) < 1e-12);
  for (const std::int64_t n : {-1, 0, 4097})
    BOOST_TEST(message_of([&] { training(net, squared, optim::sgd{}, {.accumulate = n}); }) ==
               "training: `accumulate` is " + std::to_string(n) + "; expected 1 to 4096 batches");
  // After another model is assigned, an update starts over.
  step(x, y);
  net = wide_model({.seed = 2});
  wide_model other({.seed = 2});
  training plain(other, squared, optim::sgd{.lr = 0.2}, {.accumulate = 3});
  for (int i = 0; i < 3; ++i) step(x2, y2), plain(x2, y2);
  BOOST_TEST(distance(weights_of(net), weights_of(other)) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
