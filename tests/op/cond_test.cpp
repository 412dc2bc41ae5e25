// `cond` and `loop`: the results of the subprogram that runs, and no effect of the other.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"
#include "subprogram.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;

// tanh(x W) and x W + 1 if true, 2 x W and x W otherwise.
values branches(const values& v) {
  const values operands{v[1], v[2]};
  return cond(v[0],
              subprogram(operands,
                         [](const values& x) {
                           value y = matmul(x[0], x[1]);
                           return values{tanh(y), value(y + 1)};
                         }),
              subprogram(operands,
                         [](const values& x) {
                           value y = matmul(x[0], x[1]);
                           return values{value(2 * y), y};
                         }),
              operands);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conds)

BOOST_AUTO_TEST_CASE(the_results_are_those_of_the_program_that_the_truth_names) {
  for (auto t : {dtype::float32, dtype::float64})
    for (auto [rows, in, out] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {40, 33, 20}, {0, 3, 2}})
      for (bool holds : {true, false}) {
        std::vector<array> a{predicate(holds), random_array(t, {dim(rows), dim(in)}, 1),
                             random_array(t, {dim(in), dim(out)}, 2)};
        auto plain = results_of(a, [&](const values& v) {
          value y = matmul(v[1], v[2]);
          return holds ? values{tanh(y), value(y + 1)} : values{value(2 * y), y};
        });
        for (const auto& options : {pass_options{}, no_passes}) {
          auto r = results_of(a, branches, options);
          for (std::size_t i = 0; i < 2; ++i)
            BOOST_CHECK_MESSAGE(distance(r[i], plain[i]) < 1e-6, rows << " " << in << " " << out << " " << holds);
        }
      }
}

BOOST_AUTO_TEST_CASE(one_plan_serves_both_truths_on_any_number_of_threads) {
  small_graph g;
  std::vector<array> a{predicate(true), random_array(dtype::float32, {160, 33}, 1),
                       random_array(dtype::float32, {33, 64}, 2)};
  values v{g.input(a[0]), g.input(a[1]), g.state("w", a[2])};
  for (const auto& y : branches(v)) g.output(y);
  std::vector<std::vector<array>> seen;
  for (int threads : {1, 2}) {
    for (bool holds : {true, false, true}) {
      g.data[0] = predicate(holds);
      seen.push_back(g.run({}, threads));
    }
  }
  BOOST_TEST(g.plan->loops().size() == 2u);
  BOOST_TEST(g.plan->packs().size() == 1u);
  // Threads share the work of either branch.
  const auto& stages = g.plan->stages();
  BOOST_TEST(std::count_if(stages.begin(), stages.end(), [](const plan_stage& s) { return s.loop >= 0; }) == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(same_bits(seen[0][i], seen[2][i]));
    BOOST_TEST(same_bits(seen[0][i], seen[3][i]));
    BOOST_TEST(same_bits(seen[1][i], seen[4][i]));
    BOOST_TEST(!same_bits(seen[0][i], seen[1][i]));
  }
}

BOOST_AUTO_TEST_CASE(the_other_program_does_not_run) {
  // The other branch would fail on an index out of range.
  std::vector<array> a{predicate(true), random_array(dtype::float32, {3, 2}, 1), array_of(dtype::int64, {2}, {7, 8})};
  auto build = [](const values& v) {
    const values operands{v[1], v[2]};
    return cond(
        v[0], subprogram(operands, [](const values& x) { return values{value(slice(x[0], {.start = 0, .stop = 2}))}; }),
        subprogram(operands, [](const values& x) { return values{gather<0>(x[0], x[1])}; }), operands);
  };
  BOOST_TEST(results_of(a, build)[0].values.size() == 4u);
  a[0] = predicate(false);
  BOOST_CHECK_THROW(results_of(a, build), value_error);
  a[2].values = {2, 0};
  auto r = results_of(a, build)[0];
  BOOST_TEST(r.values[0] == a[1].values[4]);
  BOOST_TEST(r.values[2] == a[1].values[0]);
}

BOOST_AUTO_TEST_CASE(a_truth_that_is_known_leaves_one_program) {
  for (bool holds : {true, false}) {
    small_graph g;
    const array x = random_array(dtype::float32, {2, 3}, 1);
    value v = g.input(x);
    any_tensor constant(tensor_type{dtype::boolean, {}});
    *static_cast<bool*>(static_cast<void*>(constant.mutable_data())) = holds;
    for (const auto& y : cond(g.p.constant(constant), subprogram({v}, [](const values& a) { return values{a[0]}; }),
                              subprogram({v}, [](const values& a) { return values{value(-a[0])}; }), {&v, 1}))
      g.output(y);
    auto r = g.run();
    BOOST_TEST(g.plan->loops().empty());
    BOOST_TEST(r[0].values[1] == (holds ? x.values[1] : -x.values[1]));
  }
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_named) {
  small_graph g;
  value t = g.input(predicate(true)), x = g.input(random_array(dtype::float32, {2, 3}, 1)),
        i = g.input(random_array(dtype::int64, {2, 3}, 1));
  auto same_of = [](const values& a) { return values{a[0]}; };
  auto pass = subprogram({x}, same_of);
  BOOST_TEST(message_of([&] { cond(x, pass, pass, {&x, 1}); }) ==
             "cond: the predicate is float32[2x3]; expected one bool");
  BOOST_TEST(message_of([&] { cond(t, pass, pass, {&i, 1}); }) ==
             "cond: operand 0 is int64[2x3]; the first program takes float32[2x3]");
  BOOST_TEST(message_of([&] { cond(t, pass, subprogram({i}, same_of), {&x, 1}); }) ==
             "cond: operand 0 is float32[2x3]; the second program takes int64[2x3]");
  BOOST_TEST(message_of([&] { cond(t, pass, pass, {}); }) == "cond: the first program takes 1 operands; got 0");
  auto two = subprogram({x}, [](const values& a) { return values{a[0], a[0]}; });
  BOOST_TEST(message_of([&] { cond(t, pass, two, {&x, 1}); }) ==
             "cond: the first program gives 1 results and the second 2");
  auto sum = subprogram({x}, [](const values& a) { return values{reduce_sum(a[0])}; });
  BOOST_TEST(message_of([&] { cond(t, pass, sum, {&x, 1}); }) ==
             "cond: result 0 is float32[2x3] in one program and float32[] in another");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(loops)

namespace {

// Doubles x and counts, while the sum is below the limit.
values doubled(const values& v, std::int64_t max) {
  const values carried{v[0], v[1]};
  auto body = subprogram({v[0], v[1], v[2]}, [](const values& a) {
    value next = a[0] * 2;
    return values{value(reduce_sum(next) < a[2]), next, value(a[1] + 1)};
  });
  return loop(max, value(reduce_sum(v[0]) < v[2]), body, carried, {&v[2], 1});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_loop_ends_with_its_truth_or_its_last_turn) {
  for (const auto& [limit, max, iterations] : {std::tuple<double, std::int64_t, int>{100, 20, 6},
                                               {100, 3, 3},
                                               {1, 20, 0},
                                               {4, 20, 1},
                                               {100, 6, 6},
                                               {3, 1, 0},
                                               {4, 1, 1}}) {
    std::vector<array> a{array_of(dtype::float32, {2}, {1, 2}), array_of(dtype::int64, {}, {0}),
                         array_of(dtype::float32, {}, {limit})};
    for (const auto& options : {pass_options{}, no_passes}) {
      auto r = results_of(a, [&](const values& v) { return doubled(v, max); }, options);
      BOOST_TEST(r[1].values[0] == iterations);
      BOOST_TEST(r[0].values[0] == std::ldexp(1.0, iterations));
      BOOST_TEST(r[0].values[1] == std::ldexp(2.0, iterations));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loop_in_a_loop) {
  // The number of pairs (i, j), j < i < n.
  auto count = [](const value& i, const value& n, const value& total) {
    auto inner = subprogram({i, total}, [](const values& a) {
      value left = a[0] - 1;
      return values{value(left > 0), left, value(a[1] + 1)};
    });
    const values carried{i, total};
    auto counted = loop(10, value(i > 0), inner, carried)[1];
    value next = i + 1;
    return values{value(next < n), next, counted};
  };
  std::vector<array> a{array_of(dtype::int64, {}, {0}), array_of(dtype::int64, {}, {0}),
                       array_of(dtype::int64, {}, {6})};
  auto r = results_of(a, [&](const values& v) {
    auto outer = subprogram({v[0], v[1], v[2]}, [&](const values& x) { return count(x[0], x[2], x[1]); });
    return loop(10, value(v[0] < v[2]), outer, {v.data(), 2}, {&v[2], 1});
  });
  BOOST_TEST(r[1].values[0] == 15);
}

BOOST_AUTO_TEST_CASE(loops_that_cannot_be_are_refused) {
  small_graph g;
  value t = g.input(predicate(true)), x = g.input(random_array(dtype::float32, {2, 3}, 1));
  auto body = subprogram({x}, [](const values& a) { return values{value(reduce_sum(a[0]) < 1), a[0]}; });
  BOOST_TEST(message_of([&] { loop(0, t, body, {&x, 1}); }) == "loop: max is 0; expected at least 1");
  BOOST_TEST(message_of([&] { loop(3, t, body, {}); }) == "loop: expected at least one carry");
  BOOST_TEST(message_of([&] { loop(3, t, body, {&x, 1}, {&x, 1}); }) == "loop: the subprogram takes 1 operands; got 2");
  auto no_truth = subprogram({x}, [](const values& a) { return values{a[0], a[0]}; });
  BOOST_TEST(message_of([&] { loop(3, t, no_truth, {&x, 1}); }) ==
             "loop: the predicate for the next iteration is float32[2x3]; expected bool []");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(training_and_inference)

BOOST_AUTO_TEST_CASE(a_program_that_runs_has_what_training_does) {
  const std::vector<array> a{random_array(dtype::float32, {3, 4}, 1), array_of(dtype::int64, {2}, {0, 9})};
  const array doubled = result_of({a[0]}, [](const values& v) { return value(v[0] * 2); });
  for (const auto& options : {pass_options{}, no_passes}) {
    // The inference operand would fail, and does not run.
    const array r = result_of(
        a, [](const values& v) { return value(apply<op::in_training>({}, v[0] * 2, gather(v[0], v[1]))); }, options);
    BOOST_TEST(distance(r, doubled) == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
