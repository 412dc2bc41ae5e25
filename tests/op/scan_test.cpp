// `scan`: the same numbers as the unrolled iterations, for every length, direction, and kind of operands.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;

// h' = tanh(x W + h U + b), y = h' + sum(x): carries h, sequences x, invariants W U b.
values body(const value& h, const value& x, const value& w, const value& u, const value& b) {
  value next = tanh(matmul(x, w) + matmul(h, u) + b);
  return {next, next * next + reduce_sum(x)};
}
std::shared_ptr<const program> turn_program(const values& v) {
  auto p = std::make_shared<program>();
  shape x = v[1].shape();
  for (int i = 1; i < x.rank; ++i) x[i - 1] = x[i];
  --x.rank;
  values in{p->input("h", v[0].type()), p->input("x", {v[1].type().element, x}), p->input("w", v[2].type()),
            p->input("u", v[3].type()), p->input("b", v[4].type())};
  for (const auto& y : body(in[0], in[1], in[2], in[3], in[4])) p->output("y", y);
  return p;
}
values scanned(const values& v, bool reverse = false) {
  return scan(turn_program(v), {v.data(), 1}, {&v[1], 1}, {&v[2], 3}, reverse);
}
values written_out(const values& v, bool reverse = false) {
  auto iterations = v[1].shape().at(0);
  values rows(static_cast<std::size_t>(iterations));
  value h = v[0];
  for (std::int64_t k = 0; k < iterations; ++k) {
    auto t = reverse ? iterations - 1 - k : k;
    value x = slice(v[1], {.start = t, .stop = t + 1, .axis = 0});
    shape s = v[1].shape();
    for (int i = 1; i < s.rank; ++i) s[i - 1] = s[i];
    --s.rank;
    auto r = body(h, reshape(x, s), v[2], v[3], v[4]);
    h = r[0];
    shape one = r[1].shape();
    shape row{1};
    for (int i = 0; i < one.rank; ++i) row.push_back(one[i]);
    rows[static_cast<std::size_t>(t)] = reshape(r[1], row);
  }
  return {h, apply_all<op::concat>({0}, rows)};
}
std::vector<array> operands(std::int64_t iterations, std::int64_t rows, std::int64_t in, std::int64_t out,
                            dtype t = dtype::float32) {
  return {random_array(t, {dim(rows), dim(out)}, 1), random_array(t, {dim(iterations), dim(rows), dim(in)}, 2),
          random_array(t, {dim(in), dim(out)}, 3, -0.5, 0.5), random_array(t, {dim(out), dim(out)}, 4, -0.5, 0.5),
          random_array(t, {dim(out)}, 5)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scans)

BOOST_AUTO_TEST_CASE(a_scan_is_its_turns_written_out) {
  for (auto t : {dtype::float32, dtype::float64})
    for (bool reverse : {false, true})
      for (auto [iterations, rows, in, out] :
           {std::array<std::int64_t, 4>{1, 1, 1, 1}, {5, 2, 3, 4}, {7, 1, 8, 16}, {3, 17, 33, 20}, {2, 4, 1, 3}}) {
        auto a = operands(iterations, rows, in, out, t);
        auto loop = results_of(a, [&](const values& v) { return scanned(v, reverse); });
        auto plain = results_of(a, [&](const values& v) { return written_out(v, reverse); });
        for (std::size_t i = 0; i < 2; ++i)
          BOOST_CHECK_MESSAGE(distance(loop[i], plain[i]) < 1e-6,
                              iterations << " " << rows << " " << in << " " << out << " result " << i);
        auto bare = results_of(a, [&](const values& v) { return scanned(v, reverse); }, no_passes);
        for (std::size_t i = 0; i < 2; ++i) BOOST_CHECK(distance(loop[i], bare[i]) < 1e-6);
      }
}

BOOST_AUTO_TEST_CASE(no_turn_gives_the_first_carries) {
  auto a = operands(0, 2, 3, 4);
  auto r = results_of(a, [](const values& v) { return scanned(v); });
  BOOST_CHECK(same_bits(r[0], a[0]));
  BOOST_TEST(r[1].shape().string() == "[0x2x4]");
}

BOOST_AUTO_TEST_CASE(a_scan_of_one_turn_is_the_turn) {
  auto a = operands(1, 2, 3, 4);
  small_graph g;
  values v;
  for (const auto& x : a) v.push_back(g.input(x));
  for (const auto& y : scanned(v)) g.output(y);
  auto r = g.run();
  BOOST_TEST(g.plan->loops().empty());
  BOOST_TEST(r[1].shape().string() == "[1x2x4]");
  auto plain = results_of(a, [](const values& x) { return written_out(x); });
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(distance(r[i], plain[i]) < 1e-6);
}

BOOST_AUTO_TEST_CASE(weights_that_are_parameters_are_packed_once) {
  auto a = operands(6, 20, 33, 20);
  small_graph g;
  values v{g.input(a[0]), g.input(a[1]), g.state("w", a[2]), g.state("u", a[3]), g.state("b", a[4])};
  for (const auto& y : scanned(v)) g.output(y);
  auto r = g.run();
  auto plain = results_of(a, [&](const values& x) { return written_out(x); });
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(distance(r[i], plain[i]) < 1e-6);
  BOOST_TEST(g.plan->packs().size() == 2u);
  BOOST_TEST(g.plan->loops().size() == 1u);
}

BOOST_AUTO_TEST_CASE(carries_may_change_places_and_stay) {
  // (a, b, c) -> (b, a + x, c), gives a and c
  auto p = std::make_shared<program>();
  const tensor_type t{dtype::float32, {2}};
  value a = p->input("a", t), b = p->input("b", t), c = p->input("c", t), x = p->input("x", t);
  for (const value& y : {b, value(a + x), c, a, c}) p->output("y", y);
  std::vector<array> in{array_of(dtype::float32, {2}, {1, 2}), array_of(dtype::float32, {2}, {10, 20}),
                        array_of(dtype::float32, {2}, {5, 6}), array_of(dtype::float32, {3, 2}, {1, 1, 2, 2, 3, 3})};
  auto r = results_of(in, [&](const values& v) { return scan(p, {v.data(), 3}, {&v[3], 1}, {}); });
  BOOST_TEST(r[0].values == (std::vector<double>{12, 22}), boost::test_tools::per_element());
  BOOST_TEST(r[1].values == (std::vector<double>{5, 6}), boost::test_tools::per_element());
  BOOST_TEST(r[2].values == (std::vector<double>{5, 6}), boost::test_tools::per_element());
  BOOST_TEST(r[3].values == (std::vector<double>{1, 2, 10, 20, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(r[4].values == (std::vector<double>{5, 6, 5, 6, 5, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_scan_in_a_scan) {
  // Running sums of rows, and over the rows the sum of all: y[i][j] = sum of x[k][l] for k <= i, l <= j.
  auto inner = std::make_shared<program>();
  value s = inner->input("s", {dtype::float32, {}}), e = inner->input("e", {dtype::float32, {}}),
        above = inner->input("above", {dtype::float32, {}});
  inner->output("s", s + e);
  inner->output("y", s + e + above);
  auto outer = std::make_shared<program>();
  value before = outer->input("before", {dtype::float32, {4}}), row = outer->input("row", {dtype::float32, {4}});
  value zero = outer->number(0.0, dtype::float32);
  value sequences[] = {row, before};
  auto with_above = std::make_shared<program>();
  value s2 = with_above->input("s", {dtype::float32, {}}), e2 = with_above->input("e", {dtype::float32, {}}),
        a2 = with_above->input("above", {dtype::float32, {}});
  with_above->output("s", s2 + e2);
  with_above->output("y", s2 + e2 + a2);
  auto r = scan(with_above, {&zero, 1}, sequences, {});
  outer->output("next", r[1]);
  outer->output("y", r[1]);
  auto x = random_array(dtype::float32, {3, 4}, 1);
  auto start = array_of(dtype::float32, {4}, {0, 0, 0, 0});
  auto y = results_of({start, x}, [&](const values& v) { return scan(outer, {v.data(), 1}, {&v[1], 1}, {}); })[1];
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      double wanted = 0;
      for (std::size_t k = 0; k <= i; ++k)
        for (std::size_t l = 0; l <= j; ++l) wanted += x.values[k * 4 + l];
      BOOST_CHECK_SMALL(y.values[i * 4 + j] - wanted, 1e-5);
    }
}

BOOST_AUTO_TEST_CASE(equal_scans_are_one_and_results_that_nobody_reads_are_dropped) {
  auto a = operands(5, 2, 3, 4);
  small_graph g;
  values v;
  for (const auto& x : a) v.push_back(g.input(x));
  auto first = scanned(v), second = scanned(v);
  BOOST_TEST(first[0].same(second[0]));
  g.output(first[0]);
  auto plan = g.make();
  BOOST_TEST(plan->loops().size() == 1u);
  BOOST_TEST(plan->explain().find("reduce_sum") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(threads_change_no_bit) {
  auto a = operands(9, 64, 96, 80);
  small_graph g;
  values v;
  for (const auto& x : a) v.push_back(g.input(x));
  for (const auto& y : scanned(v)) g.output(y);
  auto one = g.run({}, 1), two = g.run({}, 2);
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(same_bits(one[i], two[i]));
}

// Random bodies whose operations are cut into parts: the memory that they share inside an iteration is right for threads,
// too.
BOOST_AUTO_TEST_CASE(threads_share_random_iterations) {
  const tensor_type whole{dtype::float32, {96, 80}};
  std::ptrdiff_t shared = 0;
  for (int seed = 0; seed < random_cases(30); ++seed) {
    draws draw{philox(seed, 5)};
    const auto p = std::make_shared<program>();
    values all{p->input("a", whole), p->input("b", whole), p->input("x", whole)};
    const value w = p->input("w", {dtype::float32, {80, 80}});
    for (std::size_t i = 0, steps = 4 + draw.below(12); i < steps; ++i) {
      const value v = all[draw.below(all.size())], u = all[all.size() - 1 - draw.below(3)];
      switch (draw.below(7)) {
        case 0: all.push_back(matmul(v, w) + u); break;
        case 1: all.push_back(tanh(v * u)); break;
        case 2: all.push_back(softmax(v) - u); break;
        case 3: all.push_back(u * reduce_sum(v, {.axes = axes(0), .keepdim = true})); break;
        case 4: all.push_back(concat<1>(slice(v, {.start = 30, .axis = 1}), slice(u, {.stop = 30, .axis = 1}))); break;
        case 5: all.push_back(sin(v) + reduce_max(u, {.axes = axes(1), .keepdim = true})); break;
        default: all.push_back(reshape(transpose(v), shape{96, 80}) + u);
      }
    }
    for (int i = 0; i < 2; ++i) p->output("next", tanh(all[all.size() - 1 - draw.below(4)]));
    for (int i = 0; i < 2; ++i) p->output("y", all[all.size() - 1 - draw.below(3)]);
    small_graph g;
    values v;
    for (int i = 0; i < 2; ++i) v.push_back(g.input(random_array(dtype::float32, {96, 80}, 10 * seed + i)));
    v.push_back(g.input(random_array(dtype::float32, {5, 96, 80}, 10 * seed + 2)));
    v.push_back(g.input(random_array(dtype::float32, {80, 80}, 10 * seed + 3, -0.2, 0.2)));
    for (const auto& y : scan(p, {v.data(), 2}, {&v[2], 1}, {&v[3], 1}, seed % 2 != 0)) g.output(y);
    const auto one = g.run({}, 1);
    for (const int threads : {2, 3}) {
      const auto several = g.run({}, threads);
      for (std::size_t i = 0; i < one.size(); ++i)
        BOOST_TEST(same_bits(one[i], several[i]), "seed " << seed << ", " << threads << " threads, result " << i);
    }
    const auto& stages = g.plan->stages();
    shared += std::count_if(stages.begin(), stages.end(), [](const auto& s) { return s.loop >= 0; });
  }
  BOOST_TEST(shared > random_cases(30) / 2);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said) {
  auto a = operands(5, 2, 3, 4);
  small_graph g;
  values v;
  for (const auto& x : a) v.push_back(g.input(x));
  auto body = turn_program(v);
  BOOST_TEST(message_of([&] { scan(body, {v.data(), 1}, {}, {&v[2], 3}); }) == "scan: expected at least one sequence");
  BOOST_TEST(message_of([&] { scan(body, {v.data(), 1}, {&v[1], 1}, {&v[2], 2}); }) ==
             "scan: the subprogram takes 5 operands; got 4");
  value other = g.input(random_array(dtype::float32, {4, 2, 3}, 9));
  auto p = std::make_shared<program>();
  value x = p->input("x", {dtype::float32, {2, 3}}), y = p->input("y", {dtype::float32, {2, 3}});
  p->output("sum", x + y);
  value both[] = {v[1], other};
  BOOST_TEST(message_of([&] { scan(p, {}, both, {}); }) == "scan: the sequences differ in length: 5 and 4");
  auto grows = std::make_shared<program>();
  value h = grows->input("h", {dtype::float32, {dyn, 4}}), s = grows->input("x", {dtype::float32, {2, 3}});
  grows->output("h", apply_all<op::concat>({1}, values{h, h}));
  grows->output("s", s);
  BOOST_TEST(message_of([&] { scan(grows, {v.data(), 1}, {&v[1], 1}, {}); }) ==
             "scan: carry 0 is float32[2x4]; an iteration gives float32[?x8] for it");
  value number = g.input(array_of(dtype::float32, {}, {1}));
  BOOST_TEST(message_of([&] { scan(p, {}, std::vector<value>{number, number}, {}); }) ==
             "scan: sequence 0 is a scalar; expected a first axis to iterate over");
}

BOOST_AUTO_TEST_CASE(a_failing_turn_leaves_the_plan_usable) {
  // A label outside the classes in one of the iterations.
  auto p = std::make_shared<program>();
  value x = p->input("x", {dtype::float32, {2, 3}}), t = p->input("t", {dtype::int64, {2}});
  p->output("loss", cross_entropy(x, t));
  auto logits = random_array(dtype::float32, {3, 2, 3}, 1);
  auto good = array_of(dtype::int64, {3, 2}, {0, 1, 2, 0, 1, 2}),
       bad = array_of(dtype::int64, {3, 2}, {0, 1, 2, 7, 1, 2});
  auto run = [&](const array& labels) {
    return results_of({logits, labels}, [&](const values& v) { return scan(p, {}, {v.data(), 2}, {}); });
  };
  auto r = run(good);
  BOOST_TEST(r[0].shape().string() == "[3]");
  BOOST_TEST(message_of([&] { run(bad); }) ==
             "cross_entropy: a label is outside 0..2 (3 classes): 7 of sample 1 (1 in total)");
  // Several counters of one iteration, each with its first element.
  auto q = std::make_shared<program>();
  value y = q->input("x", {dtype::float32, {2, 3}}), at = q->input("t", {dtype::int64, {2}});
  q->output("a", gather(y, at, 1));
  q->output("b", nll(y, at));
  q->output("c", gather(y, at, 0));
  const auto message =
      message_of([&] { results_of({logits, bad}, [&](const values& v) { return scan(q, {}, {v.data(), 2}, {}); }); });
  for (const char* part : {"gather: a position is outside -3..2: 7 at [1] (2 in total)",
                           "nll: a label is outside 0..2 (3 classes): 7 of sample 1 (1 in total)",
                           "gather: a position is outside -2..1: 2 at [0] ("})
    BOOST_TEST(message.find(part) != std::string::npos, message);
}

// Sessions with several threads run loops at once that do not depend on each other; when they are timed, one by one.
BOOST_AUTO_TEST_CASE(loops_at_once_give_the_same_bits_and_have_their_own_times) {
  auto p = std::make_shared<program>();
  values v;
  std::vector<any_tensor> in;
  for (const auto& x : operands(50, 3, 8, 16)) {
    v.push_back(p->input("x" + std::to_string(v.size()), x.type));
    in.push_back(to_tensor(x));
  }
  for (const bool reverse : {false, true})
    for (const auto& y : scanned(v, reverse)) p->output("y" + std::to_string(p->outputs().size()), y);
  std::vector<shape> extents;
  for (const auto& x : in) extents.push_back(x.shape());
  session one(p), two(p, {}, std::make_shared<context>(2, target_isa()));
  const auto expected = one.run(in), actual = two.run(in);
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(same_bits(from_tensor(actual[i]), from_tensor(expected[i])));
  BOOST_TEST(two.plans(extents)[0]->stages().size() < one.plans(extents)[0]->stages().size());
  std::vector<any_tensor> out;
  std::vector<timed_plan> times;
  two.run_timed(in, out, times);
  std::size_t loops = 0;
  for (std::size_t i = 0; i < times[0].lines().size(); ++i) {
    if (times[0].lines()[i].what != "scan") continue;
    ++loops;
    BOOST_TEST(times[0].nanoseconds[i] > 0);
  }
  BOOST_TEST(loops == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
