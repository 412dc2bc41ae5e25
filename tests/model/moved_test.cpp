// Moved-from objects: each use is an error with a message, without side effects.
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

inline constexpr auto voice = sequential(nn::gru{.input_size = 3, .hidden_size = 4}, nn::linear{4, 2});
inline constexpr auto dense = sequential(nn::linear{.in_features = 2, .out_features = 3});
constexpr nn::linear fc_rule{3, 2};
constexpr auto gauss = nn::tanh{};
const tensor_type row{dtype::float32, {2}};

// Whether f raises a state_error about a moved-from object.
template <class F> bool refused(const F& f) {
  try {
    f();
  } catch (const state_error& e) {
    const bool words = std::string(e.what()).find("moved") != std::string::npos;
    if (!words) BOOST_TEST_MESSAGE(e.what());
    return words;
  }
  return false;
}

std::shared_ptr<program> doubled() {
  auto p = std::make_shared<program>();
  p->output("y", p->input("x", row) * 2);
  return p;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(moved)

BOOST_AUTO_TEST_CASE(nets) {
  graph::net n("n");
  const value x = n.external("x", row), y = n.output("y", relu(x));
  graph::net other = std::move(n);
  BOOST_TEST(other["y"].same(y));
  BOOST_TEST(other.name_of(x) == "x");  // values belong to the moved net
  BOOST_TEST(refused([&] { n.name(); }));
  BOOST_TEST(refused([&] { n.body(); }));
  BOOST_TEST(refused([&] { n.symbols(); }));
  BOOST_TEST(refused([&] { n["y"]; }));
  BOOST_TEST(refused([&] { n.has("y"); }));
  BOOST_TEST(refused([&] { n.name_of(x); }));
  BOOST_TEST(refused([&] { n.free_name("z"); }));
  BOOST_TEST(refused([&] { n.external("z", row); }));
  BOOST_TEST(refused([&] { n.fill<op::constant>("z", {2}); }));
  BOOST_TEST(refused([&] { n.given("z", {1}, {2}); }));
  BOOST_TEST(refused([&] { n.constant(scalar<float>(1)); }));
  BOOST_TEST(refused([&] { n.iterations(); }));
  BOOST_TEST(refused([&] { n.assign("x", y); }));
  BOOST_TEST(refused([&] { n.output("z", y); }));
  BOOST_TEST(refused([&] { n.add_gradient_operators({y}); }));
  BOOST_TEST(refused([&] { n.clone("c"); }));
  BOOST_TEST(refused([&] { n.clone_partial("c", {"x"}, {"y"}); }));
  BOOST_TEST(refused([&] { n.append(other); }));
  BOOST_TEST(refused([&] { other.append(n); }));
  BOOST_TEST(refused([&] { n.infer({}); }));
  BOOST_TEST(refused([&] { n.external_inputs(); }));
  BOOST_TEST(refused([&] { n.external_outputs(); }));
  BOOST_TEST(refused([&] { n.operations(); }));
  BOOST_TEST(refused([&] { n.to_run(); }));
  BOOST_TEST(refused([&] { n.to_dot(); }));
  graph::workspace ws;
  BOOST_TEST(refused([&] { ws.create(n); }));
  BOOST_TEST(refused([&] { ws.run_once(n); }));
  BOOST_TEST(refused([&] { graph::snapshot(n, ws); }));
  n = graph::net("again");  // assignable again
  BOOST_TEST(n.name() == "again");
}

BOOST_AUTO_TEST_CASE(workspaces) {
  graph::net n("n");
  n.output("y", relu(n.external("x", row)));
  graph::workspace ws;
  ws.feed("x", vector<float>{1, -1});
  ws.create(n);
  graph::workspace other = std::move(ws);
  other.run("n");
  BOOST_TEST(other.has("y"));
  BOOST_TEST(refused([&] { ws.feed("x", scalar<float>(1)); }));
  BOOST_TEST(refused([&] { ws.fetch("x"); }));
  BOOST_TEST(refused([&] { ws.has("x"); }));
  BOOST_TEST(refused([&] { ws.blobs(); }));
  BOOST_TEST(refused([&] { ws.switch_to("s", true); }));
  BOOST_TEST(refused([&] { ws.current(); }));
  BOOST_TEST(refused([&] { ws.spaces(); }));
  BOOST_TEST(refused([&] { ws.reset(); }));
  BOOST_TEST(refused([&] { ws.create(n); }));
  BOOST_TEST(refused([&] { ws.nets(); }));
  BOOST_TEST(refused([&] { ws.run("n"); }));
  BOOST_TEST(refused([&] { ws.run(graph::execution_step{.net = "n"}); }));
  BOOST_TEST(refused([&] { ws.run_once(n); }));
  BOOST_TEST(refused([&] { ws.start("n"); }));
  BOOST_TEST(refused([&] { ws.explain("n"); }));
  BOOST_TEST(refused([&] { ws.costs("n"); }));
  BOOST_TEST(refused([&] { ws.benchmark("n"); }));
  BOOST_TEST(refused([&] { ws.estimate_memory("n"); }));
  graph::running run = other.start("n"), later = std::move(run);
  later.wait();
  run.wait();  // nothing to wait for
  BOOST_TEST(run.done());
}

BOOST_AUTO_TEST_CASE(caches) {
  multi_cache c;
  BOOST_TEST(c.get_or_create(1, [] { return 2; }).value == 2);
  multi_cache other = std::move(c);
  BOOST_TEST((other.get_or_create(1, [] { return 3; }).lookup == cache_lookup::hit));
  BOOST_TEST(refused([&] { c.get_or_create(1, [] { return 3; }); }));
  BOOST_TEST(refused([&] { (c.of<int, int>()); }));
  BOOST_TEST(refused([&] { c.clear(); }));
  BOOST_TEST(refused([&] { c.limits(); }));
  BOOST_TEST(refused([&] { c.statistics(); }));
  static_assert(!std::is_move_constructible_v<lamina::plan_cache>);
}

BOOST_AUTO_TEST_CASE(executors) {
  const shape extents[] = {{2}};
  const auto p = doubled();
  executor run(make_plan(*p, extents, target_isa()), nullptr);
  const float x[] = {1, 2};
  float y[] = {0, 0};
  run.bind_input(0, x);
  run.bind_output(0, y);
  executor other = std::move(run);
  other.run();
  BOOST_TEST(y[1] == 4);
  y[1] = 0;
  BOOST_TEST(refused([&] { run.run(); }));
  BOOST_TEST(refused([&] { run.bind_input(0, x); }));
  BOOST_TEST(refused([&] { run.bind_output(0, y); }));
  BOOST_TEST(refused([&] { run.plan(); }));
  BOOST_TEST(refused([&] { run.result_memory(0); }));
  BOOST_TEST(refused([&] { run.planned_bytes(); }));
  BOOST_TEST(refused([&] { run.work_in(std::make_shared<workspace>()); }));
  BOOST_TEST(refused([&] { run.read({}); }));
  std::int64_t times[] = {0, 0};
  BOOST_TEST(refused([&] { run.run_timed(times); }));
  BOOST_TEST(!run.is_plain());
  run.run_plain();  // no steps
  BOOST_TEST(y[1] == 0);

  session runner(p), next = std::move(runner);
  next.at(extents);
  BOOST_TEST(refused([&] { runner.at(extents); }));
  BOOST_TEST(refused([&] { runner.explain(extents); }));
  BOOST_TEST(refused([&] { runner.plans(extents); }));
  BOOST_TEST(refused([&] { runner.fresh_plans(extents, memory_sharing::best); }));
  BOOST_TEST(refused([&] { runner.read({}, nullptr); }));
  BOOST_TEST(refused([&] { runner.run(extents, {}, {}); }));
  runner.rest();
  BOOST_TEST(runner.bytes() == 0u);
  BOOST_TEST(!runner.in_segments());
}

BOOST_AUTO_TEST_CASE(factories_of_programs) {
  program_factory factory(doubled(), parameter_store());
  program_reference made = factory.create();
  program_factory other = std::move(factory);
  program_reference next = std::move(made);
  const std::vector<any_tensor> x{any_tensor(row)};
  BOOST_TEST(next(x).size() == 1u);
  BOOST_TEST(other.create()(x).size() == 1u);
  BOOST_TEST(refused([&] { made(x); }));
  BOOST_TEST(refused([&] { factory.create(); }));
  BOOST_TEST(refused([&] { factory.origin(); }));
  BOOST_TEST(refused([&] { factory.update(parameter_store()); }));
  BOOST_TEST(refused([&] { factory.shared_bytes(); }));
  BOOST_TEST(refused([&] { factory.plans(); }));
  BOOST_TEST(refused([&] { factory.report(); }));
}

BOOST_AUTO_TEST_CASE(programs) {
  program p;
  const value x = p.input("x", row);
  program other = std::move(p);
  BOOST_TEST(other.inputs().size() == 1u);
  BOOST_TEST(refused([&] { (void)x.type(); }));
  BOOST_TEST(refused([&] { (void)(x + x); }));
  BOOST_TEST(refused([&] { p.output("y", x); }));
  p.output("y", p.input("x", row));  // an empty program
  BOOST_TEST(p.inputs().size() == 1u);
}

BOOST_AUTO_TEST_CASE(drawings_and_trainings) {
  model<dense, input<"N", 2>> a({.seed = 1});
  const matrix<float> x(3, 2);
  const auto y = a(x);
  {
    training steps(a, loss::mse{}, optim::sgd{.lr = 0.1});
    training others = std::move(steps);
    BOOST_TEST(others(x, y) == 0);
    BOOST_TEST(refused([&] { steps(x, y); }));
    BOOST_TEST(refused([&] { steps.rate(0.2); }));
  }
  const model<dense, input<"N", 2>> b = std::move(a);
  BOOST_TEST(!show(b).empty());
  BOOST_TEST(refused([&] { show(a); }));
  BOOST_TEST(refused([&] { to_dot(a); }));
  const evaluated_once once(x + 1.f);
  auto moved = once;
  const auto again = std::move(moved);
  BOOST_TEST(again.value()(0, 0) == moved.value()(0, 0));
}

BOOST_AUTO_TEST_CASE(streams) {
  model<voice, input<"T", 1, 3>> net({.seed = 1});
  const reference_factory factory(std::move(net));
  auto s = stream(factory.create(), {.block = 1});
  float in[3] = {1, 2, 3}, out[2] = {0, 0};
  BOOST_TEST(s.step(in, out));
  BOOST_TEST(s.step(in, out));
  auto other = std::move(s);
  out[0] = 7;
  BOOST_TEST(!s.step(in, out));
  BOOST_TEST(out[0] == 7);
  BOOST_TEST(s.position() == 0);
  BOOST_TEST(s.remaining() == 0);
  BOOST_TEST(s.input_size() == 0u);
  s.reset();
  BOOST_TEST(other.position() == 2);
  BOOST_TEST(other.step(in, out));
}

BOOST_AUTO_TEST_CASE(layers_by_hand) {
  using inputs_of_fc = inputs<port<"input", matrix<double>>>;
  const matrix<double> x{{1, 2, 3}}, g{{1, -1}};
  train_layer<constant_layer<fc_rule>, inputs_of_fc, policies<feedback(true), element<double>>> layer("fc");
  layer.init(initializers(7));
  auto other = std::move(layer);
  other.forward(dict("input"_key = x));
  load_buffer buffer;
  BOOST_TEST(refused([&] { layer.forward(dict("input"_key = x)); }));
  BOOST_TEST(refused([&] { layer.backward(dict("output"_key = g)); }));
  BOOST_TEST(refused([&] { layer.init(initializers(7)); }));
  BOOST_TEST(refused([&] { layer.load_weights(buffer); }));
  BOOST_TEST(refused([&] { layer.save_weights(buffer); }));
  BOOST_TEST(refused([&] { layer.parameter("weight"); }));
  BOOST_TEST(layer.waiting() == 0u);
  dynamic<double, 2> operand = x, taken = std::move(operand);
  other.forward(dict("input"_key = taken));
  BOOST_TEST(refused([&] { other.forward(dict("input"_key = operand)); }));

  train_layer<constant_layer<gauss>, inputs<port<"input", matrix<double>>>, policies<feedback(true), element<double>>>
      plain("tanh");
  auto next = std::move(plain);
  next.forward(dict("input"_key = x));
  BOOST_TEST(refused([&] { plain.forward(dict("input"_key = x)); }));

  infer_layer<constant_layer<fc_rule>, policies<element<double>>> served("fc");
  served.init(initializers(7));
  auto behind = std::move(served);
  behind.forward(dict("input"_key = x));
  BOOST_TEST(refused([&] { served.forward(dict("input"_key = x)); }));
  BOOST_TEST(refused([&] { served.init(initializers(7)); }));
}

BOOST_AUTO_TEST_CASE(data_sets_and_saved_nets) {
  image_dataset data(image_dataset::images_type(1, 1, 2, 2), vector<std::int64_t>{0}, {"a"});
  image_dataset other = std::move(data);
  BOOST_TEST(other.class_names()[0] == "a");
  BOOST_TEST(refused([&] { data.class_names(); }));

  saved_net net{doubled(), {}, {}}, kept = std::move(net);
  const std::vector<any_tensor> sample{any_tensor(row)};
  BOOST_TEST(refused([&] { profile(net, view<const std::vector<any_tensor>>(&sample, 1)); }));
  BOOST_TEST(refused([&] { quantize(net, quantization_profile{}); }));
  BOOST_TEST(refused([&] { core_of(net); }));
  BOOST_CHECK_THROW(net.factory(), value_error);
  BOOST_TEST(kept.program->outputs().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
