// Writes the nets for the test of `lamina source` to the folder in its argument.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../../tests/support/onnx_writer.h"

import lamina;
import lamina.onnx;

using namespace lamina;
using namespace lamina::ir;
namespace t = onnx_test;

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

// Generated parameters of a shape.
t::bytes made_up(const std::string& name, const t::numbers& dims) {
  std::size_t n = 1;
  for (auto d : dims) n *= static_cast<std::size_t>(d);
  std::vector<float> all;
  for (std::size_t i = 0; i < n; ++i)
    all.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i) + static_cast<double>(name.size()))) / 2);
  return t::floats(name, dims, all);
}
void write(const std::string& to, const t::bytes& model) { std::ofstream(to, std::ios::binary) << model; }

t::bytes model_of(std::int64_t opset, const std::vector<t::bytes>& nodes, const std::vector<t::bytes>& initializers,
                  const std::vector<t::bytes>& inputs, const std::vector<t::bytes>& outputs) {
  return t::model{.main = {.nodes = nodes, .inputs = inputs, .outputs = outputs, .initializers = initializers},
                  .opsets = {t::opset("", opset)}}
      .done();
}

// A chain of recurrent layers: a bidirectional LSTM whose states are read, GRUs of both forms, RNNs with given initial
// states.
t::bytes recurrent_model() {
  return model_of(
      18,
      {t::node("LSTM", {"x", "lstm.W", "lstm.R", "lstm.B"}, {"both", "both_h", "both_c"},
               {t::string("direction", "bidirectional"), t::integer("hidden_size", 4)}),
       t::node("Transpose", {"both"}, {"turned"}, {t::integers("perm", {0, 2, 1, 3})}),
       t::node("Reshape", {"turned", "to"}, {"joined"}),
       t::node("GRU", {"joined", "after.W", "after.R", "after.B"}, {"after", "after_h"},
               {t::integer("hidden_size", 3), t::integer("linear_before_reset", 1)}),
       t::node("Squeeze", {"after", "one"}, {"after_rows"}),
       t::node("GRU", {"after_rows", "before.W", "before.R", "before.B"}, {"before"},
               {t::integer("hidden_size", 5), t::string("direction", "reverse")}),
       t::node("Squeeze", {"before", "one"}, {"before_rows"}), t::node("Identity", {"after_h"}, {"after_rnn"}),
       t::node("RNN", {"before_rows", "rnn.W", "rnn.R", "", "", "after_rnn"}, {"rnn", "rnn_h"},
               {t::integer("hidden_size", 3)}),
       t::node("Squeeze", {"rnn", "one"}, {"rnn_rows"}),
       t::node("RNN", {"rnn_rows", "relu.W", "relu.R", "relu.B"}, {"relu"},
               {t::integer("hidden_size", 2), t::strings("activations", {"Relu"})}),
       t::node("Squeeze", {"relu", "one"}, {"y"}), t::node("Add", {"both_h", "both_c"}, {"states"})},
      {made_up("lstm.W", {2, 16, 3}), made_up("lstm.R", {2, 16, 4}), made_up("lstm.B", {2, 32}),
       made_up("after.W", {1, 9, 8}), made_up("after.R", {1, 9, 3}), made_up("after.B", {1, 18}),
       made_up("before.W", {1, 15, 3}), made_up("before.R", {1, 15, 5}), made_up("before.B", {1, 30}),
       made_up("rnn.W", {1, 3, 5}), made_up("rnn.R", {1, 3, 3}), made_up("relu.W", {1, 2, 3}),
       made_up("relu.R", {1, 2, 2}), made_up("relu.B", {1, 4}), t::longs("to", {3}, {0, 0, -1}),
       t::longs("one", {1}, {1})},
      {t::value("x", t::float32, {"T", "N", 3})},
      {t::value("y", t::float32, {"T", "N", 2}), t::value("states", t::float32, {2, "N", 4}),
       t::value("rnn_h", t::float32, {1, "N", 3})});
}

// A transformer layer on embedded rows: attention as an operator with a mask input, and as products and a softmax.
t::bytes transformer_model() {
  std::vector<t::bytes> nodes{
      t::node("Gather", {"table", "ids"}, {"rows"}), t::node("Add", {"rows", "places"}, {"placed"}),
      t::node("LayerNormalization", {"placed", "norm.weight", "norm.bias"}, {"h"}, {t::integer("axis", -1)})};
  for (const char* name : {"q", "k", "v"}) {
    const std::string n = name;
    nodes.push_back(t::node("MatMul", {"h", n + ".weight"}, {n + "_rows"}));
    nodes.push_back(t::node("Reshape", {n + "_rows", "heads"}, {n + "_heads"}));
    nodes.push_back(t::node("Transpose", {n + "_heads"}, {n}, {t::integers("perm", {0, 2, 1, 3})}));
  }
  const std::vector<t::bytes> rest{
      t::node("Attention", {"q", "k", "v", "mask"}, {"seen"}),
      t::node("Transpose", {"k"}, {"kt"}, {t::integers("perm", {0, 1, 3, 2})}),
      t::node("MatMul", {"q", "kt"}, {"scores"}),
      t::node("Mul", {"scores", "half"}, {"scaled"}),
      t::node("Softmax", {"scaled"}, {"weights"}),
      t::node("MatMul", {"weights", "v"}, {"seen_too"}),
      t::node("Sub", {"seen", "seen_too"}, {"all"}),
      t::node("Transpose", {"all"}, {"back"}, {t::integers("perm", {0, 2, 1, 3})}),
      t::node("Reshape", {"back", "flat"}, {"joined"}),
      t::node("RMSNormalization", {"joined", "rms.weight"}, {"n"}, {t::integer("axis", -1)}),
      t::node("Add", {"n", "h"}, {"sum"}),
      t::node("LayerNormalization", {"sum", "last.weight"}, {"last"}, {t::integer("axis", 1)}),
      t::node("Gather", {"last", "first"}, {"pooled"}, {t::integer("axis", 1)}),
      t::node("Slice", {"pooled", "from", "until", "along"}, {"y"})};
  nodes.insert(nodes.end(), rest.begin(), rest.end());
  return model_of(
      23, nodes,
      {made_up("table", {11, 8}), made_up("places", {6, 8}), made_up("norm.weight", {8}), made_up("norm.bias", {8}),
       made_up("q.weight", {8, 8}), made_up("k.weight", {8, 8}), made_up("v.weight", {8, 8}),
       made_up("rms.weight", {8}), made_up("last.weight", {6, 8}), t::floats("half", {}, {0.5f}),
       t::longs("heads", {4}, {0, 0, 2, 4}), t::longs("flat", {3}, {0, 0, 8}), t::longs("first", {}, {0}),
       t::longs("from", {1}, {1}), t::longs("until", {1}, {7}), t::longs("along", {1}, {1})},
      {t::value("ids", t::int64, {"N", 6}), t::value("mask", t::float32, {"N", 1, 6, 6})},
      {t::value("y", t::float32, {"N", 6})});
}

t::bytes norms_model() {
  return model_of(
      21,
      {t::node("GroupNormalization", {"x", "group.weight", "group.bias"}, {"a"}, {t::integer("num_groups", 2)}),
       t::node("Relu", {"a"}, {"b"}),
       t::node("InstanceNormalization", {"b", "instance.weight", "instance.bias"}, {"c"}, {t::real("epsilon", 1e-3f)}),
       t::node("Conv", {"c", "filters"}, {"d"},
               {t::integers("pads", {1, 2, 0, 3}), t::integers("kernel_shape", {2, 3})}),
       t::node("Pad", {"d", "borders", "with"}, {"e"}),
       t::node("Split", {"e"}, {"left", "right"}, {t::integer("axis", 1), t::integer("num_outputs", 2)}),
       t::node("Sub", {"left", "right"}, {"f"}), t::node("Neg", {"f"}, {"y"})},
      {made_up("group.weight", {4}), made_up("group.bias", {4}), made_up("instance.weight", {4}),
       made_up("filters", {2, 4, 2, 3}), t::longs("borders", {8}, {0, 0, 1, 0, 0, 0, 0, 2}),
       t::floats("with", {}, {0.25f}), made_up("instance.bias", {4})},
      {t::value("x", t::float32, {"N", 4, 3, 5})}, {t::untyped("y")});
}

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

  write(to + "recurrent.onnx", recurrent_model());
  write(to + "transformer.onnx", transformer_model());
  write(to + "norms.onnx", norms_model());
  write(to + "peephole.onnx", model_of(18,
                                       {t::node("LSTM", {"x", "W", "R", "", "", "", "", "P"}, {"y"},
                                                {t::integer("hidden_size", 2)}, {.name = "peeping"})},
                                       {made_up("W", {1, 8, 3}), made_up("R", {1, 8, 2}), made_up("P", {1, 6})},
                                       {t::value("x", t::float32, {"T", "N", 3})}, {t::untyped("y")}));

  // Three branches that are joined; a matrix without transpose.
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
  p.output("y", matmul(as_matrix<1>(max(h, turned)), state("dense", {144, 7})) + state("shift", {7}) +
                    matmul(concat(parts, 1), state("more", {15, 7})));
  save_net(to + "joined", p, states);
  onnx::save(to + "joined.onnx", load_net(to + "joined"));
}
