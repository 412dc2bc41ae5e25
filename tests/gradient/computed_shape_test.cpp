// Gradients of operations with an operand that states the result's shape.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// A list as a constant in the program of `v`.
value list(const value& v, const std::vector<std::int64_t>& numbers) {
  std::vector<double> all(numbers.begin(), numbers.end());
  const auto n = static_cast<std::int64_t>(numbers.size());
  return v.owner().constant(to_tensor(array_of(dtype::int64, {dim(n)}, std::move(all))));
}

const shape matrices[] = {{3, 4}, {1, 4}, {2, 1}, {0, 3}, {5, 2}};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_computed_shapes)

BOOST_AUTO_TEST_CASE(other_extents_of_the_same_elements) {
  for (const auto& s : matrices) {
    const std::int64_t rows = s.at(0), columns = s.at(1);
    check_twice("reshape_to", {real(s, 1)},
                [&](const values& v) { return values{reshape_to(v[0], list(v[0], {columns, rows, 1}))}; });
    check_twice("expand", {real(s, 1)},
                [&](const values& v) { return values{expand(v[0], list(v[0], {2, 1, columns}))}; });
    check_twice("expand", {real({rows, 1}, 1)},
                [&](const values& v) { return values{expand(v[0], list(v[0], {rows, 3}))}; });
    check_twice("tile_by", {real(s, 1)}, [&](const values& v) { return values{tile_by(v[0], list(v[0], {2, 3}))}; });
    check_twice("full", {real({1}, 1)},
                [&](const values& v) { return values{full(list(v[0], {rows, columns}), v[0])}; });
  }
  check_twice("full", {real({}, 1)}, [](const values& v) { return values{full(list(v[0], {2, 2}), v[0])}; });
}

BOOST_AUTO_TEST_CASE(parts_and_borders) {
  for (const auto& s : matrices)
    for (std::int64_t step : {1, 2, -1, -2}) {
      const std::int64_t start = step > 0 ? 1 : 9, stop = step > 0 ? 9 : -9;
      check_twice("slice_at", {real(s, 1)}, [&](const values& v) {
        return values{slice_at(v[0], list(v[0], {start, 0}), list(v[0], {stop, 2}), {1, 0}, list(v[0], {step, 1}))};
      });
      check_twice("slice_at", {real(s, 1)}, [&](const values& v) {
        return values{slice_at(v[0], list(v[0], {start}), list(v[0], {stop}), {0}, list(v[0], {step}))};
      });
    }
  for (const auto& s : matrices)
    for (const auto& borders : std::vector<std::vector<std::int64_t>>{{1, 2, 0, 3}, {0, -1, 2, 1}, {2, 0, 0, 0}})
      check_twice("pad_by", {real(s, 1)}, [&](const values& v) {
        return values{pad_by(v[0], list(v[0], borders), {.axes = {1, 0}, .value = 0.5})};
      });
}

// The adjoints as separate operations.
BOOST_AUTO_TEST_CASE(adjoints) {
  for (const auto& s : matrices) {
    const std::int64_t rows = s.at(0), columns = s.at(1);
    const std::int64_t part = columns > 1 ? columns - 1 : 0;
    check_twice("slice_at_grad", {real({rows, part}, 1), real(s, 2)}, [&](const values& v) {
      return values{
          gradients(reduce_sum(slice_at(v[1], list(v[1], {1}), list(v[1], {columns}), {1}) * v[0]), values{v[1]})[0]};
    });
    check_twice("pad_by_grad", {real({rows, columns + 3}, 1), real(s, 2)}, [&](const values& v) {
      return values{gradients(reduce_sum(pad_by(v[1], list(v[1], {1, 2}), {.axes = {1}}) * v[0]), values{v[1]})[0]};
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
