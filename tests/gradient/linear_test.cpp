// Gradients of matrix products: transposed operands, broadcast batches, vectors as matrices, empty products.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace engine_test;

namespace {

shape with(shape batch, std::int64_t rows, std::int64_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows);
  batch.push_back(transposed ? rows : columns);
  return batch;
}

void products(const shape& batch_a, const shape& batch_b, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      check_twice("matmul", {real(with(batch_a, m, k, ta), 1), real(with(batch_b, k, n, tb), 2)},
                  [&](const auto& x) { return values{matmul(x[0], x[1], {ta, tb})}; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_products)

BOOST_AUTO_TEST_CASE(plain_products) {
  products({}, {}, 2, 3, 4);
  products({}, {}, 1, 1, 1);
  products({}, {}, 1, 5, 1);
  products({}, {}, 5, 1, 3);
  products({}, {}, 9, 17, 5);
  products({}, {}, 3, 2, 33);
}

BOOST_AUTO_TEST_CASE(rows_by_weights_and_a_bias) {
  for (auto [n, in, out] : {std::array<std::int64_t, 3>{4, 3, 2}, {1, 1, 1}, {0, 3, 2}, {5, 1, 7}, {3, 0, 2}})
    check_twice("linear", {real({n, in}, 1), real({out, in}, 2), real({out}, 3)},
                [](const auto& x) { return values{linear(x[0], x[1], x[2])}; });
  check_twice("linear", {real({2, 3, 4}, 1), real({5, 4}, 2), real({1}, 3)},
              [](const auto& x) { return values{linear(x[0], x[1], x[2])}; });  // a bias that broadcasts
}

BOOST_AUTO_TEST_CASE(empty_products) {
  products({}, {}, 0, 3, 2);
  products({}, {}, 2, 0, 3);
  products({}, {}, 2, 3, 0);
  products({0}, {0}, 2, 3, 2);
  products({0}, {}, 2, 3, 2);
}

BOOST_AUTO_TEST_CASE(batches) {
  products({2}, {2}, 2, 3, 2);
  products({3}, {}, 2, 3, 4);
  products({}, {3}, 2, 3, 4);
  products({2, 1}, {1, 3}, 2, 2, 3);
  products({1}, {2}, 1, 3, 2);
  products({2}, {1}, 3, 1, 2);
  products({2, 3}, {3}, 2, 2, 2);
}

BOOST_AUTO_TEST_CASE(a_layer_with_bias_and_residual) {
  for (std::int64_t n : {1, 3, 8})
    check("tanh(x w + b)", {real({4, 5}, 1), real({5, n}, 2), real({n}, 3)},
          [](const auto& x) { return values{tanh(matmul(x[0], x[1]) + x[2])}; });
  check("x w + b + r", {real({4, 5}, 1), real({5, 3}, 2), real({3}, 3), real({4, 3}, 4)},
        [](const auto& x) { return values{matmul(x[0], x[1]) + x[2] + x[3]}; });
  check("relu(x w + b)", {real({4, 5}, 1), real({5, 3}, 2), real({3}, 3)},
        [](const auto& x) { return values{relu(matmul(x[0], x[1]) + x[2])}; });
  check("x w + y v", {real({4, 5}, 1), real({5, 3}, 2), real({4, 2}, 3), real({2, 3}, 4)},
        [](const auto& x) { return values{matmul(x[0], x[1]) + matmul(x[2], x[3])}; });
  check("x x^T", {real({3, 4}, 1)}, [](const auto& x) { return values{matmul(x[0], transpose(x[0]))}; });
}

BOOST_AUTO_TEST_SUITE_END()
