// Calls of a model: which compile, and errors about shapes that are known only at run time.
#include <boost/test/unit_test.hpp>

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
using net_type = model<perceptron, input<"N", 4>>;
constexpr auto two_inputs = topology(sublayer<"product">(nn::dot{}), connect<"a", "product.lhs">,
                                     connect<"b", "product.rhs">, connect<"product.output", "output">);
using pair_type = model<two_inputs, input<"M", "K">, input<"K", "N">>;
constexpr auto block = sequential(
    sublayer<"first">(sequential(nn::relu{}, sublayer<"fc">(nn::linear{.in_features = 6, .out_features = 2}))));

constexpr auto convolutional =
    sequential(sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}, nn::relu{}, nn::flatten{}),
               nn::linear{.in_features = 144, .out_features = 10});

// A code layer: a mismatch in its own operation, after a layer that it calls.
struct mixture {
  constexpr auto forward(auto& s, const auto& x) const {
    return s("source", nn::param_source{.shape = {1, 4}}) + s("act", nn::relu{}, x);
  }
};
constexpr auto beside = sequential(sublayer<"mixed">(mixture{}));

// Shapes known at compile time are checked then; element types always are.
static_assert(std::invocable<net_type&, tensor<float, extents<2, 4>>> &&
              std::invocable<net_type&, tensor<float, extents<dyn, 4>>> &&
              std::invocable<net_type&, tensor<float, extents<dyn, dyn>>> &&
              std::invocable<net_type&, vector<float, 4>>);
static_assert(!std::invocable<net_type&, tensor<float, extents<2, 5>>> &&
              !std::invocable<net_type&, tensor<float, extents<2, 2, 4>>> &&
              !std::invocable<net_type&, vector<float, 5>> && !std::invocable<net_type&, scalar<float>>);
static_assert(!std::invocable<net_type&, tensor<double, extents<2, 4>>> &&
              !std::invocable<net_type&, tensor<std::int32_t, extents<2, 4>>>);
static_assert(!std::invocable<net_type&> && !std::invocable<net_type&, matrix<float>, matrix<float>>);
static_assert(!std::invocable<net_type&, decltype(zeros<float>(2, 4))> && !std::invocable<net_type&, int>);
static_assert(std::invocable<pair_type&, matrix<float>, matrix<float>> && !std::invocable<pair_type&, matrix<float>>);
static_assert(!std::invocable<model<perceptron, input<2, 4>>&, vector<float, 4>>);  // no open dimension to leave out

template <class Net, class X, class Y>
concept RunsInto = requires(Net& n, const X& x, Y& y) { n.run(x, y); };
static_assert(RunsInto<net_type, matrix<float>, matrix<float>> && !RunsInto<net_type, matrix<double>, matrix<float>> &&
              !RunsInto<net_type, matrix<float>, matrix<double>> && !RunsInto<pair_type, matrix<float>, matrix<float>>);

}  // namespace

BOOST_AUTO_TEST_SUITE(calls)

BOOST_AUTO_TEST_CASE(a_model_is_the_program_of_its_formula) {
  net_type net;
  program p;
  const value x = p.input("input", {dtype::float32, {"N", 4}});
  auto linear = [&](const value& in, const char* weight, const char* bias, const shape& extents) {
    const value w = p.state(weight, {dtype::float32, extents});
    return value(matmul(in, w, {.transpose_b = true}) + p.state(bias, {dtype::float32, {extents[0]}}));
  };
  const value hidden = tanh(linear(x, "hidden.weight", "hidden.bias", {8, 4}));
  p.output("output", linear(hidden, "head.weight", "head.bias", {3, 8}));
  BOOST_TEST(net.core().inference().dump() == p.dump());
  BOOST_TEST((net.core().inference().id() == p.id()));
}

BOOST_AUTO_TEST_CASE(extents_known_at_run_time) {
  net_type net;
  auto message = error_of([&] { net(matrix<float>(2, 5)); });
  BOOST_TEST(holds(message, "shape_error: input `input` is [Nx4]; got [2x5]"));
  message = error_of([&] { net(tensor<float, extents<dyn>>(3)); });
  BOOST_TEST(holds(message, "shape_error: input `input` is [Nx4]; got [1x3]"));
  // The model still works.
  BOOST_TEST((net(matrix<float>(2, 4)).shape() == shape{2, 3}));
}

BOOST_AUTO_TEST_CASE(extents_that_meet_within_the_net) {
  model<block, input<"N", "K">> net;
  constexpr auto words =
      "shape_error: sublayer `first.fc` (linear): linear expects 6 input features but is given 5, shape [2x5]";
  BOOST_TEST(holds(error_of([&] { net(matrix<float>(2, 5)); }), words));
  reference_factory<block, input<"N", "K">> factory(net);
  auto reference = factory.create();
  BOOST_TEST(holds(error_of([&] { reference(matrix<float>(2, 5)); }), words));
  BOOST_TEST((net(matrix<float>(2, 6)).shape() == shape{2, 2}));
}

BOOST_AUTO_TEST_CASE(extents_that_meet_in_an_operation) {
  model<beside, input<"N", "K">> net;
  auto message = error_of([&] { net(matrix<float>(2, 5)); });
  BOOST_TEST(holds(message, "shape_error: sublayer `mixed` (mixture): add"));
  BOOST_TEST(holds(message, "[1x4]"));
  BOOST_TEST(holds(message, "[2x5]"));
}

// Images of another size than the net expects, where the input leaves their size open.
BOOST_AUTO_TEST_CASE(images_of_another_size) {
  model<convolutional, input<"N", 1, "H", "W">> net;
  BOOST_TEST((net(tensor<float, extents<dyn, 1, dyn, dyn>>(2, 1, 8, 8)).shape() == shape{2, 10}));
  auto message = error_of([&] { net(tensor<float, extents<dyn, 1, dyn, dyn>>(2, 1, 10, 10)); });
  BOOST_TEST(message ==
             "shape_error: sublayer `1` (linear): linear expects 144 input features but is given 256, shape [2x256]");
  message = error_of([&] { net(tensor<float, extents<dyn, 1, dyn, dyn>>(2, 1, 2, 10)); });
  BOOST_TEST(
      message ==
      "shape_error: sublayer `0.0` (conv2d): conv2d: the kernel 3x3 is larger than the padded map, shape [2x1x2x10]");
  BOOST_TEST((net(tensor<float, extents<dyn, 1, dyn, dyn>>(2, 1, 8, 8)).shape() == shape{2, 10}));
}

BOOST_AUTO_TEST_CASE(a_name_is_one_extent) {
  pair_type net;
  auto message = error_of([&] { net(matrix<float>(2, 3), matrix<float>(4, 5)); });
  BOOST_TEST(holds(message, "shape_error: input `b`: dimension `K` is 4 here and 3 in another input"));
}

BOOST_AUTO_TEST_CASE(results_in_the_callers_memory) {
  net_type net;
  auto x = random_tensor<matrix<float>>({5, 4}, 1);
  auto y = net(x);
  matrix<float> out(5, 3), wrong(5, 4);
  net.run(x, out);
  BOOST_TEST(same_bits(out, y));
  auto message = error_of([&] { net.run(x, wrong); });
  BOOST_TEST(holds(message, "shape_error: run: the result is [5x3] and the tensor [5x4]"));
  std::vector<float> mine(15);
  auto borrowed = borrow(mine.data(), {5, 3});
  net.run(x, borrowed);
  BOOST_TEST(std::memcmp(mine.data(), y.data().data(), sizeof(float) * 15) == 0);
}

BOOST_AUTO_TEST_CASE(an_empty_batch_gives_an_empty_result) {
  net_type net;
  BOOST_TEST((net(matrix<float>(0, 4)).shape() == shape{0, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
