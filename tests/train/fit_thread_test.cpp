// Training on several threads, and several trainings at once.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <vector>

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

BOOST_AUTO_TEST_SUITE(training_on_threads)

BOOST_AUTO_TEST_CASE(one_training_on_many_threads) {
  auto data = squares(100, 1);
  std::vector<regular_model> nets;
  for (int threads : {1, 2, 4}) {
    nets.emplace_back(model_options{.seed = 1, .threads = threads});
    fit(nets.back(), data, loss::cross_entropy{}, optim::adam{}, {.epochs = 2, .batch = 70, .validation = data});
    BOOST_TEST(same_bits(nets.back().parameters(), nets.front().parameters()));
  }
}

BOOST_AUTO_TEST_CASE(many_trainings_at_once_on_one_data_set) {
  auto data = squares(60, 1);
  std::vector<regular_model> nets;
  for (int i = 0; i < 3; ++i) nets.emplace_back(model_options{.seed = 1});
  parallel_workers(3, [&](int w) {
    fit(nets[static_cast<std::size_t>(w)], data, loss::cross_entropy{}, optim::adam{}, {.epochs = 2, .batch = 16});
  });
  for (const auto& net : nets) BOOST_TEST(same_bits(net.parameters(), nets.front().parameters()));
}

BOOST_AUTO_TEST_SUITE_END()
