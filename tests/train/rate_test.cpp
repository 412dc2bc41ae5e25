// Rates that depend on the number of a step: tables computed by hand, as schedules of `fit` and as program values.
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

// Compares base 0.5 with these rates, as a function and as a value, to a few ulps of double; and rounded to float.
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
BOOST_AUTO_TEST_CASE(multi_step) {
  std::vector<at> table;
  for (std::int64_t n = 0; n < 50; ++n)
    table.push_back({n, 0.5 * (n < 10 ? 1 : n < 30 ? 0.1 : n < 31 ? 0.1 * 0.1 : 0.1 * 0.1 * 0.1)});
  follows(optim::multi_step{.milestones = {10, 30, 31}}, table);
  follows(optim::multi_step{}, {{0, 0.5}, {7, 0.5}});
}
// Integers determine where a period begins.
BOOST_AUTO_TEST_CASE(cosine_restarts) {
  for (const auto& [first, growth] : {std::pair<std::int64_t, std::int64_t>{10, 1}, {4, 2}, {3, 3}, {1, 2}}) {
    std::vector<at> table;
    std::int64_t begin = 0, length = first;
    for (std::int64_t n = 0; n < 50; ++n) {
      if (n == begin + length) {
        begin = n;
        length *= growth;
      }
      const double part = static_cast<double>(n - begin) / static_cast<double>(length);
      table.push_back({n, 0.5 * (0.1 + 0.9 * (1 + std::cos(3.141592653589793 * part)) / 2)});
    }
    follows(
        optim::cosine_restarts{
            .period = static_cast<double>(first), .growth = static_cast<double>(growth), .floor = 0.1},
        table);
  }
  // also late ones: periods of lengths 10, 20, ... begin at 10 (2^k - 1)
  const optim::cosine_restarts late{.period = 10, .growth = 2};
  for (int k = 1; k < 24; ++k) {
    const double begin = 10 * (std::pow(2.0, k) - 1);
    BOOST_TEST(late.factor(begin) > 0.99);
    BOOST_TEST(late.factor(begin - 1) < 0.1);
  }
}
BOOST_AUTO_TEST_CASE(cyclic) {
  for (auto mode : {optim::cycle_mode::triangular, optim::cycle_mode::triangular2, optim::cycle_mode::exp_range})
    for (double down : {0.0, 7.0}) {
      std::vector<at> table;
      for (std::int64_t n = 0; n < 50; ++n) {
        const double period = 5 + (down > 0 ? down : 5), cycle = std::floor(1 + static_cast<double>(n) / period),
                     x = 1 + static_cast<double>(n) / period - cycle, top = 5 / period,
                     line = x <= top ? x / top : (x - 1) / (top - 1),
                     height = mode == optim::cycle_mode::triangular    ? 1
                              : mode == optim::cycle_mode::triangular2 ? 1 / std::pow(2.0, cycle - 1)
                                                                       : std::pow(0.98, n);
        table.push_back({n, 0.5 * (0.2 + 0.8 * line * height)});
      }
      follows(optim::cyclic{.floor = 0.2, .up = 5, .down = down, .mode = mode, .gamma = 0.98}, table);
    }
}
BOOST_AUTO_TEST_CASE(hill) {
  // linear from 0.2 to 1 over 4 steps, then 1 / sqrt(1 + 3 m) for the m steps since, at least 0.25
  follows(optim::hill{.warm_up = 4, .start = 0.2, .gamma = 3, .power = 0.5, .floor = 0.25},
          {{0, 0.1}, {3, 0.4}, {4, 0.5}, {5, 0.25}, {9, 0.125}, {12, 0.125}, {1000, 0.125}});
}
BOOST_AUTO_TEST_CASE(base_and_policy_must_be_given) {
  graph::net n("net");
  auto number = n.external("n", {dtype::int64, {}});
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.policy = optim::constant{}});
             }).find("learning_rate: `base` is missing; expected a finite number") != std::string::npos);
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.base = 1e39, .policy = optim::constant{}});
             }).find("learning_rate: `base` is 1e39; expected a finite number in float32") != std::string::npos);
  BOOST_TEST(message_of([&] {
               learning_rate(number, {.base = 1});
             }).find("learning_rate: `policy` is missing; expected one, as optim::step{.size = 20, .gamma = 0.9}") !=
             std::string::npos);
}

// Every number of every schedule, as a function and as a program value.
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

// PyTorch's OneCycleLR(three_phase = True), total_steps = 50, pct_start = 0.3: phases end at steps 14, 28 and 49.
BOOST_AUTO_TEST_CASE(one_cycle_of_three_phases) {
  for (bool linear : {false, true})
    for (std::int64_t n = 0; n < 50; ++n) {
      const double first = 0.2 / 25, last = first / 1e4, at = static_cast<double>(n);
      const auto eased = [&](double from, double to, double part) {
        return linear ? from + (to - from) * part : to + (from - to) / 2 * (1 + std::cos(3.141592653589793 * part));
      };
      const double expected = n <= 14   ? eased(first, 0.2, at / 14)
                              : n <= 28 ? eased(0.2, first, (at - 14) / 14)
                                        : eased(first, last, (at - 28) / 21);
      const double rate = optim::one_cycle{.three_phase = true, .linear = linear}(0.2, n, 50);
      BOOST_TEST(std::fabs(rate - expected) < 1e-15, "step " << n << ": " << rate << ", not " << expected);
    }
  BOOST_TEST(optim::one_cycle{.linear = true}(0.2, 7, 50) == 0.2 / 25 + (0.2 - 0.2 / 25) * 0.5);
}

BOOST_AUTO_TEST_CASE(warm_up) {
  const optim::warm_up w{.steps = 5, .then = optim::cosine{}, .start = 0.2};
  for (std::int64_t n = 0; n < 50; ++n) {
    const double expected = n < 5 ? 0.5 * (0.2 + 0.8 * static_cast<double>(n) / 5)
                                  : 0.25 * (1 + std::cos(3.141592653589793 * static_cast<double>(n - 5) / 45));
    BOOST_TEST(std::fabs(w(0.5, n, 50) - expected) < 1e-15);
  }
  // rises to the start of the next schedule
  BOOST_TEST(std::fabs(optim::warm_up{.steps = 4, .then = optim::one_cycle{}}(1, 2, 100) - 0.02) < 1e-15);
}

BOOST_AUTO_TEST_CASE(one_after_another) {
  const optim::sequential s{
      .schedules = {optim::linear_warm_up{.steps = 10}, optim::cosine{}, optim::exponential{.gamma = 0.5}},
      .milestones = {10, 40}};
  for (std::int64_t n = 0; n < 50; ++n) {
    const double at = static_cast<double>(n), expected = n < 10 ? 0.5 * at / 10
                                                         : n < 40
                                                             ? 0.25 * (1 + std::cos(3.141592653589793 * (at - 10) / 30))
                                                             : 0.5 * std::pow(0.5, at - 40);
    BOOST_TEST(std::fabs(s(0.5, n, 50) - expected) < 1e-15, "step " << n);
  }
}

// The rule in a plain loop, on numbers that fall, stay and rise.
BOOST_AUTO_TEST_CASE(plateau) {
  const philox random(5);
  for (bool maximize : {false, true})
    for (std::int64_t cooldown : {0, 3}) {
      const optim::plateau p(
          {.factor = 0.5, .patience = 2, .threshold = 0.01, .cooldown = cooldown, .floor = 0.05, .maximize = maximize});
      const auto copy = p;
      double factor = 1, best = maximize ? -1e300 : 1e300;
      std::int64_t bad = 0, rest = 0;
      for (std::int64_t n = 0; n < 50; ++n) {
        const double x =
            1 + std::floor(4 * random.uniform(static_cast<std::uint64_t>(n))) / 4 + 10 / static_cast<double>(n + 5);
        if (maximize ? x > best * 1.01 : x < best * 0.99) best = x, bad = 0;
        else ++bad;
        if (rest > 0) --rest, bad = 0;
        if (bad > 2) factor = std::max(factor * 0.5, 0.05), rest = cooldown, bad = 0;
        BOOST_TEST(p.observe(x) == factor, "observation " << n);
        BOOST_TEST(copy(0.2, n, 50) == 0.2 * factor);
      }
      BOOST_TEST(factor < 0.3);
    }
}

BOOST_AUTO_TEST_CASE(what_schedules_observed_is_restored) {
  const optim::plateau first({.patience = 0}), second({.factor = 0.5, .patience = 1});
  const auto both = [](const optim::plateau& a, const optim::plateau& b) -> optim::schedule {
    return optim::sequential{.schedules = {optim::warm_up{.steps = 2, .then = a}, optim::constant{}, b},
                             .milestones = {5, 10}};
  };
  for (const double x : {3.0, 4.0, 5.0}) first.observe(x);
  for (const double x : {3.0, 4.0, 5.0, 6.0}) second.observe(x);
  const optim::plateau a({.patience = 0}), b({.factor = 0.5, .patience = 1});
  const auto state = both(first, second).state();
  both(a, b).restore(view<const double>(state));
  BOOST_TEST(a.factor() == first.factor());
  BOOST_TEST(b.factor() == second.factor());
  BOOST_TEST(b.factor() == 0.5);
  BOOST_TEST(b.observe(7) == second.observe(7));
  BOOST_TEST(b.observe(7) == 0.25);  // the second one without improvement since the reduction
  BOOST_TEST(optim::schedule(optim::constant{}).state().empty());
}

BOOST_AUTO_TEST_CASE(mistakes_of_new_ones) {
  const auto refused = [](const auto& f, const std::string& part) {
    const std::string message = message_of(f);
    BOOST_TEST(message.find(part) != message.npos, message << " does not say " << part);
  };
  refused([] { optim::cosine_restarts{.period = 0}(1, 0, 1); },
          "cosine_restarts: `period` is 0; expected a finite number > 0");
  refused([] { optim::cosine_restarts{.growth = 0.5}(1, 0, 1); }, "cosine_restarts: `growth - 1` is -0.5");
  refused([] { optim::cyclic{.up = -1}(1, 0, 1); }, "cyclic: `up` is -1");
  refused([] { optim::sequential{.schedules = {optim::constant{}}, .milestones = {1}}(1, 0, 1); },
          "sequential: there are 1 schedules and 1 milestones");
  refused(
      [] {
        optim::sequential{.schedules = {optim::constant{}, optim::constant{}, optim::constant{}}, .milestones = {5, 5}}(
            1, 0, 1);
      },
      "sequential: milestone 5 is not above 5");
  refused([] { optim::plateau({.factor = 1}); }, "plateau: `factor` is 1; expected a finite number >= 0 and < 1");
  refused([] { optim::plateau().observe(std::numeric_limits<double>::quiet_NaN()); },
          "plateau: the observed value is nan");
  const auto restored = [](const optim::schedule& s, const std::vector<double>& state) {
    return [s, state] { s.restore(view<const double>(state)); };
  };
  refused(restored(optim::plateau(), {1, 2}), "plateau: a state of 2 numbers; expected 5");
  for (const std::vector<double>& state : {std::vector<double>{1.5, 0, 0, 0, 0},
                                           {1, 0, -1, 0, 0},
                                           {1, 0, 0.5, 0, 0},
                                           {1, 0, 0, 0, 2},
                                           {1, std::nan(""), 0, 0, 1}})
    refused(restored(optim::plateau(), state), "plateau: a state of factor");
  refused(restored(optim::constant{}, {1}), "schedule: got a state of 1 numbers; this schedule has no state");
  refused(restored(optim::sequential{.schedules = {optim::plateau(), optim::constant{}}, .milestones = {5}}, {1}),
          "sequential: a state of 1 numbers; expected 5");
}

BOOST_AUTO_TEST_SUITE_END()
