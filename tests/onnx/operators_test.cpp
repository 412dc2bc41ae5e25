// Operators that no backend case covers: normalization, attention, recurrences, quantized products, trees.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/onnx_writer.h"

namespace t = onnx_test;
using namespace lamina;
using t::bytes;

namespace {

using list = std::vector<float>;

saved_net read(const bytes& model) {
  return onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
}
template <class T> any_tensor tensor_of(const shape& s, const std::vector<T>& v) {
  any_tensor made({dtype_of<T>, s});
  if (!v.empty()) std::memcpy(made.mutable_data(), v.data(), v.size() * sizeof(T));
  return made;
}
std::vector<any_tensor> run(const bytes& model, const std::vector<any_tensor>& inputs) {
  auto net = read(model);
  auto s = ir::session::owning(net.program, std::move(net.states));
  return s.run(view<const any_tensor>(inputs.data(), inputs.size()));
}
std::vector<double> numbers_of(const any_tensor& x) {
  std::vector<double> all;
  with_type(x.element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>)
      for (auto v : x.elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}
void close(const any_tensor& is, const std::vector<double>& expected, double within = 1e-5) {
  const auto all = numbers_of(is);
  BOOST_REQUIRE_EQUAL(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    BOOST_TEST(std::abs(all[i] - expected[i]) <= within,
               "element " << i << " is " << all[i] << ", not " << expected[i]);
}
bytes model_of(const std::vector<bytes>& nodes, const std::vector<bytes>& initializers,
               const std::vector<bytes>& inputs, const std::vector<bytes>& outputs = {t::untyped("y")}) {
  return t::model{.main = {.nodes = nodes, .inputs = inputs, .outputs = outputs, .initializers = initializers},
                  .opsets = {t::opset("", 18), t::opset("com.microsoft", 1), t::opset("ai.onnx.ml", 3)}}
      .done();
}
std::string refusal(const bytes& model) {
  try {
    read(model);
  } catch (const error& e) { return e.what(); }
  BOOST_ERROR("the model loads");
  return {};
}
const t::node_names microsoft{.domain = "com.microsoft"}, machine_learning{.domain = "ai.onnx.ml"};

// A batch norm after a product is folded into its weights; nothing else changes.
void folds(const bytes& product, const std::vector<bytes>& weights, std::int64_t channels, const t::extents& x,
           const shape& is) {
  const auto c = static_cast<std::size_t>(channels);
  list variance = t::noise(c, 4);
  for (auto& v : variance) v = std::abs(v) + 0.1f;
  std::vector<bytes> initializers = weights;
  for (const auto& [name, data] : std::vector<std::pair<bytes, list>>{
           {"s", t::noise(c, 1)}, {"b", t::noise(c, 2)}, {"m", t::noise(c, 3)}, {"v", variance}})
    initializers.push_back(t::floats(name, {channels}, data));
  const bytes model = model_of({product, t::node("BatchNormalization", {"p", "s", "b", "m", "v"}, {"y"})}, initializers,
                               {t::value("x", t::float32, x)});
  const auto given = std::vector{tensor_of(is, t::noise(static_cast<std::size_t>(is.size()), 5))};
  const auto expected = numbers_of(run(model, given)[0]);
  auto net = read(model);
  const program_factory factory(net.program, std::move(net.states), {.optimize = true});
  BOOST_TEST(factory.report().folded == 1);  // the factor is folded; the term is added after the product
  auto reference = factory.create();
  close(reference(view<const any_tensor>(given.data(), 1))[0], expected, 1e-4);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(onnx_operators)

BOOST_AUTO_TEST_CASE(batch_norms_go_into_the_product_before_them) {
  folds(t::node("MatMul", {"x", "w"}, {"p"}), {t::floats("w", {3, 4}, t::noise(12, 9))}, 4, {2, 3}, {2, 3});
  folds(t::node("FusedConv", {"x", "w"}, {"p"}, {}, microsoft), {t::floats("w", {4, 3, 3, 3}, t::noise(108, 9))}, 4,
        {"n", 3, 5, 6}, {2, 3, 5, 6});
}

BOOST_AUTO_TEST_CASE(layer_norm_gives_mean_and_inverse_deviation) {
  const auto made = run(model_of({t::node("LayerNormalization", {"x", "s"}, {"y", "m", "i"}, {t::real("epsilon", 0)})},
                                 {t::floats("s", {2}, {1, 2})}, {t::value("x", t::float32, {2, 2})},
                                 {t::untyped("y"), t::untyped("m"), t::untyped("i")}),
                        {tensor_of<float>({2, 2}, {1, 3, 10, 4})});
  close(made[0], {-1, 2, 1, -2});
  close(made[1], {2, 7});
  close(made[2], {1, 1.0 / 3});
}

// Integer results of operators that compute with fractions are truncated.
BOOST_AUTO_TEST_CASE(functions_of_integers) {
  const auto of = [](const bytes& node, std::int32_t element, const any_tensor& x) {
    return run(model_of({node}, {}, {t::value("x", element, {3})}), {x})[0];
  };
  const auto x = tensor_of<std::int32_t>({3}, {-3, 0, 7});
  const auto wide = tensor_of<std::int64_t>({3}, {-3, 0, 7});
  close(of(t::node("Relu", {"x"}, {"y"}), t::int32, x), {0, 0, 7});
  close(of(t::node("Relu", {"x"}, {"y"}), t::int64, wide), {0, 0, 7});
  close(of(t::node("Shrink", {"x"}, {"y"}, {t::real("lambd", 1), t::real("bias", 0.5)}), t::int32, x), {-2, 0, 6});
  BOOST_TEST((of(t::node("ReduceMean", {"x"}, {"y"}), t::int64, wide).element() == dtype::int64));
  close(of(t::node("ReduceMean", {"x"}, {"y"}), t::int64, wide), {1});
  close(of(t::node("ReduceL2", {"x"}, {"y"}), t::int32, x), {7});
  close(of(t::node("ReduceLogSum", {"x"}, {"y"}), t::int64, wide), {1});
  close(of(t::node("ReduceLogSumExp", {"x"}, {"y"}), t::int32, x), {7});
  const auto number = [](std::int16_t n) { return tensor_of<std::int16_t>({}, {n}); };
  const auto scalar = [](const bytes& name) { return t::value(name, t::int16, {}); };
  close(run(model_of({t::node("Range", {"a", "b", "c"}, {"y"})}, {}, {scalar("a"), scalar("b"), scalar("c")}),
            {number(9), number(-2), number(-3)})[0],
        {9, 6, 3, 0});
}

BOOST_AUTO_TEST_CASE(a_reverse_recurrence_begins_at_the_end_of_each_sequence) {
  for (const bytes op : {"RNN", "GRU", "LSTM"}) {
    const std::int64_t gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4;
    const auto net = [&](const bytes& way) {
      return model_of({t::node(op, {"x", "w", "r", "", "n"}, {"y", "h"},
                               {t::string("direction", way), t::integer("hidden_size", 2)})},
                      {t::floats("w", {1, gates * 2, 1}, t::noise(static_cast<std::size_t>(gates * 2), 1)),
                       t::floats("r", {1, gates * 2, 2}, t::noise(static_cast<std::size_t>(gates * 4), 2)),
                       t::tensor("n", t::int32, {2}, t::raw(std::vector<std::int32_t>{3, 2}))},
                      {t::value("x", t::float32, {3, 2, 1})}, {t::untyped("y"), t::untyped("h")});
    };
    // Sequences 1 2 3 and 4 5, forward and reversed.
    const auto forward = run(net("forward"), {tensor_of<float>({3, 2, 1}, {1, 4, 2, 5, 3, 9})});
    const auto backward = run(net("reverse"), {tensor_of<float>({3, 2, 1}, {3, 5, 2, 4, 1, 9})});
    close(backward[1], numbers_of(forward[1]));
    const auto f = numbers_of(forward[0]), b = numbers_of(backward[0]);  // [3, 1, 2, 2]
    const auto at = [](std::size_t position, std::size_t sample) { return position * 4 + sample * 2; };
    for (std::size_t k = 0; k < 2; ++k) {
      for (std::size_t p = 0; p < 3; ++p) BOOST_TEST(b[at(2 - p, 0) + k] == f[at(p, 0) + k]);
      for (std::size_t p = 0; p < 2; ++p) BOOST_TEST(b[at(1 - p, 1) + k] == f[at(p, 1) + k]);
      BOOST_TEST(f[at(2, 1) + k] == 0);
      BOOST_TEST(b[at(2, 1) + k] == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_dynamically_quantized_lstm_rounds_sequences_and_states) {
  // Two positions of one sample with two features, one feature of state; gates are i, o, f, c.
  const std::vector<std::uint8_t> w{130, 90, 200, 17, 128, 255, 64, 150}, r{140, 100, 190, 33};
  const std::vector<float> x{0.3f, -0.7f, 0.9f, 0.2f}, bias{0.1f, -0.2f, 0.3f, 0.05f, 0.02f, 0.01f, -0.1f, 0.2f};
  const double w_scale = 0.02f, r_scale = 0.05f;
  const auto rounded = [](std::vector<double> v) {  // 8-bit numbers with one scale and zero point
    double low = 0, high = 0;
    for (double e : v) low = std::min(low, e), high = std::max(high, e);
    const double scale = high > low ? (high - low) / 255 : 1, offset = std::nearbyint(-low / scale);
    for (double& e : v) e = (std::clamp(std::nearbyint(e / scale) + offset, 0.0, 255.0) - offset) * scale;
    return v;
  };
  const auto q = rounded({x.begin(), x.end()});
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  double h = 0, cell = 0;
  std::vector<double> expected;
  for (std::size_t step = 0; step < 2; ++step) {
    const double state = rounded({h})[0];
    double g[4];
    for (std::size_t k = 0; k < 4; ++k)
      g[k] = (q[2 * step] * (w[k] - 128) + q[2 * step + 1] * (w[4 + k] - 128)) * w_scale +
             state * (r[k] - 120) * r_scale + static_cast<double>(bias[k] + bias[4 + k]);
    cell = sigmoid(g[2]) * cell + sigmoid(g[0]) * std::tanh(g[3]);
    h = sigmoid(g[1]) * std::tanh(cell);
    expected.push_back(h);
  }
  const bytes node = t::node("DynamicQuantizeLSTM", {"x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"},
                             {"y", "h", "c"}, {t::integer("hidden_size", 1)}, {.domain = "com.microsoft"});
  const auto byte = [](const bytes& name, std::uint8_t v) {
    return t::tensor(name, t::uint8, {1}, t::raw(std::vector<std::uint8_t>{v}));
  };
  const std::vector<bytes> weights{t::tensor("w", t::uint8, {1, 2, 4}, t::raw(w)),
                                   t::tensor("r", t::uint8, {1, 1, 4}, t::raw(r)),
                                   t::floats("b", {1, 8}, bias),
                                   t::floats("ws", {1}, {static_cast<float>(w_scale)}),
                                   byte("wz", 128),
                                   t::floats("rs", {1}, {static_cast<float>(r_scale)}),
                                   byte("rz", 120)};
  const auto made = run(model_of({node}, weights, {t::value("x", t::float32, {2, 1, 2})},
                                 {t::untyped("y"), t::untyped("h"), t::untyped("c")}),
                        {tensor_of<float>({2, 1, 2}, x)});
  close(made[0], expected);
  close(made[1], {h});
  close(made[2], {cell});
  // One scale for each column.
  std::vector<bytes> columns = weights;
  columns[3] = t::floats("ws", {1, 4}, std::vector<float>(4, static_cast<float>(w_scale)));
  columns[5] = t::floats("rs", {1, 4}, std::vector<float>(4, static_cast<float>(r_scale)));
  close(run(model_of({node}, columns, {t::value("x", t::float32, {2, 1, 2})},
                     {t::untyped("y"), t::untyped("h"), t::untyped("c")}),
            {tensor_of<float>({2, 1, 2}, x)})[0],
        expected);
}

BOOST_AUTO_TEST_CASE(bytes_with_known_weights_give_what_others_give) {
  // Constant weights use the int8 kernel, weights from an input an exact sum.
  std::vector<std::uint8_t> x, w;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<std::uint8_t>(37 * i + 11));
  for (int i = 0; i < 40; ++i) w.push_back(static_cast<std::uint8_t>(53 * i + 7));
  const auto number = [](const bytes& name, float v) { return t::floats(name, {}, {v}); };
  const auto byte = [](const bytes& name, std::uint8_t v) {
    return t::tensor(name, t::uint8, {}, t::raw(std::vector<std::uint8_t>{v}));
  };
  const bytes node = t::node("QLinearMatMul", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, {"y"});
  const std::vector<bytes> scales{number("xs", 0.0213f), byte("xz", 119),       number("ws", 0.0317f),
                                  byte("wz", 128),       number("ys", 0.4711f), byte("yz", 99)};
  std::vector<bytes> all = scales;
  all.push_back(t::tensor("w", t::uint8, {8, 5}, t::raw(w)));
  const bytes given_x = t::value("x", t::uint8, {3, 8});
  const auto known = run(model_of({node}, all, {given_x}), {tensor_of<std::uint8_t>({3, 8}, x)});
  const auto open = run(model_of({node}, scales, {given_x, t::value("w", t::uint8, {8, 5})}),
                        {tensor_of<std::uint8_t>({3, 8}, x), tensor_of<std::uint8_t>({8, 5}, w)});
  close(known[0], numbers_of(open[0]), 0);
  // Weights of 7 bits, less the zero point, are noticed.
  for (const bool fit : {true, false}) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::uint8_t>(64 + 53 * i % 128);
    if (!fit) w[9] = 63;
    all.back() = t::tensor("w", t::uint8, {8, 5}, t::raw(w));
    const bytes model = model_of({node}, all, {given_x});
    const auto net = onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
    BOOST_TEST((net.program->to_json().find("\"weight_bits\": 7") != std::string::npos) == fit);
  }
}

// The scale of the bias of a QGemm is alpha times those of the operands.
BOOST_AUTO_TEST_CASE(alpha_scales_the_bias_of_a_quantized_gemm_too) {
  const auto byte = [](const bytes& name, std::uint8_t v) {
    return t::tensor(name, t::uint8, {}, t::raw(std::vector<std::uint8_t>{v}));
  };
  const std::vector<bytes> constants{t::floats("s", {}, {1}), byte("z", 0),
                                     t::tensor("b", t::uint8, {2, 1}, t::raw(std::vector<std::uint8_t>{1, 1})),
                                     t::tensor("c", t::int32, {1}, t::raw(std::vector<std::int32_t>{20}))};
  for (const auto& [alpha, expected] : {std::pair{1.f, 60.}, {0.5f, 30.}, {-2.f, -120.}}) {
    const bytes node =
        t::node("QGemm", {"a", "s", "z", "b", "s", "z", "c"}, {"y"}, {t::real("alpha", alpha)}, microsoft);
    close(run(model_of({node}, constants, {t::value("a", t::uint8, {1, 2})}),
              {tensor_of<std::uint8_t>({1, 2}, {10, 30})})[0],
          {expected}, 0);
  }
}

BOOST_AUTO_TEST_CASE(operands_of_a_wrong_shape_or_type_are_refused) {
  const auto refused = [](const bytes& node, const std::vector<bytes>& constants, const t::extents& x) {
    return refusal(model_of({node}, constants, {t::value("x", t::float32, x)}));
  };
  const bytes filters = t::floats("w", {4, 1, 1, 1}, t::noise(4, 1));
  for (const t::numbers& bias : {t::numbers{}, {1}, {4, 1}, {1, 4, 1, 1}}) {
    std::size_t count = 1;
    for (const auto extent : bias) count *= static_cast<std::size_t>(extent);
    for (const bytes& node :
         {t::node("Conv", {"x", "w", "b"}, {"y"}),
          t::node("FusedConv", {"x", "w", "b"}, {"y"}, {t::string("activation", "Relu")}, microsoft)}) {
      const auto message = refused(node, {filters, t::floats("b", bias, t::noise(count, 2))}, {1, 1, 3, 3});
      BOOST_TEST(message.find("its bias is ") != std::string::npos, message);
      BOOST_TEST(message.find("; expected [4]") != std::string::npos, message);
    }
  }
  const bytes k = t::tensor("k", t::int64, {1}, t::raw(std::vector<std::int64_t>{-1}));
  BOOST_TEST(refused(t::node("TopK", {"x", "k"}, {"y", "i"}), {k}, {3}).find("its k is -1; expected 0 or more") !=
             std::string::npos);
  for (const auto type : {t::float32, t::text})
    BOOST_TEST(refusal(model_of({t::node("Cast", {"x"}, {"y"})}, {}, {t::value("x", type, {3})}))
                   .find("attribute `to` is missing") != std::string::npos);
  BOOST_TEST(refused(t::node("Gather", {"x", "x"}, {"y"}), {}, {3}).find("expected integers") != std::string::npos);
  BOOST_TEST(refused(t::node("Gemm", {"x", "x"}, {"y"}), {}, {1, 2, 3, 3}).find("expected two matrices") !=
             std::string::npos);
}

// Sizes of `Split` that do not add up to the axis, known when the model is read or computed. A node without a name is
// named by its result.
BOOST_AUTO_TEST_CASE(sizes_of_split_add_up) {
  const auto node = t::node("Split", {"x", "s"}, {"a", "b"});
  const std::vector<bytes> results{t::untyped("a"), t::untyped("b")};
  const auto x = t::value("x", t::float32, {"N"});
  const bytes known = model_of({node}, {t::longs("s", {2}, {2, 3})}, {x}, results),
              computed = model_of({node}, {}, {x, t::value("s", t::int64, {2})}, results);
  const auto halves = [&](std::int64_t count, const std::vector<std::int64_t>& sizes) {
    return run(computed, {tensor_of<float>({count}, list(static_cast<std::size_t>(count), 1)),
                          tensor_of<std::int64_t>({2}, sizes)});
  };
  BOOST_TEST((run(known, {tensor_of<float>({5}, {1, 2, 3, 4, 5})})[1].type().dims == shape{3}));
  BOOST_TEST((halves(5, {1, 4})[1].type().dims == shape{4}));
  const auto refused = [](auto f) {
    BOOST_CHECK_EXCEPTION(f(), error, [](const error& e) {
      BOOST_TEST_MESSAGE(e.what());
      return std::string_view(e.what()).find("Split `a`: ") != std::string_view::npos;
    });
  };
  for (const std::int64_t count : {4, 6}) {
    refused([&] { run(known, {tensor_of<float>({count}, list(static_cast<std::size_t>(count), 1))}); });
    refused([&] { halves(count, {2, 3}); });
  }
  for (const auto& sizes : {std::vector<std::int64_t>{-2, 7}, {-2, 5}, {-1, 4}}) refused([&] { halves(5, sizes); });

  // The other extents stay known.
  const auto rows =
      read(model_of({node}, {}, {t::value("x", t::float32, {"N", 6, 7}), t::value("s", t::int64, {2})}, results));
  const shape part = rows.program->type(rows.program->outputs()[0].value).dims;
  BOOST_TEST((part.rank == 3 && part[1] == dim(6) && part[2] == dim(7)));
}

// Numbers from 2^63 on are negative in int64, in which uint64 is computed.
BOOST_AUTO_TEST_CASE(large_unsigned_numbers) {
  using words = std::vector<std::uint64_t>;
  constexpr std::uint64_t half = std::uint64_t(1) << 63, last = ~std::uint64_t(0);
  const words a{1, half + 5, last, 7, 0, half, last, 1000, half + 9, half},
      b{half, 3, last, 9, half, half - 1, 0, last, half + 4, 1};
  const auto count = static_cast<std::int64_t>(a.size());
  const auto of = [&](const bytes& node, const std::vector<bytes>& initializers = {}) {
    const std::vector<bytes> inputs{t::value("a", t::uint64, {count}), t::value("b", t::uint64, {count})};
    return run(model_of({node}, initializers, inputs),
               {tensor_of<std::uint64_t>({count}, a), tensor_of<std::uint64_t>({count}, b)})[0];
  };
  const auto check = [&](const bytes& op, auto expected) {
    const any_tensor made = of(t::node(op, {"a", "b"}, {"y"}));
    using number = decltype(expected(a[0], b[0]));
    for (std::size_t i = 0; i < a.size(); ++i)
      BOOST_TEST(made.elements<number>()[i] == expected(a[i], b[i]), op << " of " << a[i] << " and " << b[i]);
  };
  check("Less", [](auto x, auto y) { return x < y; });
  check("LessOrEqual", [](auto x, auto y) { return x <= y; });
  check("Greater", [](auto x, auto y) { return x > y; });
  check("GreaterOrEqual", [](auto x, auto y) { return x >= y; });
  check("Equal", [](auto x, auto y) { return x == y; });
  check("Max", [](auto x, auto y) { return std::max(x, y); });
  check("Min", [](auto x, auto y) { return std::min(x, y); });
  check("Div", [](auto x, auto y) { return y ? x / y : 0; });  // as of int64
  check("Mod", [](auto x, auto y) { return y ? x % y : 0; });
  check("Mul", [](auto x, auto y) { return x * y; });

  const auto is = [&](const bytes& node, const words& expected, const std::vector<bytes>& initializers = {}) {
    const any_tensor made = of(node, initializers);
    const auto all = made.elements<std::uint64_t>();
    BOOST_TEST(words(all.begin(), all.end()) == expected, boost::test_tools::per_element());
  };
  const auto keep = t::integer("keepdims", 0);
  is(t::node("Abs", {"a"}, {"y"}), a);
  is(t::node("PRelu", {"a", "b"}, {"y"}), a);
  is(t::node("Sign", {"a"}, {"y"}), {1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  is(t::node("ReduceMax", {"a"}, {"y"}, {keep}), {last});
  is(t::node("ReduceMin", {"a"}, {"y"}, {keep}), {0});
  is(t::node("ReduceL1", {"b"}, {"y"}, {keep}), {std::accumulate(b.begin(), b.end(), std::uint64_t(0))});
  BOOST_TEST(of(t::node("ArgMax", {"a"}, {"y"}, {keep})).elements<std::int64_t>()[0] == 2);
  BOOST_TEST(of(t::node("ArgMin", {"a"}, {"y"}, {keep})).elements<std::int64_t>()[0] == 4);
  is(t::node("Unique", {"a"}, {"y"}), {0, 1, 7, 1000, half, half + 5, half + 9, last});
  is(t::node("TopK", {"a", "k"}, {"y", "i"}), {last, last, half + 9}, {t::longs("k", {1}, {3})});
  is(t::node("Clip", {"a", "low", "high"}, {"y"}), {2, half + 5, half + 6, 7, 2, half, half + 6, 1000, half + 6, half},
     {t::tensor("low", t::uint64, {}, t::raw(words{2})), t::tensor("high", t::uint64, {}, t::raw(words{half + 6}))});
  is(t::node("ScatterElements", {"a", "i", "v"}, {"y"}, {t::string("reduction", "max")}),
     {half, half + 5, last, 7, 0, half, last, 1000, half + 9, half},
     {t::longs("i", {2}, {0, 2}), t::tensor("v", t::uint64, {2}, t::raw(words{half, 4}))});
}

BOOST_AUTO_TEST_CASE(shrink_gives_zero_for_nan) {
  const bytes node = t::node("Shrink", {"x"}, {"y"}, {t::real("lambd", 1), t::real("bias", 0.5f)});
  close(run(model_of({node}, {}, {t::value("x", t::float32, {4})}),
            {tensor_of<float>({4}, {std::nanf(""), -3, 0.5f, 3})})[0],
        {0, -2.5, 0, 2.5}, 0);
}

BOOST_AUTO_TEST_CASE(weights_of_four_bits_are_unpacked_from_the_low_bits_on) {
  // Numbers 0 to 15 minus 8, times 0.5: their sum is -4.
  std::vector<std::uint8_t> packed;
  for (int i = 0; i < 8; ++i) packed.push_back(static_cast<std::uint8_t>(2 * i | (2 * i + 1) << 4));
  list first(16, 0);
  first[1] = 1;
  list ones(16, 1);
  ones.insert(ones.end(), first.begin(), first.end());
  const auto made = run(
      model_of({t::node("MatMulNBits", {"x", "q", "s"}, {"y"},
                        {t::integer("K", 16), t::integer("N", 1), t::integer("bits", 4), t::integer("block_size", 16)},
                        microsoft)},
               {t::tensor("q", t::uint8, {1, 1, 8}, t::raw(packed)), t::floats("s", {1}, {0.5f})},
               {t::value("x", t::float32, {2, 16})}),
      {tensor_of<float>({2, 16}, ones)});
  close(made[0], {-4, -3.5});
}
// Columns with the indices of their blocks: weights of 2 rows and 2 blocks, all 9 or 6, with zero points 8 and 7.
BOOST_AUTO_TEST_CASE(weights_of_four_bits_by_named_blocks) {
  const auto weighted = [](const t::names& operands, const t::numbers& columns) {
    std::vector<std::uint8_t> packed(16, 0x99);
    packed.resize(32, 0x66);
    return model_of(
        {t::node("MatMulNBits", operands, {"y"},
                 {t::integer("K", 32), t::integer("N", 2), t::integer("bits", 4), t::integer("block_size", 16)},
                 microsoft)},
        {t::tensor("q", t::uint8, {2, 2, 8}, t::raw(packed)), t::floats("s", {4}, {1, 10, 100, 1000}),
         t::tensor("z", t::uint8, {2, 1}, t::raw(std::vector<std::uint8_t>{0x78, 0x87})),
         t::tensor("g", t::int32, {static_cast<std::int64_t>(columns.size())},
                   t::raw(std::vector<std::int32_t>(columns.begin(), columns.end())))},
        {t::value("x", t::float32, {1, 32})});
  };
  t::numbers columns(32, 0);
  for (std::size_t i = 0; i < 8; ++i) columns[4 * i] = 1;
  const auto ones = tensor_of<float>({1, 32}, list(32, 1));
  close(run(weighted({"x", "q", "s", "", "g"}, columns), {ones})[0], {24 * 1 + 8 * 10, 24 * -200 + 8 * -2000});
  close(run(weighted({"x", "q", "s", "z", "g"}, columns), {ones})[0], {24 * 1 + 8 * 20, 24 * -100 + 8 * -2000});
  BOOST_TEST(refusal(weighted({"x", "q", "s", "", "g"}, {0, 1})).find("`g_idx` is [2]") != std::string::npos);
}

namespace {

// A chain: node 2 i tests x <= i, then leads to leaf 2 i + 1 or to the next node.
bytes chain(std::int64_t levels, std::int64_t last) {
  t::numbers trees, nodes, features, yes, no, leaves;
  list values, weights;
  t::names modes;
  for (std::int64_t i = 0; i <= 2 * levels; ++i) {
    const bool leaf = i % 2 == 1 || i == 2 * levels;
    trees.push_back(0), nodes.push_back(i), features.push_back(0);
    values.push_back(static_cast<float>(i / 2)), modes.push_back(leaf ? "LEAF" : "BRANCH_LEQ");
    yes.push_back(leaf ? 0 : i + 1), no.push_back(leaf ? 0 : i + 2 == 2 * levels ? last : i + 2);
    if (leaf) leaves.push_back(i), weights.push_back(static_cast<float>(i));
  }
  const t::numbers none(leaves.size(), 0);
  return model_of({t::node("TreeEnsembleRegressor", {"x"}, {"y"},
                           {t::integer("n_targets", 1), t::integers("nodes_treeids", trees),
                            t::integers("nodes_nodeids", nodes), t::integers("nodes_featureids", features),
                            t::integers("nodes_truenodeids", yes), t::integers("nodes_falsenodeids", no),
                            t::reals("nodes_values", values), t::strings("nodes_modes", modes),
                            t::integers("target_treeids", none), t::integers("target_nodeids", leaves),
                            t::integers("target_ids", none), t::reals("target_weights", weights)},
                           machine_learning)},
                  {}, {t::value("x", t::float32, {"n", 1})});
}

}  // namespace

BOOST_AUTO_TEST_CASE(trees_of_any_depth_are_walked_down) {
  for (std::int64_t levels : {3, 60}) {
    const auto made = run(chain(levels, 2 * levels), {tensor_of<float>({4, 1}, {-5, 0.5f, 2, 1000})});
    close(made[0], {1, 3, 5, static_cast<double>(2 * levels)}, 0);
  }
  BOOST_TEST(refusal(chain(3, 0)).find("is reached twice") != std::string::npos);
  BOOST_TEST(refusal(chain(3, 77)).find("has no node 77") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(numbers_of_heads_are_checked) {
  for (std::int64_t heads : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{5}, INT64_MAX}) {
    const auto message = refusal(
        model_of({t::node("MultiHeadAttention", {"x", "x", "x"}, {"y"}, {t::integer("num_heads", heads)}, microsoft)},
                 {}, {t::value("x", t::float32, {1, 2, 6})}));
    BOOST_TEST(message.starts_with("m.onnx: "), message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
