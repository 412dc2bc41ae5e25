// Operations whose result has a computed shape, against those with known shapes and plain loops: with lists that are
// constants, that are inputs, and that are computed during the run.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"
#include "segments.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array ints(std::vector<double> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return array_of(dtype::int64, {dim(n)}, std::move(v));
}
array number_of(double v, dtype element = dtype::int64) { return array_of(element, {}, {v}); }

// How a list enters the program.
enum class way { constant, input, computed, constant_of_open_operand };
constexpr way ways[] = {way::constant, way::input, way::computed, way::constant_of_open_operand};

using one_result = std::function<value(const std::vector<value>&)>;

// The result for operands of which those from `first_list` on determine the shape, given in the way `how`.
array result_by(way how, const std::vector<array>& operands, std::size_t first_list, const one_result& build) {
  small_graph g;
  std::vector<value> in;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i < first_list)
      in.push_back(how == way::constant_of_open_operand ? g.open_input(operands[i]) : g.input(operands[i]));
    else if (how == way::input) in.push_back(g.input(operands[i]));
    else if (how == way::computed) in.push_back(g.input(operands[i]) + 0 * g.input(operands[i]));
    else in.push_back(g.p.constant(to_tensor(operands[i])));
  }
  g.output(build(in));
  return segment_run(g)()[0];
}
void check_each_way(const std::vector<array>& operands, std::size_t first_list, const one_result& build,
                    const array& expected) {
  for (way how : ways) {
    BOOST_TEST_CONTEXT("way " << static_cast<int>(how)) {
      const array y = result_by(how, operands, first_list, build);
      BOOST_TEST((y.shape() == expected.shape()));
      BOOST_TEST(same_bits(y, expected));
    }
  }
}
std::string message_by(way how, const std::vector<array>& operands, std::size_t first_list, const one_result& build) {
  return message_of([&] { result_by(how, operands, first_list, build); });
}

// Python's x[start:stop:step] of one axis.
std::vector<std::int64_t> positions_of(std::int64_t start, std::int64_t stop, std::int64_t step, std::int64_t n) {
  std::vector<std::int64_t> found;
  const auto clamped = [&](std::int64_t p) {
    if (p < 0) p = p < -n ? -1 : p + n;
    return step > 0 ? std::clamp<std::int64_t>(p, 0, n) : std::clamp<std::int64_t>(p, -1, n - 1);
  };
  const std::int64_t from = start < -n && step > 0 ? 0 : clamped(start), to = stop < -n && step > 0 ? 0 : clamped(stop);
  for (std::int64_t i = from; step > 0 ? i < to : i > to; i += step) found.push_back(i);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(computed_shapes)

BOOST_AUTO_TEST_CASE(reshape_to_extents) {
  const array x = random_array(dtype::float32, {4, 6}, 1);
  const auto build = [](const std::vector<value>& v) { return reshape_to(v[0], v[1]); };
  for (const std::vector<double>& to :
       std::vector<std::vector<double>>{{24}, {2, -1}, {-1, 3, 2}, {2, 3, 4, 1}, {4, 6}}) {
    shape s;
    for (double n : to) s.push_back(n < 0 ? dim(dyn) : dim(static_cast<std::int64_t>(n)));
    const array expected = result_of({x}, [&](auto& v) { return reshape(v[0], s); });
    check_each_way({x, ints(to)}, 1, build, expected);
  }
  const array one = random_array(dtype::int16, {1, 1}, 2);
  check_each_way({one, ints({})}, 1, build, result_of({one}, [](auto& v) { return reshape(v[0], shape{}); }));
  // 0 means an extent of 0, or the operand's extent.
  const auto kept = [](const std::vector<value>& v) { return reshape_to(v[0], v[1], {.keep_zero = true}); };
  check_each_way({x, ints({0, 3, -1})}, 1, kept, result_of({x}, [](auto& v) { return reshape(v[0], {4, 3, 2}); }));
  const array none = random_array(dtype::float32, {0, 6}, 1);
  check_each_way({none, ints({0, 3})}, 1, build, result_of({none}, [](auto& v) { return reshape(v[0], {0, 3}); }));
  for (way how : {way::constant, way::input, way::computed}) {
    BOOST_TEST(message_by(how, {x, ints({5, 5})}, 1, build) ==
               "reshape_to: 24 elements do not make [5x5]: float32[4x6] int64[2]");
    BOOST_TEST(message_by(how, {x, ints({-1, 5})}, 1, build) ==
               "reshape_to: 24 elements do not divide into [?x5]: float32[4x6] int64[2]");
    BOOST_TEST(message_by(how, {x, ints({-1, -1})}, 1, build) ==
               "reshape_to: only one extent can be inferred: float32[4x6] int64[2]");
    BOOST_TEST(message_by(how, {x, ints({-2, 5})}, 1, build) ==
               "reshape_to: an extent of -2 is negative: float32[4x6] int64[2]");
  }
  BOOST_TEST(message_by(way::input, {x, array_of(dtype::int32, {2}, {4, 6})}, 1, build) ==
             "reshape_to: takes int64 extents and positions, not int32; cast first, as in cast<std::int64_t>(x): "
             "float32[4x6] int32[2]");
  BOOST_TEST(message_by(way::input, {x, array_of(dtype::int64, {1, 2}, {4, 6})}, 1, build) ==
             "reshape_to: extents must be a vector of known length, at most 8: float32[4x6] int64[1x2]");
}

BOOST_AUTO_TEST_CASE(expand_to_extents) {
  const array x = random_array(dtype::float64, {3, 1}, 1);
  const auto build = [](const std::vector<value>& v) { return expand(v[0], v[1]); };
  const auto like = [&](const shape& s) {
    return result_of({x, random_array(dtype::float64, s, 2)}, [](auto& v) { return broadcast_like(v[0], v[1]); });
  };
  check_each_way({x, ints({2, 3, 4})}, 1, build, like({2, 3, 4}));
  check_each_way({x, ints({1, 4})}, 1, build, like({3, 4}));
  check_each_way({x, ints({3, 0})}, 1, build, like({3, 0}));
  check_each_way({x, ints({1})}, 1, build, x);
  for (way how : {way::constant, way::computed})
    BOOST_TEST(message_by(how, {x, ints({2, 4})}, 1, build) ==
               "expand_to: the operand does not broadcast with [2x4]: float64[3x1] int64[2]");
}

BOOST_AUTO_TEST_CASE(slices_as_in_python) {
  const array x = random_array(dtype::float32, {5, 7}, 3);
  constexpr double far = 9007199254740992.0;  // beyond every axis
  const double starts[] = {0, 1, 4, -1, -3, -9, far}, stops[] = {0, 3, 7, -1, -20, far, -far};
  int number = 0;
  for (double start : starts)
    for (double stop : stops)
      for (double step : {1.0, 2.0, 5.0, -1.0, -2.0, -6.0}) {
        const double other = std::array{0.0, 2.0, -2.0}[static_cast<std::size_t>(number++ % 3)];
        const auto rows = positions_of(static_cast<std::int64_t>(other), 5, 1, 5);
        const auto columns = positions_of(static_cast<std::int64_t>(start), static_cast<std::int64_t>(stop),
                                          static_cast<std::int64_t>(step), 7);
        array expected{{dtype::float32,
                        {dim(static_cast<std::int64_t>(rows.size())), dim(static_cast<std::int64_t>(columns.size()))}},
                       {}};
        for (auto r : rows)
          for (auto c : columns) expected.values.push_back(x.values[static_cast<std::size_t>(r * 7 + c)]);
        const auto build = [](const std::vector<value>& v) { return slice_at(v[0], v[1], v[2], {1, 0}, v[3]); };
        const std::vector<array> operands{x, ints({start, other}), ints({stop, 5}), ints({step, 1})};
        const way how = ways[number % 4];
        BOOST_TEST_CONTEXT(start << ":" << stop << ":" << step << " way " << static_cast<int>(how))
        BOOST_TEST(same_bits(result_by(how, operands, 1, build), expected));
      }
  const auto two = [](const std::vector<value>& v) { return slice_at(v[0], v[1], v[2], {0}); };
  check_each_way({x, ints({1}), ints({3})}, 1, two,
                 result_of({x}, [](auto& v) { return slice(v[0], {.start = 1, .stop = 3}); }));
  const auto stepped = [](const std::vector<value>& v) { return slice_at(v[0], v[1], v[2], {0}, v[3]); };
  for (way how : {way::constant, way::input, way::computed})
    BOOST_TEST(message_by(how, {x, ints({1}), ints({3}), ints({0})}, 1, stepped) ==
               "slice_at: steps must not be 0: float32[5x7] int64[1] int64[1] int64[1]");
  BOOST_TEST(message_by(way::input, {x, ints({1, 2}), ints({3})}, 1, two) ==
             "slice_at: a list of 2 positions does not fit 1 axes: float32[5x7] int64[2] int64[1]");
  const auto twice = [](const std::vector<value>& v) { return slice_at(v[0], v[1], v[2], {0, -2}); };
  BOOST_TEST(
      message_by(way::input, {x, ints({1, 2}), ints({3, 3})}, 1, twice) ==
      "slice_at: the axes {0, -2} are not distinct axes of an operand of rank 2: float32[5x7] int64[2] int64[2]");
}

BOOST_AUTO_TEST_CASE(tiles_and_borders) {
  const array x = random_array(dtype::float32, {2, 3}, 4);
  const auto tiles = [](const std::vector<value>& v) { return tile_by(v[0], v[1]); };
  check_each_way({x, ints({2, 3})}, 1, tiles, result_of({x}, [](auto& v) { return tile(v[0], {2, 3}); }));
  check_each_way({x, ints({1, 0})}, 1, tiles, result_of({x}, [](auto& v) { return tile(v[0], {1, 0}); }));
  BOOST_TEST(message_by(way::computed, {x, ints({-1, 1})}, 1, tiles) ==
             "tile_by: an extent of -1 is negative: float32[2x3] int64[2]");
  BOOST_TEST(message_by(way::input, {x, ints({1})}, 1, tiles) ==
             "tile_by: 1 repeats do not fit 2 axes: float32[2x3] int64[1]");

  const auto borders = [](const std::vector<value>& v) { return pad_by(v[0], v[1], {.axes = {1, 0}, .value = 7}); };
  check_each_way({x, ints({1, 0, 2, 3})}, 1, borders, result_of({x}, [](auto& v) {
                   return pad(pad(v[0], {.axis = 1, .before = 1, .after = 2, .value = 7}),
                              {.axis = 0, .after = 3, .value = 7});
                 }));
  check_each_way({x, ints({-1, 0, 2, -1})}, 1, borders, result_of({x}, [](auto& v) {
                   return pad(slice(slice(v[0], {.stop = 1}), {.start = 1, .axis = 1}),
                              {.axis = 1, .after = 2, .value = 7});
                 }));
  check_each_way({x, ints({-3, 0, 0, 0})}, 1, borders,
                 result_of({x}, [](auto& v) { return slice(v[0], {.stop = 0, .axis = 1}); }));
  // Removes more positions than there are and adds as many: only border elements remain.
  check_each_way({x, ints({-4, 0, 2, 0})}, 1, borders, array_of(dtype::float32, {2, 1}, {7, 7}));
  for (way how : {way::constant, way::input, way::computed})
    BOOST_TEST(message_by(how, {x, ints({-2, 0, -2, 0})}, 1, borders) ==
               "pad_by: an axis of 3 cannot have borders of -2 and -2: float32[2x3] int64[4]");
  BOOST_TEST(message_by(way::input, {x, ints({1, 1})}, 1, borders) ==
             "pad_by: 2 borders for 2 axes; expected two each: float32[2x3] int64[2]");
}

BOOST_AUTO_TEST_CASE(ranges_and_numbers_everywhere) {
  const auto range = [](const std::vector<value>& v) { return arange(v[0], v[1], v[2]); };
  for (dtype e : {dtype::int64, dtype::int32, dtype::float32, dtype::float64}) {
    check_each_way({number_of(2, e), number_of(9, e), number_of(3, e)}, 0, range, array_of(e, {3}, {2, 5, 8}));
    check_each_way({number_of(9, e), number_of(2, e), number_of(-2, e)}, 0, range, array_of(e, {4}, {9, 7, 5, 3}));
    check_each_way({number_of(2, e), number_of(2, e), number_of(1, e)}, 0, range, array_of(e, {0}, {}));
    check_each_way({number_of(2, e), number_of(-5, e), number_of(1, e)}, 0, range, array_of(e, {0}, {}));
  }
  check_each_way({number_of(0, dtype::float64), number_of(1, dtype::float64), number_of(0.25, dtype::float64)}, 0,
                 range, array_of(dtype::float64, {4}, {0, 0.25, 0.5, 0.75}));
  for (way how : {way::constant, way::input, way::computed}) {
    BOOST_TEST(message_by(how, {number_of(2), number_of(9), number_of(0)}, 0, range) ==
               "arange: step must be a nonzero number, not 0: [] [] []");
    BOOST_TEST(message_by(how, {number_of(0), number_of(4e9), number_of(1)}, 0, range) ==
               "arange: the range has more than 2^31 elements: [] [] []");
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(message_by(way::input,
                        {number_of(0, dtype::float64), number_of(nan, dtype::float64), number_of(1, dtype::float64)}, 0,
                        range) == "arange: start or stop is not a number: [] [] []");

  // The repeated number does not affect the shape, so it may be computed in any way.
  for (bool computed : {false, true}) {
    small_graph g;
    value extents = g.input(ints({2, 3})), number = g.input(array_of(dtype::float32, {1}, {1.5}));
    if (computed) extents = extents + 0 * extents;
    g.output(full(extents, number));
    BOOST_TEST(same_bits(segment_run(g)()[0], array_of(dtype::float32, {2, 3}, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5})));
  }
}

// Shapes computed from other shapes need no run: one plan holds the program.
BOOST_AUTO_TEST_CASE(shapes_of_shapes_are_known_when_a_plan_is_made) {
  const array x = random_array(dtype::float32, {4, 6}, 1);
  small_graph g;
  const value in = g.open_input(x);
  const value s = shape_of(in);
  const value rows = slice(s, {.stop = 1}), columns = slice(s, {.start = 1});
  const value three = g.p.constant(to_tensor(ints({3})));
  g.output(reshape_to(in, concat<0>(rows * 2, columns / 2)));
  g.output(expand(reduce_sum<0>(in), concat<0>(three, columns)));
  g.output(tanh(full(concat<0>(columns, rows), in[0][0])));
  BOOST_TEST(counted_when_run_in(g.p) == "");
  const auto plain = results_of({x}, [](auto& v) {
    return std::vector<value>{reshape(v[0], {8, 3}), tile_to(reduce_sum<0>(v[0]), {3, 6}),
                              tanh(tile_to(v[0][0][0], {6, 4}))};
  });
  for (const auto& options : {pass_options{}, no_passes}) {
    const auto y = g.run(options);
    BOOST_TEST(same_bits(y[0], plain[0]));
    BOOST_TEST(same_bits(y[1], plain[1]));
    BOOST_TEST(same_bits(y[2], plain[2]));
  }
  // The same with the shape arithmetic inside of a call.
  small_graph outer;
  auto inner = std::make_shared<program>();
  const value a = inner->input("a", {dtype::float32, {dyn, dyn}});
  inner->output("s", shape_of(a) * 1);
  inner->output("a", a + 1);
  const value b = outer.open_input(x);
  const auto called = call(inner, {b});
  outer.output(reshape_to(called[1], gather(called[0], outer.p.constant(to_tensor(ints({1, 0}))), 0)));
  BOOST_TEST(counted_when_run_in(outer.p) == "");
  BOOST_TEST((outer.run()[0].shape() == shape({6, 4})));
}

// A plan is made for, and cached by, the numbers that determine its shapes.
BOOST_AUTO_TEST_CASE(plans_are_found_by_the_numbers_that_decide_shapes) {
  small_graph g;
  const value x = g.input(random_array(dtype::float32, {2, 6}, 1)), to = g.input(ints({3, 4}));
  g.output(reshape_to(x, to) * 2);
  segment_run run(g);
  BOOST_TEST((run()[0].shape() == shape({3, 4})));
  const array other = random_array(dtype::float32, {2, 6}, 5);
  BOOST_TEST((run({other, ints({12, 1})})[0].shape() == shape({12, 1})));
  BOOST_TEST((run({other, ints({3, 4})})[0].shape() == shape({3, 4})));
  const auto made = run.where->slot<plan_cache>().statistics();
  run({other, ints({12, 1})});
  BOOST_TEST(run.where->slot<plan_cache>().statistics().misses == made.misses);
  BOOST_TEST(made.misses == 2u);
}

// Shapes computed during a run: from data-dependent rows, from states, after another split.
BOOST_AUTO_TEST_CASE(programs_are_cut_where_a_run_decides_a_shape) {
  small_graph g;
  const array x = array_of(dtype::float32, {6}, {0, 1, 0, 2, 3, 0});
  const value in = g.input(x), kept = masked_select(in, in > 0);
  const value count = shape_of(kept);                            // [3], known after masked_select has run
  const value ones = full(concat<0>(count, count), in[1]);       // [3, 3]
  const value total = cast<std::int64_t>(reduce_sum(ones, {}));  // 9, computed by a run
  g.output(arange(g.p.number(std::int64_t{0}, dtype::int64), total, g.p.number(std::int64_t{2}, dtype::int64)));
  g.output(ones);
  const value state = g.state("s", ints({2}));
  g.output(full(state + 1, in[3]));
  g.output(full(state, in[3]));
  BOOST_TEST(counted_when_run_in(g.p) == "non_zero");
  for (int threads : {1, 2}) {
    const auto y = segment_run(g, threads)();
    BOOST_TEST(same_bits(y[0], array_of(dtype::int64, {5}, {0, 2, 4, 6, 8})));
    BOOST_TEST((y[1].shape() == shape({3, 3})));
    BOOST_TEST(same_bits(y[2], array_of(dtype::float32, {3}, {2, 2, 2})));
    BOOST_TEST(same_bits(y[3], array_of(dtype::float32, {2}, {2, 2})));
  }
}

BOOST_AUTO_TEST_SUITE_END()
