// Layers by hand: operands and gradients by the names of ports, policies that steer them, parameters and their gradients
// by name. Passes only build expressions; nothing is computed before it is evaluated.
#include <iostream>
#include <string_view>
import lamina;

using namespace lamina;

// ---- a layer without parameters -------------------------------------------------------------------------------------

using my_policies = policies<update(true), feedback(true), element<float>, sub<"dot">(update(false))>;

void sums() {
  std::cout << "-- a sum\n";
  train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>, my_policies> layer("add");
  init(layer);                                                           // does nothing: an addition has no parameters
  matrix<float> a{{1, 2}, {3, 4}}, b{{10, 20}, {30, 40}}, g{{1, 0}, {0.5f, -1}};

  auto out = layer.forward(dict(key<"lhs"> = a, key<"rhs"> = b));        // lazy
  std::cout << layer.waiting() << " forward result waits for its backward pass\n";
  auto grad = layer.backward(dict(key<"output"> = g));
  layer.assert_neutral();                                                // none is left
  std::cout << evaluate(out[key<"output">]) << "\n" << evaluate(grad[key<"lhs">] + grad[key<"rhs">]) << "\n";

  try {
    layer.forward(dict(key<"lhs"> = a, key<"rhs"> = matrix<float>(3, 2)));
  } catch (const shape_error& e) {
    std::cout << e.what() << "\n";
  }
  layer.forward(dict(key<"lhs"> = a, key<"rhs"> = b));
  try {
    layer.assert_neutral();
  } catch (const state_error& e) {
    std::cout << e.what() << "\n";
  }
}

// ---- a topology with parameters, one of them frozen ------------------------------------------------------------------

inline constexpr auto scores = topology(
    sublayer<"dot">(nn::linear{.in = 2, .out = 2, .bias = false}), sublayer<"act">(nn::tanh{}),
    sublayer<"head">(nn::linear{.in = 2, .out = 1}), connect<"x", "dot.input">, connect<"dot.output", "act.input">,
    connect<"act.output", "head.input">, connect<"head.output", "score">);

void parameters() {
  std::cout << "-- a topology, its sublayer `dot` frozen\n";
  train_layer<constant_layer<scores>, inputs<port<"x", matrix<float>>>, my_policies> net("net");
  load_buffer weights;
  weights.set("net.dot.weight", any_tensor(matrix<float>{{0.5f, 0}, {0, -0.5f}}));
  weights.set("net.head.weight", any_tensor(matrix<float>{{2, -1}}));
  weights.set("net.head.bias", any_tensor(vector<float>{0.25f}));
  load_weights(net, weights);

  matrix<float> x{{1, 2}, {3, 4}, {5, 6}}, ones{{1}, {1}, {1}};
  auto out = net.forward(dict(key<"x"> = x));
  auto grad = net.backward(dict(key<"score"> = ones));
  std::cout << evaluate(out[key<"score">]) << "\n";

  gradient_collector collector;
  collect_gradients(net, collector);
  for (const auto& name : collector.names()) std::cout << "gradient of " << name << "\n";
  std::cout << evaluate(collector.gradient<vector<float>>("net.head.bias")) << "\n";
  std::cout << evaluate(grad[key<"x">]).shape().string() << " handed on\n";

  load_buffer saved;
  save_weights(net, saved);
  for (std::size_t i = 0; i < saved.size(); ++i) std::cout << "saved " << saved[i].name() << " " << saved[i].shape().string() << "\n";

  infer_layer<constant_layer<scores>> served("net");                     // stores nothing but the parameters
  served.load_weights(saved);
  std::cout << evaluate(served.forward(dict(key<"x"> = x))[key<"score">] - out[key<"score">]) << "\n";
}

int main() {
  sums();
  parameters();
}
