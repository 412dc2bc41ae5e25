// Models: inference results, for which shapes and threads, and what a model holds.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

constexpr auto perceptron = sequential(sublayer<"hidden">(nn::linear{.in_features = 4, .out_features = 8}), nn::tanh{},
                                       sublayer<"head">(nn::linear{.in_features = 8, .out_features = 3}));
using rows = tensor<float, extents<dyn, 4>>;

constexpr auto regular = sequential(sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
                                    sublayer<"norm">(nn::batch_norm2d{4}), nn::relu{}, nn::flatten{}, nn::dropout{0.5},
                                    sublayer<"head">(nn::linear{.in_features = 64, .out_features = 3}));

constexpr auto two_inputs = topology(sublayer<"product">(nn::dot{}), connect<"a", "product.lhs">,
                                     connect<"b", "product.rhs">, connect<"product.output", "output">);

std::vector<std::string> names_of(const parameter_store& s) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < s.size(); ++i) names.push_back(s[i].name());
  return names;
}
template <class T> view<const T> numbers(const parameter_store& s, std::string_view name) {
  return s.find(name)->value().elements<T>();
}

// x w^T + b for each row, in double.
template <class T> std::vector<double> by_hand(const std::vector<double>& x, view<const T> w, view<const T> b) {
  const std::size_t in = w.size() / b.size();
  std::vector<double> y;
  for (std::size_t r = 0; r * in < x.size(); ++r)
    for (std::size_t o = 0; o < b.size(); ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y.push_back(sum);
    }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(models)

BOOST_AUTO_TEST_CASE(inference_equals_the_formula) {
  auto check = [](auto& net, const auto& x, double tolerance) {
    using T = typename std::decay_t<decltype(x)>::element_type;
    const auto& s = net.parameters();
    std::vector<double> in(x.data().begin(), x.data().end());
    auto hidden = by_hand(in, numbers<T>(s, "hidden.weight"), numbers<T>(s, "hidden.bias"));
    for (auto& v : hidden) v = std::tanh(v);
    auto expected = by_hand(hidden, numbers<T>(s, "head.weight"), numbers<T>(s, "head.bias"));
    auto y = net(x);
    BOOST_TEST((y.shape() == shape{x.extent(0), 3}));
    for (std::size_t i = 0; i < expected.size(); ++i)
      BOOST_TEST(std::abs(double(y.data()[i]) - expected[i]) < tolerance);
  };
  model<perceptron, input<"N", 4>> net({.seed = 3});
  model<perceptron, input<"N", 4>, policies<element<double>>> wide({.seed = 3});
  static_assert(std::same_as<decltype(wide)::element_type, double>);
  for (std::int64_t n : {1, 2, 5, 33}) {
    check(net, random_tensor<rows>({n, 4}, 1), 2e-6);
    check(wide, random_tensor<tensor<double, extents<dyn, 4>>>({n, 4}, 1), 1e-14);
  }
}

BOOST_AUTO_TEST_CASE(inference_equals_a_program_written_by_hand) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 5});
  auto x = random_tensor<images>({3, 1, 28, 28}, 2);
  auto y = net(x);

  auto p = std::make_shared<program>();
  auto& s = net.parameters();
  auto state = [&](const char* name) { return p->state(name, s.find(name)->value().type()); };
  auto conv = [&](const value& v, const char* w, const char* b, std::int64_t channels, std::int64_t padding) {
    value c = conv2d(v, state(w), {.padding = padding}) + reshape(state(b), shape{channels, 1, 1});
    return value(max_pool2d(value(relu(c)), {.kernel_size = 2}));
  };
  auto line = [&](const value& v, const char* w, const char* b) {
    return value(matmul(v, state(w), {.transpose_b = true}) + state(b));
  };
  value v = p->input("input", {dtype::float32, {"N", 1, 28, 28}});
  v = conv(v, "0.weight", "0.bias", 6, 2);
  v = conv(v, "3.weight", "3.bias", 16, 0);
  v = flatten(v, {.from = 1});
  v = relu(line(v, "7.weight", "7.bias"));
  v = relu(line(v, "9.weight", "9.bias"));
  p->output("output", line(v, "11.weight", "11.bias"));
  const shape extents[] = {x.shape()};
  executor run(make_plan(*p, {extents, 1}, target_isa()), &s);
  auto z = decltype(y)::uninitialized(y.shape());
  run.bind_input(0, x.data().data());
  run.bind_output(0, z.writable().data());
  run.run();
  BOOST_TEST(same_bits(y, z));
}

BOOST_AUTO_TEST_CASE(a_missing_leading_dimension_is_one_example) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 5});
  auto x = random_tensor<images>({4, 1, 28, 28}, 2);
  auto all = net(x);
  for (std::int64_t i = 0; i < 4; ++i) {
    auto y = net(x[i]);
    static_assert(decltype(y)::rank == 1);
    BOOST_TEST((y.shape() == shape{10}));
    BOOST_TEST(same_bits(y, all[i]));
  }
}

BOOST_AUTO_TEST_CASE(the_place_in_a_batch_changes_no_bit) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 6});
  model<regular, input<"N", 1, 6, 6>> other({.seed = 6});
  auto large = random_tensor<images>({64, 1, 28, 28}, 3);
  auto small = random_tensor<tensor<float, extents<dyn, 1, 6, 6>>>({64, 1, 6, 6}, 4);
  auto all = net(large);
  auto others = other(small);
  for (std::int64_t n : {1, 2, 7, 31, 64})
    for (std::int64_t first = 0; first + n <= 64; first += n) {
      BOOST_TEST(same_bits(net(large.rows(first, first + n)), all.rows(first, first + n)),
                 "lenet, batch of " << n << " from " << first);
      BOOST_TEST(same_bits(other(small.rows(first, first + n)), others.rows(first, first + n)),
                 "regular, batch of " << n << " from " << first);
    }
}

BOOST_AUTO_TEST_CASE(threads_change_no_bit_and_shapes_may_alternate) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 7});
  auto x = random_tensor<images>({40, 1, 28, 28}, 3);
  std::vector<decltype(net(x))> expected;
  for (std::int64_t n = 1; n <= 40; ++n) expected.push_back(net(x.rows(0, n)));  // more than the plan cache keeps
  for (int threads : {1, 2, 3, 4}) {
    model<lenet, input<"N", 1, 28, 28>> other({.seed = 7, .threads = threads});
    for (std::int64_t n : {40, 1, 8, 40, 3, 1, 17, 8, 40})
      BOOST_TEST(same_bits(other(x.rows(0, n)), expected[static_cast<std::size_t>(n) - 1]),
                 threads << " threads, batch of " << n);
  }
  for (int threads : {3, 1}) {
    net.core().threads(threads);
    for (std::int64_t n : {40, 2, 39})
      BOOST_TEST(same_bits(net(x.rows(0, n)), expected[static_cast<std::size_t>(n) - 1]));
  }
}

BOOST_AUTO_TEST_CASE(parameters_are_named_and_shaped_as_in_pytorch) {
  model<lenet, input<"N", 1, 28, 28>> net;
  std::vector<std::string> expected{"0.weight", "0.bias",   "3.weight", "3.bias",    "7.weight",
                                    "7.bias",   "9.weight", "9.bias",   "11.weight", "11.bias"};
  BOOST_TEST(names_of(net.parameters()) == expected, boost::test_tools::per_element());
  BOOST_TEST((net.parameters().find("3.weight")->shape() == shape{16, 6, 5, 5}));
  BOOST_TEST((net.parameters().find("7.weight")->shape() == shape{120, 400}));
  BOOST_TEST(net.parameters().bytes() == 61706u * 4);

  model<regular, input<"N", 1, 6, 6>> other;
  const auto& s = other.parameters();
  for (auto name : {"norm.running_mean", "norm.running_var"}) {
    BOOST_REQUIRE(s.find(name));
    BOOST_TEST((s.find(name)->role() == state_role::statistic));
    BOOST_TEST(!s.find(name)->trainable());
  }
  BOOST_TEST(s.size() == 8u);
  BOOST_TEST((s.find("norm.weight")->role() == state_role::parameter));
  BOOST_TEST(numbers<float>(s, "norm.running_var")[3] == 1.0f);
}

BOOST_AUTO_TEST_CASE(the_seed_chooses_the_parameters) {
  model<lenet, input<"N", 1, 28, 28>> a({.seed = 1}), b({.seed = 1, .threads = 3}), c({.seed = 2});
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
  BOOST_TEST(!same_bits(a.parameters(), c.parameters()));
  // Uniform within 1 / sqrt(fan_in): none outside, some close to both ends and to zero.
  auto w = numbers<float>(a.parameters(), "7.weight");
  auto [low, high] = std::minmax_element(w.begin(), w.end());
  BOOST_TEST(*low >= -0.05f);
  BOOST_TEST(*high <= 0.05f);
  BOOST_TEST(*low < -0.0499f);
  BOOST_TEST(*high > 0.0499f);
  double mean = 0;
  for (float v : w) mean += double(v) / static_cast<double>(w.size());
  BOOST_TEST(std::abs(mean) < 1e-3);
  BOOST_TEST(numbers<float>(a.parameters(), "7.bias")[0] != numbers<float>(a.parameters(), "7.bias")[1]);
}

BOOST_AUTO_TEST_CASE(copies_are_deep) {
  model<perceptron, input<"N", 4>> a({.seed = 1});
  auto x = random_tensor<rows>({2, 4}, 1);
  auto before = a(x);
  auto b = a;
  BOOST_TEST(same_bits(b(x), before));
  auto& bias = *b.parameters().find("head.bias");
  std::vector<float> ones(3, 1.0f);
  std::memcpy(bias.mutable_data(), ones.data(), sizeof(float) * 3);
  bias.changed();
  BOOST_TEST(same_bits(a(x), before));
  BOOST_TEST(!same_bits(b(x), before));
  auto moved = std::move(a);
  BOOST_TEST(same_bits(moved(x), before));
  a = b;
  BOOST_TEST(same_bits(a(x), b(x)));
}

BOOST_AUTO_TEST_CASE(inputs_in_order) {
  model<two_inputs, input<"M", "K">, input<"K", "N">> net;
  matrix<float> a{{1, 2, 3}, {4, 5, 6}}, b{{1}, {10}, {100}};
  auto y = net(a, b);
  BOOST_TEST(float(y(0, 0)) == 321.0f);
  BOOST_TEST(float(y(1, 0)) == 654.0f);
}

BOOST_AUTO_TEST_CASE(explains_itself) {
  model<lenet, input<"N", 1, 28, 28>> net;
  auto message = net.explain({shape{8, 1, 28, 28}});
  BOOST_TEST(holds(message, "conv2d"));
  BOOST_TEST(holds(message, "matmul"));
}

// Layers that reshape their input accept unknown extents like named ones.
BOOST_AUTO_TEST_CASE(extents_without_a_name) {
  static constexpr auto attends =
      sequential(nn::transformer_encoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6});
  static constexpr auto groups =
      sequential(nn::group_norm{2, 4}, nn::conv1d{.in_channels = 4, .out_channels = 2, .kernel_size = 3});
  const auto sequences = random_tensor<tensor<float, extents<dyn, dyn, 4>>>({2, 3, 4}, 1);
  model<attends, input<"N", "T", 4>> named({.seed = 1});
  model<attends, input<dyn, dyn, 4>> open({.seed = 1});
  BOOST_TEST(same_bits(named(sequences), open(sequences)));
  const auto rows = random_tensor<tensor<float, extents<dyn, 4, dyn>>>({2, 4, 5}, 2);
  model<groups, input<"N", 4, "T">> named_rows({.seed = 2});
  model<groups, input<dyn, 4, dyn>> open_rows({.seed = 2});
  BOOST_TEST(same_bits(named_rows(rows), open_rows(rows)));
  // Only the rank is known: a layer that runs alone.
  static constexpr nn::self_attention looks{.embed_dim = 4, .num_heads = 2};
  train_layer<constant_layer<looks>, inputs<port<"input", tensor_of_rank<float, 3>>>> layer("looks");
  init(layer, initializers(1));
  const auto y = evaluate(
      layer.forward(dict("input"_key = tensor_of_rank<float, 3>(sequences.memory(), shape{2, 3, 4})))["output"_key]);
  BOOST_TEST((y.shape() == shape{2, 3, 4}));
}

BOOST_AUTO_TEST_SUITE_END()
