// Programs: listings, ids, merging of equal nodes, inlining.
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

tensor_type f(const shape& s) { return {dtype::float32, s}; }

program_id id_of(const std::function<void(program&)>& build) {
  program p;
  build(p);
  return p.id();
}
void small(program& p) {
  value x = p.input("x", f({"N", 3})), w = p.state("w", f({3, 2}));
  value y = tanh(matmul(x, w)) * 2;
  p.output("y", y);
  p.assign(w, w - 0.5);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(programs)

BOOST_AUTO_TEST_CASE(dump) {
  program p;
  small(p);
  BOOST_TEST(p.dump() ==
             "%0 = input `x` : float32[Nx3]\n"
             "%1 = state `w` : float32[3x2]\n"
             "%2 = matmul(%0, %1) {transpose_a=false, transpose_b=false} : float32[Nx2]\n"
             "%3 = tanh(%2) : float32[Nx2]\n"
             "%4 = constant 2.0 : float32[]\n"
             "%5 = multiply(%3, %4) : float32[Nx2]\n"
             "%6 = constant 0.5 : float32[]\n"
             "%7 = subtract(%1, %6) : float32[3x2]\n"
             "output `y` %5\n"
             "assign %1 = %7\n");
}

BOOST_AUTO_TEST_CASE(dump_of_results_uniform_inputs_and_large_constants) {
  program p;
  value x = p.input("x", f({1, 1, 4, 4}), true);
  auto both = apply<op::max_pool2d>(pool2d_attributes{}, x);
  p.output("index", both[1]);
  p.output("table", p.constant(any_tensor(f({3, 3}))));
  auto text = p.dump();
  for (auto words : {"input `x` uniform : float32[1x1x4x4]", " : float32[1x1x2x2] int32[1x1x2x2]\n",
                     "output `index` %1.1\n", "constant ... : float32[3x3]"})
    BOOST_CHECK_MESSAGE(text.find(words) != std::string::npos, words << " in\n" << text);
}

BOOST_AUTO_TEST_CASE(a_listing_does_not_depend_on_the_order_of_building) {
  program p, q;
  value px = p.input("x", f({2})), qx = q.input("x", f({2}));
  value a = exp(px), b = sin(px);
  p.output("y", a + b);
  value d = sin(qx), unused = cos(qx), c = exp(qx);
  (void)unused;
  q.output("y", c + d);
  BOOST_TEST(p.dump() == q.dump());
  BOOST_TEST((p.id() == q.id()));
}

BOOST_AUTO_TEST_CASE(dot) {
  program p;
  value x = p.input("a \"b\"\\", f({2}));
  p.output("y", exp(x));
  BOOST_TEST(p.to_dot() ==
             "digraph program {\n  node [shape=box, fontname=\"monospace\"];\n"
             "  n0 [label=\"input a \\\"b\\\"\\\\\\nfloat32[2]\", style=filled, fillcolor=lightgray];\n"
             "  n1 [label=\"exp\\nfloat32[2]\"];\n"
             "  n0 -> n1;\n"
             "  \"output y\" [style=filled, fillcolor=lightgray];\n"
             "  n1 -> \"output y\";\n}\n");
}

// Each subprogram is one frame, with an arrow from every operation that runs it.
BOOST_AUTO_TEST_CASE(dot_of_programs_in_programs) {
  auto body = std::make_shared<program>(), up = std::make_shared<program>(), down = std::make_shared<program>();
  up->output("b", tanh(up->input("a", f({2}))));
  down->output("b", sqrt(down->input("a", f({2}))));
  const value carry = body->input("carry", f({2})), row = body->input("row", f({2}));
  body->output("carry", cond(value(reduce_sum(row) > 0), up, down, {&carry, 1})[0]);
  program p;
  const value a = p.input("a", f({2})), rows = p.input("rows", f({3, 2}));
  const value once = scan(body, {&a, 1}, {&rows, 1}, {})[0];
  p.output("twice", scan(body, {&once, 1}, {&rows, 1}, {})[0]);
  const auto words = p.to_dot();
  const auto count = [&](std::string_view part) {
    std::size_t n = 0;
    for (auto at = words.find(part); at != words.npos; at = words.find(part, at + 1)) ++n;
    return n;
  };
  BOOST_TEST(words.starts_with("digraph program {\n  compound=true;\n"), words);
  BOOST_TEST(count("  subgraph cluster_") == 3u, words);
  for (auto once_there :
       {"    label=\"scan: each iteration\";\n", "    label=\"cond: if true\";\n", "    label=\"cond: if false\";\n",
        "[label=\"tanh\\nfloat32[2]\"]", "[label=\"sqrt\\nfloat32[2]\"]", "lhead=cluster_2, label=\"if true\"]",
        "lhead=cluster_3, label=\"if false\"]"})
    BOOST_CHECK_MESSAGE(count(once_there) == 1, once_there << " in\n" << words);
  BOOST_TEST(count("lhead=cluster_1, label=\"each iteration\"]") == 2u, words);
  BOOST_TEST(count("{") == count("}"), words);
}

BOOST_AUTO_TEST_CASE(json) {
  program p;
  small(p);
  auto text = p.to_json();
  for (
      auto words :
      {R"({"kind": "input", "name": "x", "type": {"dtype": "float32", "shape": ["N", 3]}})",
       R"({"kind": "operation", "name": "matmul", "version": 1, "attributes": {"transpose_a": false, "transpose_b": false}, "inputs": [[0, 0], [1, 0]], "results": [{"dtype": "float32", "shape": ["N", 2]}]})",
       R"("outputs": [{"name": "y", "value": [5, 0]}])", R"("assignments": [{"state": 1, "value": [7, 0]}])"})
    BOOST_CHECK_MESSAGE(text.find(words) != std::string::npos, words << " in\n" << text);
  BOOST_TEST(std::count(text.begin(), text.end(), '{') == std::count(text.begin(), text.end(), '}'));
  BOOST_TEST(std::count(text.begin(), text.end(), '[') == std::count(text.begin(), text.end(), ']'));
  program q;
  q.output("y", q.input("tab\there \x01", f({})));
  for (char c : q.to_json()) BOOST_REQUIRE((c >= ' ' || c == '\n'));  // control characters are escaped
  BOOST_TEST(q.to_json().find(R"(tab\there \u0001)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(equal_programs_have_equal_ids) {
  BOOST_TEST((id_of(small) == id_of(small)));
  program_id base = id_of([](program& p) { p.output("y", exp(p.input("x", f({2})))); });
  const std::function<void(program&)> others[] = {
      [](program& p) { p.output("y", sin(p.input("x", f({2})))); },
      [](program& p) { p.output("y", exp(p.input("x", f({3})))); },
      [](program& p) { p.output("y", exp(p.input("x", f({dyn})))); },
      [](program& p) { p.output("y", exp(p.input("x", f({"N"})))); },
      [](program& p) { p.output("y", exp(p.input("x", {dtype::float64, {2}}))); },
      [](program& p) { p.output("y", exp(p.input("x", f({2}), true))); },
      [](program& p) { p.output("y", exp(p.state("x", f({2})))); },
      [](program& p) {
        value x = p.input("x", f({2}));
        p.output("y", exp(x));
        p.output("z", x);
      },
      [](program& p) { p.output("y", exp(exp(p.input("x", f({2}))))); },
      [](program& p) {
        p.input("w", f({2}));
        p.output("y", exp(p.input("x", f({2}))));
      }};
  std::vector<program_id> seen{base};
  for (const auto& build : others) {
    auto id = id_of(build);
    BOOST_TEST((std::find(seen.begin(), seen.end(), id) == seen.end()));
    seen.push_back(id);
  }
  BOOST_TEST((id_of([](program& p) { p.output("y", exp(p.input("another name", f({2})))); }) ==
              base));  // names of inputs are not part of the structure
}

BOOST_AUTO_TEST_CASE(every_attribute_is_in_the_id) {
  auto with = [](auto build) {
    return id_of(
        [&](program& p) { p.output("y", build(p.input("x", f({1, 2, 8, 8})), p.input("w", f({2, 2, 3, 3})))); });
  };
  std::vector<program_id> seen;
  const conv2d_attributes convolutions[] = {{},
                                            {.stride = 2},
                                            {.stride = {2, 1}},
                                            {.stride = {1, 2}},
                                            {.padding = 1},
                                            {.padding = {1, 0}},
                                            {.dilation = 2},
                                            {.dilation = {1, 2}}};
  for (const auto& a : convolutions)
    seen.push_back(with([&](const value& x, const value& w) { return value(conv2d(x, w, a)); }));
  const pool2d_attributes pools[] = {{}, {.kernel_size = 3}, {.stride = 1}, {.padding = 1}, {.count_padding = false}};
  for (const auto& a : pools)
    seen.push_back(with([&](const value& x, const value&) { return value(avg_pool2d(x, a)); }));
  for (int axis : {0, 1, 2}) {
    for (bool keep : {false, true})
      seen.push_back(with(
          [&](const value& x, const value&) { return value(reduce_sum(x, {.axes = axes(axis), .keepdim = keep})); }));
    seen.push_back(with([&](const value& x, const value&) { return value(softmax(x, {.axis = axis})); }));
    seen.push_back(with([&](const value& x, const value&) { return value(slice(x, {.start = 1, .axis = axis})); }));
  }
  for (double p : {0.0, -1.0, 1e-30}) seen.push_back(with([&](const value& x, const value&) { return value(x + p); }));
  seen.push_back(with([](const value& x, const value&) { return value(slice(x, {.start = 1, .step = 2})); }));
  seen.push_back(with([](const value& x, const value&) { return value(slice(x, {.start = 1, .stop = 5})); }));
  seen.push_back(with([](const value& x, const value&) { return value(reshape(x, {dyn, 8})); }));
  seen.push_back(with([](const value& x, const value&) { return value(reshape(x, {8, dyn})); }));
  seen.push_back(with([](const value& x, const value&) { return value(cast<double>(x)); }));
  seen.push_back(with([](const value& x, const value&) { return value(cast<std::int8_t>(x)); }));
  seen.push_back(with([](const value& x, const value& w) { return value(reduce_sum(x) - reduce_sum(w)); }));
  seen.push_back(with([](const value& x, const value& w) { return value(reduce_sum(w) - reduce_sum(x)); }));
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) BOOST_CHECK_MESSAGE(!(seen[i] == seen[k]), i << " and " << k);
}

BOOST_AUTO_TEST_CASE(subprograms_are_in_the_id) {
  auto calling = [](bool twice) {
    return id_of([&](program& p) {
      auto sub = std::make_shared<program>();
      value a = sub->input("a", f({2}));
      sub->output("y", twice ? value(exp(exp(a))) : value(exp(a)));
      value x = p.input("x", f({2}));
      p.output("y", call(sub, {&x, 1})[0]);
    });
  };
  BOOST_TEST((calling(false) == calling(false)));
  BOOST_TEST(!(calling(false) == calling(true)));
}

BOOST_AUTO_TEST_CASE(one_state_for_one_name) {
  program p;
  BOOST_TEST((p.state("w", f({2})).same(p.state("w", f({2})))));
  BOOST_TEST(p.states().size() == 1u);
  BOOST_TEST(p.find_state("w") == p.states()[0]);
  BOOST_TEST(p.find_state("v") == -1);
  BOOST_TEST(p.find_input("w") == -1);
}

BOOST_AUTO_TEST_CASE(numbers_are_equal_constants) {
  program p;
  BOOST_TEST((p.number(2.0, dtype::float32).same(p.number(std::int64_t(2), dtype::float32))));
  BOOST_TEST(!(p.number(2.0, dtype::float32).same(p.number(2.0, dtype::float64))));
  BOOST_TEST(!(p.number(0.0, dtype::float32).same(p.number(-0.0, dtype::float32))));
}

BOOST_AUTO_TEST_CASE(inlined_copies_what_is_reached) {
  program sub, p;
  value a = sub.input("a", f({2, 3}));
  sub.output("sum", value(reduce_sum<axes(0)>(a)));
  (void)value(exp(a));
  auto both = apply<op::max_pool2d>(pool2d_attributes{}, reshape(a, {1, 1, 2, 3}));
  sub.output("index", both[1]);
  value x = p.input("x", f({2, 3}));
  auto r = p.inlined(sub, {&x, 1});
  BOOST_TEST((r[0].shape() == shape{3}));
  BOOST_TEST((r[1].type() == tensor_type{dtype::int32, {1, 1, 1, 1}}));
  BOOST_TEST(r[1].id().result == 1);
  for (const auto& n : p.nodes())
    if (n.kind == node_kind::operation) BOOST_TEST(n.op->name != "exp");
  BOOST_TEST(message_of([&] { p.inlined(sub, {}); }) == "call: fewer operands than the subprogram has inputs");
}

BOOST_AUTO_TEST_CASE(sizes_that_overflow_are_refused) {
  program p;
  const std::int64_t max = std::int64_t(1) << 40;
  auto x = p.input("x", {dtype::float32, {2, 2}});
  BOOST_TEST(message_of([&] { tile(x, {max, max}); }) ==
             "tile: [2199023255552x2199023255552] has more elements than memory can hold");
  p.path = "encoder";
  BOOST_TEST(message_of([&] { tile(x, {max, max}); }) ==
             "encoder: tile: [2199023255552x2199023255552] has more elements than memory can hold");
  BOOST_TEST(message_of([&] { p.input("y", {dtype::float32, {max, "N", max}}); }) ==
             "`y`: [1099511627776xNx1099511627776] has more elements than memory can hold");
  BOOST_TEST(value(tile(x, {max, 0})).shape().size() == 0);
  // once the dimensions are bound
  program q;
  auto n = q.input("n", {dtype::float32, {"N", 1}});
  q.output("sum", reduce_sum(value(tile(n, {1, max}) + 1.f)));
  const shape extents[] = {shape{max, 1}};
  BOOST_TEST(message_of([&] { make_plan(q, extents, target_isa()); }) ==
             "tile: [1099511627776x1099511627776] has more elements than memory can hold");
}

BOOST_AUTO_TEST_CASE(deep_programs_need_no_stack) {
  small_graph g;
  value x = g.input(array_of(dtype::float32, {4}, {1, 2, 3, 4})), y = x;
  const int depth = random_cases(20000);
  for (int i = 0; i < depth; ++i) y = y * 0.5 + x;
  g.output(y);
  auto id = g.p.id();
  BOOST_TEST(id.words[0] != id.words[1]);
  BOOST_TEST(g.p.dump().size() > static_cast<std::size_t>(depth));
  BOOST_TEST(g.run()[0].values[0] == 2, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(gradients(reduce_sum(y), {&x, 1}).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
