// lamina's small calls.
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "small_calls.h"

import lamina;

namespace {

using namespace lamina;
using namespace lamina::ir;

template <int Layers> consteval auto repeated() {
  return []<auto... I>(std::index_sequence<I...>) {
    return sequential(((void)I, nn::linear{.in_features = 4, .out_features = 4})...);
  }(std::make_index_sequence<Layers>());
}
inline constexpr int small_layers = 32;
inline constexpr auto deep = repeated<small_layers>();

// Operands of the calls, created before the measurement.
const matrix<float> left{{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2, 3, 4}, {5, 6, 7, 8}};
const matrix<float> right{{4, 3, 2, 1}, {8, 7, 6, 5}, {4, 3, 2, 1}, {8, 7, 6, 5}};
matrix<float> result(4, 4);
const auto multiply_add = formula([](const auto& x, const auto& w) { return x * w + x; });

struct bound_network {
  model<deep, input<"N", 4>> net{{.seed = 1}};
  matrix<float> in{{1, 2, 3, 4}}, out{{0, 0, 0, 0}};
  executor* run = nullptr;
  bound_network() {
    const shape extents[] = {in.shape()};
    run = &net.core().at(view<const shape>(extents, 1));
    run->bind_input(0, in.data().data());
    run->bind_output(0, out.writable().data());
  }
};
/// A net built at run time: a chain of 21 small operations.
struct run_time_net {
  static constexpr int layers = 7, operations = 3 * layers;
  matrix<float> in{{1, 2, 3, 4}}, weights = left, bias{{1, 0, 1, 0}}, out{{0, 0, 0, 0}};
  std::optional<executor> run;
  run_time_net() {
    program p;
    value h = p.input("x", {dtype::float32, {1, 4}});
    const value w = p.input("w", {dtype::float32, {4, 4}}), b = p.input("b", {dtype::float32, {1, 4}});
    for (int i = 0; i < layers; ++i) h = relu(matmul(h, w) + b);
    p.output("y", h);
    const shape extents[] = {in.shape(), weights.shape(), bias.shape()};
    run.emplace(make_plan(p, extents, target_isa()), nullptr);
    const void* const inputs[] = {in.data().data(), weights.data().data(), bias.data().data()};
    void* const outputs[] = {out.writable().data()};
    run->run(inputs, outputs);
  }
};
/// The same operations in a named net.
struct named_net {
  graph::workspace ws;
  named_net() {
    graph::net n("net");
    value h = n.external("x", {dtype::float32, {1, 4}});
    const value w = n.external("w", {dtype::float32, {4, 4}}), b = n.external("b", {dtype::float32, {1, 4}});
    for (int i = 0; i < run_time_net::layers; ++i) h = relu(matmul(h, w) + b);
    n.output("y", h);
    ws.feed("x", matrix<float>{{1, 2, 3, 4}});
    ws.feed("w", left);
    ws.feed("b", matrix<float>{{1, 0, 1, 0}});
    ws.create(n);
    ws.run("net");
  }
};
struct toy_regression {
  graph::workspace ws;
  toy_regression() {
    graph::net init("init"), train("train");
    const value W = train.external(init.fill<op::uniform>("W", {1, 2}, {.low = -1, .high = 1}));
    const value B = train.external(init.fill<op::constant>("B", {1}));
    const value W_gt = train.external(init.given("W_gt", {1, 2}, {2, 1.5})),
                B_gt = train.external(init.given("B_gt", {1}, {0.5}));
    const value X = train.fill<op::gaussian>("X", {64, 2});
    const value y = stop_gradient(linear(X, W_gt, B_gt) + train.fill<op::gaussian>("noise", {64, 1}));
    auto gradients = train.add_gradient_operators({averaged_loss(squared_l2_distance(y, linear(X, W, B)))});
    const value rate =
        learning_rate(train.iterations(), {.base = -0.1, .policy = optim::step{.size = 20, .gamma = 0.9}});
    train.assign(W, W + rate * gradients[W]);
    train.assign(B, B + rate * gradients[B]);
    ws.run_once(init);
    ws.create(train);
    ws.run("train");
  }
};
/// The kernels of a plan bound to separate buffers, called as a handwritten program would.
struct hand_bound {
  explicit hand_bound(const plan& p) : arguments(p.arguments().size() + 64), scratch(p.scratch_bytes() + 64) {
    std::memcpy(arguments.data(), p.arguments().data(), p.arguments().size());
    for (const plan_buffer& b : p.buffers()) {
      memory.emplace_back(b.bytes + 64);
      std::memset(memory.back().data(), 0, memory.back().bytes());
    }
    for (const auto& r : p.relocations()) {
      const void* address = static_cast<std::byte*>(memory[static_cast<std::size_t>(r.buffer)].data()) + r.offset;
      std::memcpy(static_cast<std::byte*>(arguments.data()) + r.at, &address, sizeof address);
    }
    for (const auto& s : p.steps()) steps.push_back(s);
    while (steps.size() < small_layers) steps.push_back(steps.back());
  }
  template <std::size_t... I> void call(std::index_sequence<I...>) {
    (steps[I].run(static_cast<std::byte*>(arguments.data()) + steps[I].arguments, scratch.data()), ...);
  }
  storage arguments, scratch;
  std::vector<storage> memory;
  std::remove_cvref_t<decltype(std::declval<const plan&>().steps())> steps;
};
bound_network& network() {
  static bound_network n;
  return n;
}
run_time_net& small_net() {
  static run_time_net n;
  return n;
}

}  // namespace

namespace bench::overheads {

void evaluate_small() {
  const auto r = evaluate(left * right + left);
  __asm__ volatile("" ::"r"(r.data().data()) : "memory");
}

void formula_small() { multiply_add(left, right, result); }

void run_small_steps() { network().run->run(); }
long small_steps() { return static_cast<long>(network().run->plan().steps().size()); }
void run_small_net() { small_net().run->run(); }
long small_net_operations() { return run_time_net::operations; }
void run_named_net() {
  static named_net net;
  net.ws.run("net");
}
void build_named_net() {
  graph::net n("net");
  value h = n.external("x", {dtype::float32, {1, 4}});
  const value w = n.external("w", {dtype::float32, {4, 4}}), b = n.external("b", {dtype::float32, {1, 4}});
  for (int i = 0; i < 333; ++i) h = relu(matmul(h, w) + b);
  n.output("y", tanh(h));
  graph::workspace ws;
  ws.feed("x", matrix<float>{{1, 2, 3, 4}});
  ws.feed("w", left);
  ws.feed("b", matrix<float>{{1, 0, 1, 0}});
  ws.run_once(n);
}
void run_toy_regression() {
  static toy_regression toy;
  toy.ws.run("train", 1000);
}
void call_small_kernels() {
  static hand_bound kernels(network().run->plan());
  kernels.call(std::make_index_sequence<small_layers>());
}

}  // namespace bench::overheads
