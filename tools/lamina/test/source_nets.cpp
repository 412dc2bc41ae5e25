// Writes the nets that the test of `lamina source` writes as C++: a folder is its argument.
#include <string>

import lamina;
import lamina.onnx;

using namespace lamina;
using namespace lamina::ir;

namespace {

// With batch norms, a depthwise convolution, a residual sum and a mean over images.
struct block {
  nn::conv2d wide{.in_channels = 4, .out_channels = 4, .kernel_size = 3, .padding = 1, .groups = 4, .bias = false};
  nn::batch_norm2d norm{4};
  constexpr auto forward(auto& s, const auto& x) const { return relu(s("norm", norm, s("wide", wide, x)) + x); }
};
constexpr auto images = sequential(
    sublayer<"stem">(nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = {3, 1}, .stride = {2, 1}}),
    nn::relu{}, sublayer<"first">(block{}), sublayer<"second">(block{}), nn::global_avg_pool2d{}, nn::flatten{},
    sublayer<"head">(nn::linear{.in_features = 4, .out_features = 5}), nn::softmax{});
constexpr auto rows = sequential(nn::linear{.in_features = 6, .out_features = 8, .bias = false}, nn::tanh{},
                                 nn::linear{.in_features = 8, .out_features = 8}, nn::gelu{},
                                 nn::linear{.in_features = 8, .out_features = 3}, nn::log_softmax{});
constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 4, .out_channels = 6, .kernel_size = 3}, nn::sigmoid{},
    nn::avg_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 24, .out_features = 5});

}  // namespace

int main(int, char** arguments) {
  const std::string to = std::string(arguments[1]) + "/";
  const auto both = [&](const std::string& name, const auto& net) {
    save_net(to + name, net);
    onnx::save(to + name + ".onnx", load_net(to + name));
  };
  both("images", model<images, input<"N", 2, 9, 8>>({.seed = 1}));
  both("rows", model<rows, input<"N", "T", 6>>({.seed = 2}));
  both("saved", model<lenet, input<"N", 1, 12, 12>>({.seed = 3}));

  // Three branches that are joined; a matrix that is not transposed.
  program p;
  parameter_store states;
  const auto state = [&](const char* name, const shape& s) {
    states.make(name, {dtype::float32, s}, initializer::normal(0, 0.5), 4, state_role::parameter);
    return p.state(name, {dtype::float32, s});
  };
  const value x = p.input("x", {dtype::float32, {"a_long_name_of_images", 3, 4, 4}});
  const value branches[] = {relu(x), tanh(x * state("scale", {3, 1, 1})),
                            permute(clamp(permute(x, {0, 2, 3, 1}) / state("by", {3}), p.number(-0.5, dtype::float32),
                                          p.number(1.25, dtype::float32)),
                                    {0, 3, 1, 2})},
              h = concat(branches, 1);
  const value means = reduce_mean(square(x), {.axes = axes(2, 3)});
  const value spread = reduce_max(x - reduce_mean(x, {.axes = axes(3), .keepdim = true}), {.axes = axes(2)});
  const value parts[] = {means, flatten<1>(reshape(sqrt(spread + 4), shape{dyn, 2, 6}))};
  const value turned = squeeze(unsqueeze(h, axes(1)), axes(1)) * p.constant(vector<float>{0.5f, 1, 2, 0.25f});
  p.output("y", matmul(flatten<1>(max(h, turned)), state("dense", {144, 7})) + state("shift", {7}) +
                    matmul(concat(parts, 1), state("more", {15, 7})));
  save_net(to + "joined", p, states);
  onnx::save(to + "joined.onnx", load_net(to + "joined"));
}
