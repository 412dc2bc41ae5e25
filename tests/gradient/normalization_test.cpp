// Gradients of batch normalization with batch statistics and with running statistics.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// A scope that gives a layer's parameters and states their values.
struct given_scope {
  std::map<std::string, value, std::less<>> values;
  bool trains = false;
  int assigned = 0;
  value parameter(std::string_view name, const shape&, const initializer&) const { return values.find(name)->second; }
  value state(std::string_view name, const shape&, double) const { return values.find(name)->second; }
  void assign(const value&, const value&) { ++assigned; }
  bool training() const { return trains; }
};

const std::vector<shape> images{{2, 3, 2, 2}, {4, 1, 3, 3}, {1, 2, 3, 4}, {3, 2, 1, 1},
                                {2, 5, 1, 4}, {5, 4, 2, 3}, {0, 2, 3, 3}, {2, 3, 0, 2}};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_normalization)

BOOST_AUTO_TEST_CASE(batch_norm2d_by_the_batch) {
  for (const auto& s : images) {
    const shape channels{s[1]};
    const std::vector<array> in{real(s, 1), real(channels, 2), real(channels, 3)};
    int assigned = 0;
    auto forward = [&](const nn::batch_norm2d& layer, const auto& x) {
      auto constant = [&](double v) {
        return value(broadcast_like(x[0].owner().number(v, x[0].type().element), x[1]));
      };
      given_scope scope{{{"weight", x[1]}, {"bias", x[2]}, {"running_mean", constant(0)}, {"running_var", constant(1)}},
                        true};
      value y = layer.forward(scope, x[0]);
      assigned += scope.assigned;
      return values{y, square(y)};
    };
    check("batch_norm2d in training", in, [&](const auto& x) { return forward({.num_features = s.at(1)}, x); });
    BOOST_TEST(assigned > 0);
    check("batch_norm2d in training, no factor", {real(s, 6), in[1], in[2]}, [&](const auto& x) {
      auto y = forward({.num_features = s.at(1), .epsilon = 0.1, .affine = false}, x);
      return values{y[0] * x[0] + y[1], square(x[1]) + x[2]};
    });
  }
}

BOOST_AUTO_TEST_CASE(batch_norm2d_by_running_statistics) {
  for (const auto& s : images) {
    const shape channels{s[1]};
    const std::vector<array> in{real(s, 1), real(channels, 2), real(channels, 3), real(channels, 4),
                                real(channels, 5, 0.5, 2)};
    for (bool affine : {true, false})
      check(affine ? "batch_norm2d in inference" : "batch_norm2d in inference, no factor", in, [&](const auto& x) {
        given_scope scope{{{"weight", x[1]}, {"bias", x[2]}, {"running_mean", x[3]}, {"running_var", x[4]}}};
        value y = nn::batch_norm2d{.num_features = s.at(1), .affine = affine}.forward(scope, x[0]);
        return values{square(y), square(x[1]) + x[2]};
      });
  }
}

BOOST_AUTO_TEST_SUITE_END()
