// Rates that follow the number of a step: tables worked out by hand, as schedules of `fit` and as values of a program.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

struct at {
  std::int64_t n;
  double rate;
};

// That base 0.5 becomes these rates, to the bits of a few double operations, both ways; and rounded to float.
template <class P> void follows(const P& policy, const std::vector<at>& table) {
  graph::net n("net");
  auto number = n.external("n", {dtype::int64, {}});
  n.output("wide", learning_rate(number, {.base = 0.5, .policy = policy, .element = dtype::float64}));
  n.output("narrow", learning_rate(number, {.base = 0.5, .policy = policy}));
  graph::workspace ws;
  for (auto [step, rate] : table) {
    ws.feed("n", scalar<std::int64_t>(step));
    ws.run_once(n);
    const double wide = ws.fetch_numbers<double>("wide")[0];
    BOOST_TEST_CONTEXT("step " << step << " of " << type_name<P>()) {
      BOOST_TEST(std::fabs(wide - rate) <= 1e-14 * std::fabs(rate));
      BOOST_TEST(std::fabs(policy(0.5, step, 1000) - rate) <= 1e-14 * std::fabs(rate));
      BOOST_TEST(ws.fetch_numbers<float>("narrow")[0] == static_cast<float>(wide));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rates)

BOOST_AUTO_TEST_CASE(fixed) { follows(optim::constant{}, {{0, 0.5}, {1, 0.5}, {100000, 0.5}}); }
BOOST_AUTO_TEST_CASE(step) {
  follows(optim::step{.size = 20, .gamma = 0.9},
          {{0, 0.5}, {1, 0.5}, {19, 0.5}, {20, 0.45}, {39, 0.45}, {40, 0.405}, {200, 0.5 * 0.3486784401}});
}
BOOST_AUTO_TEST_CASE(exponential) {
  follows(optim::exponential{.gamma = 0.5}, {{0, 0.5}, {1, 0.25}, {2, 0.125}, {10, 0.00048828125}});
}
BOOST_AUTO_TEST_CASE(inverse) {
  follows(optim::inverse{.gamma = 3, .power = 0.5}, {{0, 0.5}, {1, 0.25}, {5, 0.125}, {8, 0.1}});  // 1 / sqrt(1 + 3 n)
}
BOOST_AUTO_TEST_CASE(polynomial) {
  follows(optim::polynomial{.steps = 10, .power = 2},
          {{0, 0.5}, {5, 0.125}, {9, 0.5 * (1 - 0.9) * (1 - 0.9)}, {10, 0}, {11, 0}, {30, 0}});
}
BOOST_AUTO_TEST_CASE(linear_warm_up) {
  follows(optim::linear_warm_up{.start = 0.2, .steps = 4},
          {{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}, {4, 0.5}, {9, 0.5}});
}
BOOST_AUTO_TEST_CASE(constant_warm_up) {
  follows(optim::constant_warm_up{.multiplier = 0.25, .steps = 3}, {{0, 0.125}, {2, 0.125}, {3, 0.5}, {9, 0.5}});
}
BOOST_AUTO_TEST_CASE(alternate) {
  follows(optim::alternate{.on = 2, .off = 3}, {{0, 0.5}, {1, 0.5}, {2, 0}, {4, 0}, {5, 0.5}, {6, 0.5}, {7, 0}});
  follows(optim::alternate{.on = 2, .off = 3, .on_first = false}, {{0, 0}, {2, 0}, {3, 0.5}, {4, 0.5}, {5, 0}});
}
BOOST_AUTO_TEST_CASE(hill) {
  // a line from 0.2 to 1 over 4 steps, then 1 / sqrt(1 + 3 m) of the m steps since, at least 0.25
  follows(optim::hill{.warm_up = 4, .start = 0.2, .gamma = 3, .power = 0.5, .floor = 0.25},
          {{0, 0.1}, {3, 0.4}, {4, 0.5}, {5, 0.25}, {9, 0.125}, {12, 0.125}, {1000, 0.125}});
}
BOOST_AUTO_TEST_CASE(base_and_policy_must_be_given) {
  graph::net n("net");
  auto number = n.external("n", {dtype::int64, {}});
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.policy = optim::constant{}});
             }).find("learning_rate: `base` is to be given, a finite number") != std::string::npos);
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.base = 1e39, .policy = optim::constant{}});
             }).find("learning_rate: `base` is 1e39; expected a finite number in float32") != std::string::npos);
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.base = 1});
             }).find("learning_rate: `policy` is to be given, as optim::step{.size = 20, .gamma = 0.9}") !=
             std::string::npos);
}

// Each number of each schedule, as a function and as a value of a program.
BOOST_AUTO_TEST_CASE(numbers_of_schedules) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  graph::net n("net");
  auto number = n.external("n", {dtype::int64, {}});
  auto as_function = [](const auto& policy, const std::string& words) {
    BOOST_TEST(message_of([&] { (void)policy(0.5, 3, 10); }) == words);
  };
  auto both = [&](const auto& policy, const std::string& words) {
    as_function(policy, words);
    BOOST_TEST(message_of([&] { learning_rate(number, {.base = 0.5, .policy = policy}); }).ends_with(words));
  };
  const std::string from_0 = "; expected a finite number >= 0", above_0 = "; expected a finite number > 0";
  as_function(optim::one_cycle{.warm_up = 1.5}, "one_cycle: `warm_up` is 1.5" + from_0 + " and <= 1");
  as_function(optim::one_cycle{.start = 0}, "one_cycle: `start` is 0" + above_0);
  as_function(optim::one_cycle{.end = -1}, "one_cycle: `end` is -1" + above_0);
  as_function(optim::cosine{.warm_up = -1}, "cosine: `warm_up` is -1" + from_0);
  as_function(optim::cosine{.floor = nan}, "cosine: `floor` is nan" + from_0);
  both(optim::step{.size = infinite}, "step: `size` is inf" + above_0);
  both(optim::step{.gamma = nan}, "step: `gamma` is nan" + from_0);
  both(optim::exponential{.gamma = -0.5}, "exponential: `gamma` is -0.5" + from_0);
  both(optim::inverse{.gamma = -1}, "inverse: `gamma` is -1" + from_0);
  both(optim::inverse{.power = nan}, "inverse: `power` is nan" + from_0);
  both(optim::polynomial{.steps = 0}, "polynomial: `steps` is 0" + above_0);
  both(optim::polynomial{.power = infinite}, "polynomial: `power` is inf" + from_0);
  both(optim::linear_warm_up{.start = -2}, "linear_warm_up: `start` is -2" + from_0);
  both(optim::constant_warm_up{.multiplier = nan}, "constant_warm_up: `multiplier` is nan" + from_0);
  both(optim::constant_warm_up{.steps = -1}, "constant_warm_up: `steps` is -1" + from_0);
  both(optim::alternate{.on = -1, .off = 2}, "alternate: `on` is -1" + from_0);
  both(optim::hill{.start = nan}, "hill: `start` is nan" + from_0);
  both(optim::hill{.floor = -1}, "hill: `floor` is -1" + from_0);
}

BOOST_AUTO_TEST_SUITE_END()
