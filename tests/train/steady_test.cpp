// A training step whose extents were met before only computes: no allocation, no lock.
#include <boost/test/unit_test.hpp>

#include <cstdint>

#include "steady_state.h"

import lamina;

using namespace lamina;

namespace {

inline constexpr auto line = sequential(nn::linear{.in_features = 2, .out_features = 1});
inline constexpr auto deep = sequential(nn::linear{.in_features = 2, .out_features = 8}, nn::relu{}, nn::dropout{0.25},
                                        nn::linear{.in_features = 8, .out_features = 3});

template <class Step, class X, class Y> void allocates_nothing(Step& step, const X& x, const Y& y) {
  step(x, y);
  BOOST_TEST((steady_state::count([&] { step(x, y); }) == steady_state::counts{}));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steady_training, *boost::unit_test::enable_if<steady_state::observed>())

BOOST_AUTO_TEST_CASE(a_step) {
  model<line, input<"N", 2>> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  allocates_nothing(step, matrix<float>{{1, 0}, {0, 1}}, matrix<float>{{1}, {2}});
  // Another number of rows needs another plan; then both are cached.
  const matrix<float> x(5, 2), y(5, 1);
  allocates_nothing(step, x, y);
  allocates_nothing(step, matrix<float>{{1, 0}, {0, 1}}, matrix<float>{{1}, {2}});
}

BOOST_AUTO_TEST_CASE(a_step_on_labels_with_a_generator_and_slots) {
  model<deep, input<"N", 2>, policies<element<double>>> net({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::adam{.lr = 0.1});
  vector<std::int64_t> labels(2);
  labels.writable()[1] = 2;
  allocates_nothing(step, matrix<double>{{1, 0}, {0, 1}}, labels);
}

BOOST_AUTO_TEST_CASE(the_rate_between_steps) {
  model<line, input<"N", 2>> net({.seed = 1});
  training step(net, loss::l1{}, optim::sgd{.lr = 0.1, .momentum = 0.9});
  const matrix<float> x{{1, 0}, {0, 1}}, y{{1}, {2}};
  step(x, y);
  BOOST_TEST((steady_state::count([&] {
                for (int k = 0; k < 10; ++k) {
                  step.rate(0.1 / (1 + k));
                  step(x, y);
                }
              }) == steady_state::counts{}));
}

BOOST_AUTO_TEST_SUITE_END()
