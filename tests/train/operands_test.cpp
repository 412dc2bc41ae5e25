// Losses of three and four operands in `fit`: the output, followed by the targets of the data set.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "message.h"
#include "nets.h"

#include "plane.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using namespace plane_test;

BOOST_AUTO_TEST_SUITE(losses_of_several_operands)

BOOST_AUTO_TEST_CASE(weights_of_samples) {
  const auto data = dataset::map(plane{24}, [](const point& p, std::int64_t i) {
    return std::tuple(p.x, std::array<double, 1>{p.y}, static_cast<double>(i % 3));
  });
  wide_model net({.seed = 1});
  numbers w = weights_of(net);
  fit(net, data, loss::weighted{loss::mse{}}, optim::sgd{.lr = 0.1}, {.epochs = 3, .batch = 24});
  for (int t = 0; t < 3; ++t) {
    numbers g(4);
    for (std::int64_t i = 0; i < 24; ++i) {
      const point p = plane{24}[i];
      const auto x = p.x.data();
      const double off = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] - p.y;
      for (std::size_t k = 0; k < 4; ++k) g[k] += 2 * off * (k < 3 ? x[k] : 1) * static_cast<double>(i % 3) / 24;
    }
    for (std::size_t k = 0; k < 4; ++k) w[k] -= 0.1 * g[k];
  }
  BOOST_TEST(distance(weights_of(net), w) < 1e-12);
}

BOOST_AUTO_TEST_CASE(four_operands) {
  const auto data = dataset::map(plane{24}, [](const point& p, std::int64_t i) {
    return std::tuple(p.x, p.y, static_cast<double>(i % 2), static_cast<std::int64_t>(i % 5));
  });
  const auto four = [](const value& y, const value& t, const value& by, const value& count) {
    return reduce_mean(square(reshape(y, t.shape()) - t) * by * cast<double>(count));
  };
  wide_model net({.seed = 1});
  numbers w = weights_of(net), g(4);
  fit(net, data, four, optim::sgd{.lr = 0.1}, {.batch = 24});
  for (std::int64_t i = 0; i < 24; ++i) {
    const point p = plane{24}[i];
    const auto x = p.x.data();
    const double off = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] - p.y;
    for (std::size_t k = 0; k < 4; ++k)
      g[k] += 2 * off * (k < 3 ? x[k] : 1) * static_cast<double>((i % 2) * (i % 5)) / 24;
  }
  for (std::size_t k = 0; k < 4; ++k) w[k] -= 0.1 * g[k];
  BOOST_TEST(distance(weights_of(net), w) < 1e-12);
}

BOOST_AUTO_TEST_CASE(other_numbers_of_operands) {
  wide_model net({.seed = 1});
  BOOST_TEST(message_of([&] {
               fit(net, plane{8}, loss::weighted{loss::mse{}}, optim::sgd{}, {.batch = 8});
             }).starts_with("loss: it takes three operands; got 1 output(s) and 1 target(s); expected"));
}

BOOST_AUTO_TEST_SUITE_END()
