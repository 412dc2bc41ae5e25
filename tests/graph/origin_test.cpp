// Errors of nets name the operation and the line of user code that added it.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <source_location>
#include <string>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

unsigned line = 0;
// Records the line of the call.
unsigned here(std::source_location at = std::source_location::current()) { return line = at.line(); }
// Whether a message begins with this file and the line recorded last, followed by these words.
bool begins(const std::string& message, const std::string& words) {
  const std::string file = std::source_location::current().file_name(),
                    expected = file + ":" + std::to_string(line) + ": " + words;
  const bool found = message.find(expected) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE(message << "\ninstead of " << expected);
  return found;
}

struct fixture {
  graph::net n{"n"};
  value a = n.external("a", {dtype::float32, {2, 3}}), b = n.external("b", {dtype::float32, {2, 3}}),
        row = n.external("row", {dtype::float32, {7}});
  value ids = n.external("ids", {dtype::int64, {2}});
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(origins, fixture)

BOOST_AUTO_TEST_CASE(of_functions) {
  BOOST_TEST(begins(message_of([&] { here(), matmul(a, b); }), "matmul: the inner sizes differ: [2x3] [2x3]"));
  BOOST_TEST(begins(message_of([&] { here(), reshape(a, shape{5}); }), "reshape: "));
  BOOST_TEST(begins(message_of([&] { here(), tanh(ids); }), "tanh: takes float32 or float64"));
  BOOST_TEST(
      begins(message_of([&] { here(), split(a, 2, 1); }), "split_evenly: axis 1 does not divide into 2 equal parts"));
}

BOOST_AUTO_TEST_CASE(of_operators) {
  BOOST_TEST(begins(message_of([&] { here(), a + row; }), "add: the shapes do not broadcast: [2x3] [7]"));
  BOOST_TEST(begins(message_of([&] { here(), void(2 * ids < row); }), "less: the element types differ"));
  BOOST_TEST(begins(message_of([&] { here(), ids + 0.5; }), ""));
  BOOST_TEST(begins(message_of([&] { here(), void(-(a > b)); }), "negate: takes "));
  BOOST_TEST(begins(message_of([&] { here(), void(!ids); }), "logical_not: takes "));
  BOOST_TEST(begins(message_of([&] { here(), void(a && (a > b)); }), "logical_and: "));
  BOOST_TEST(begins(message_of([&] { here(), void((a > b) || a); }), "logical_or: "));
}

// A composite function is located at its outermost call.
BOOST_AUTO_TEST_CASE(of_the_outermost_call) {
  BOOST_TEST(begins(message_of([&] { here(), rsqrt(ids); }), "sqrt: "));
  BOOST_TEST(begins(message_of([&] { here(), linear(a, b, row); }), "add: the shapes do not broadcast: [2x2] [7]"));
  BOOST_TEST(begins(message_of([&] { here(), squared_l2_distance(a, row); }),
                    "squared_l2_distance: results and targets must have the same shape"));
}

BOOST_AUTO_TEST_CASE(of_members) {
  BOOST_TEST(
      begins(message_of([&] { here(), n.external("a", {dtype::float32, {1}}); }), "net `n`: blob `a` already exists"));
  BOOST_TEST(begins(message_of([&] { here(), n.assign(a, row); }), "net `n`: blob `a` is "));
  BOOST_TEST(begins(message_of([&] { here(), n.fill<op::msra>("f", {3}); }),
                    "net `n`: blob `f`: msra: the fan of shape [3] is undefined"));
  BOOST_TEST(begins(message_of([&] { here(), learning_rate(n.iterations(), {.base = 1}); }),
                    "learning_rate: `policy` is missing"));
}

// Functions that take a net.
BOOST_AUTO_TEST_CASE(of_functions_on_nets) {
  n.output("y", a + b);
  graph::workspace ws;
  BOOST_TEST(
      begins(message_of([&] { here(), graph::snapshot(n, ws, {"a"}, {"nix"}); }), "net `n`: there is no blob `nix`"));
  BOOST_TEST(
      begins(message_of([&] { here(), graph::snapshot(n, ws, {"nix"}, {"y"}); }), "net `n`: there is no blob `nix`"));
  graph::model m("m");
  graph::model::scope scope(m);
  const value x = m.input("x", {dtype::float32, {2, 3}});
  BOOST_TEST(
      begins(message_of([&] { here(), m.layer("mine", {}, nn::linear{.in_features = 4, .out_features = 2}, x); }),
             "sublayer `mine` (linear): linear expects 4 input features"));
  BOOST_TEST(
      begins(message_of([&] { here(), m.layer("mine", {}, nn::conv2d{.in_channels = 4, .out_channels = 2}, x); }),
             "sublayer `mine` (conv2d): "));
}

// Calls within the library are not a location: without a line in the user's code there is none.
BOOST_AUTO_TEST_CASE(of_the_library) {
  const auto of_the_library = [](const std::string& words) {
    return words.find(".cppm:") != words.npos || words.find(".impl.cpp:") != words.npos ||
           words.find("modules/") != words.npos;
  };
  const graph::net copy = graph::net_of("copy", n.body());
  for (const auto& [blob, place] : copy.to_run()->where) BOOST_TEST(!of_the_library(place), blob << " " << place);
  graph::workspace ws;
  ws.feed("x", vector<float>{1});
  graph::net broken("broken");
  broken.output("y", broken.external("x", {dtype::float32, {2}}) * 2);
  ws.create(broken);
  for (const auto& words : {message_of([&] { ws.run("broken"); }), message_of([&] { graph::net(""); }),
                            message_of([&] { ws.fetch("q"); }), message_of([&] { graph::load("/nowhere", ws); }),
                            message_of([&] { graph::save("/nowhere/at/all", broken, ws); })}) {
    BOOST_TEST(!words.empty());
    BOOST_TEST(!of_the_library(words), words);
  }
}

BOOST_AUTO_TEST_CASE(of_operations_in_a_listing) {
  here(), relu(a);
  const auto all = n.operations();
  BOOST_TEST(all.back().where.ends_with("origin_test.cpp:" + std::to_string(line)));
}

// Shapes known only at run time, and indices.
BOOST_AUTO_TEST_CASE(of_failing_runs) {
  graph::net m("m");
  auto x = m.external("x", {dtype::float32, {"N", 3}}), y = m.external("y", {dtype::float32, {"M", 3}}),
       at = m.external("at", {dtype::int64, {1}});
  const auto add_line = here() + 1;
  auto sum = x + y;
  const auto gather_line = here() + 1;
  auto rows = gather(x, at, 0);
  m.output("sum", sum);
  m.output("rows", rows);
  graph::workspace ws;
  ws.feed("x", matrix<float>(2, 3));
  ws.feed("y", matrix<float>(5, 3));
  ws.feed("at", vector<std::int64_t>{1});
  ws.create(m);
  line = add_line;
  BOOST_TEST(begins(message_of([&] { ws.run("m"); }), "add: the shapes do not broadcast: [2x3] [5x3]"));
  BOOST_TEST(message_of([&] { ws.run("m"); }).starts_with("net `m`: "));
  ws.feed("y", matrix<float>(2, 3));
  ws.run("m");
  ws.feed("at", vector<std::int64_t>{2});
  line = gather_line;
  BOOST_TEST(begins(message_of([&] { ws.run("m"); }), "gather: a position is outside -2..1"));
}

// Two equal nets from different lines do not share a plan.
BOOST_AUTO_TEST_CASE(of_equal_nets) {
  auto context_of_both = std::make_shared<context>(1, target_isa());
  for (int i = 0; i < 2; ++i) {
    graph::net m("m");
    auto x = m.external("x", {dtype::float32, {3}}), at = m.external("at", {dtype::int64, {1}});
    if (i == 0) here(), m.output("rows", gather(x, at, 0));
    else here(), m.output("rows", gather(x, at, 0));
    graph::workspace ws(context_of_both);
    ws.feed("x", vector<float>(3));
    ws.feed("at", vector<std::int64_t>{3});
    BOOST_TEST(begins(message_of([&] { ws.run_once(m); }), "gather: a position is outside"));
  }
}

// Operations that a gradient rule adds have the location of the differentiated operation.
BOOST_AUTO_TEST_CASE(of_gradients) {
  const auto tanh_line = here() + 1;
  auto h = tanh(a);
  const auto before = n.operations().size();
  n.add_gradient_operators({h});
  for (std::size_t i = before; i < n.operations().size(); ++i)
    if (n.operations()[i].name != "broadcast_like")
      BOOST_TEST(n.operations()[i].where.ends_with(":" + std::to_string(tanh_line)));
}

BOOST_AUTO_TEST_CASE(of_functions_of_many_values) {
  BOOST_TEST(begins(message_of([&] { here(), optim::clip_by_global_norm({&a, 1}, 0); }),
                    "clip_by_global_norm: `limit` is 0; expected a finite number > 0"));
  BOOST_TEST(begins(message_of([&] { here(), n.infer({{"a", {5, 5}}}); }), "net `n`: infer: blob `a` is "));
  BOOST_TEST(begins(message_of([&] { here(), stack(view<const value>()); }), "stack: no tensors"));
  BOOST_TEST(begins(message_of([&] { here(), concat(view<const value>()); }), "concat: no tensors"));
  BOOST_TEST(begins(message_of([&] { here(), stack<0>(a, row); }), "concat: "));
  BOOST_TEST(begins(message_of([&] { here(), concat<1>(a, row); }), "concat: "));
}

// Subprograms of `cond`, `loop` and `scan` are built where the operation is added, and run elsewhere.
BOOST_AUTO_TEST_CASE(of_programs_inside) {
  const auto branch = [&](const std::shared_ptr<program>& p) {
    const value table = p->input("a", {dtype::float32, {2, 3}}), i = p->input("ids", {dtype::int64, {2}});
    BOOST_TEST(begins(message_of([&] { here(), matmul(table, table); }), "matmul: the inner sizes differ"));
    here(), p->output("rows", gather(table, i));
    return p;
  };
  const auto first = branch(graph::subprogram());
  const auto gather_line = line;
  const auto second = branch(graph::subprogram());
  const value both[] = {a, ids};
  n.output("rows", cond(n.external("predicate", {dtype::boolean, {}}), first, second, {both, 2})[0]);
  graph::workspace ws;
  ws.feed("a", matrix<float>(2, 3));
  ws.feed("ids", vector<std::int64_t>{0, 7});
  ws.feed("predicate", evaluate(filled(true)));
  line = gather_line;
  BOOST_TEST(begins(message_of([&] { ws.run_once(n.clone_partial("m", {"a", "ids", "predicate"}, {"rows"})); }),
                    "gather: a position is outside -2..1"));
}

BOOST_AUTO_TEST_CASE(of_layers_in_programs_without_parameters) {
  graph::model m("m");
  graph::model::scope g(m);
  const auto p = graph::subprogram();
  const value x = p->input("x", {dtype::float32, {2, 4}}), images = p->input("images", {dtype::float32, {1, 1, 4, 4}});
  BOOST_TEST(begins(message_of([&] { here(), graph::fc(x, 4); }),
                    "net `m`: fc: an operand belongs to a program that is not a net and has no parameters"));
  BOOST_CHECK_THROW(graph::fc(x, 4), state_error);
  BOOST_TEST(begins(message_of([&] { here(), graph::fc(a, 4, {.name = "other"}); }),
                    "net `m`: fc: an operand belongs to net `n`; `external(v)` makes it"));
  BOOST_TEST(&graph::max_pool(images).owner() == p.get());  // layers without parameters need no net
}

BOOST_AUTO_TEST_SUITE_END()
