// Errors of nets: the message, with the source location in the user's code.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using engine_test::says;

namespace {

using numbers = std::vector<float>;
const tensor_type f2{dtype::float32, {2}}, f3{dtype::float32, {3}}, f23{dtype::float32, {2, 3}},
    predicate{dtype::boolean, {}};

// Whether an error begins with this file's name and contains these words.
bool reports(const std::string& message, const std::string& expected) {
  return says(message, "misuse_test.cpp:") && says(message, expected);
}

std::shared_ptr<const program> doubling(const tensor_type& type) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", type);
  p->output("next", x * 2);
  return p;
}
// The body of a loop that continues.
std::shared_ptr<const program> going(const tensor_type& type) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", type);
  p->output("go", value(reduce_sum(x) == reduce_sum(x)));
  p->output("x", x * 2);
  return p;
}

struct fixture {
  graph::net n{"n"};
  value x = n.external("x", f2), three = n.external("three", f3), yes = n.external("yes", predicate);
  void feed(graph::workspace& ws) {
    ws.feed("x", evaluate(filled(3.0f, 2)));
    ws.feed("three", evaluate(filled(1.0f, 3)));
    any_tensor on(predicate);
    on.mutable_data()[0] = std::byte{1};
    ws.feed("yes", on);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(control_flow, fixture)

BOOST_AUTO_TEST_CASE(errors_name_the_function_and_the_place) {
  const auto refused = [&](const std::function<void()>& f, const std::string& expected) {
    BOOST_TEST(reports(message_of(f), expected));
  };
  refused([&] { loop(0, yes, going(f2), {&x, 1}); }, ": loop: max is 0");
  refused([&] { loop(3, x, going(f2), {&x, 1}); },
          ": loop: the predicate for the first iteration is float32[2]; expected bool []");
  refused([&] { loop(3, yes, going(f2), {&x, 1}, {&x, 1}); }, ": loop: the subprogram takes 1 operands; got 2");
  refused([&] { loop(3, yes, going(f2), {&three, 1}); },
          ": loop: carry 0 is float32[3]; the subprogram takes float32[2]");
  refused([&] { loop(3, yes, doubling(f2), {&x, 1}); },
          ": loop: the subprogram gives 1 results; expected a predicate and 1 carries");
  refused([&] { loop(3, yes, nullptr, {&x, 1}); }, ": loop: the subprogram is a null pointer");
  refused([&] { cond(yes, doubling(f2), doubling(f3), {&x, 1}); },
          ": cond: operand 0 is float32[2]; the second program takes float32[3]");
  refused([&] { cond(yes, doubling(f2), going(f2), {&x, 1}); },
          ": cond: the first program gives 1 results and the second 2");
  refused([&] { cond(yes, doubling(f2), nullptr, {&x, 1}); }, ": cond: the second program is a null pointer");
  refused([&] { scan(doubling(f2), {}, {&x, 1}, {}); },
          ": scan: operand 0 is float32[] in each iteration; the subprogram takes float32[2]");
  refused([&] { scan(doubling(f2), {&x, 1}, {}, {}); }, ": scan: expected at least one sequence");
  refused([&] { scan(nullptr, {}, {&x, 1}, {}); }, ": scan: the subprogram is a null pointer");
  refused([&] { call(doubling(f3), {&x, 1}); }, ": call: operand 0 is float32[2]; the subprogram takes float32[3]");
  refused([&] { call(nullptr, {&x, 1}); }, ": call: the subprogram is a null pointer");
  auto counted = std::make_shared<program>();
  const value q = counted->input("q", f2);
  counted->output("o", masked_select(q, q > 0.0));
  refused([&] { cond(yes, counted, counted, {&x, 1}); }, ": cond: its program has `");
  auto keeps = std::make_shared<program>();
  const value in = keeps->input("x", f2);
  keeps->output("go", value(reduce_sum(in) > 0));
  keeps->output("x", reduce_sum(in));
  refused([&] { loop(3, yes, keeps, {&x, 1}); }, ": loop: carry 0 is float32[2]; an iteration gives float32[] for it");
}

BOOST_AUTO_TEST_CASE(a_turn_that_fails_says_where) {
  auto p = std::make_shared<program>();
  const value at = p->input("at", {dtype::int64, {}}), table = p->input("table", f3), found = gather(table, at + 1, 0);
  p->output("go", value(found == found));
  p->output("at", at + 1);
  const value start = n.external("start", {dtype::int64, {}});
  n.output("r", loop(5, yes, p, {&start, 1}, {&three, 1})[0]);
  graph::workspace ws;
  feed(ws);
  ws.feed("start", any_tensor(start.type()));
  BOOST_TEST(reports(message_of([&] { ws.run_once(n); }), ": gather: a position is outside -3..2"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(empty_values, fixture)

BOOST_AUTO_TEST_CASE(are_refused_in_words) {
  const value e;
  const std::string expected = ": an operand is an empty value, of no program";
  const std::vector<std::function<void()>> uses{[&] { relu(e); },
                                                [&] { (void)(e + x); },
                                                [&] { (void)(x + e); },
                                                [&] { (void)(e * 2); },
                                                [&] { (void)-e; },
                                                [&] { matmul(x, e); },
                                                [&] { matmul(e, x); },
                                                [&] { concat({x, e}, 0); },
                                                [&] { where(e, x, x); },
                                                [&] { where(x > 0, e, 0); },
                                                [&] { linear(x, e, e); },
                                                [&] { cond(e, doubling(f2), doubling(f2), {&x, 1}); },
                                                [&] { cond(yes, doubling(f2), doubling(f2), {&e, 1}); },
                                                [&] { loop(3, e, going(f2), {&x, 1}); },
                                                [&] { loop(3, yes, going(f2), {&e, 1}); },
                                                [&] { scan(doubling(f2), {}, {&e, 1}, {}); },
                                                [&] { (void)e[0]; },
                                                [&] { reduce_sum(e); },
                                                [&] { reshape(e, shape{2}); },
                                                [&] { learning_rate(e, {.base = 1, .policy = optim::constant{}}); },
                                                [&] {
                                                  graph::model m("m");
                                                  graph::model::scope here(m);
                                                  graph::fc(e, 3);
                                                },
                                                [&] {
                                                  graph::model m("m");
                                                  graph::model::scope here(m);
                                                  graph::dropout(e);
                                                },
                                                [&] { graph::sum({x, e}); },
                                                [&] { graph::concat({x, e}); },
                                                [&] { graph::accuracy(e, e); },
                                                [&] { cast<double>(e); }};
  for (std::size_t i = 0; i < uses.size(); ++i) BOOST_TEST(reports(message_of(uses[i]), expected), i);
}

BOOST_AUTO_TEST_CASE(a_position_in_brackets_has_a_place) {
  BOOST_TEST(reports(message_of([&] { (void)x[5]; }), ": select: position 5 is outside of axis 0: [2]"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(names, fixture)

BOOST_AUTO_TEST_CASE(a_second_name_leaves_the_first_one) {
  n.output("copy", x);
  n.add_gradient_operators({reduce_sum(x * x)});
  BOOST_TEST(n.name_of(x) == "x");
  BOOST_TEST(n.has("x_grad"));
  BOOST_TEST(n.has("copy_grad"));
  BOOST_TEST(n["copy_grad"].same(n["x_grad"]));
  BOOST_TEST(n.name_of(n["x_grad"]) == "x_grad");
  const auto types = n.infer({});
  BOOST_TEST(types.contains("x"));
  BOOST_TEST(types.contains("copy"));
  n.output("slope", n["x_grad"]);
  BOOST_TEST(n.name_of(n["slope"]) == "x_grad");
  BOOST_TEST(reports(message_of([&] { n.assign(x, x + 1); }),
                     "assign: the value is both `copy` and `x`; assign to one of these names"));
  n.assign("x", x + 1);
  n.assign(n["slope"], n["slope"] * 2);  // it is a single blob
  graph::workspace ws;
  feed(ws);
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("copy") == (numbers{3, 3}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("x") == (numbers{4, 4}), boost::test_tools::per_element());
  BOOST_TEST(ws.fetch_numbers<float>("slope") == (numbers{12, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_parameter_that_is_named_again_keeps_its_gradient) {
  graph::model m("m");
  graph::model::scope here(m);
  const value loss = reduce_sum(graph::fc(m.input("x", f23), 1));
  m.main().output("weights", m.main()["fc_w"]);
  m.add_gradient_operators({loss});
  BOOST_TEST(m.main().has("fc_w_grad"));
  BOOST_TEST(m.main().name_of(m.parameters()[0].at) == "fc_w");
  m.add_updates(optim::sgd{});
  BOOST_TEST(m.parameters()[0].updated);
}

BOOST_AUTO_TEST_CASE(gradients_take_names_that_are_free) {
  n.output("x_grad", x * 5);
  const auto g = n.add_gradient_operators({reduce_sum(x * x)});
  BOOST_TEST(n.name_of(g[x]) == "x_grad_auto_0");
  BOOST_TEST(!n["x_grad"].same(g[x]));
  const auto again = n.add_gradient_operators({reduce_sum(x * x * x)});
  BOOST_TEST(n.name_of(again[x]) == "x_grad_auto_1");
  BOOST_TEST(n["x_grad_auto_0"].same(g[x]));
  // no other blob may take such a name
  BOOST_TEST(reports(message_of([&] { n.output("x_grad_auto_0", x); }),
                     "`x_grad_auto_0` already exists and belongs to a gradient"));
  n.output("x_grad_auto_1", again[x]);
}

BOOST_AUTO_TEST_CASE(a_layer_takes_no_blob_for_its_parameter) {
  for (const shape& s : {shape{2, 3}, shape{3, 3}}) {
    graph::model m("m");
    graph::model::scope here(m);
    m.input("p_w", {dtype::float32, s});
    const value in = m.input("in", f23);
    BOOST_TEST(reports(message_of([&] { graph::fc(in, 3, {.name = "p"}); }),
                       "net `m`: fc: its parameter `p_w` has the name of a blob, from "));
    BOOST_CHECK_THROW(graph::fc(in, 3, {.name = "p"}), state_error);
  }
  graph::model m("m");
  graph::model::scope here(m);
  const value images = m.input("images", {dtype::float32, {2, 3, 4, 4}});
  m.main().output("bn_rm", images);
  BOOST_TEST(reports(message_of([&] { graph::spatial_bn(images, {.name = "bn"}); }),
                     "spatial_bn: its parameter `bn_rm` has the name of a blob"));
}

BOOST_AUTO_TEST_CASE(recurrent_layers_name_theirs_as_pytorch_does) {
  graph::model m("m");
  graph::model::scope here(m);
  graph::gru(m.input("x", {dtype::float32, {4, 2, 3}}), 5, {.name = "g"});
  BOOST_TEST(m.parameters()[0].name == "g.weight_ih_l0");
}

BOOST_AUTO_TEST_CASE(scopes_that_cannot_be) {
  BOOST_TEST(reports(message_of([] { graph::arg_scope s("fc", {.name = "p"}); }),
                     "arg_scope: `name` can only be set in a call of fc"));
  BOOST_TEST(reports(message_of([] { graph::arg_scope s("fk", {}); }), "arg_scope: there is no layer function `fk`"));
  graph::model m("m");
  BOOST_TEST(
      reports(message_of([&] { m.defaults("fc", {.model = &m}); }), "model: `model` can only be set in a call of fc"));
  BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"b", "b/c"}}); }),
                     "parameter_sharing: `b` shares with itself or a scope inside it"));
  BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"a", "b"}, {"b", "a"}}); }),
                     "parameter_sharing: `a` shares with itself"));
  BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"a", "a"}}); }),
                     "parameter_sharing: `a` shares with itself"));
  BOOST_TEST(
      reports(message_of([] { graph::parameter_sharing s({{"", "a"}}); }), "parameter_sharing: a first name is empty"));
  BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"/", "a"}}); }),
                     "parameter_sharing: a first name is empty"));
  {
    graph::name_scope net("net");
    BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"b", "b/c"}}); }),
                       "parameter_sharing: `net/b` shares with itself or a scope inside it"));
  }
  {
    graph::parameter_sharing outer({{"a", "b"}});
    BOOST_TEST(reports(message_of([] { graph::parameter_sharing s({{"b", "a"}}); }), "shares with itself"));
  }
  graph::parameter_sharing chain({{"c", "b"}, {"b", "a"}});  // a chain is not one of these errors
  BOOST_TEST(reports(message_of([] { graph::device_scope s("cuda"); }), "device_scope: there is no device `cuda`"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(numbers_that_cannot_be, fixture)

BOOST_AUTO_TEST_CASE(fills) {
  const auto refused = [&](const std::function<void()>& f, const std::string& expected) {
    BOOST_TEST(reports(message_of(f), expected));
  };
  refused([&] { n.fill<op::uniform_integers>("i", {4}, {.low = 0, .high = 300}, dtype::int8); },
          "net `n`: blob `i`: uniform_integers: the number 300 does not fit int8");
  refused([&] { n.fill<op::uniform_integers>("i", {4}, {.low = -1, .high = 3}, dtype::uint8); },
          "uniform_integers: the number -1 does not fit uint8");
  refused([&] { n.fill<op::uniform_integers>("i", {4}, {.low = 3, .high = 1}); },
          "net `n`: blob `i`: uniform_integers: the range 3 to 1 is empty");
  refused([&] { n.fill<op::uniform>("u", {4}, {.low = 1, .high = -1}); },
          "net `n`: blob `u`: uniform: `low` is 1 and above `high`, -1");
  refused([&] { n.fill<op::uniform>("u", {4}, {}, dtype::int32); },
          "net `n`: blob `u`: uniform: draws float32 or float64, not int32");
  refused([&] { n.fill<op::gaussian>("g", {4}, {.mean = 0, .std = -1}); },
          "net `n`: blob `g`: gaussian: `std` is -1 and must not be below 0");
  refused([&] { n.fill<op::xavier>("w", {0, 3}); }, "net `n`: blob `w`: xavier: the fan of shape [0x3] is undefined");
  refused([&] { n.fill<op::msra>("w", {3}); }, "net `n`: blob `w`: msra: the fan of shape [3] is undefined");
  refused([&] { n.fill<op::constant>("c", {3}, {300}, dtype::int8); },
          "net `n`: blob `c`: constant: the number 300 does not fit int8");
  refused([&] { (void)(cast<std::int32_t>(x) * 0.5); }, ": multiply: the number 0.5 does not fit int32");
  graph::model m("m");
  graph::model::scope here(m);
  refused([&] { graph::fc(m.input("x", f23), 3, {.bias_fill = op::msra{}}); },
          "net `m_init`: blob `fc_b`: msra: the fan of shape [3]");
  n.fill<op::uniform_integers>("i", {4}, {.low = -128, .high = 127}, dtype::int8);
}

BOOST_AUTO_TEST_CASE(functions_of_models) {
  BOOST_TEST(reports(message_of([] { graph::concat({}); }), ": concat: no values"));
  BOOST_TEST(reports(message_of([] { graph::sum({}); }), ": sum: no values"));
  const value scores = n.external("scores", {dtype::float32, {"N", 3}}),
              column = n.external("column", {dtype::int64, {"N", 1}});
  BOOST_TEST(reports(message_of([&] { graph::accuracy(scores, column); }),
                     ": accuracy: the labels must have the shape of the scores without their last axis: [Nx3] [Nx1]"));
  BOOST_TEST(reports(message_of([&] { graph::fc(n.external("r", f23), 3); }), ": a layer function needs a model"));
}

BOOST_AUTO_TEST_CASE(optimizers) {
  const auto refused = [](const auto& o, const graph::update_options& u, const std::string& expected) {
    graph::model m("m");
    const value w = m.parameter("w", {2}, op::constant{1});
    m.add_gradient_operators({reduce_sum(w * m.input("x", f2))});
    BOOST_TEST(reports(message_of([&] { m.add_updates(o, u); }), expected));
  };
  refused(optim::sgd{.lr = -1}, {}, "add_updates: `lr` is -1; expected a finite number >= 0");
  for (const double wrong : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const std::string is = std::isnan(wrong) ? "nan" : "inf";
    refused(optim::sgd{.lr = wrong}, {}, "add_updates: `lr` is " + is + "; expected a finite number >= 0");
    refused(optim::sgd{}, {.max_gradient_norm = wrong},
            "add_updates: `max_gradient_norm` is " + is + "; expected a finite number >= 0");
    refused(optim::rmsprop{.decay = wrong}, {},
            "rmsprop: `decay` is " + is + "; expected a finite number >= 0 and <= 1");
    refused(optim::lars{.trust = wrong}, {}, "lars: `trust` is " + is + "; expected a finite number >= 0");
    refused(optim::sgd{}, {.regularizer = {.constant_norm = wrong}},
            "regularizer: `constant_norm` is " + is + "; expected a finite number >= 0");
  }
  refused(optim::sgd{.lr = 1e39}, {}, "add_updates: `lr` is 1e39; expected a finite number >= 0 in float32");
  refused(optim::sgd{}, {.max_gradient_norm = -1},
          "add_updates: `max_gradient_norm` is -1; expected a finite number >= 0");
  refused(optim::sgd{.momentum = -0.5}, {}, "sgd: `momentum` is -0.5; expected a finite number >= 0");
  refused(optim::adam{.beta1 = 2}, {}, "adam: `beta1` is 2; expected a finite number >= 0 and < 1");
  refused(optim::adamw{.beta2 = 1}, {}, "adamw: `beta2` is 1; expected a finite number >= 0 and < 1");
  refused(optim::sgd{}, {.regularizer = {.max_norm = -3}},
          "regularizer: `max_norm` is -3; expected a finite number >= 0");
  const value count = n.iterations();
  for (const auto& [expected, policy] : std::map<std::string, optim::rate_policy>{
           {"step: `size` is 0; expected a finite number > 0", optim::step{.size = 0}},
           {"polynomial: `steps` is -1; expected a finite number > 0", optim::polynomial{.steps = -1}},
           {"linear_warm_up: `steps` is 0; expected a finite number > 0", optim::linear_warm_up{.steps = 0}},
           {"alternate: `on + off` is 0; expected a finite number > 0", optim::alternate{.on = 0, .off = 0}}})
    BOOST_TEST(reports(message_of([&] { learning_rate(count, {.base = 1, .policy = policy}); }), expected));
}

BOOST_AUTO_TEST_CASE(rates_are_copied) {
  const rate_options first{.base = -0.5, .policy = optim::step{.size = 1, .gamma = 0.5}};  // Caffe2's sign
  const rate_options second = first;
  const optim::rate_policy policy = second.policy, moved = optim::rate_policy(policy);
  n.output("rate", learning_rate(n.iterations(), {.base = second.base, .policy = moved}));
  graph::workspace ws;
  feed(ws);
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<float>("rate")[0] == -0.25f);
}

BOOST_AUTO_TEST_CASE(runs_and_steps) {
  graph::workspace ws;
  graph::net counting("counting");
  const value c = counting.external("c", {dtype::float32, {}});
  counting.assign(c, c + 1);
  BOOST_TEST(reports(
      message_of([&] { ws.run_once(counting); }),
      "net `counting`: blob `c` is not in the workspace; feed it, or run the net that makes it; the net takes it at"));
  ws.feed("c", evaluate(filled(0.0f)));
  ws.feed("pair", evaluate(filled(0.0f, 2)));
  ws.create(counting);
  const auto refused = [&](const std::function<void()>& f, const std::string& expected) {
    BOOST_TEST(says(message_of(f), expected));
    BOOST_TEST(ws.fetch_numbers<float>("c")[0] == 0.0f);  // nothing ran
  };
  refused([&] { ws.run("counting", -1); }, "workspace: the number of runs is -1 and must not be below 0");
  refused([&] { ws.start("counting", -1).wait(); }, "the number of runs is -1");
  refused([&] { ws.benchmark("counting", 1, -1); }, "before a benchmark is -1");
  refused([&] { ws.run({.net = "counting", .times = -5}); },
          "workspace: `times` of a step is -5 and must not be below 0");
  refused([&] { ws.run({.steps = {{.net = "counting"}, {.net = "counting", .every_ms = -1}}}); },
          "`every_ms` of a step is -1");
  refused([&] { ws.run({.net = "counting", .times = 5, .stop_when = "stopp"}); },
          "workspace: there is no blob `stopp`");
  refused([&] { ws.run({.net = "counting", .times = 5, .stop_when = "pair"}); },
          "blob `pair` of `stop_when` is float32[2]; expected one element");
  counting.output("stop", cast<float>(counting["c"] > 2.5));
  ws.create(counting, {.overwrite = true});
  ws.run({.net = "counting", .times = 50, .stop_when = "stop"});  // a blob that only the plan has
  BOOST_TEST(ws.fetch_numbers<float>("c")[0] == 3.0f);
  ws.run("counting", 0);
  BOOST_TEST(ws.fetch_numbers<float>("c")[0] == 3.0f);
}

BOOST_AUTO_TEST_SUITE_END()
