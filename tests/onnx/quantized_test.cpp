// Quantized models: which parts run in int8, within one step of the model's float32 results.
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/onnx_writer.h"
#include "written_folder.h"

namespace t = onnx_test;
using namespace lamina;
using namespace lamina::ir;
using t::bytes;

namespace {

using list = std::vector<float>;
const t::node_names microsoft{.domain = "com.microsoft"};

std::size_t count_of(const t::numbers& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return static_cast<std::size_t>(n);
}

// A graph of float operators between quantization and dequantization.
struct quantized_graph {
  bool is_unsigned = false, by_channel = false;
  int largest_weight = 127;
  std::vector<bytes> nodes{}, constants{};
  int names = 0;

  bytes name() { return "v" + std::to_string(names++); }
  bytes number(float v) {
    const bytes n = name();
    constants.push_back(t::floats(n, {}, {v}));
    return n;
  }
  bytes byte(int v) {
    const bytes n = name();
    constants.push_back(t::tensor(n, is_unsigned ? t::uint8 : t::int8, {},
                                  t::raw(std::vector<std::uint8_t>{static_cast<std::uint8_t>(v)})));
    return n;
  }
  bytes node(const bytes& op, const t::names& in, const t::names& attributes = {}) {
    const bytes n = name();
    nodes.push_back(t::node(op, in, {n}, attributes));
    return n;
  }
  // Quantizes x and dequantizes it.
  bytes through(const bytes& x, float scale, int zero) {
    const bytes s = number(scale), z = byte(is_unsigned ? zero + 128 : zero);
    return node("DequantizeLinear", {node("QuantizeLinear", {x, s, z}), s, z});
  }
  // Weights, whose channels are an axis.
  bytes weights(const t::numbers& dims, std::int64_t axis, std::uint32_t seed, int zero = 0) {
    std::vector<std::int8_t> q;
    for (float v : t::noise(count_of(dims), seed))
      q.push_back(static_cast<std::int8_t>(std::lround(v * static_cast<float>(largest_weight))));
    const bytes w = name(), s = name(), z = name();
    const std::int64_t channels = dims[static_cast<std::size_t>(axis)];
    list scales{0.006f};
    if (by_channel) {
      scales.clear();
      for (float v : t::noise(static_cast<std::size_t>(channels), seed + 1)) scales.push_back(0.006f + v * 0.002f);
    }
    const t::numbers of = by_channel ? t::numbers{channels} : t::numbers{};
    constants.push_back(t::tensor(w, t::int8, dims, t::raw(q)));
    constants.push_back(t::floats(s, of, scales));
    constants.push_back(
        t::tensor(z, t::int8, of, t::raw(std::vector<std::int8_t>(scales.size(), static_cast<std::int8_t>(zero)))));
    return node("DequantizeLinear", {w, s, z}, {t::integer("axis", axis)});
  }
  bytes bias(std::int64_t channels, std::uint32_t seed) {
    const bytes n = name();
    constants.push_back(t::floats(n, {channels}, t::noise(static_cast<std::size_t>(channels), seed)));
    return n;
  }
  // The model that computes y from x.
  bytes model(const t::extents& x, const bytes& y) {
    nodes.push_back(t::node("Identity", {y}, {"y"}));
    return t::model{.main = {.nodes = nodes,
                             .inputs = {t::value("x", t::float32, x)},
                             .outputs = {t::untyped("y")},
                             .initializers = constants},
                    .opsets = {t::opset("", 18), t::opset("com.microsoft", 1)}}
        .done();
  }
};

saved_net read(const bytes& model) {
  return onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
}
any_tensor tensor_of(const shape& s, const list& v) {
  any_tensor made({dtype::float32, s});
  std::memcpy(made.mutable_data(), v.data(), v.size() * sizeof(float));
  return made;
}
using pass_counts = std::remove_cvref_t<decltype(std::declval<const plan&>().counters())>;
struct outcome {
  list y;
  pass_counts counters;
};
outcome run(const saved_net& net, const any_tensor& x, const pass_options& o = {}) {
  const shape dims[] = {x.shape()};
  const auto plan = make_plan(*net.program, dims, target_isa(), o);
  parameter_store states = net.states;
  const any_tensor in[] = {x};
  const auto y = executor(plan, &states).run(view<const any_tensor>(in, 1))[0];
  outcome made{{}, plan->counters()};
  for (float v : y.elements<float>()) made.y.push_back(v);
  return made;
}
// Compares int8 with float32 results, within one step of the last scale; returns the counts of the passes.
pass_counts check(const bytes& model, const shape& dims, float step) {
  const auto net = read(model);
  const auto x = tensor_of(dims, t::noise(static_cast<std::size_t>(dims.size()), 9));
  const auto in_int8 = run(net, x), in_float = run(net, x, {.simplify = false});
  BOOST_REQUIRE_EQUAL(in_int8.y.size(), in_float.y.size());
  bool alike = true;
  for (std::size_t i = 0; i < in_int8.y.size(); ++i) {
    BOOST_REQUIRE(std::abs(in_int8.y[i] - in_float.y[i]) <= step * 1.001f);
    alike = alike && in_int8.y[i] == in_int8.y[0];
  }
  BOOST_TEST((in_int8.y.size() < 2 || !alike));
  return in_int8.counters;
}
// Signed and unsigned activations, weights with one scale or one for each channel.
template <class F> void in_all_forms(F each) {
  for (const bool is_unsigned : {false, true})
    for (const bool by_channel : {false, true})
      BOOST_TEST_CONTEXT("unsigned " << is_unsigned << ", by channel " << by_channel) {
        quantized_graph g;
        g.is_unsigned = is_unsigned, g.by_channel = by_channel;
        each(g);
      }
}
int occurrences(const std::string& text, const std::string& what) {
  int count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quantized_models)

BOOST_AUTO_TEST_CASE(convolutions) {
  in_all_forms([](quantized_graph& g) {
    const auto pads = t::integers("pads", {1, 1, 1, 1});
    bytes v = g.through("x", 0.009f, 5);
    v = g.through(g.node("Relu", {g.node("Conv", {v, g.weights({8, 3, 3, 3}, 0, 1), g.bias(8, 2)}, {pads})}), 0.02f,
                  -128);
    // Asymmetric padding, and a depthwise convolution.
    v = g.through(g.node("Conv", {v, g.weights({8, 1, 3, 3}, 0, 3), g.bias(8, 4)},
                         {t::integers("pads", {0, 0, 1, 1}), t::integers("strides", {2, 2}), t::integer("group", 8)}),
                  0.03f, 11);
    v = g.through(g.node("Conv", {v, g.weights({20, 8, 1, 1}, 0, 5)}), 0.05f, -3);
    const auto c = check(g.model({"n", 3, 9, 8}, v), {2, 3, 9, 8}, 0.05f);
    BOOST_TEST(c.of(rewrite::quantized_conv2d) == 3);
    BOOST_TEST(c.missed.empty());
  });
}

BOOST_AUTO_TEST_CASE(weights_of_7_bits_are_noticed) {
  for (const int largest : {127, 63})
    in_all_forms([&](quantized_graph& g) {
      g.largest_weight = largest;
      bytes v = g.through("x", 0.009f, 5);
      v = g.through(g.node("Conv", {v, g.weights({8, 3, 3, 3}, 0, 1), g.bias(8, 2)}), 0.02f, -128);
      v = g.through(g.node("MatMul", {v, g.weights({6, 5}, 1, 3)}), 0.03f, -3);
      const bytes model = g.model({"n", 3, 9, 8}, v);
      const auto net = read(model);
      BOOST_TEST(occurrences(net.program->to_json(), "\"bits\": 7") == (largest == 63 ? 2 : 0));
      // The products that they become keep the number.
      const auto text = saved_net(net).optimized().program->to_json();
      BOOST_TEST(occurrences(text, "\"weight_bits\": 7") == (largest == 63 ? 2 : 0));
      const auto c = check(model, {2, 3, 9, 8}, 0.03f);
      BOOST_TEST(c.of(rewrite::quantized_conv2d) == 1);
      BOOST_TEST(c.of(rewrite::quantized_linear) == 1);
    });
}

BOOST_AUTO_TEST_CASE(products) {
  in_all_forms([](quantized_graph& g) {
    bytes v = g.through("x", 0.009f, -7);
    v = g.through(g.node("Add", {g.node("MatMul", {v, g.weights({12, 20}, 1, 1)}), g.bias(20, 2)}), 0.02f, 3);
    v = g.through(g.node("Reshape", {v,
                                     [&] {
                                       const bytes n = g.name();
                                       g.constants.push_back(t::longs(n, {2}, {-1, 20}));
                                       return n;
                                     }()}),
                  0.02f, 3);
    v = g.through(
        g.node("Relu", {g.node("Gemm", {v, g.weights({7, 20}, 0, 3), g.bias(7, 4)}, {t::integer("transB", 1)})}), 0.03f,
        -128);
    const auto c = check(g.model({"n", 5, 12}, v), {3, 5, 12}, 0.03f);
    BOOST_TEST(c.of(rewrite::quantized_linear) == 2);
    BOOST_TEST(c.of(rewrite::quantized_move) >= 1);
    BOOST_TEST(c.missed.empty());
  });
}

// Attention of a quantized transformer: two products of activations, with keys transposed as floats or as integers.
BOOST_AUTO_TEST_CASE(products_of_two_activations) {
  in_all_forms([](quantized_graph& g) {
    const auto shape_of = [&](const t::numbers& n) {
      const bytes name = g.name();
      g.constants.push_back(t::longs(name, {static_cast<std::int64_t>(n.size())}, n));
      return name;
    };
    const bytes x = g.through("x", 0.009f, -7);
    const auto heads = [&](std::uint32_t seed, const t::numbers& order) {
      const bytes v = g.through(g.node("MatMul", {x, g.weights({12, 12}, 1, seed)}), 0.02f, 3);
      const bytes apart = g.through(g.node("Reshape", {v, shape_of({0, 5, 3, 4})}), 0.02f, 3);
      return g.node("Transpose", {apart}, {t::integers("perm", order)});
    };
    const bytes q = g.through(heads(1, {0, 2, 1, 3}), 0.02f, 3), k = heads(2, {0, 2, 3, 1}),
                v = g.through(heads(3, {0, 2, 1, 3}), 0.02f, 3);
    const bytes scores = g.through(g.node("MatMul", {q, k}), 0.02f, 9);
    const bytes weights = g.through(g.node("Softmax", {scores}, {t::integer("axis", -1)}), 1 / 256.f, -128);
    const auto c =
        check(g.model({"n", 5, 12}, g.through(g.node("MatMul", {weights, v}), 0.01f, -4)), {2, 5, 12}, 0.01f);
    BOOST_TEST(c.of(rewrite::quantized_matmul) == 2);
    BOOST_TEST(c.of(rewrite::quantized_linear) == 3);
    BOOST_TEST(c.missed.empty());
  });
  quantized_graph g;
  const bytes x = g.through("x", 0.009f, -7);
  const auto c = check(g.model({2, 5, 5}, g.through(g.node("MatMul", {x, "x"}), 0.05f, 0)), {2, 5, 5}, 0.05f);
  BOOST_REQUIRE_EQUAL(c.missed.size(), 1u);
  BOOST_TEST(c.missed[0].find("its second operand is not int8 with one scale: it is float32") != std::string::npos,
             c.missed[0]);
}

BOOST_AUTO_TEST_CASE(products_that_give_floats_and_weights_with_zero_points) {
  in_all_forms([](quantized_graph& g) {
    bytes v = g.through("x", 0.009f, -7);
    v = g.node("MatMul", {v, g.weights({12, 20}, 1, 1, 9)});
    const auto c = check(g.model({"n", 12}, v), {3, 12}, 1e-5f);
    BOOST_TEST(c.of(rewrite::integer_linear) == 1);
  });
}

BOOST_AUTO_TEST_CASE(products_and_convolutions_that_give_floats) {
  in_all_forms([](quantized_graph& g) {
    const bytes x = g.through("x", 0.009f, -7), y = g.through(g.node("Sigmoid", {x}), 1 / 256.f, 3);
    const bytes turned = g.node("Transpose", {y}, {t::integers("perm", {0, 2, 1})});
    const bytes v = g.node("Relu", {g.node("MatMul", {x, turned})});
    const auto c = check(g.model({"n", 5, 12}, v), {2, 5, 12}, 1e-5f);
    BOOST_TEST(c.of(rewrite::integer_matmul) == 1);
  });
  in_all_forms([](quantized_graph& g) {
    bytes v = g.through("x", 0.009f, -7);
    v = g.node("Conv", {v, g.weights({5, 4, 3, 3}, 0, 1)}, {t::integers("pads", {1, 1, 1, 1})});
    v = g.node("Mul", {v, g.node("Sigmoid", {v})});
    const auto c = check(g.model({"n", 4, 6, 7}, v), {2, 4, 6, 7}, 1e-5f);
    BOOST_TEST(c.of(rewrite::integer_conv2d) == 1);
    BOOST_TEST(c.missed.empty());
  });
}

// uint8 numbers are written as int8, without conversions, for an opset that ONNX Runtime loads.
BOOST_AUTO_TEST_CASE(numbers_of_uint8_are_written_as_int8) {
  quantized_graph g{.is_unsigned = true};
  const bytes x = g.through("x", 0.009f, -7);
  const bytes y = g.through(g.node("Relu", {g.node("MatMul", {x, g.weights({4, 3}, 1, 1)})}), 0.02f, 4);
  const auto net = read(g.model({"n", 4}, y));
  BOOST_TEST(onnx::written_opset(net) == 20);
  for (const auto& n : net.program->nodes())
    BOOST_TEST((!n.op || n.op->name != "cast" || n.results[0].element != dtype::int8));
  const onnx_test::folder to;
  onnx::save(to / "m.onnx", net);
  const auto in = tensor_of({5, 4}, t::noise(20, 9));
  BOOST_TEST((run(net, in).y == run(onnx::load(to / "m.onnx"), in).y));
  quantized_graph floats;
  BOOST_TEST(onnx::written_opset(read(floats.model({"n", 4}, floats.node("Relu", {"x"})))) == 21);
}

BOOST_AUTO_TEST_CASE(differences_and_larger_images) {
  in_all_forms([](quantized_graph& g) {
    const bytes x = g.through("x", 0.009f, -7), y = g.through(g.node("Sigmoid", {x}), 1 / 256.f, 3);
    const auto c = check(g.model({"n", 3, 4}, g.through(g.node("Sub", {x, y}), 0.02f, 4)), {2, 3, 4}, 0.02f);
    BOOST_TEST(c.of(rewrite::quantized_add) == 1);
    BOOST_TEST(c.missed.empty());
  });
  in_all_forms([](quantized_graph& g) {
    const bytes x = g.through("x", 0.009f, -7);
    const bytes tiled = g.node("Transpose", {g.node("Transpose", {x}, {t::integers("perm", {0, 2, 1})})},
                               {t::integers("perm", {1, 0, 2})});
    const auto c = check(g.model({"n", 3, 4}, g.through(tiled, 0.02f, 4)), {2, 3, 4}, 0.02f);
    BOOST_TEST(c.of(rewrite::quantized_move) == 1);
  });
}

BOOST_AUTO_TEST_CASE(sums_products_and_functions_of_elements) {
  in_all_forms([](quantized_graph& g) {
    const bytes x = g.through("x", 0.009f, -7);
    const bytes leaky = g.through(g.node("LeakyRelu", {x}, {t::real("alpha", 0.1f)}), 0.008f, -100);
    const bytes sum = g.through(g.node("Add", {x, leaky}), 0.02f, 4);
    const bytes row =
        g.through(g.node("Sigmoid", {g.through(g.node("GlobalAveragePool", {sum}), 0.01f, 0)}), 1 / 256.f, -128);
    const bytes scaled = g.through(g.node("Mul", {sum, row}), 0.01f, -20);
    const bytes swish = g.through(g.node("HardSwish", {scaled}), 0.01f, -20);
    const auto c = check(g.model({"n", 3, 4, 6}, swish), {2, 3, 4, 6}, 0.03f);
    BOOST_TEST(c.of(rewrite::quantized_add) == 1);
    BOOST_TEST(c.of(rewrite::quantized_multiply) == 1);
    BOOST_TEST(c.of(rewrite::quantized_average) == 1);
    BOOST_TEST(c.of(rewrite::quantized_table) == 3);
    BOOST_TEST(c.missed.empty());
  });
}

// Whether and how an operand broadcasts over the batch must not depend on the batch of the plan.
BOOST_AUTO_TEST_CASE(sums_of_repeated_operands_in_open_batches) {
  for (const t::numbers& dims :
       std::vector<t::numbers>{{3, 1, 1}, {1, 3, 1, 1}, {6}, {4, 6}, {3, 4, 6}, {1, 3, 4, 6}, {}}) {
    quantized_graph g;
    const bytes b = g.name(), x = g.through("x", 0.009f, -7);
    g.constants.push_back(t::floats(b, dims, t::noise(count_of(dims), 3)));
    const bytes y = g.through(g.node("Add", {x, g.through(b, 0.008f, 5)}), 0.02f, 4);
    const bytes model = g.model({"n", 3, 4, 6}, y);
    for (const int batch : {1, 2}) check(model, {batch, 3, 4, 6}, 0.02f);
  }
}

BOOST_AUTO_TEST_CASE(pools_and_what_moves_elements) {
  in_all_forms([](quantized_graph& g) {
    const auto kernel = t::integers("kernel_shape", {3, 3}), strides = t::integers("strides", {2, 2}),
               pads = t::integers("pads", {1, 1, 1, 1});
    const bytes x = g.through("x", 0.009f, 6);
    const bytes max = g.through(g.node("MaxPool", {x}, {kernel, strides, pads}), 0.009f, 6);
    const bytes mean = g.through(g.node("AveragePool", {x}, {kernel, strides, pads}), 0.006f, -2);
    const bytes both = g.through(g.node("Concat", {max, mean}, {t::integer("axis", 1)}), 0.009f, 6);
    const bytes turned = g.through(g.node("Transpose", {both}, {t::integers("perm", {0, 2, 3, 1})}), 0.009f, 6);
    const auto c = check(g.model({"n", 3, 7, 6}, turned), {2, 3, 7, 6}, 0.0091f);
    BOOST_TEST(c.of(rewrite::quantized_average) == 1);
    BOOST_TEST(c.of(rewrite::quantized_move) == 3);
  });
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_said) {
  quantized_graph g;
  bytes v = g.through("x", 0.009f, 5);
  v = g.node("Conv", {v, g.weights({4, 3, 2, 2}, 0, 1)});
  auto c = check(g.model({1, 3, 6, 6}, v), {1, 3, 6, 6}, 1e-5f);
  BOOST_REQUIRE_EQUAL(c.missed.size(), 1u);
  BOOST_TEST(c.missed[0].find("conv2d") == 0, c.missed[0]);
  BOOST_TEST(c.missed[0].find("its result does not become int8") != std::string::npos, c.missed[0]);
  quantized_graph h;
  v = h.through(h.node("Conv", {h.through("x", 0.009f, 5), h.weights({3, 1, 3, 3}, 0, 1, 3)}, {t::integer("group", 3)}),
                0.02f, 0);
  const auto model = h.model({1, 3, 6, 6}, v);
  c = check(model, {1, 3, 6, 6}, 0.02f);
  BOOST_REQUIRE_EQUAL(c.missed.size(), 1u);
  BOOST_TEST(
      c.missed[0].find("the zero points of its weights, one filter for each channel, are not 0") != std::string::npos,
      c.missed[0]);
  const auto net = read(model);
  const shape dims[] = {{1, 3, 6, 6}};
  BOOST_TEST(make_plan(*net.program, dims, target_isa())->explain().find("not recognized: conv2d") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(convolutions_with_zero_points_of_weights) {
  in_all_forms([](quantized_graph& g) {
    bytes v = g.through("x", 0.009f, 5);
    v = g.through(
        g.node("Conv", {v, g.weights({8, 3, 3, 3}, 0, 1, -90), g.bias(8, 2)}, {t::integers("pads", {1, 1, 1, 1})}),
        0.03f, 3);
    v = g.through(g.node("Conv", {v, g.weights({10, 4, 1, 1}, 0, 5, 127)}, {t::integer("group", 2)}), 0.05f, -3);
    const auto c = check(g.model({"n", 3, 9, 8}, v), {2, 3, 9, 8}, 0.05f);
    BOOST_TEST(c.of(rewrite::quantized_conv2d) == 2);
    BOOST_TEST(c.missed.empty());
  });
}

// Results of ONNX Runtime 1.32.
BOOST_AUTO_TEST_CASE(numbers_of_onnx_runtime) {
  quantized_graph g;
  g.is_unsigned = g.by_channel = true;
  bytes v = g.through("x", 0.009f, 5);
  v = g.through(
      g.node("Relu", {g.node("Conv", {v, g.weights({3, 2, 3, 3}, 0, 1)}, {t::integers("pads", {1, 0, 1, 0})})}), 0.02f,
      -128);
  v = g.through(g.node("MatMul", {v, g.weights({2, 3}, 1, 7)}), 0.011f, 9);
  const auto net = read(g.model({1, 2, 3, 4}, v));
  const auto y = run(net, tensor_of({1, 2, 3, 4}, t::noise(24, 9))).y;
  const std::vector<int> expected{-8, 11,  4,  -11, 14,  5,  -12, 15,  5,  26, -22, 24,  114, -97,
                                  99, -31, 40, 14,  -24, 31, 11,  -12, 15, 5,  16,  -11, 23};
  BOOST_REQUIRE_EQUAL(y.size(), expected.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    BOOST_TEST(std::lround(y[i] / 0.011f) == expected[i], i << " is " << y[i] / 0.011f);
}

namespace {

// A product of dynamically quantized numbers and bytes.
bytes dynamic_model(bool is_unsigned, int zero, bool fused) {
  std::vector<std::uint8_t> w;
  for (float v : t::noise(12 * 20, 4)) w.push_back(static_cast<std::uint8_t>(std::lround(v * 100) + zero));
  const auto type = is_unsigned ? t::uint8 : t::int8;
  std::vector<bytes> constants{
      t::tensor("w", type, {12, 20}, t::raw(w)), t::floats("ws", {}, {0.01f}),
      t::tensor("wz", type, {}, t::raw(std::vector<std::uint8_t>{static_cast<std::uint8_t>(zero)}))};
  std::vector<bytes> nodes;
  if (fused) nodes = {t::node("DynamicQuantizeMatMul", {"x", "w", "ws", "wz"}, {"y"}, {}, microsoft)};
  else
    nodes = {t::node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}),
             t::node("MatMulInteger", {"q", "w", "z", "wz"}, {"i"}),
             t::node("Cast", {"i"}, {"f"}, {t::integer("to", 1)}), t::node("Mul", {"s", "ws"}, {"b"}),
             t::node("Mul", {"f", "b"}, {"y"})};
  return t::model{.main = {.nodes = nodes,
                           .inputs = {t::value("x", t::float32, {"n", 12})},
                           .outputs = {t::untyped("y")},
                           .initializers = constants},
                  .opsets = {t::opset("", 18), t::opset("com.microsoft", 1)}}
      .done();
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_quantized_as_they_run) {
  const list x = t::noise(5 * 12, 3);
  const auto [least, max] = std::minmax_element(x.begin(), x.end());
  const float scale = (*max - *least) / 255;
  const int zero_point = static_cast<int>(std::nearbyint(-*least / scale));
  for (const auto& [is_unsigned, zero] :
       std::vector<std::pair<bool, int>>{{false, 0}, {false, 17}, {true, 128}, {true, 111}})
    for (const bool fused : {false, true}) {
      const auto net = read(dynamic_model(is_unsigned, zero, fused));
      const auto text = [&] {
        const shape dims[] = {{5, 12}};
        return make_plan(*net.program, dims, target_isa())->explain();
      }();
      BOOST_TEST(text.find("integer_linear") != std::string::npos, text);
      const auto y = run(net, tensor_of({5, 12}, x)).y;
      const list w = t::noise(12 * 20, 4);
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t o = 0; o < 20; ++o) {
          double sum = 0;
          for (std::size_t k = 0; k < 12; ++k)
            sum += (std::clamp(std::nearbyint(x[i * 12 + k] / scale) + static_cast<float>(zero_point), 0.f, 255.f) -
                    static_cast<float>(zero_point)) *
                   static_cast<float>(std::lround(w[k * 20 + o] * 100));
          BOOST_TEST(std::abs(y[i * 20 + o] - sum * static_cast<double>(scale * 0.01f)) < 1e-5);
        }
    }
}

// An LSTM with 8-bit weights is close to the one with the dequantized weights.
BOOST_AUTO_TEST_CASE(lstm_of_dynamic_bytes) {
  constexpr std::int64_t in = 6, size = 5;
  std::vector<std::int8_t> wq, rq;
  list w(static_cast<std::size_t>(2 * 4 * size * in)), r(static_cast<std::size_t>(2 * 4 * size * size));
  const auto fill = [&](std::int64_t depth, std::uint32_t seed, std::vector<std::int8_t>& q, list& real) {
    for (float v : t::noise(static_cast<std::size_t>(2 * depth * 4 * size), seed))
      q.push_back(static_cast<std::int8_t>(std::lround(v * 100)));
    for (std::int64_t d = 0; d < 2; ++d)
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t o = 0; o < 4 * size; ++o)
          real[static_cast<std::size_t>((d * 4 * size + o) * depth + k)] =
              (d ? 0.006f : 0.004f) *
              static_cast<float>(q[static_cast<std::size_t>((d * depth + k) * 4 * size + o)] - 3);
  };
  fill(in, 1, wq, w), fill(size, 2, rq, r);
  const auto zero = [](const bytes& name) {
    return t::tensor(name, t::int8, {2}, t::raw(std::vector<std::int8_t>{3, 3}));
  };
  const std::vector<bytes> constants{t::tensor("w", t::int8, {2, in, 4 * size}, t::raw(wq)),
                                     t::tensor("r", t::int8, {2, size, 4 * size}, t::raw(rq)),
                                     t::floats("b", {2, 8 * size}, t::noise(16 * size, 5)),
                                     t::floats("ws", {2}, {0.004f, 0.006f}),
                                     t::floats("rs", {2}, {0.004f, 0.006f}),
                                     zero("wz"),
                                     zero("rz"),
                                     t::floats("wf", {2, 4 * size, in}, w),
                                     t::floats("rf", {2, 4 * size, size}, r)};
  const auto model = [&](const bytes& node) {
    return t::model{.main = {.nodes = {node},
                             .inputs = {t::value("x", t::float32, {7, 3, in})},
                             .outputs = {t::untyped("y")},
                             .initializers = constants},
                    .opsets = {t::opset("", 18), t::opset("com.microsoft", 1)}}
        .done();
  };
  const t::names attributes{t::integer("hidden_size", size), t::string("direction", "bidirectional")};
  const auto x = tensor_of({7, 3, in}, t::noise(7 * 3 * in, 8));
  const auto y =
      run(read(model(t::node("DynamicQuantizeLSTM", {"x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"}, {"y"},
                             attributes, microsoft))),
          x);
  const auto z = run(read(model(t::node("LSTM", {"x", "wf", "rf", "b"}, {"y"}, attributes))), x);
  BOOST_REQUIRE_EQUAL(y.y.size(), z.y.size());
  for (std::size_t i = 0; i < y.y.size(); ++i) BOOST_TEST(std::abs(y.y[i] - z.y[i]) < 0.02f);
}

// 4-bit and 8-bit weights stay packed, with given zero points or the middle of their range, and give the results of
// unpacked ones.
BOOST_AUTO_TEST_CASE(weights_of_few_bits_stay_packed) {
  for (const std::int64_t bits : {4, 8})
    for (const bool zero_points : {false, true}) {
      constexpr std::int64_t k = 40, n = 6, block = 16, blocks = 3;
      std::vector<std::uint8_t> w, z;
      std::uint32_t seed = 7;
      const auto byte = [&] { return static_cast<std::uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24); };
      for (std::int64_t i = 0; i < n * blocks * block * bits / 8; ++i) w.push_back(byte());
      const std::int64_t row = (blocks * bits + 7) / 8;
      for (std::int64_t i = 0; i < n * row; ++i) z.push_back(byte());
      const list scale = t::noise(n * blocks, 2), x = t::noise(5 * k, 3);
      std::vector<bytes> constants{t::tensor("w", t::uint8, {n, blocks, block * bits / 8}, t::raw(w)),
                                   t::floats("s", {n * blocks}, scale), t::tensor("z", t::uint8, {n * row}, t::raw(z))};
      t::names in{"x", "w", "s"};
      if (zero_points) in.push_back("z");
      const auto model =
          t::model{.main = {.nodes = {t::node("MatMulNBits", in, {"y"},
                                              {t::integer("K", k), t::integer("N", n), t::integer("bits", bits),
                                               t::integer("block_size", block)},
                                              microsoft)},
                            .inputs = {t::value("x", t::float32, {"n", k})},
                            .outputs = {t::untyped("y")},
                            .initializers = constants},
                   .opsets = {t::opset("", 18), t::opset("com.microsoft", 1)}}
              .done();
      const auto net = read(model);
      const shape dims[] = {{5, k}};
      BOOST_TEST(make_plan(*net.program, dims, target_isa())->explain().find("block_linear") != std::string::npos);
      const auto y = run(net, tensor_of({5, k}, x)).y;
      const auto number_at = [&](const std::vector<std::uint8_t>& from, std::int64_t at) {
        const unsigned v = from[static_cast<std::size_t>(at * bits / 8)];
        return static_cast<float>(bits == 8 ? v : at % 2 ? v >> 4 : v & 15u);
      };
      for (std::int64_t i = 0; i < 5; ++i)
        for (std::int64_t o = 0; o < n; ++o) {
          double sum = 0, bound = 1e-5;
          for (std::int64_t p = 0; p < k; ++p) {
            const std::int64_t b = o * blocks + p / block, first = i * k + p / block * block;
            float max = 0;  // of the block, whose numbers are rounded to 16 bits
            for (std::int64_t j = first; j < std::min(first + block, (i + 1) * k); ++j)
              max = std::max(max, std::abs(x[static_cast<std::size_t>(j)]));
            const float zero =
                zero_points ? (bits == 8 ? number_at(z, o * row + p / block) : number_at(z, o * row * 2 + p / block))
                            : static_cast<float>(1 << (bits - 1));
            const float weight = (number_at(w, b * block + p % block) - zero) * scale[static_cast<std::size_t>(b)];
            sum += static_cast<double>(x[static_cast<std::size_t>(i * k + p)]) * static_cast<double>(weight);
            bound += static_cast<double>(max * std::abs(weight)) * (0x1p-20 + 1. / 65024);
          }
          BOOST_TEST(std::abs(static_cast<double>(y[static_cast<std::size_t>(i * n + o)]) - sum) < bound);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
