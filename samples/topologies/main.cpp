// Topologies: nets as constexpr values, whose shapes the compiler checks.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string_view>
import lamina;

using namespace lamina;

// ---- layers in sequence ---------------------------------------------------------------------------------------------

inline constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 400, .out_features = 120}, nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10});

// ---- layers and connections, in any order ---------------------------------------------------------------------------

inline constexpr auto weight =
    topology(sublayer<"param">(nn::param_source{.shape = {784, 10}}), sublayer<"dot">(nn::dot{}),
             connect<"param.output", "dot.rhs">, connect<"input", "dot.lhs">, connect<"dot.output", "output">);

// ---- a layer composed of layers in code -----------------------------------------------------------------------------

struct residual {
  nn::conv2d a, b;
  constexpr auto forward(auto& s, const auto& x) const { return relu(s("b", b, relu(s("a", a, x))) + x); }
};
inline constexpr nn::conv2d keeping{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1};
inline constexpr auto residual_net = sequential(
    sublayer<"stem">(nn::conv2d{.in_channels = 3, .out_channels = 8, .kernel_size = 3, .padding = 1}),
    sublayer<"first">(residual{keeping, keeping}), sublayer<"second">(residual{keeping, keeping}),
    nn::global_avg_pool2d{}, nn::flatten{}, sublayer<"head">(nn::linear{.in_features = 8, .out_features = 10}));

// ---- families of topologies -----------------------------------------------------------------------------------------

template <int Depth> inline constexpr auto mlp =
    sequential(sublayer<"body">(mlp<Depth - 1>), nn::linear{.in_features = 32, .out_features = 32}, nn::tanh{});
template <> inline constexpr auto mlp<1> = sequential(nn::linear{.in_features = 16, .out_features = 32}, nn::tanh{});

// ---- several inputs, found by name ----------------------------------------------------------------------------------

inline constexpr auto scores =
    topology(sublayer<"query">(nn::linear{.in_features = 12, .out_features = 8}), sublayer<"mix">(nn::dot{}),
             sublayer<"shift">(nn::add{}), connect<"question", "query.input">, connect<"query.output", "mix.lhs">,
             connect<"keys", "mix.rhs">, connect<"mix.output", "shift.lhs">, connect<"bias", "shift.rhs">,
             connect<"shift.output", "output">);

// ---- running them ---------------------------------------------------------------------------------------------------

// Random numbers, the same in each run.
template <class Tensor> Tensor random_tensor(const shape& s, unsigned seed) {
  Tensor t(s);
  for (auto& x : t.writable()) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<typename Tensor::element_type>(seed >> 8) / 16777216 - 0.5f;
  }
  return t;
}

void show(std::string_view name, const auto& net, const auto& result) {
  std::cout << "-- " << name << ": " << result.shape().string();
  const bool finite = std::ranges::all_of(result.data(), [](auto x) { return std::isfinite(x); });
  std::cout << (finite ? "" : " (not finite)") << "\n";
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const auto& p = net.parameters()[i];
    std::cout << "   " << p.name() << " " << p.shape().string() << (p.trainable() ? "" : " frozen") << "\n";
  }
}

int main() {
  model<lenet, input<"N", 1, 28, 28>> classifier({.seed = 42});
  show("lenet", classifier, classifier(random_tensor<tensor_of_rank<float, 4>>({3, 1, 28, 28}, 1)));

  model<weight, input<"N", 784>> one_layer({.seed = 42});
  show("weight", one_layer, one_layer(random_tensor<matrix<float>>({5, 784}, 2)));

  model<residual_net, input<"N", 3, "H", "W">> deep({.seed = 42});  // images of any size
  show("residual", deep, deep(random_tensor<tensor_of_rank<float, 4>>({2, 3, 20, 24}, 3)));

  model<mlp<3>, input<"N", 16>> family({.seed = 42});
  show("mlp<3>", family, family(random_tensor<matrix<float>>({4, 16}, 4)));

  // Policies come last: this one computes in double and does not train the stem.
  model<residual_net, input<"N", 3, 8, 8>, policies<element<double>, sub<"stem">(trainable(false))>> frozen(
      {.seed = 42});
  show("residual, in double, stem frozen", frozen, frozen(random_tensor<tensor_of_rank<double, 4>>({1, 3, 8, 8}, 5)));

  // Ports by name; their order is that of the arguments of a call. Dimensions with the same name must agree.
  model<scores, port_input<"keys", float, 8, "T">, port_input<"question", float, "N", 12>,
        port_input<"bias", float, "T">>
      named({.seed = 42});
  auto keys = random_tensor<matrix<float>>({8, 6}, 6), question = random_tensor<matrix<float>>({2, 12}, 7);
  show("scores", named, named(keys, question, random_tensor<lamina::vector<float>>({6}, 8)));
  try {
    named(keys, question, random_tensor<lamina::vector<float>>({7}, 9));
  } catch (const shape_error& e) { std::cout << e.what() << "\n"; }
}
