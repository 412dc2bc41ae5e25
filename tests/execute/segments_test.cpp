// Programs with data-dependent shapes: where they are split, which values pass from one segment to the next,
// states, gradients, plans from the cache, and rejected uses.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

import lamina;

#include "graph.h"
#include "segments.h"
#include "subprogram.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array real(const shape& s, int seed) { return random_array(dtype::float32, s, seed, -1, 1); }
array ints(std::vector<double> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return array_of(dtype::int64, {dim(n)}, std::move(v));
}
std::size_t lines_of(const std::string& s, const std::string& words) {
  std::size_t n = 0;
  for (auto at = s.find(words); at != s.npos; at = s.find(words, at + 1)) ++n;
  return n;
}
// The rows of x with a sum above 0, and a net over them.
array positive_rows(const array& x) {
  const std::int64_t columns = x.shape().at(1);
  array r{{dtype::float32, {0, dim(columns)}}, {}};
  for (std::int64_t i = 0; i < x.shape().at(0); ++i) {
    const auto first = x.values.begin() + i * columns;
    double sum = 0;
    for (std::int64_t k = 0; k < columns; ++k) sum += first[k];
    if (sum > 0) r.values.insert(r.values.end(), first, first + columns);
  }
  r.type.dims[0] = dim(static_cast<std::int64_t>(r.values.size()) / columns);
  return r;
}
value kept_rows(const value& x) { return compress(x, reduce_sum<1>(x) > 0); }

}  // namespace

BOOST_AUTO_TEST_SUITE(segments)

BOOST_AUTO_TEST_CASE(a_net_goes_on_with_the_rows_that_are_left) {
  for (std::int64_t rows : {0, 1, 2, 17, 64}) {
    small_graph g;
    const array x = real({rows, 12}, static_cast<int>(rows));
    const value w = g.state("w", real({12, 9}, 2)), b = g.state("b", real({9}, 3));
    const value left = kept_rows(g.input(x)), h = relu(matmul(left, w) + b);
    for (const value& v : {left, h, value(reduce_sum(h)), value(reduce_mean<1>(h)), value(softmax(h)),
                           value(matmul(permute(h, axes(1, 0)), h))})
      g.output(v);
    const auto y = segment_run(g)();
    const array expected = positive_rows(x);
    BOOST_TEST(same_bits(y[0], expected));
    // The same operations on rows that are an input.
    small_graph after;
    after.store.add("w", g.store.find("w")->value(), state_role::parameter);
    after.store.add("b", g.store.find("b")->value(), state_role::parameter);
    const value in = after.input(expected),
                k = relu(matmul(in, after.p.state("w", w.type())) + after.p.state("b", b.type()));
    for (const value& v : {in, k, value(reduce_sum(k)), value(reduce_mean<1>(k)), value(softmax(k)),
                           value(matmul(permute(k, axes(1, 0)), k))})
      after.output(v);
    const auto alone = after.run();
    for (std::size_t i = 0; i < y.size(); ++i) BOOST_TEST(same_bits(y[i], alone[i]));
  }
}

BOOST_AUTO_TEST_CASE(counts_one_after_the_other_and_side_by_side) {
  const array x = random_array(dtype::float32, {200}, 4, -9, 9), y = random_array(dtype::float32, {50}, 5, -3, 3);
  const auto results = counted_results({x, y}, [](auto& v) {
    const value positive = masked_select(v[0], v[0] > 0);
    auto [values, indices, inverse, counts] = unique(round(positive));
    auto [best, at] = top_k(values, select(shape_of(values), 0, 0) - 1);  // k is a data-dependent extent
    const value beside = masked_select(v[1], v[1] < 0);
    return std::vector<value>{best,    reduce_sum(counts), beside, reduce_sum(beside) + reduce_sum(best), positive,
                              positive};
  });
  std::vector<double> positive, distinct, beside;
  for (double v : x.values)
    if (v > 0) positive.push_back(v), distinct.push_back(std::nearbyint(v));
  for (double v : y.values)
    if (v < 0) beside.push_back(v);
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  distinct.pop_back();
  BOOST_TEST(results[0].values == distinct, boost::test_tools::per_element());
  BOOST_TEST(results[1].values[0] == static_cast<double>(positive.size()));
  BOOST_TEST(results[2].values == beside, boost::test_tools::per_element());
  BOOST_TEST(results[4].values == positive, boost::test_tools::per_element());
  BOOST_TEST(same_bits(results[5], results[4]));
  small_graph g;
  const value v = g.input(x);
  g.output(masked_select(masked_select(v, v > 0), masked_select(v, v > 0) > 1));
  const shape extents[] = {x.shape()};
  BOOST_TEST(lines_of(segment_run(g).plans.explain(extents), "segment ") == 3u);
}

BOOST_AUTO_TEST_CASE(inputs_states_and_constants_are_outputs_and_rows_too) {
  small_graph g;
  const value x = g.input(real({6, 2}, 1)), n = g.input(array_of(dtype::int64, {}, {4})),
              s = g.state("s", real({5}, 2));
  const value c = g.p.constant(to_tensor(ints({7, 8, 9})));
  g.output(truncate(x, n));
  g.output(truncate(s, n));
  g.output(truncate(c, n - 2));
  g.output(x), g.output(s), g.output(c), g.output(s + 1);
  const auto y = segment_run(g)();
  const std::vector<double> all = g.data[0].values, eight(all.begin(), all.begin() + 8);
  BOOST_TEST((y[0].shape() == shape{4, 2}));
  BOOST_TEST(y[0].values == eight, boost::test_tools::per_element());
  BOOST_TEST((y[1].shape() == shape{4}));
  BOOST_TEST((y[2].values == std::vector<double>{7, 8}));
  BOOST_TEST(same_bits(y[3], g.data[0]));
  BOOST_TEST(same_bits(y[4], g.now("s")));
  BOOST_TEST((y[5].values == std::vector<double>{7, 8, 9}));
  BOOST_TEST(y[6].values[0] == static_cast<double>(static_cast<float>(g.now("s").values[0]) + 1.f));
}

BOOST_AUTO_TEST_CASE(names_of_dimensions_hold_in_every_segment) {
  small_graph g;
  g.data = {real({3, 4}, 1), real({12}, 2)};
  const value x = g.p.input("x", {dtype::float32, {"N", 4}}), y = g.p.input("y", {dtype::float32, {dyn}});
  const value kept = masked_select(y, y < 10);
  g.output(reshape(kept, shape{"N", 4}) + x);
  const auto out = segment_run(g)();
  BOOST_TEST((out[0].shape() == shape{3, 4}));
  small_graph alone;  // the segment reads only `y`, and `N` is an extent of `x`
  alone.data = g.data;
  alone.p.input("x", {dtype::float32, {"N", 4}});
  const value v = alone.p.input("y", {dtype::float32, {dyn}});
  alone.output(reshape(masked_select(v, v < 10), shape{"N", 4}));
  BOOST_TEST((segment_run(alone)()[0].shape() == shape{3, 4}));
}

BOOST_AUTO_TEST_CASE(calls_are_cut_too) {
  const array x = real({30, 4}, 1);
  small_graph g;
  const value in = g.input(x);
  auto rows = subprogram({in}, [](auto& v) { return std::vector<value>{kept_rows(v[0]), v[0] * 2}; });
  auto outer = subprogram({in}, [&](auto& v) { return std::vector<value>{call(rows, v)[0] + 0.f}; });
  g.output(call(outer, {&in, 1})[0]);
  BOOST_TEST(same_bits(segment_run(g)()[0], positive_rows(x)));
}

BOOST_AUTO_TEST_CASE(states_are_assigned_when_nothing_can_fail_any_more) {
  small_graph g;
  const value s = g.state("s", real({4}, 1)), total = g.state("total", array_of(dtype::float32, {}, {0}));
  const value x = g.input(real({20}, 2)), at = g.input(ints({0, 3, -1}));
  const value kept = masked_select(x, x > 0);
  g.p.assign(s, s * 2);                                     // known in the first segment
  g.p.assign(total, total + reduce_sum(gather(kept, at)));  // may fail in the second
  g.output(reduce_sum(s));
  segment_run runs(g);
  const array before = g.now("s");
  const auto first = runs();
  std::vector<double> left, twice;
  for (double v : g.data[0].values)
    if (v > 0) left.push_back(v);
  for (double v : before.values) twice.push_back(2 * v);
  BOOST_REQUIRE(left.size() > 3u);
  double sum = 0;
  for (double v : before.values) sum += v;
  BOOST_TEST(first[0].values[0] == sum, boost::test_tools::tolerance(1e-6));  // the state at the start of the run
  BOOST_TEST(g.now("s").values == twice, boost::test_tools::per_element());
  BOOST_TEST(g.now("total").values[0] == left[0] + left[3] + left.back(), boost::test_tools::tolerance(1e-6));
  // Too few elements remain for position 3: nothing is assigned, and the runner stays usable.
  const array s_then = g.now("s"), total_then = g.now("total");
  array few = g.data[0];
  for (auto& v : few.values) v = -1;
  few.values[4] = 1;
  BOOST_CHECK_THROW(runs({few, g.data[1]}), value_error);
  BOOST_TEST(same_bits(g.now("s"), s_then));
  BOOST_TEST(same_bits(g.now("total"), total_then));
  runs({g.data[0], g.data[1]});
  BOOST_TEST(g.now("s").values[0] == 4 * before.values[0]);
}

BOOST_AUTO_TEST_CASE(training_through_what_is_left) {
  // The sum of squares of the two largest, of the distinct and of the masked elements, by w.
  const auto loss_of = [](const value& x, const value& w, const value& k) {
    const value y = x * w;
    auto best = top_k(y, k);
    auto different = unique(round(x));
    return reduce_sum(square(best.values)) + reduce_sum(square(masked_select(y, x > 0))) +
           reduce_sum(gather(y, different.indices)) + reduce_sum(square(truncate(y, k)));
  };
  const array x = random_array(dtype::float64, {12}, 3, -4, 4), w = random_array(dtype::float64, {12}, 4, 1, 2),
              k = array_of(dtype::int64, {}, {2});
  const auto at = [&](const array& weights) {
    small_graph g;
    const value in = g.input(x), p = g.input(weights), n = g.input(k), loss = loss_of(in, p, n);
    g.output(loss);
    for (const value& d : gradients(loss, {&p, 1})) g.output(d);
    return segment_run(g)();
  };
  const auto analytic = at(w);
  for (std::size_t i = 0; i < w.values.size(); ++i) {
    array up = w, down = w;
    up.values[i] += 1e-6, down.values[i] -= 1e-6;
    BOOST_TEST(analytic[1].values[i] == (at(up)[0].values[0] - at(down)[0].values[0]) / 2e-6,
               boost::test_tools::tolerance(1e-5));
  }
  // A training step of it: the weights change accordingly.
  small_graph g;
  const value in = g.input(x), n = g.input(k), p = g.state("w", w), loss = loss_of(in, p, n);
  g.p.assign(p, p - gradients(loss, {&p, 1})[0] * 0.001);
  g.output(loss);
  segment_run runs(g);
  const double first = runs()[0].values[0];
  BOOST_TEST(first == analytic[0].values[0], boost::test_tools::tolerance(1e-12));
  for (std::size_t i = 0; i < w.values.size(); ++i)
    BOOST_TEST(g.now("w").values[i] == w.values[i] - 0.001 * analytic[1].values[i],
               boost::test_tools::tolerance(1e-12));
  double last = first;
  for (int i = 0; i < 50; ++i) last = runs()[0].values[0];
  BOOST_TEST(last < first);
}

BOOST_AUTO_TEST_CASE(the_bits_do_not_depend_on_threads_and_passes) {
  const array x = real({400, 64}, 1);
  const auto build = [](auto& v) {
    const value left = kept_rows(v[0]), h = tanh(matmul(left, permute(left, axes(1, 0))));
    return std::vector<value>{h, reduce_sum<0>(h), unique(round(h * 5)).values};
  };
  const auto one = counted_results({x}, build);
  for (int threads : {2, 4}) {
    const auto many = counted_results({x}, build, threads);
    for (std::size_t i = 0; i < one.size(); ++i) BOOST_TEST(same_bits(many[i], one[i]));
  }
  const auto plain = counted_results({x}, build, 1, false, no_passes);
  for (std::size_t i = 0; i < one.size(); ++i) BOOST_TEST(distance(plain[i], one[i]) < 1e-6);
  const auto open = counted_results({x}, build, 1, true);
  for (std::size_t i = 0; i < one.size(); ++i) BOOST_TEST(same_bits(open[i], one[i]));
}

BOOST_AUTO_TEST_CASE(plans_of_extents_that_were_met_come_from_the_cache) {
  small_graph g;
  const value x = g.input(real({40}, 1));
  const value left = masked_select(x, x > 0);
  g.output(reduce_sum(exp(left)));
  g.output(left);
  segment_run runs(g);
  auto& cache = runs.where->slot<plan_cache>();
  const auto with = [](std::int64_t positive) {
    array a = array_of(dtype::float32, {40}, {});
    for (std::int64_t i = 0; i < 40; ++i) a.values.push_back((i * 7) % 40 < positive ? 1.0 : -1.0);
    return a;
  };
  for (std::int64_t n : {3, 17, 0, 40}) BOOST_TEST((runs({with(n)})[1].shape() == shape{dim(n)}));
  BOOST_TEST(cache.statistics().builds == 5u);  // one for the first segment, one per data-dependent extent
  for (std::int64_t n : {40, 3, 17, 0, 3})
    BOOST_TEST(runs({with(n)})[0].values[0] == static_cast<double>(n) * std::exp(1.0),
               boost::test_tools::tolerance(1e-6));
  BOOST_TEST(cache.statistics().builds == 5u);
  BOOST_TEST(cache.statistics().hits == 0u);  // the runner caches its executors
  session other(read_program(g.p.to_json()), {&g.store, nullptr}, runs.where);
  std::vector<any_tensor> out(2);
  const any_tensor in = to_tensor(with(17));
  const shape extents[] = {in.shape()};
  const void* const data[] = {in.data()};
  other.run(extents, data,
            [&](std::size_t i, const tensor_type& t) -> void* { return (out[i] = any_tensor(t)).mutable_data(); });
  BOOST_TEST(cache.statistics().builds == 5u);
  BOOST_TEST(cache.statistics().hits == 2u);
}

BOOST_AUTO_TEST_CASE(four_hundred_extents_stay_under_the_cap) {
  small_graph g;
  const value x = g.input(real({400}, 1));
  g.output(reduce_sum(masked_select(x, x > 0) * 2 + 1));
  segment_run runs(g);
  constexpr std::size_t cap = std::size_t(1) << 17;
  runs.where->slot<plan_cache>().limit({.entries = 50, .bytes = cap});
  philox order(1, 2);
  for (std::uint64_t i = 0; i < 800; ++i) {
    const auto n = static_cast<std::int64_t>(order.uniform<double>(i) * 400);
    array a = array_of(dtype::float32, {400}, std::vector<double>(400, -1));
    std::fill_n(a.values.begin(), n, 1.0);
    BOOST_REQUIRE(runs({a})[0].values[0] == static_cast<double>(3 * n));
    BOOST_REQUIRE(runs.plans.bytes() < 2 * cap + 65536);
  }
  const auto s = runs.where->slot<plan_cache>().statistics();
  BOOST_TEST(s.bytes <= cap);
  BOOST_TEST(s.entries <= 50u);
  BOOST_TEST(s.evictions > 0u);
}

BOOST_AUTO_TEST_CASE(what_a_run_does_is_told_segment_by_segment) {
  small_graph g;
  const value x = g.input(real({40}, 1));
  g.output(exp(masked_select(x, x > 0)));
  const shape extents[] = {shape{40}};
  segment_run runs(g);
  const std::string report = runs.plans.explain(extents);
  BOOST_TEST_CONTEXT(report) {
    BOOST_TEST(report.starts_with("segment 1 of 2\nplan for "));
    BOOST_TEST(lines_of(report, "then counts: non_zero\n") == 1u);
    BOOST_TEST(lines_of(report, "\nsegment 2 of 2, for the maximum number of rows\nplan for ") == 1u);
    BOOST_TEST(lines_of(report, "float32[40]") > 0u);
  }
  BOOST_TEST(runs.plans.plans(extents).size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_one_plan_cannot_hold_is_refused) {
  small_graph g;
  const value x = g.input(real({40}, 1));
  g.p.path = "layer";
  g.output(masked_select(x, x > 0));
  const std::string why =
      ": the extent of its result is known only at run time; the program runs in segments, which one plan "
      "cannot hold";
  BOOST_TEST(message_of([&] { g.make(); }) == "layer: truncate" + why);
  BOOST_CHECK_THROW(g.make(), unsupported_error);
  segment_run runs(g);
  const shape extents[] = {shape{40}};
  BOOST_TEST(message_of([&] { runs.plans.at(extents); }) ==
             "layer: non_zero: the extent of its result is known only at run time; the program runs in "
             "segments, which one plan cannot hold");
  BOOST_TEST(runs.plans.in_segments());
  BOOST_TEST(message_of([&] { runs.plans.run({}, {}, {}); }) == "the program has 1 inputs; got 0");
  const array wrong = real({41}, 1);
  BOOST_CHECK_THROW(runs({wrong}), shape_error);
}

BOOST_AUTO_TEST_CASE(turns_and_branches_do_not_count) {
  small_graph g;
  const value x = g.input(real({6, 4}, 1)), t = g.input(predicate(true)), c = g.input(real({4}, 2));
  const auto counts =
      subprogram({c}, [](auto& v) { return std::vector<value>{reduce_sum(masked_select(v[0], v[0] > 0))}; });
  const auto plain = subprogram({c}, [](auto& v) { return std::vector<value>{reduce_sum(v[0])}; });
  const std::string why =
      ": its program has `non_zero`: its extent is known only at run time; "
      "count outside the program, or pass all rows and a mask";
  BOOST_TEST(message_of([&] { cond(t, plain, counts, {&c, 1}); }) == "cond" + why);
  BOOST_CHECK_THROW(cond(t, counts, plain, {&c, 1}), unsupported_error);
  const auto body =
      subprogram({c, c}, [](auto& v) { return std::vector<value>{v[0], reduce_sum(masked_select(v[1], v[1] > 0))}; });
  BOOST_TEST(message_of([&] { scan(body, {&c, 1}, {&x, 1}, {}); }) == "scan" + why);
  const auto again =
      subprogram({c}, [](auto& v) { return std::vector<value>{reduce_sum(masked_select(v[0], v[0] > 0)) > 0, v[0]}; });
  BOOST_TEST(message_of([&] { loop(3, t, again, {&c, 1}); }) == "loop" + why);
}

BOOST_AUTO_TEST_CASE(control_flow_beside_counts) {
  // A scan over the remaining rows, and a cond on their number.
  const array x = real({20, 3}, 8);
  small_graph g;
  const value in = g.input(x), zero = g.input(array_of(dtype::float32, {3}, {0, 0, 0}));
  const value left = kept_rows(in);
  const auto body = subprogram({zero, zero}, [](auto& v) { return std::vector<value>{v[0] + v[1], v[0] * 2}; });
  g.output(scan(body, {&zero, 1}, {&left, 1}, {})[0]);
  const value many = select(shape_of(left), 0, 0) > 3;
  const auto yes = subprogram({zero}, [](auto& v) { return std::vector<value>{v[0] + 1}; });
  const auto no = subprogram({zero}, [](auto& v) { return std::vector<value>{v[0] - 1}; });
  g.output(cond(many, yes, no, {&zero, 1})[0]);
  const auto y = segment_run(g)();
  const array kept = positive_rows(x);
  std::vector<double> sum(3);
  for (std::size_t i = 0; i < kept.values.size(); ++i) sum[i % 3] += kept.values[i];
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(y[0].values[i] == sum[i], boost::test_tools::tolerance(1e-5));
  BOOST_TEST(y[1].values[0] == (kept.shape().at(0) > 3 ? 1 : -1));
}

BOOST_AUTO_TEST_CASE(factories_of_programs_run_in_segments) {
  const array x = real({25, 6}, 3);
  small_graph g;
  g.output(matmul(kept_rows(g.input(x)), g.state("w", real({6, 2}, 1))));
  const auto expected = segment_run(g)()[0];
  for (bool lend : {false, true}) {
    program_factory factory(read_program(g.p.to_json()), g.store,
                            {.arenas = lend ? std::make_shared<arena_pool>(1 << 20) : nullptr});
    auto one = factory.create(), two = factory.create();
    const any_tensor in[] = {to_tensor(x)};
    for (auto* r : {&one, &two, &one}) BOOST_TEST(same_bits(from_tensor((*r)(in)[0]), expected));
    parameter_store other(g.store);
    other.find("w")->assign(to_tensor(real({6, 2}, 9)));
    factory.update(other);
    BOOST_TEST(!same_bits(from_tensor(one(in)[0]), expected));
    BOOST_TEST(same_bits(from_tensor(one(in)[0]), from_tensor(two(in)[0])));
  }
}

// ---- operations on the host -----------------------------------------------------------------------------------------

namespace {
// Adds 1 to a state after a loop on the host whose iterations double x, and returns the loop's results.
struct looping {
  explicit looping(small_graph& g, const array& x) {
    const value in = g.input(x), n = g.input(array_of(dtype::int64, {}, {3})), w = g.state("w", real({6, 6}, 1));
    auto body = std::make_shared<program>();
    (void)body->input("i", {dtype::int64, {}});
    const value go = body->input("go", {dtype::boolean, {}}), v = body->input("v", {dtype::float32, {dyn, 6}}),
                u = body->input("u", {dtype::float32, {6, 6}});
    const value next = matmul(v, u) * 0.5f;
    body->output("go", go), body->output("v", concat({next, next}, 0)), body->output("sum", reduce_sum(next));
    const auto made = host_loop({n, {}}, body, {kept_rows(in)}, {w});
    g.output(made[0]), g.output(made[1]);
    g.output(masked_select(made[0], made[0] > 0));
    const value count = g.state("count", array_of(dtype::float32, {}, {0}));
    g.p.assign(count, count + 1);
    g.output(count);
  }
};
}  // namespace

BOOST_AUTO_TEST_CASE(the_host_stands_between_segments) {
  const array x = real({25, 6}, 3);
  small_graph g;
  const looping made(g, x);
  segment_run runs(g);
  const auto y = runs();
  array expected = positive_rows(x);
  std::vector<double> sums;
  for (int t = 0; t < 3; ++t) {
    small_graph one;
    const value v = matmul(one.input(expected), one.input(from_tensor(g.store.find("w")->value()))) * 0.5f;
    one.output(concat({v, v}, 0)), one.output(reduce_sum(v));
    const auto next = one.run();
    expected = next[0];
    sums.push_back(next[1].values[0]);
  }
  BOOST_TEST(same_bits(y[0], expected));
  BOOST_TEST(y[1].values == sums, boost::test_tools::per_element());
  std::vector<double> positive;
  for (double v : expected.values)
    if (v > 0) positive.push_back(v);
  BOOST_TEST(y[2].values == positive, boost::test_tools::per_element());
  BOOST_TEST(y[3].values[0] == 0);
  BOOST_TEST(g.now("count").values[0] == 1);
  const shape extents[] = {x.shape(), {}};
  const auto words = runs.plans.explain(extents);
  BOOST_TEST(lines_of(words, "then runs on the host: host_loop\n") == 1u);
  BOOST_TEST(lines_of(words, "then counts: ") == 1u);
  BOOST_TEST(words.ends_with("this and later segments are planned after the host step\n"));
  BOOST_TEST(runs.plans.plans(extents).size() == 2u);
  // The same results for tensors, values and names; each run increments the count.
  const any_tensor in[] = {to_tensor(x), runs.in[1]};
  BOOST_TEST(same_bits(from_tensor(runs.plans.run(in)[0]), expected));
  const std::vector<any_value> values{in[0], in[1]};
  BOOST_TEST(same_bits(from_tensor(runs.plans.run(values)[0].as_tensor()), expected));
  BOOST_TEST(g.now("count").values[0] == 3);
  // Host operations have timing lines of their own.
  std::vector<any_tensor> out;
  std::vector<timed_plan> times;
  for (int i = 0; i < 2; ++i) runs.plans.run_timed(in, out, times);
  BOOST_TEST(same_bits(from_tensor(out[0]), expected));
  std::size_t on_host = 0;
  for (const auto& t : times) {
    if (t.plan) continue;
    ++on_host;
    BOOST_TEST(t.lines().size() == 1u);
    BOOST_TEST(t.lines()[0].what == "host_loop");
    BOOST_TEST(t.nanoseconds[0] > 0);
  }
  BOOST_TEST(on_host == 1u);
}

BOOST_AUTO_TEST_CASE(a_run_that_fails_on_the_host_assigns_nothing) {
  small_graph g;
  const value x = g.input(real({4}, 1)), at = g.input(array_of(dtype::int64, {}, {0}));
  const value count = g.state("count", array_of(dtype::float32, {}, {0}));
  g.p.path = "layer";
  g.output(sequence_at(sequence_of(std::vector<value>{x, x * 2}), at) + 1);
  g.p.assign(count, count + 1);
  segment_run runs(g);
  const auto y = runs({g.data[0], array_of(dtype::int64, {}, {-1})});
  BOOST_TEST(y[0].values[0] == g.data[0].values[0] * 2 + 1, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(g.now("count").values[0] == 1);
  BOOST_TEST(message_of([&] { runs({g.data[0], array_of(dtype::int64, {}, {2})}); }) ==
             "layer: sequence_at: position 2 is outside -2..1");
  BOOST_TEST(g.now("count").values[0] == 1);
}

BOOST_AUTO_TEST_CASE(states_that_operations_keep_are_those_before_the_run) {
  small_graph g;
  const value x = g.input(array_of(dtype::float32, {2}, {1, 1})),
              s = g.state("s", array_of(dtype::float32, {2}, {0, 5})),
              w = g.state("w", array_of(dtype::float32, {2}, {3, 4}));
  g.p.output("all", sequence_of(std::vector<value>{s, w, x}));
  g.p.assign(s, s + x);
  session runs(read_program(g.p.to_json()), {&g.store, nullptr});
  const std::vector<any_value> in{to_tensor(g.data[0])};
  const auto first = runs.run(in), second = runs.run(in);
  std::memset(g.store.find("w")->mutable_data(), 0, 8);
  BOOST_TEST(first[0].print() ==
             any_value::sequence({to_tensor(array_of(dtype::float32, {2}, {0, 5})),
                                  to_tensor(array_of(dtype::float32, {2}, {3, 4})), in[0].as_tensor()})
                 .print());
  BOOST_TEST(second[0].elements()[0].print() == to_tensor(array_of(dtype::float32, {2}, {1, 6})).print());
  BOOST_TEST(second[0].elements()[1].print() == to_tensor(array_of(dtype::float32, {2}, {3, 4})).print());
  const std::vector<named_value> named{{"x", in[0]}};
  const auto by_name = runs.run(named);
  BOOST_TEST(by_name[0].name == "all");
  BOOST_TEST(by_name[0].value.elements().size() == 3u);
  BOOST_TEST(message_of([&] {
               runs.run(std::vector<named_value>{{"z", in[0]}});
             }).starts_with("the program has no input `z`"));
  BOOST_TEST(message_of([&] { runs.run(std::vector<any_tensor>{in[0].as_tensor()}); }) ==
             "the program returns values that are not tensors; run it on values");
}

BOOST_AUTO_TEST_CASE(factories_of_programs_that_run_on_the_host) {
  const array x = real({25, 6}, 3);
  small_graph g;
  {
    const value in = g.input(x), n = g.input(array_of(dtype::int64, {}, {4})), w = g.state("w", real({6, 6}, 1));
    auto body = std::make_shared<program>();
    (void)body->input("i", {dtype::int64, {}});
    const value go = body->input("go", {dtype::boolean, {}}), v = body->input("v", {dtype::float32, {dyn, 6}}),
                all = body->input("all", {dtype::float32, {dyn, 6}, value_kind::sequence}),
                u = body->input("u", {dtype::float32, {6, 6}});
    const value next = kept_rows(matmul(v, u));
    body->output("go", go), body->output("v", next), body->output("all", sequence_insert(all, next));
    const auto made = host_loop({n, {}}, body, {matmul(in, w), sequence_empty(g.p, {dtype::float32, {dyn, 6}})}, {w});
    g.output(made[0]), g.output(concat_sequence(made[1])), g.p.output("all", made[1]);
  }
  const std::vector<any_value> in{to_tensor(x), to_tensor(array_of(dtype::int64, {}, {4}))};
  const auto expected = session(read_program(g.p.to_json()), {&g.store, nullptr}).run(in);
  for (const bool lend : {false, true}) {
    program_factory factory(read_program(g.p.to_json()), g.store,
                            {.optimize = lend, .arenas = lend ? std::make_shared<arena_pool>(1 << 20) : nullptr});
    std::vector<std::thread> all;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 6; ++t)
      all.emplace_back([&] {
        auto one = factory.create();
        for (int i = 0; i < 20; ++i) {
          const auto y = one(in);
          for (std::size_t r = 0; r < y.size(); ++r) wrong += y[r].print() != expected[r].print();
        }
      });
    for (auto& t : all) t.join();
    BOOST_TEST(wrong == 0);
    auto one = factory.create();
    parameter_store other(g.store);
    other.find("w")->assign(to_tensor(real({6, 6}, 9)));
    factory.update(other);
    BOOST_TEST(one(in)[1].print() != expected[1].print());
    BOOST_TEST(expected[2].elements().size() == 4u);
    BOOST_TEST(factory.origin()(in)[1].print() == one(in)[1].print());
  }
}

BOOST_AUTO_TEST_CASE(a_count_without_an_element_is_refused) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N"}}), n = p->input("n", {dtype::int64, {dyn}});
  p->output("y", truncate(x, n));
  session run(p);
  const std::vector<any_tensor> two{any_tensor({dtype::float32, {3}}), to_tensor(array_of(dtype::int64, {1}, {2}))};
  BOOST_TEST(run.run(two)[0].shape().at(0) == 2);
  const std::vector<any_tensor> none{any_tensor({dtype::float32, {3}}), any_tensor({dtype::int64, {0}})};
  BOOST_CHECK_THROW(run.run(none), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
