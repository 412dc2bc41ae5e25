// The writer of ONNX files: nets that are written and read back give the same numbers.
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/message.h"
#include "written_folder.h"

namespace fs = std::filesystem;
using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using onnx_test::folder;

namespace {

// Numbers in -1 to 1, positions below 3; each depends only on its index.
any_tensor numbers(const tensor_type& type) {
  any_tensor made(type);
  std::uint32_t state = 12345;
  with_type(type.element, [&]<class T>() {
    for (std::int64_t i = 0; i < type.dims.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      const double x = state / 2147483648.0 - 1;
      if constexpr (std::is_convertible_v<double, T>) {
        const double number = is_integer(type.element) ? std::floor((x + 1) * 1.5) : x;
        const T v = [&] {
          if constexpr (std::is_class_v<T>) return T(static_cast<float>(number));
          else return static_cast<T>(number);
        }();
        std::memcpy(made.mutable_data() + static_cast<std::size_t>(i) * sizeof v, &v, sizeof v);
      }
    }
  });
  return made;
}

std::vector<any_tensor> results_of(const saved_net& net, const std::vector<any_tensor>& inputs) {
  auto s = ir::session::owning(net.program, net.states);
  return s.run(view<const any_tensor>(inputs.data(), inputs.size()));
}

void compare(const any_tensor& a, const any_tensor& b) {
  BOOST_TEST((a.type() == b.type()));
  if (a.type() != b.type()) return;
  with_type(a.element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>)
      for (std::size_t i = 0; i < a.elements<T>().size(); ++i) {
        const auto x = static_cast<double>(a.elements<T>()[i]), y = static_cast<double>(b.elements<T>()[i]);
        BOOST_TEST(std::abs(x - y) <= 1e-5 * (1 + std::abs(x)), i << ": " << x << " " << y);
      }
  });
}

// Writes a net, reads it back and compares; keeps inputs and results for check_written.py.
void check(const std::string& name, const saved_net& net, std::vector<shape> shapes, onnx::write_options o = {}) {
  const folder to;
  const std::string file = to / (name + ".onnx");
  onnx::save(file, net, o);
  std::vector<any_tensor> inputs;
  const auto declared = net.inputs();
  for (std::size_t i = 0; i < shapes.size(); ++i) inputs.push_back(numbers({declared[i].type.element, shapes[i]}));
  const auto expected = results_of(net, inputs), is = results_of(onnx::load(file), inputs);
  BOOST_REQUIRE(is.size() == expected.size());
  for (std::size_t i = 0; i < is.size(); ++i) compare(expected[i], is[i]);
  if (!to.kept) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    write_npy(to / (name + ".input_" + std::to_string(i) + ".npy"), inputs[i]);
  for (std::size_t i = 0; i < expected.size(); ++i)
    write_npy(to / (name + ".output_" + std::to_string(i) + ".npy"), expected[i]);
}
template <class M> saved_net saved(const M& m) {
  const folder to;
  save_net(to / "net", m);
  return load_net(to / "net");
}

constexpr auto mlp = sequential(sublayer<"fc1">(nn::linear{.in_features = 4, .out_features = 6}), nn::relu{},
                                sublayer<"fc2">(nn::linear{.in_features = 6, .out_features = 3}), nn::softmax{});
constexpr auto lenet = sequential(
    sublayer<"conv1">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 5, .padding = 2}), nn::relu{},
    nn::max_pool2d{.kernel_size = 2},
    sublayer<"conv2">(nn::conv2d{.in_channels = 4, .out_channels = 6, .kernel_size = 3}), nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, sublayer<"fc">(nn::linear{.in_features = 24, .out_features = 5}));
constexpr auto encoder =
    sequential(nn::transformer_encoder_layer{.d_model = 8, .nhead = 2, .dim_feedforward = 16, .causal = true});
constexpr auto lstm =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .num_layers = 2, .batch_first = true, .bidirectional = true},
               nn::linear{.in_features = 8, .out_features = 2});
constexpr auto bags = topology(
    sublayer<"bag">(nn::embedding_bag{
        .num_embeddings = 3, .embedding_dim = 4, .padding_idx = 1, .mode = nn::bag_mode::sum, .weighted = true}),
    connect<"input", "bag.input">, connect<"weights", "bag.weights">, connect<"bag.output", "output">);
constexpr auto attentive = topology(
    sublayer<"m">(nn::self_attention{.embed_dim = 4, .num_heads = 2, .causal = true, .mask = true, .weights = true}),
    connect<"input", "m.input">, connect<"mask", "m.mask">, connect<"m.output", "output">,
    connect<"m.weights", "weights">);
constexpr auto projected =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true, .proj_size = 2},
               sublayer<"norm">(nn::batch_norm1d{.num_features = 5, .cumulative = true}));
constexpr auto one_layer = sequential(nn::linear{.in_features = 32, .out_features = 32});
constexpr auto gru = sequential(nn::gru{.input_size = 3, .hidden_size = 4}, nn::rms_norm{{4}});

}  // namespace

BOOST_AUTO_TEST_SUITE(writer)

BOOST_AUTO_TEST_CASE(nets_of_layers) {
  check("mlp", saved(model<mlp, input<"N", 4>>({.seed = 1})), {{5, 4}});
  check("lenet", saved(model<lenet, input<"N", 1, 12, 12>>({.seed = 1})), {{3, 1, 12, 12}});
}
// check_written.py compares the number in the name with the file's opset.
BOOST_AUTO_TEST_CASE(each_opset) {
  const auto pictures = saved(model<lenet, input<"N", 1, 12, 12>>({.seed = 1}));
  const auto words = saved(model<encoder, input<"N", "T", 8>>({.seed = 1}));
  const auto steps = saved(model<lstm, input<"N", "T", 3>>({.seed = 1}));
  const auto activations = std::make_shared<program>();
  const value x = activations->input("x", {dtype::float32, {"N", 3, 4}});
  for (const auto& [name, v] : {std::pair<const char*, value>{"gelu", gelu(x)},
                                {"mish", mish(x)},
                                {"swish", silu(x)},
                                {"norm", layer_norm(x, {.axes = 1})},
                                {"cast", cast<bfloat16>(x)}})
    activations->output(name, name == std::string("cast") ? value(cast<float>(v)) : v);
  for (std::int64_t opset = 18; opset <= 25; ++opset) {
    const std::string end = "_opset" + std::to_string(opset);
    check("lenet" + end, pictures, {{3, 1, 12, 12}}, {.opset = opset});
    check("encoder" + end, words, {{2, 5, 8}}, {.opset = opset});
    check("lstm" + end, steps, {{2, 5, 3}}, {.opset = opset});
    check("activations" + end, {activations, {}}, {{2, 3, 4}}, {.opset = opset});
  }
  const folder to;
  for (const std::int64_t opset : {-1, 0, 17, 26})
    BOOST_TEST(engine_test::message_of([&] {
                 onnx::save(to / "out.onnx", pictures, {.opset = opset});
               }).find("opset is " + std::to_string(opset) + "; expected 18 to 25") != std::string::npos);
  BOOST_TEST(!fs::exists(to / "out.onnx"));
}
BOOST_AUTO_TEST_CASE(transformer) {
  check("encoder", saved(model<encoder, input<"N", "T", 8>>({.seed = 1})), {{2, 5, 8}});
}
BOOST_AUTO_TEST_CASE(options_of_layers) {
  check("weighted_bags",
        saved(model<bags, port_input<"input", std::int64_t, "N", "L">, port_input<"weights", float, "N", "L">>(
            {.seed = 1})),
        {{4, 5}, {4, 5}});
  const auto attention = saved(
      model<attentive, port_input<"input", float, "N", "T", 4>, port_input<"mask", float, "T", "T">>({.seed = 1}));
  check("attention_weights", attention, {{2, 5, 4}, {5, 5}});
  const auto steps = saved(model<projected, input<"T", 5, 3>>({.seed = 1}));
  check("projections", steps, {{6, 5, 3}});
}
BOOST_AUTO_TEST_CASE(recurrent) {
  check("lstm", saved(model<lstm, input<"N", "T", 3>>({.seed = 1})), {{2, 5, 3}});
  check("gru", saved(model<gru, input<"T", "N", 3>>({.seed = 1})), {{5, 2, 3}});
}

BOOST_AUTO_TEST_CASE(operations) {
  const auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N", 3, 4}}), at = p->input("at", {dtype::int64, {2}});
  p->output("gathered", gather(x, at, 1));
  p->output("expm1", expm1(x) + log1p(x * x));
  p->output("clamped", clamp(x, p->number(-0.5, dtype::float32), p->number(0.5, dtype::float32)));
  p->output("sum", reduce_sum(x, {.axes = {1}, .keepdim = true}));
  p->output("reshaped", reshape(x, shape{dyn, 12}));
  p->output("same", x);
  p->output("differs", where(x != round(x), prelu(x, p->number(0.25, dtype::float32)), x));
  p->output("inverted", bit_not(at));
  const value axis = select(at, 0, 0) * 0 + 1, over = at * 0 + 2;
  p->output("running", running_along(x, axis, {.exclusive = true, .reverse = true}));
  p->output("largest", reduce_by(x, slice(over, {.start = 0, .stop = 1, .axis = 0}), {reduction_kind::maximum, true}));
  check("operations", {p, {}}, {{2, 3, 4}, {2}});
}

BOOST_AUTO_TEST_CASE(shuffled_channels) {
  const auto p = std::make_shared<program>();
  const value x[] = {p->input("x", {dtype::float32, {"N", 2, "H", 3}}),
                     p->input("y", {dtype::float32, {"N", 4, "H", 3}})};
  p->output("one", channel_shuffle(x[1], 2));
  p->output("both", channel_shuffle(view<const value>(x), {.groups = 3}));
  p->output("part", channel_shuffle(view<const value>(x), {.groups = 3, .start = 1, .count = 3}));
  p->output("back", channel_shuffle(view<const value>(x), {.groups = 3, .inverse = true}));
  check("shuffles", {p, {}}, {{2, 2, 5, 3}, {2, 4, 5, 3}});
}

// Whether a node of the file has this operator, by its encoded name.
bool file_has(const std::string& file, const std::string& op) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  const std::string field = std::string("\x22") + static_cast<char>(op.size()) + op;  // NodeProto.op_type
  return all.find(field) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(suppressed_boxes) {
  const auto p = std::make_shared<program>();
  const value boxes = p->input("boxes", {dtype::float32, {2, 9, 4}}),
              scores = p->input("scores", {dtype::float32, {2, 3, 9}}), one = select(boxes, 0, 1),
              of_one = select(select(scores, 0, 1), 0, 2);
  p->output("all", non_max_suppression(boxes, scores, {.iou_threshold = 0.1}));
  p->output("centers",
            non_max_suppression(boxes, scores,
                                {.iou_threshold = 0.3, .score_threshold = -0.2, .max_per_class = 2, .centers = true}));
  p->output("one", gather(of_one, non_max_suppression(one, of_one, {.iou_threshold = 0.2, .max_per_class = 4}), 0));
  const value max = p->input("max", {dtype::int64, {}}), overlap = p->input("overlap", {dtype::float32, {}});
  p->output("computed", non_max_suppression(boxes, scores, max, abs(overlap), p->number(-0.1, dtype::float32)));
  check("suppression", {p, {}}, {{2, 9, 4}, {2, 3, 9}, {}, {}});
  const folder to;
  onnx::save(to / "suppression.onnx", {p, {}});
  BOOST_TEST(file_has(to / "suppression.onnx", "NonMaxSuppression"));
  BOOST_TEST(!file_has(to / "suppression.onnx", "TopK"));  // the operator sorts by itself
  const auto q = std::make_shared<program>();
  q->output("y", non_max_suppression(q->input("b", {dtype::float64, {5, 4}}), q->input("s", {dtype::float64, {5}})));
  BOOST_TEST(message_of([&] { onnx::save(to / "double.onnx", {q, {}}); }).find("its boxes are not float32") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(biases_join_products) {
  const auto p = std::make_shared<program>();
  parameter_store states;
  const auto weight = [&](const char* name, const shape& s) {
    states.add(name, numbers({dtype::float32, s}), state_role::parameter);
    return p->state(name, {dtype::float32, s});
  };
  const value x = p->input("x", {dtype::float32, {"N", 4, 6, 6}});
  const value a = conv2d(x, weight("a", {6, 4, 3, 3})) + weight("a_bias", {6, 1, 1});
  const value b = conv2d(relu(a), weight("b", {5, 6, 1, 1})) + reshape(weight("b_bias", {5}), shape{5, 1, 1});
  const value rows = reduce_mean(b, {.axes = {2, 3}});
  const value c = matmul(rows, weight("c", {7, 5}), {.transpose_b = true}) + weight("c_bias", {7});
  p->output("y", c);
  check("biases", {p, states}, {{2, 4, 6, 6}});
  const folder to;
  onnx::save(to / "biases.onnx", {p, states});
  BOOST_TEST(file_has(to / "biases.onnx", "Conv"));
  BOOST_TEST(file_has(to / "biases.onnx", "Gemm"));
  BOOST_TEST(!file_has(to / "biases.onnx", "Add"));
  BOOST_TEST(!file_has(to / "biases.onnx", "Reshape"));
}
BOOST_AUTO_TEST_CASE(what_is_no_bias_stays) {
  const auto p = std::make_shared<program>();
  parameter_store states;
  const auto weight = [&](const char* name, const shape& s) {
    states.add(name, numbers({dtype::float32, s}), state_role::parameter);
    return p->state(name, {dtype::float32, s});
  };
  const value x = p->input("x", {dtype::float32, {2, 4, 3, 3}});
  const value w = weight("w", {3, 4, 1, 1});
  const value y = conv2d(x, w), both = conv2d(x, weight("v", {3, 4, 1, 1}));
  p->output("columns", y + weight("columns", {3}));  // by columns, not by channels
  p->output("both", both + weight("bias", {3, 1, 1}));
  p->output("product", both);  // a second reader, without the bias
  check("no_biases", {p, states}, {{2, 4, 3, 3}});
}

BOOST_AUTO_TEST_CASE(borders) {
  const auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N", 5}}), by = p->input("by", {dtype::int64, {4}});
  const std::int64_t fixed[] = {2, 0, 1, 3};
  any_tensor borders(tensor_type{dtype::int64, {4}});
  std::memcpy(borders.mutable_data(), fixed, sizeof fixed);
  p->output("reflect", pad_by(x, p->constant(borders), {0, 1}, border_mode::reflect));
  p->output("edge", pad_by(x, by, {0, 1}, border_mode::edge));
  p->output("wrap", pad_by(x, by, {0, 1}, border_mode::wrap));
  check("borders", {p, {}}, {{4, 5}, {4}});
  check("borders_of_one", {p, {}}, {{3, 5}, {4}});
  const folder to;
  BOOST_TEST(message_of([&] { onnx::save(to / "old.onnx", {p, {}}, {.opset = 18}); }).find("needs opset 19") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(windows_of_integers_begin_at_their_least_number) {
  const auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::uint8, {1, 1, 3, 4}}), y = p->input("y", {dtype::int32, {1, 1, 3, 4}});
  const pool_options window{.kernel = {2, 2}, .paddings_before = {1, 1}};
  p->output("bytes", max_pool(x, window));
  p->output("words", max_pool(y - 1000, window));
  check("windows", {p, {}}, {{1, 1, 3, 4}, {1, 1, 3, 4}});
}

BOOST_AUTO_TEST_CASE(weights_beside_the_model) {
  const folder to;
  const auto net = saved(model<one_layer, input<"N", 32>>({.seed = 1}));
  onnx::save(to / "outside.onnx", net, {.external_above = 100});
  BOOST_TEST(fs::exists(to / "outside.onnx.data"));
  const std::vector<any_tensor> inputs{numbers({dtype::float32, {2, 32}})};
  compare(results_of(net, inputs)[0], results_of(onnx::load(to / "outside.onnx"), inputs)[0]);
}

BOOST_AUTO_TEST_CASE(refused) {
  const folder to;
  const auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::int64, {3}});
  p->output("y", shift_left(x, x));
  BOOST_CHECK_THROW(onnx::save(to / "shift.onnx", {p, {}}), unsupported_error);
  BOOST_TEST(message_of([&] { onnx::save(to / "shift.onnx", {p, {}}); }).find("shift_left") != std::string::npos);
  BOOST_TEST(!fs::exists(to / "shift.onnx"));
  BOOST_CHECK_THROW(onnx::save(to / "old.onnx", {p, {}}, {.opset = 9}), unsupported_error);
  // Mismatched shapes of constants, as found by a plan.
  const auto q = std::make_shared<program>();
  const value sizes = q->constant(numbers({dtype::int64, {3}})), all = q->constant(numbers({dtype::float32, {7}}));
  q->output("y", reshape_to(all, abs(sizes) + 2));
  BOOST_TEST(message_of([&] {
               onnx::save(to / "shapes.onnx", {q, {}});
             }).find("a constant of the model cannot be computed") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
