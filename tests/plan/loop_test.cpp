// Operations that move before loops: those on loop invariants, and products of sequences, with the same bits.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array real(const shape& s, int seed) { return random_array(dtype::float32, s, seed); }

using values = std::vector<value>;

// A scan with one carry [rows, size] and one sequence [iterations, rows, size]; `step` makes the next carry from the
// carry, the slice and the invariants, and what each iteration gives.
using step = std::function<values(const value& h, const value& x, const values& invariants)>;
values loop_of(const value& start, const value& sequence, const values& invariants, const step& each) {
  auto body = std::make_shared<program>();
  const value h = body->input("h", start.type()), x = body->input("x", start.type());
  values inside;
  for (const auto& v : invariants) inside.push_back(body->input("invariant", v.type()));
  for (const auto& v : each(h, x, inside)) body->output("result", v);
  return scan(body, {&start, 1}, {&sequence, 1}, invariants);
}

// Runs such a loop with and without the move, checks that the results agree to the bit, and returns the plan.
std::shared_ptr<const plan> planned(const std::vector<array>& invariants, const step& each,
                                    std::int64_t iterations = 5) {
  const auto run = [&](const pass_options& options) {
    small_graph g;
    const value start = g.input(real({2, 4}, 1)), sequence = g.input(real({iterations, 2, 4}, 2));
    values given;
    for (const auto& a : invariants) given.push_back(g.input(a));
    for (const auto& v : loop_of(start, sequence, given, each)) g.output(v);
    auto results = g.run(options);
    return std::pair{results, g.plan};
  };
  const auto [with, moved] = run({});
  const auto [without, kept] = run({.simplify = false});
  BOOST_TEST(kept->counters().moved_before_loops == 0);
  BOOST_TEST_REQUIRE(with.size() == without.size());
  for (std::size_t i = 0; i < with.size(); ++i) BOOST_TEST(same_bits(with[i], without[i]));
  return moved;
}
// Lines of a plan, of each iteration or not, that name an operation.
int lines_with(const plan& p, std::string_view word, bool of_iterations) {
  int n = 0;
  for (const auto& l : p.lines())
    n += l.what.find(word) != l.what.npos && (l.what.find("iterations:") != l.what.npos) == of_iterations;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loop_invariants)

BOOST_AUTO_TEST_CASE(parts_of_weights_are_taken_once) {
  const auto p = planned({real({8, 4}, 3)}, [](const value& h, const value& x, const values& w) {
    const value first = slice(w[0], {.start = 0, .stop = 4, .axis = 0}), second = slice(w[0], {.start = 4, .axis = 0});
    const value next = tanh(x + matmul(h, first, {.transpose_b = true}));
    return values{next, matmul(next, second, {.transpose_b = true})};
  });
  BOOST_TEST(p->counters().moved_before_loops == 2);
  BOOST_TEST(lines_with(*p, "slice", true) == 0);
  BOOST_TEST(p->explain().find("2 moved before loops") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(whole_expressions_move) {
  const auto p =
      planned({real({4}, 3), real({4}, 4), real({4, 4}, 5)}, [](const value& h, const value& x, const values& w) {
        return values{x * exp(w[0] + w[1]) + h, matmul(x, matmul(w[2], w[2]))};
      });
  BOOST_TEST(p->counters().moved_before_loops == 3);
  BOOST_TEST(lines_with(*p, "exp", true) == 0);
  BOOST_TEST(lines_with(*p, "exp", false) == 1);
}

// A sum over a column and a row costs less than to read its result in each iteration.
// One product computes those of all iterations, and what follows joins it.
BOOST_AUTO_TEST_CASE(products_of_sequences_are_one) {
  const std::vector<array> weights{real({4, 6}, 3), real({6}, 4), real({6, 4}, 5)};
  const auto p = planned(weights, [](const value& h, const value& x, const values& w) {
    const value gate = relu(matmul(exp(x), w[0]) + w[1]);
    return values{tanh(matmul(gate, w[2]) + h), gate};
  });
  BOOST_TEST(p->counters().moved_before_loops == 5);
  BOOST_TEST(lines_with(*p, "exp", false) == 1);
  BOOST_TEST(lines_with(*p, "matmul", false) == 2);
  BOOST_TEST(lines_with(*p, "matmul", true) == 0);
  // With operands of lower rank, and nothing that only the product needs.
  const auto q = planned({real({1, 4}, 3), real({4, 4}, 4)}, [](const value& h, const value& x, const values& w) {
    const value row = reshape(x, {8}), turned = reshape(row * 2, {2, 4}) + w[0];
    return values{h + matmul(turned, w[1], {.transpose_b = true}), square(x)};
  });
  BOOST_TEST(q->counters().moved_before_loops == 3);
  BOOST_TEST(lines_with(*q, "matmul", true) == 0);
  // A product with a carry, with a slice of a sequence on the right, or turned, stays.
  const auto r = planned({real({4, 4}, 3)}, [](const value& h, const value& x, const values& w) {
    return values{h + matmul(x + h, w[0]), matmul(transpose(x), x), matmul(w[0], transpose(x))};
  });
  BOOST_TEST(r->counters().moved_before_loops == 0);
}
// What an iteration computes from its number alone.
BOOST_AUTO_TEST_CASE(rows_at_the_number_of_the_iteration) {
  small_graph g;
  const value start = g.input(real({2}, 1)), table = g.input(real({5, 2}, 2));
  const value numbers =
      arange(g.p.number(0.0, dtype::int64), g.p.number(5.0, dtype::int64), g.p.number(1.0, dtype::int64));
  auto body = std::make_shared<program>();
  const value h = body->input("h", start.type()), i = body->input("i", {dtype::int64, {}}),
              t = body->input("t", table.type());
  body->output("h", h * 0.5 + gather(t, i, 0));
  for (const auto& v : scan(body, {&start, 1}, {&numbers, 1}, {&table, 1})) g.output(v);
  const auto moved = g.run()[0];
  BOOST_TEST(g.plan->counters().moved_before_loops == 1);
  BOOST_TEST(g.plan->counters().of(rewrite::known_positions) == 1);
  BOOST_TEST(lines_with(*g.plan, "gather", true) == 0);
  BOOST_TEST(same_bits(moved, g.run({.simplify = false})[0]));
}
// A product that would take much memory for all iterations stays.
BOOST_AUTO_TEST_CASE(large_products_stay) {
  small_graph g;
  const value start = g.input(real({1}, 1)), sequence = g.input(real({3, 200, 4}, 2)), w = g.input(real({4, 100}, 3));
  auto body = std::make_shared<program>();
  const value h = body->input("h", start.type()), x = body->input("x", {dtype::float32, {200, 4}}),
              v = body->input("w", w.type());
  body->output("h", h + reduce_max(matmul(x, v)));
  for (const auto& r : scan(body, {&start, 1}, {&sequence, 1}, {&w, 1})) g.output(r);
  g.run();
  BOOST_TEST(g.plan->counters().moved_before_loops == 0);
}

BOOST_AUTO_TEST_CASE(what_only_spreads_elements_stays) {
  const step spread = [](const value& h, const value& x, const values& w) {
    return values{x * (w[0] + w[1]) + h, square(x)};
  };
  BOOST_TEST(planned({real({2, 1}, 3), real({4}, 4)}, spread)->counters().moved_before_loops == 0);
  // Their operands move all the same.
  const step after = [](const value& h, const value& x, const values& w) {
    return values{x * (exp(w[0]) + w[1]) + h, square(x)};
  };
  BOOST_TEST(planned({real({2, 1}, 3), real({4}, 4)}, after)->counters().moved_before_loops == 1);
  // What another operation that moves reads is there.
  const step both = [](const value& h, const value& x, const values& w) {
    const value sums = w[0] + w[1];
    return values{x * sums + h, x * reduce_sum(sums)};
  };
  BOOST_TEST(planned({real({2, 1}, 3), real({4}, 4)}, both)->counters().moved_before_loops == 2);
}

BOOST_AUTO_TEST_CASE(results_and_what_reads_them_stay) {
  const step given = [](const value& h, const value& x, const values& w) {
    const value sums = tanh(w[0]);
    return values{x + h, sums, x * exp(sums)};
  };
  BOOST_TEST(planned({real({2, 4}, 3)}, given)->counters().moved_before_loops == 0);
  const step unchanged = [](const value& h, const value& x, const values& w) {
    return values{x + h, w[0], x * exp(w[0])};
  };
  BOOST_TEST(planned({real({2, 4}, 3)}, unchanged)->counters().moved_before_loops == 1);
}

BOOST_AUTO_TEST_CASE(from_the_inner_of_two_loops) {
  const auto p = planned({real({4, 4}, 3), real({3, 2, 4}, 4)}, [](const value& h, const value& x, const values& w) {
    const auto inner = loop_of(h, w[1], {w[0], x}, [](const value& g, const value& y, const values& v) {
      return values{g + matmul(y, exp(v[0])), y * exp(v[1])};
    });
    return values{inner[0], inner[1]};
  });
  // exp(x) before the inner loop; exp(w), then the product of all positions, before each of the two
  BOOST_TEST(p->counters().moved_before_loops == 5);
  BOOST_TEST(lines_with(*p, "exp", false) == 1);
}

// An operation that can refuse its operands is not run by a loop without iterations.
BOOST_AUTO_TEST_CASE(what_may_fail_stays) {
  array places = array_of(dtype::int64, {2}, {0, 9});
  const step read = [](const value& h, const value& x, const values& w) {
    return values{x + gather(w[0], w[1], 0) + h, square(x)};
  };
  small_graph g;
  const value start = g.input(real({2, 4}, 1)), sequence = g.input(real({0, 2, 4}, 2));
  const values given{g.input(real({3, 4}, 3)), g.input(places)};
  for (const auto& v : loop_of(start, sequence, given, read)) g.output(v);
  BOOST_TEST(same_bits(g.run()[0], real({2, 4}, 1)));
}

// Parts of parameters become parameters of their own; the loop no longer takes the whole one.
BOOST_AUTO_TEST_CASE(parts_of_parameters_are_precomputed) {
  program p;
  const value start = p.input("start", {dtype::float32, {"rows", 4}}),
              sequence = p.input("x", {dtype::float32, {dyn, "rows", 4}}),
              weights = p.state("w", {dtype::float32, {8, 4}});
  const auto results = loop_of(start, sequence, {weights}, [](const value& h, const value& x, const values& w) {
    const value first = slice(w[0], {.start = 0, .stop = 4, .axis = 0}), second = slice(w[0], {.start = 4, .axis = 0});
    return values{tanh(x + matmul(h, first)), matmul(x, second)};
  });
  for (const auto& v : results) p.output("y", v);
  const auto made = precomputed(p);
  BOOST_TEST(made.names.size() == 2u);
  BOOST_TEST(made.values->outputs().size() == 2u);
  BOOST_TEST(made.rewritten->states().size() == 2u);
  BOOST_TEST(made.rewritten->find_state("w") < 0);
}

// A sequence that nothing reads may go; what comes after it keeps its role.
BOOST_AUTO_TEST_CASE(sequences_that_nothing_reads) {
  for (const std::size_t unread : {0u, 1u}) {
    const auto scanned = [&](const value& start, const value& weights, const value& first, const value& second) {
      auto body = std::make_shared<program>();
      const value h = body->input("h", start.type()), a = body->input("a", {dtype::float32, {first.shape()[1]}}),
                  b = body->input("b", {dtype::float32, {second.shape()[1]}}), w = body->input("w", weights.type());
      body->output("h", h + (unread == 0 ? b : a) * exp(w));
      const value sequences[] = {first, second};
      return scan(body, {&start, 1}, sequences, {&weights, 1});
    };
    const std::int64_t extent[] = {unread == 0 ? 7 : 4, unread == 0 ? 4 : 7};
    program p;
    const value start = p.input("start", {dtype::float32, {4}}), weights = p.state("w", {dtype::float32, {4}});
    const value first = p.input("a", {dtype::float32, {"n", extent[0]}}),
                second = p.input("b", {dtype::float32, {"n", extent[1]}});
    for (const auto& v : scanned(start, weights, first, second)) p.output("y", v);
    const auto made = precomputed(p);
    BOOST_TEST(made.names.size() == 1u);
    const shape dims[] = {{4}, {5, extent[0]}, {5, extent[1]}};
    BOOST_TEST((make_plan(*made.rewritten, dims, target_isa())->output_types()[0] == tensor_type{dtype::float32, {4}}));
    small_graph g;
    const value inputs[] = {g.input(real({4}, 1)), g.input(real({4}, 2)), g.input(real({5, extent[0]}, 3)),
                            g.input(real({5, extent[1]}, 4))};
    for (const auto& v : scanned(inputs[0], inputs[1], inputs[2], inputs[3])) g.output(v);
    const auto moved = g.run()[0];
    BOOST_TEST(g.plan->counters().moved_before_loops == 1);
    BOOST_TEST(same_bits(moved, g.run({.simplify = false})[0]));
  }
}

// Whether an operation on open extents is smaller than its operands is known only when they are.
BOOST_AUTO_TEST_CASE(open_extents_stay_until_they_are_known) {
  program p;
  const value start = p.input("start", {dtype::float32, {2, 4}}),
              sequence = p.input("x", {dtype::float32, {dyn, 2, 4}}),
              open = p.input("open", {dtype::float32, {"a", "b"}});
  const auto results = loop_of(start, sequence, {open}, [](const value& h, const value& x, const values& w) {
    return values{h + x * exp(reshape(w[0], {2, 4})), x * 2};
  });
  for (const auto& v : results) p.output("y", v);
  const auto made = precomputed(p);
  BOOST_TEST(made.rewritten->nodes().size() == p.nodes().size());
  const shape dims[] = {{2, 4}, {3, 2, 4}, {4, 2}};
  BOOST_TEST(make_plan(p, dims, target_isa())->counters().moved_before_loops == 2);
}

// A shape that follows from constants must be known where it is used: in the body.
BOOST_AUTO_TEST_CASE(what_decides_shapes_stays) {
  program p;
  const value start = p.input("start", {dtype::float32, {"rows", 4}}),
              sequence = p.input("x", {dtype::float32, {dyn, "rows", 4}}),
              weights = p.state("w", {dtype::float32, {4}});
  const auto results = loop_of(start, sequence, {weights}, [](const value& h, const value& x, const values& w) {
    program& body = h.owner();
    const auto number = [&](double v) { return body.number(v, dtype::int64); };
    const value four = number(2.0) + abs(number(-2.0)), count = arange(number(0.0), four, number(1.0));
    return values{h + exp(w[0]) * cast<float>(reshape(count, {4})), x * 2};
  });
  for (const auto& v : results) p.output("y", v);
  BOOST_TEST(counted_when_run_in(p) == "");
  const auto made = precomputed(p);
  BOOST_TEST(counted_when_run_in(*made.rewritten) == "");
  BOOST_TEST(made.names.size() == 1u);  // exp(w)
}

BOOST_AUTO_TEST_SUITE_END()
