// Layers used directly: operands and gradients by port name, policies that configure layers, parameters and their
// gradients by name. Forward and backward passes only build expressions; `evaluate` computes them.
#include <iostream>
#include <string_view>
import lamina;

using namespace lamina;

// ---- a layer without parameters -------------------------------------------------------------------------------------

using my_policies = policies<trainable(true), feedback(true), element<float>, sub<"dot">(trainable(false))>;

void sums() {
  std::cout << "-- a sum\n";
  train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>, my_policies> layer("add");
  init(layer);  // does nothing: an addition has no parameters
  matrix<float> a{{1, 2}, {3, 4}}, b{{10, 20}, {30, 40}}, g{{1, 0}, {0.5f, -1}};

  auto out = layer.forward(dict("lhs"_key = a, "rhs"_key = b));  // lazy
  std::cout << layer.waiting() << " forward result waits for its backward pass\n";
  auto grad = layer.backward(dict("output"_key = g));
  layer.assert_neutral();  // no result waits for its backward pass
  std::cout << evaluate(out["output"_key]) << "\n" << evaluate(grad["lhs"_key] + grad["rhs"_key]) << "\n";

  try {
    layer.forward(dict("lhs"_key = a, "rhs"_key = matrix<float>(3, 2)));
  } catch (const shape_error& e) { std::cout << e.what() << "\n"; }
  layer.forward(dict("lhs"_key = a, "rhs"_key = b));
  try {
    layer.assert_neutral();
  } catch (const state_error& e) { std::cout << e.what() << "\n"; }
}

// ---- a topology with parameters, one of them frozen ------------------------------------------------------------------

inline constexpr auto scores = topology(
    sublayer<"dot">(nn::linear{.in_features = 2, .out_features = 2, .bias = false}), sublayer<"act">(nn::tanh{}),
    sublayer<"head">(nn::linear{.in_features = 2, .out_features = 1}), connect<"x", "dot.input">,
    connect<"dot.output", "act.input">, connect<"act.output", "head.input">, connect<"head.output", "score">);

void parameters() {
  std::cout << "-- a topology, its sublayer `dot` frozen\n";
  train_layer<constant_layer<scores>, inputs<port<"x", matrix<float>>>, my_policies> net("net");
  load_buffer weights;
  weights.set("net.dot.weight", any_tensor(matrix<float>{{0.5f, 0}, {0, -0.5f}}));
  weights.set("net.head.weight", any_tensor(matrix<float>{{2, -1}}));
  weights.set("net.head.bias", any_tensor(vector<float>{0.25f}));
  load_weights(net, weights);

  matrix<float> x{{1, 2}, {3, 4}, {5, 6}}, ones{{1}, {1}, {1}};
  auto out = net.forward(dict("x"_key = x));
  auto grad = net.backward(dict("score"_key = ones));
  std::cout << evaluate(out["score"_key]) << "\n";

  gradient_collector collector;
  collect_gradients(net, collector);
  for (const auto& name : collector.names()) std::cout << "gradient of " << name << "\n";
  std::cout << evaluate(collector.gradient<vector<float>>("net.head.bias")) << "\n";
  std::cout << evaluate(grad["x"_key]).shape().string() << " passed on\n";

  load_buffer saved;
  save_weights(net, saved);
  for (std::size_t i = 0; i < saved.size(); ++i)
    std::cout << "saved " << saved[i].name() << " " << saved[i].shape().string() << "\n";

  infer_layer<constant_layer<scores>> served("net");  // stores only the parameters
  served.load_weights(saved);
  std::cout << evaluate(served.forward(dict("x"_key = x))["score"_key] - out["score"_key]) << "\n";
}

int main() {
  sums();
  parameters();
}
