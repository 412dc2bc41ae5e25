// Training step by step: what it finds, what it says, and that a step that fails changes nothing.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

inline constexpr auto line = sequential(nn::linear{.in = 2, .out = 1});
inline constexpr auto classes = sequential(nn::linear{.in = 2, .out = 3});
inline constexpr auto remembers = sequential(nn::gru{.input_size = 1, .hidden_size = 8}, nn::linear{.in = 8, .out = 1});

using element_types = std::tuple<float, double>;

}  // namespace

BOOST_AUTO_TEST_SUITE(training_steps)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_line_is_found, T, element_types) {
  model<line, input<"N", 2>, policies<element<T>>> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  matrix<T> x{{1, 0}, {0, 1}, {1, 1}, {2, -1}}, y(4, 1);
  for (std::int64_t i = 0; i < 4; ++i) y.writable()[static_cast<std::size_t>(i)] = 3 * x.data()[static_cast<std::size_t>(2 * i)] - 2 * x.data()[static_cast<std::size_t>(2 * i + 1)] + T(0.5);
  double first = step(x, y), last = 0;
  for (int i = 0; i < 1500; ++i) last = step(x, y);
  BOOST_TEST(last < 1e-5 * first);
  auto w = net.parameters().find("0.weight")->value().template elements<T>();
  BOOST_TEST(std::abs(w[0] - 3) < 0.01);
  BOOST_TEST(std::abs(w[1] + 2) < 0.01);
  BOOST_TEST(std::abs(net.parameters().find("0.bias")->value().template elements<T>()[0] - T(0.5)) < 0.01);
}

BOOST_AUTO_TEST_CASE(the_rate_may_change) {
  model<line, input<"N", 2>> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  matrix<float> x{{1, 0}, {0, 1}}, y{{1}, {2}};
  double a = step(x, y);
  step.rate(0);
  BOOST_TEST(step.rate() == 0);
  double b = step(x, y), c = step(x, y);
  BOOST_TEST(b < a);
  BOOST_TEST(b == c);
}

BOOST_AUTO_TEST_CASE(a_label_outside_the_classes_changes_nothing) {
  model<classes, input<"N", 2>> net({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::adam{.lr = 0.1});
  matrix<float> x{{1, 0}, {0, 1}};
  vector<std::int64_t> good(2), bad(2);
  good.writable()[1] = 2;
  bad.writable()[1] = 3;
  BOOST_TEST(std::isfinite(step(x, good)));
  std::vector<float> before(6);
  std::memcpy(before.data(), net.parameters().find("0.weight")->value().data(), 24);
  BOOST_TEST(message_of([&] { step(x, bad); }) != "");
  BOOST_TEST(std::memcmp(before.data(), net.parameters().find("0.weight")->value().data(), 24) == 0);
  step(x, good);
  BOOST_TEST(std::memcmp(before.data(), net.parameters().find("0.weight")->value().data(), 24) != 0);
}

BOOST_AUTO_TEST_CASE(a_recurrent_net_learns_to_remember) {
  // The output is the input of the turn before.
  model<remembers, input<"T", "N", 1>> net({.seed = 2});
  training step(net, loss::mse{}, optim::adam{.lr = 0.02});
  tensor<float, extents<6, 8, 1>> x, y;
  double first = 0, last = 0;
  for (int k = 0; k < 300; ++k) {
    auto in = x.writable(), out = y.writable();
    for (std::size_t i = 0; i < 48; ++i) {
      in[i] = static_cast<float>((i * 7919u + static_cast<std::size_t>(k) * 104729u) % 1000u) / 500.f - 1.f;
      out[i] = i < 8 ? 0.f : in[i - 8];
    }
    last = step(x, y);
    if (k == 0) first = last;
  }
  BOOST_TEST(last < 0.1 * first);
}

BOOST_AUTO_TEST_SUITE_END()
