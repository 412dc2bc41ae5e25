// Gradients through conds and loops: by every operand, whichever subprogram runs, up to second order.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"
#include "subprogram.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// The first subprogram reads x, w and b, the second only x.
values branches(const values& v) {
  const values operands{v[1], v[2], v[3]};
  return cond(v[0],
              subprogram(operands,
                         [](const values& x) {
                           value y = matmul(x[0], x[1]) + x[2];
                           return values{tanh(y), value(reduce_sum(y * y))};
                         }),
              subprogram(operands,
                         [](const values& x) {
                           value y = sigmoid(x[0]);
                           return values{matmul(y, x[1]), value(reduce_sum(y))};
                         }),
              operands);
}
std::vector<array> operands(bool holds, std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {predicate(holds), real({dim(rows), dim(in)}, 1), real({dim(in), dim(out)}, 2), real({dim(out)}, 3)};
}
// x -> tanh(x w) while the sum of squares is above a limit.
values shrunk(const values& v, std::int64_t max) {
  auto body = subprogram({v[0], v[1]}, [](const values& a) {
    value next = tanh(matmul(a[0], a[1]));
    return values{value(reduce_sum(next * next) > 0.05), next};
  });
  return loop(max, value(reduce_sum(v[0] * v[0]) > 0.05), body, {v.data(), 1}, {&v[1], 1});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conds)

BOOST_AUTO_TEST_CASE(of_the_program_that_runs) {
  for (bool holds : {true, false})
    for (auto [rows, in, out] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {2, 3, 4}, {5, 1, 2}, {0, 2, 3}, {3, 2, 1}, {1, 4, 2}}) {
      check_twice("cond", operands(holds, rows, in, out), branches);
      check("one result of a cond", operands(holds, rows, in, out),
            [](const values& v) { return values{branches(v)[1]}; });
    }
}

BOOST_AUTO_TEST_CASE(of_what_stands_for_two_purposes_the_one_of_training) {
  for (const auto& s : {shape{}, shape{3}, shape{0}, shape{1}, shape{2, 3}, shape{1, 4}, shape{2, 1, 3}})
    check_twice("in_training", {real(s, 1)}, [](const values& v) {
      return values{value(apply<op::in_training>({}, tanh(v[0]), sigmoid(v[0]) * 5))};
    });
}

BOOST_AUTO_TEST_CASE(only_what_the_gradient_reads_is_there) {
  small_graph g;
  values v{g.input(predicate(true)), g.input(real({2, 3}, 1)), g.input(real({3, 4}, 2)), g.input(real({4}, 3))};
  value y = branches(v)[1];
  g.output(y);
  for (const auto& d : gradients(g.p, {&y, 1}, {}, {&v[3], 1})) g.output(d);
  auto r = g.run();
  BOOST_TEST(r.size() == 2u);
  BOOST_TEST(r[1].shape().string() == "[4]");
  g.data[0] = predicate(false);  // the subprogram that does not read b
  r = g.run();
  for (double d : r[1].values) BOOST_TEST(d == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(loops)

BOOST_AUTO_TEST_CASE(through_as_many_turns_as_ran) {
  for (auto [rows, size, max] : {std::array<std::int64_t, 3>{1, 1, 4}, {2, 2, 5}, {3, 2, 1}, {1, 3, 8}, {2, 3, 3}}) {
    const std::vector<array> in{real({dim(rows), dim(size)}, 1), real({dim(size), dim(size)}, 2, -0.6, 0.6)};
    check_twice("loop", in, [max](const values& v) { return shrunk(v, max); });
  }
  const std::vector<array> ended{real({2, 2}, 1, 0.01, 0.02), real({2, 2}, 2)};  // no iteration
  check("loop", ended, [](const values& v) { return shrunk(v, 4); });
}

BOOST_AUTO_TEST_SUITE_END()
