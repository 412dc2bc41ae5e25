// Scaled losses in half precision under replicas: the same bits, and the same steps left out, for any number of them, and step by step.
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
#include "thread_replicas.h"

using namespace lamina;
using namespace nets_test;
using namespace replicas_test;

namespace {

// A type that products round to, a scale that its numbers bear, and a target too far from the others for it.
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

// 64 points, of which one has a target whose gradient, and no other, overflows under a large scale.
struct points {
  std::int64_t far = -1;
  float away = 0;
  std::int64_t size() const { return 64; }
  std::pair<std::array<float, 4>, std::array<float, 1>> operator[](std::int64_t i) const {
    const auto a = static_cast<float>(i % 7) / 7, b = static_cast<float>(i % 5) / 5;
    return {{a, b, a * b, 1}, {i == far ? away : a - b}};
  }
};

// After which steps how many were left out.
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
      // One step of the four of each epoch, also after the scale has been halved.
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

// Four batches of four make the update that four shards of sixteen do.
BOOST_AUTO_TEST_CASE(steps_of_your_own_leave_out_the_same) {
  for (const auto& half : half_types) {
    const loss_scaling scaling{half.scale, 3};
    net_model by_fit({.seed = 1}), by_steps({.seed = 1});
    const left_out expected;
    fit(by_fit, points{50, half.away}, loss::mse{}, optim::adam{.lr = 0.01},
        {.epochs = 3,
         .batch = 16,
         .observer = expected,
         .seed = 2,
         .shards = 4,
         .compute = half.type,
         .scaling = scaling});
    training step(by_steps, loss::mse{}, optim::adam{.lr = 0.01},
                  {.accumulate = 4, .compute = half.type, .scaling = scaling});
    std::vector<std::int64_t> after;
    matrix<float> x(4, 4), y(4, 1);
    for (std::int64_t e = 0; e < 3; ++e) {
      const auto order = permutation(64, 2, e);
      for (std::size_t first = 0; first < 64; first += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
          const auto [input, target] = points{50, half.away}[order[first + i]];
          std::memcpy(x.writable().data() + 4 * i, input.data(), sizeof input);
          y.writable()[i] = target[0];
        }
        step(x, y);
        if (first % 16 == 12) after.push_back(step.skipped_updates());
      }
    }
    BOOST_TEST(after == *expected.after);
    BOOST_TEST(after.back() == 3);
    BOOST_TEST(same_bits(by_steps.parameters(), by_fit.parameters()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
