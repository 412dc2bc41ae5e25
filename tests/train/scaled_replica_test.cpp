// Scaled half-precision losses with replicas: equal bits and equally skipped steps, for any number of replicas, and
// step by step.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace nets_test;
using namespace replicas_test;

namespace {

// A half-precision type, a scale within its range, and an outlier target that overflows it.
struct half_type {
  dtype type;
  double scale;
  float away;
};
constexpr half_type half_types[] = {{dtype::bfloat16, 0x1p80, 1e17F}, {dtype::float16, 0x1p12, 1e5F}};

inline constexpr auto two_layers =
    sequential(sublayer<"hidden">(nn::linear{.in_features = 4, .out_features = 16}), nn::tanh{},
               sublayer<"out">(nn::linear{.in_features = 16, .out_features = 1}));
using net_model = model<two_layers, input<"N", 4>>;

// 64 points; the gradient of only one target overflows with a large scale.
struct points {
  std::int64_t far = -1;
  float away = 0;
  std::int64_t size() const { return 64; }
  std::pair<std::array<float, 4>, std::array<float, 1>> operator[](std::int64_t i) const {
    const auto a = static_cast<float>(i % 7) / 7, b = static_cast<float>(i % 5) / 5;
    return {{a, b, a * b, 1}, {i == far ? away : a - b}};
  }
};

// Records the number of skipped steps after each step.
struct left_out {
  std::shared_ptr<std::vector<std::int64_t>> after = std::make_shared<std::vector<std::int64_t>>();
  const parameter_store* states = nullptr;
  void began(const training_start& s) { states = &s.net.parameters(); }
  bool operator()(const training_progress& now) const {
    const auto& skipped = states->find("optimizer.loss_scale.skipped")->value();
    if (!now.epoch_ended) after->push_back(static_cast<std::int64_t>(std::lround(number_of(skipped))));
    return true;
  }
  static double number_of(const any_tensor& x) {
    if (x.element() == dtype::int64) return static_cast<double>(x.elements<std::int64_t>()[0]);
    return static_cast<double>(x.elements<float>()[0]);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scaled_replicas)

BOOST_AUTO_TEST_CASE(an_overflow_in_one_shard_leaves_out_the_step_of_all) {
  for (const auto& half : half_types)
    for (const std::int64_t far : {3, 50}) {
      fit_options o{.epochs = 4,
                    .batch = 16,
                    .seed = 2,
                    .shards = 4,
                    .compute = half.type,
                    .scaling = loss_scaling{half.scale, 3}};
      const left_out expected_steps;
      o.observer = expected_steps;
      net_model expected({.seed = 1});
      const auto report = fit(expected, points{far, half.away}, loss::mse{}, optim::adam{.lr = 0.01}, o);
      // One of the four steps of each epoch is skipped, also after the scale has been halved.
      BOOST_TEST(report.skipped_updates == 4);
      BOOST_REQUIRE(expected_steps.after->size() == 16u);
      for (std::size_t e = 0; e < 4; ++e) {
        const auto order = permutation(64, 2, static_cast<std::int64_t>(e));
        const auto at = static_cast<std::size_t>(std::find(order.begin(), order.end(), far) - order.begin()) / 16;
        for (std::size_t b = 0; b < 4; ++b)
          BOOST_TEST((*expected_steps.after)[4 * e + b] == static_cast<std::int64_t>(e + (b >= at)));
      }
      BOOST_TEST(expected.parameters().find("optimizer.step")->value().elements<float>()[0] == 12);
      for (const int count : {1, 2, 4}) {
        const left_out steps;
        o.observer = steps;
        std::vector<training_report> reports;
        const auto nets = trained_by(optim::adam{.lr = 0.01}, net_model({.seed = 1}), count, points{far, half.away}, o,
                                     nullptr, &reports, {}, loss::mse{});
        BOOST_TEST(*steps.after == *expected_steps.after);
        for (std::size_t i = 0; i < nets.size(); ++i) {
          BOOST_TEST(same_bits(nets[i].parameters(), expected.parameters()));
          BOOST_TEST(reports[i].skipped_updates == report.skipped_updates);
          BOOST_TEST(reports[i].loss_scale == report.loss_scale);
        }
      }
    }
}

namespace {
// Steps of three epochs on batches of four; four of them form the update of four shards of a batch of sixteen. Each
// process takes `count` of them, from `first` on.
std::vector<std::int64_t> steps_taken(net_model& net, const half_type& half, std::size_t first, std::size_t count,
                                      const std::shared_ptr<replicas>& others = {}) {
  training step(net, loss::mse{}, optim::adam{.lr = 0.01},
                {.accumulate = static_cast<std::int64_t>(count),
                 .compute = half.type,
                 .scaling = loss_scaling{half.scale, 3},
                 .replicas = others});
  std::vector<std::int64_t> skipped;
  matrix<float> x(4, 4), y(4, 1);
  for (std::int64_t e = 0; e < 3; ++e) {
    const auto order = permutation(64, 2, e);
    for (std::size_t update = 0; update < 64; update += 16) {
      for (std::size_t b = first; b < first + count; ++b) {
        for (std::size_t i = 0; i < 4; ++i) {
          const auto [input, target] = points{50, half.away}[order[update + 4 * b + i]];
          std::memcpy(x.writable().data() + 4 * i, input.data(), sizeof input);
          y.writable()[i] = target[0];
        }
        step(x, y);
      }
      skipped.push_back(step.skipped_updates());
    }
  }
  return skipped;
}
}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_your_own_leave_out_the_same) {
  for (const auto& half : half_types) {
    net_model by_fit({.seed = 1});
    const left_out expected;
    fit(by_fit, points{50, half.away}, loss::mse{}, optim::adam{.lr = 0.01},
        {.epochs = 3,
         .batch = 16,
         .observer = expected,
         .seed = 2,
         .shards = 4,
         .compute = half.type,
         .scaling = loss_scaling{half.scale, 3}});
    net_model alone({.seed = 1});
    const auto skipped = steps_taken(alone, half, 0, 4);
    BOOST_TEST(skipped == *expected.after);
    BOOST_TEST(skipped.back() == 3);
    BOOST_TEST(same_bits(alone.parameters(), by_fit.parameters()));
    for (const std::size_t count : {1U, 2U, 4U}) {
      meeting all(static_cast<int>(count));
      std::vector<net_model> nets;
      for (std::size_t r = 0; r < count; ++r)
        nets.emplace_back(model_options{.seed = static_cast<std::int64_t>(1 + r)});
      std::vector<std::vector<std::int64_t>> skipped_by(count);
      std::vector<std::thread> threads;
      for (std::size_t r = 0; r < count; ++r)
        threads.emplace_back([&, r] {
          skipped_by[r] = steps_taken(nets[r], half, r * 4 / count, 4 / count,
                                      std::make_shared<thread_replicas>(all, static_cast<int>(r)));
        });
      for (auto& t : threads) t.join();
      for (std::size_t r = 0; r < count; ++r) {
        BOOST_TEST(skipped_by[r] == skipped);
        BOOST_TEST(same_bits(nets[r].parameters(), by_fit.parameters()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_that_replicas_cannot_take_are_refused) {
  const auto message = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const error& e) { return e.what(); }
    return {};
  };
  net_model net;
  meeting three(3), one(1);
  BOOST_TEST(message([&] {
               training(net, loss::mse{}, optim::sgd{}, {.replicas = std::make_shared<thread_replicas>(three, 0)});
             }) == "training: 3 replicas; expected a power of two");
  across_model waits({.seed = 1});
  BOOST_TEST(message([&] {
               training step(waits, loss::cross_entropy{}, optim::sgd{},
                             {.replicas = std::make_shared<thread_replicas>(one, 0)});
               step(tensor<float, extents<dyn, 1, 6, 6>>(4, 1, 6, 6), vector<std::int64_t>(4));
             }) ==
             "training: `replicas` with layers whose statistics are `across_shards`; expected `fit`, or only "
             "one of them");
}

BOOST_AUTO_TEST_SUITE_END()
