// Samples evaluated one by one in one plan, and the same samples as a batch.
#include <cstdint>
#include <utility>
#include <vector>

#include "samples.h"

import lamina;

namespace {

using namespace lamina;

constexpr std::int64_t count = 64, in = 784, middle = 256, out = 10, features = 64, hidden = 128, turns = 8;

matrix<float> numbers(std::int64_t rows, std::int64_t columns, int seed) {
  matrix<float> m(rows, columns);
  auto d = m.writable();
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(seed)) % 1000u) / 5000.f - 0.1f;
  return m;
}
struct network {
  matrix<float> w1 = numbers(in, middle, 1), w2 = numbers(middle, out, 2), b1 = numbers(1, middle, 3),
                b2 = numbers(1, out, 4);
  matrix<float> all = numbers(count, in, 5);
  std::vector<matrix<float>> each;
  network() {
    for (std::int64_t i = 0; i < count; ++i) each.push_back(evaluate(slice(all, {.start = i, .stop = i + 1})));
  }
  auto of(const matrix<float>& x) const { return softmax(matmul(tanh(matmul(x, w1) + b1), w2) + b2); }
};
const network& perceptron() {
  static const network n;
  return n;
}

// Samples of 1 to 8 rows.
struct ragged_network : network {
  matrix<float> rows = numbers(count / 8 * 36, in, 6);
  std::vector<matrix<float>> ragged;
  ragged_network() {
    for (std::int64_t i = 0, first = 0; i < count; first += 1 + i % 8, ++i)
      ragged.push_back(evaluate(slice(rows, {.start = first, .stop = first + 1 + i % 8})));
  }
};
const ragged_network& ragged() {
  static const ragged_network n;
  return n;
}

// Self-attention written as products: per-sample products that follow products with weights.
struct attention_by_hand {
  static constexpr std::int64_t length = 8, depth = 16;
  matrix<float> q = numbers(depth, depth, 1), k = numbers(depth, depth, 2), v = numbers(depth, depth, 3);
  tensor_of_rank<float, 3> all = tensor_of_rank<float, 3>(count, length, depth);
  std::vector<matrix<float>> each;
  attention_by_hand() {
    auto d = all.writable();
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>(i * 2654435761u % 1000u) / 5000.f - 0.1f;
    for (std::int64_t i = 0; i < count; ++i) each.push_back(evaluate(select(all, 0, i)));
  }
  template <class X> auto of(const X& x) const {
    return matmul(softmax(matmul<false, true>(matmul(x, q), matmul(x, k))), matmul(x, v));
  }
};
const attention_by_hand& attention_samples() {
  static const attention_by_hand n;
  return n;
}

struct recurrent {
  matrix<float> w = numbers(features, 3 * hidden, 1), u = numbers(hidden, 3 * hidden, 2);
  std::vector<matrix<float>> all;                // per time step
  std::vector<std::vector<matrix<float>>> each;  // per time step and sample
  matrix<float> start = numbers(count, hidden, 50), start_of_one = numbers(1, hidden, 50);
  recurrent() {
    for (int t = 0; t < turns; ++t) {
      all.push_back(numbers(count, features, 10 + t));
      each.emplace_back();
      for (std::int64_t i = 0; i < count; ++i)
        each.back().push_back(evaluate(slice(all.back(), {.start = i, .stop = i + 1})));
    }
  }
  auto step(const matrix<float>& x, const matrix<float>& h) const { return gru_gates(matmul(x, w), matmul(h, u), h); }
};
const recurrent& gru() {
  static const recurrent n;
  return n;
}

using pictures = tensor_of_rank<float, 4>;
pictures picture(const shape& s, int seed) {
  pictures t(s.at(0), s.at(1), s.at(2), s.at(3));
  auto d = t.writable();
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(seed)) % 1000u) / 5000.f - 0.1f;
  return t;
}
struct convolutional {
  pictures k1 = picture({6, 1, 5, 5}, 1), k2 = picture({16, 6, 5, 5}, 2), all = picture({count, 1, 28, 28}, 3);
  matrix<float> w1 = numbers(400, 120, 4), w2 = numbers(120, 84, 5), w3 = numbers(84, 10, 6);
  std::vector<pictures> each;
  convolutional() {
    for (std::int64_t i = 0; i < count; ++i) each.push_back(evaluate(slice(all, {.start = i, .stop = i + 1})));
  }
  auto of(const pictures& x) const {
    auto y = max_pool2d(relu(conv2d(max_pool2d(relu(conv2d(x, k1, {.padding = 2}))), k2)));
    return softmax(matmul(relu(matmul(relu(matmul(flatten(y), w1)), w2)), w3));
  }
};
const convolutional& lenet() {
  static const convolutional n;
  return n;
}

constexpr auto perceptron_layers =
    sequential(nn::linear{in, middle}, nn::tanh{}, nn::linear{middle, out}, nn::softmax{});
constexpr auto gru_layers = sequential(nn::gru{.input_size = features, .hidden_size = hidden});
using sequences = tensor_of_rank<float, 3>;  // [time steps, samples, features]

template <auto& Layers, class Data> struct layered {
  infer_layer<constant_layer<Layers>> layer{"net"};
  Data all;
  std::vector<Data> each;
  layered(Data batch, std::vector<Data> samples) : all(std::move(batch)), each(std::move(samples)) {
    init(layer, initializers(1));
  }
  auto of(const Data& x) const { return layer.forward(dict("input"_key = x))["output"_key]; }
};
const auto& perceptron_layer() {
  static const layered<perceptron_layers, matrix<float>> n(perceptron().all, perceptron().each);
  return n;
}
const auto& gru_layer() {
  static const layered<gru_layers, sequences> n = [] {
    sequences all(turns, count, features);
    auto d = all.writable();
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>(i * 2654435761u % 1000u) / 5000.f - 0.1f;
    std::vector<sequences> each;
    for (std::int64_t i = 0; i < count; ++i)
      each.push_back(evaluate(slice(all, {.start = i, .stop = i + 1, .axis = 1})));
    return layered<gru_layers, sequences>(std::move(all), std::move(each));
  }();
  return n;
}

template <class T> void use(const T& m) { __asm__ volatile("" ::"r"(m.data().data()) : "memory"); }

}  // namespace

namespace bench::samples {

void perceptron_alone() {
  eval_plan plan;
  std::vector<handle<matrix<float>>> results;
  for (const auto& x : perceptron().each) results.push_back(plan.add(perceptron().of(x)));
  plan.run();
  use(results.back().value());
}
void perceptron_batch() { use(evaluate(perceptron().of(perceptron().all))); }

void ragged_alone() {
  eval_plan plan;
  std::vector<handle<matrix<float>>> results;
  for (const auto& x : ragged().ragged) results.push_back(plan.add(ragged().of(x)));
  plan.run();
  use(results.back().value());
}
void ragged_batch() { use(evaluate(ragged().of(ragged().rows))); }

void attention_alone() {
  eval_plan plan;
  std::vector<handle<matrix<float>>> results;
  for (const auto& x : attention_samples().each) results.push_back(plan.add(attention_samples().of(x)));
  plan.run();
  use(results.back().value());
}
void attention_batch() { use(evaluate(attention_samples().of(attention_samples().all))); }

void gru_alone() {
  std::vector<matrix<float>> h(count, gru().start_of_one);
  for (std::size_t t = 0; t < turns; ++t) {
    eval_plan plan;
    std::vector<handle<matrix<float>>> next;
    for (std::size_t i = 0; i < count; ++i) next.push_back(plan.add(gru().step(gru().each[t][i], h[i])));
    plan.run();
    for (std::size_t i = 0; i < count; ++i) h[i] = next[i].value();
  }
  use(h.back());
}
void gru_batch() {
  matrix<float> h = gru().start;
  for (std::size_t t = 0; t < turns; ++t) h = evaluate(gru().step(gru().all[t], h));
  use(h);
}

void lenet_alone() {
  eval_plan plan;
  std::vector<handle<matrix<float>>> results;
  for (const auto& x : lenet().each) results.push_back(plan.add(lenet().of(x)));
  plan.run();
  use(results.back().value());
}
void lenet_batch() { use(evaluate(lenet().of(lenet().all))); }

template <class Net> void each_alone(const Net& net) {
  eval_plan plan;
  std::vector<decltype(plan.add(net.of(net.each[0])))> results;
  for (const auto& x : net.each) results.push_back(plan.add(net.of(x)));
  plan.run();
  use(results.back().value());
}
void perceptron_layer_alone() { each_alone(perceptron_layer()); }
void perceptron_layer_batch() { use(evaluate(perceptron_layer().of(perceptron_layer().all))); }
void gru_layer_alone() { each_alone(gru_layer()); }
void gru_layer_batch() { use(evaluate(gru_layer().of(gru_layer().all))); }

}  // namespace bench::samples
