// Per-sample evaluation: each sample has its own length and passes through the net alone. The losses are collected one
// by one and computed in one run. No batch axis, no padding, no masks.
#include <cstdio>
#include <vector>
import lamina;

using namespace lamina;

struct sample {
  matrix<float> x, t;  // [length, 2] and [length, 1]
};
// Sequences of 1 to 5 points (u, v); the target of each point is 2 u - v + 0.5.
std::vector<sample> some_samples() {
  std::vector<sample> all;
  unsigned seed = 1;
  auto number = [&] { return static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) / 8388608 - 1; };
  for (int i = 0; i < 20; ++i) {
    const int length = 1 + i % 5;
    matrix<float> x(length, 2), t(length, 1);
    for (int k = 0; k < length; ++k) {
      x.writable(k, 0) = number();
      x.writable(k, 1) = number();
      t.writable(k, 0) = 2 * x(k, 0) - x(k, 1) + 0.5f;
    }
    all.push_back({x, t});
  }
  return all;
}

inline constexpr nn::linear line{.in_features = 2, .out_features = 1};

int main() {
  const auto samples = some_samples();
  train_layer<constant_layer<line>, inputs<port<"input", matrix<float>>>, policies<trainable(true)>> net("line");
  init(net, initializers(42));

  for (int round = 0; round <= 60; ++round) {
    eval_plan plan;
    gradient_collector gradients;
    std::vector<handle<scalar<float>>> losses;
    for (const auto& [x, t] : samples) {
      auto y = net.forward(dict("input"_key = x))["output"_key];
      losses.push_back(plan.add(reduce_mean(square(y - t))));
      net.backward(dict("output"_key = (y - t) * (2.f / static_cast<float>(x.shape().at(0)))));
    }
    collect_gradients(net, gradients);
    plan.run();  // computes all losses, common subexpressions once
    double sum = 0;
    for (auto& l : losses) sum += static_cast<double>(item(l.value()));
    if (round % 20 == 0) std::printf("round %2d: mean loss %.4f\n", round, sum / static_cast<double>(samples.size()));

    gradients.each([&](parameter& p, const any_tensor& g) {  // gradients summed over all samples, computed in one run
      auto* w = reinterpret_cast<float*>(p.mutable_data());
      const auto step = g.elements<float>();
      for (std::size_t i = 0; i < step.size(); ++i) w[i] -= 0.3f / static_cast<float>(samples.size()) * step[i];
    });
  }
  net.assert_neutral();
  const auto w = net.parameter("weight").value().elements<float>();
  std::printf("%.2f u %+.2f v %+.2f\n", static_cast<double>(w[0]), static_cast<double>(w[1]),
              static_cast<double>(net.parameter("bias").value().elements<float>()[0]));
}
