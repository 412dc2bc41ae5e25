// Policies of a model: bias, activation, initializers, user-defined policies; sources and perceptrons.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

// A user-defined policy, and a layer that reads it.
namespace user {
struct gain {
  double value = 1;
};
struct scaled {
  constexpr auto forward(auto& s, const auto& x) const { return x * policy_of<gain>(s).value; }
};
}  // namespace user

namespace {

constexpr auto perceptron = sequential(sublayer<"hidden">(nn::single_layer_perceptron{4, 3}),
                                       sublayer<"scale">(user::scaled{}), sublayer<"head">(nn::linear{3, 2}));
using rows = tensor<float, extents<dyn, 4>>;
constexpr auto act = activation(nn::tanh{});

std::vector<std::string> names_of(const parameter_store& s) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < s.size(); ++i) names.push_back(s[i].name());
  return names;
}
template <class Net> view<const float> of(const Net& net, std::string_view name) {
  return net.parameters().find(name)->value().template elements<float>();
}
using strings = std::vector<std::string>;

// Policies that affect shapes, at compile time.
constexpr auto sums = sequential(sublayer<"sum">(nn::reduce_sum{}));
static_assert(outputs_with_policies<sums, dtype::float32, policies<keepdim(true), axes(1)>, input<"N", 4>>[0].dims ==
              shape{"N", 1});
static_assert(outputs_with_policies<sums, dtype::float32, policies<sub<"sum">(axes(1))>, input<"N", 4>>[0].dims ==
              shape{"N"});
static_assert(outputs_with_policies<sums, dtype::float32, policies<>, input<"N", 4>>[0].dims == shape{});

struct pair_of_layers {
  nn::linear first, second;
  constexpr auto forward(auto& s, const auto& x) const { return s("second", second, s("first", first, x)); }
};
constexpr auto by_code = sequential(sublayer<"body">(pair_of_layers{{4, 3}, {3, 2}}));

constexpr auto weight_layer =
    topology(sublayer<"param">(nn::param_source{.shape = {4, 3}}), sublayer<"shift">(nn::constant{{3}, 0.5}),
             sublayer<"factor">(nn::value_source{2}), sublayer<"dot">(nn::dot{}), sublayer<"times">(nn::multiply{}),
             sublayer<"sum">(nn::add{}), connect<"param.output", "dot.rhs">, connect<"input", "dot.lhs">,
             connect<"dot.output", "times.lhs">, connect<"factor.output", "times.rhs">,
             connect<"times.output", "sum.lhs">, connect<"shift.output", "sum.rhs">, connect<"sum.output", "output">);

}  // namespace

BOOST_AUTO_TEST_SUITE(policies_of_models)

BOOST_AUTO_TEST_CASE(activation_bias_and_gain_are_policies) {
  model<perceptron, input<"N", 4>, policies<act, user::gain(3), sub<"hidden">(use_bias(false))>> net({.seed = 1});
  BOOST_TEST(names_of(net.parameters()) == (strings{"hidden.weight", "head.weight", "head.bias"}),
             boost::test_tools::per_element());
  auto x = random_tensor<rows>({5, 4}, 1);
  auto y = net(x);
  auto w = of(net, "hidden.weight"), v = of(net, "head.weight"), b = of(net, "head.bias");
  for (std::int64_t n = 0; n < 5; ++n)
    for (std::size_t o = 0; o < 2; ++o) {
      double sum = static_cast<double>(b[o]);
      for (std::size_t h = 0; h < 3; ++h) {
        double inner = 0;
        for (std::size_t i = 0; i < 4; ++i)
          inner += static_cast<double>(x(n, static_cast<int>(i))) * static_cast<double>(w[i * 3 + h]);
        sum += 3 * std::tanh(inner) * static_cast<double>(v[o * 3 + h]);
      }
      BOOST_TEST(std::abs(sum - static_cast<double>(static_cast<float>(y(n, static_cast<int>(o))))) < 1e-5);
    }
  model<perceptron, input<"N", 4>, policies<sub<"hidden">(activation(nn::relu{})), use_bias(true)>> other({.seed = 1});
  BOOST_TEST(names_of(other.parameters()) == (strings{"hidden.weight", "hidden.bias", "head.weight", "head.bias"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(initializers_are_chosen_by_name_or_for_all_and_overridden_inwards) {
  constexpr auto two = initializer::constant(2), three = initializer::constant(3), four = initializer::constant(4);
  model<perceptron, input<"N", 4>,
        policies<act, initialize<"weight">(two), initialize<>(three), sub<"head">(initialize<"weight">(four))>>
      net;
  auto all = [&](std::string_view name, float v) {
    auto e = of(net, name);
    return std::all_of(e.begin(), e.end(), [&](float x) { return x == v; });
  };
  BOOST_TEST(all("hidden.weight", 2));
  BOOST_TEST(all("hidden.bias", 3));
  BOOST_TEST(all("head.weight", 4));
  BOOST_TEST(all("head.bias", 3));
}

BOOST_AUTO_TEST_CASE(layers_made_by_code_see_policies_of_their_path) {
  model<by_code, input<"N", 4>, policies<sub<"body">(sub<"first">(use_bias(false)))>> net;
  BOOST_TEST(names_of(net.parameters()) == (strings{"body.first.weight", "body.second.weight", "body.second.bias"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sources_and_constants) {
  model<weight_layer, input<"N", 4>, policies<element<double>>> net({.seed = 2});
  BOOST_TEST(names_of(net.parameters()) == strings{"param.weight"}, boost::test_tools::per_element());
  auto x = random_tensor<tensor<double, extents<dyn, 4>>>({2, 4}, 3);
  auto y = net(x);
  auto w = net.parameters().find("param.weight")->value().elements<double>();
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 3; ++o) {
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += static_cast<double>(x(n, i)) * w[static_cast<std::size_t>(i * 3 + o)];
      BOOST_TEST(std::abs(2 * sum + 0.5 - static_cast<double>(y(n, o))) < 1e-12);
    }
}

BOOST_AUTO_TEST_SUITE_END()
