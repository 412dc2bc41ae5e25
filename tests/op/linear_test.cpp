// Matrix products against plain loops: sizes around the tiles, transposed operands, batches.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// |error| <= 4 K eps sum |a||b| for each element.
void check(const shape& a, const shape& b, bool ta, bool tb, dtype element) {
  array x = random_array(element, a, 1), y = random_array(element, b, 2);
  auto got = result_of({x, y}, [&](const auto& v) { return value(matmul(v[0], v[1], {ta, tb})); });
  shape batch_a = a, batch_b = b, batch;
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  BOOST_REQUIRE(broadcast(batch_a, batch_b, batch));
  std::int64_t ar = a.at(a.rank - 2), ac = a.back().code, br = b.at(b.rank - 2), bc = b.back().code;
  std::int64_t m = ta ? ac : ar, k = ta ? ar : ac, n = tb ? br : bc;
  shape whole = batch;
  whole.push_back(m);
  whole.push_back(n);
  BOOST_REQUIRE((got.shape() == whole));
  const double eps = element == dtype::float32 ? 1.2e-7 : 2.3e-16;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    auto first = [&](const shape& s) {
      std::int64_t at = 0, stride = 1, rest = i;
      for (int d = batch.rank - 1; d >= 0; --d) {
        std::int64_t index = rest % batch.at(d);
        rest /= batch.at(d);
        int q = d - (batch.rank - s.rank);
        if (q < 0) continue;
        if (s.at(q) != 1) at += index * stride;
        stride *= s.at(q);
      }
      return at;
    };
    std::int64_t xa = first(batch_a) * ar * ac, yb = first(batch_b) * br * bc;
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = 0, size = 0;
        for (std::int64_t q = 0; q < k; ++q) {
          double p = x.values[static_cast<std::size_t>(xa + (ta ? q * ac + r : r * ac + q))] *
                     y.values[static_cast<std::size_t>(yb + (tb ? c * bc + q : q * bc + c))];
          sum += p;
          size += std::abs(p);
        }
        double error = std::abs(got.values[static_cast<std::size_t>((i * m + r) * n + c)] - sum);
        BOOST_REQUIRE_MESSAGE(error <= 4 * static_cast<double>(k) * eps * size,
                              a.string() << b.string() << " at " << r << ", " << c << ": " << error);
      }
  }
}
void products(shape batch_a, shape batch_b, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (auto element : {dtype::float32, dtype::float64})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        shape a = batch_a, b = batch_b;
        a.push_back(ta ? k : m);
        a.push_back(ta ? m : k);
        b.push_back(tb ? n : k);
        b.push_back(tb ? k : n);
        check(a, b, ta, tb, element);
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(products_of_matrices)

BOOST_AUTO_TEST_CASE(sizes_around_the_tiles) {
  for (std::int64_t m : {1, 2, 7, 17})
    for (std::int64_t n : {1, 3, 16, 33, 65})
      for (std::int64_t k : {1, 5, 32}) products({}, {}, m, k, n);
}
BOOST_AUTO_TEST_CASE(long_sums) {
  products({}, {}, 3, 1000, 5);
  products({}, {}, 1, 2000, 1);
  products({}, {}, 130, 800, 70);
}
BOOST_AUTO_TEST_CASE(empty_products) {
  products({}, {}, 0, 3, 2);
  products({}, {}, 3, 0, 2);
  products({}, {}, 3, 2, 0);
  products({0}, {}, 3, 2, 1);
}
BOOST_AUTO_TEST_CASE(batches) {
  products({3}, {3}, 4, 5, 6);
  products({3}, {}, 4, 5, 6);
  products({}, {3}, 4, 5, 6);
  products({2, 1}, {1, 3}, 3, 4, 5);
  products({2, 3}, {3}, 3, 4, 5);
  products({1, 1}, {2, 2}, 1, 7, 9);
  products({4, 1}, {}, 2, 3, 2);
}
BOOST_AUTO_TEST_CASE(rows_do_not_depend_on_how_many_there_are) {
  array x = random_array(dtype::float32, {64, 90}, 1), w = random_array(dtype::float32, {90, 50}, 2);
  auto all = result_of({x, w}, [](const auto& v) { return value(matmul(v[0], v[1])); });
  for (std::int64_t rows : {1, 3, 31}) {
    array some = array_of(dtype::float32, {rows, 90}, {x.values.begin(), x.values.begin() + rows * 90});
    auto part = result_of({some, w}, [](const auto& v) { return value(matmul(v[0], v[1])); });
    BOOST_TEST(part.values == std::vector<double>(all.values.begin(), all.values.begin() + rows * 50),
               boost::test_tools::per_element());
  }
}
// One column more than whole panels, in products that are cut by columns: no part is a single column, whose sums have
// another order.
BOOST_AUTO_TEST_CASE(rows_of_one_column_more_than_panels) {
  for (std::int64_t n : {9, 17, 25, 33, 49}) {
    const array x = random_array(dtype::float32, {100, 4096}, 1), w = random_array(dtype::float32, {n, 4096}, 2);
    const auto product = [](const auto& v) { return value(matmul(v[0], v[1], {.transpose_b = true})); };
    const auto all = result_of({x, w}, product);
    for (std::int64_t rows : {1, 2, 5}) {
      const array some = array_of(dtype::float32, {rows, 4096}, {x.values.begin(), x.values.begin() + rows * 4096});
      BOOST_TEST(result_of({some, w}, product).values ==
                     std::vector<double>(all.values.begin(), all.values.begin() + rows * n),
                 n << " columns, " << rows << " rows");
    }
  }
}

// Each product of a batch has the bits of the product alone, with fused operations after it; small ones share a call.
BOOST_AUTO_TEST_CASE(small_products_of_a_batch) {
  const std::int64_t batch = 6;
  for (dtype element : {dtype::float32, dtype::float64})
    for (bool transposed : {false, true})
      for (std::int64_t m : {1, 2, 7, 17})
        for (std::int64_t k : {1, 5, 800})
          for (std::int64_t n : {1, 3, 33}) {
            const shape a = transposed ? shape{batch, k, m} : shape{batch, m, k},
                        b = transposed ? shape{batch, n, k} : shape{batch, k, n};
            const array x = random_array(element, a, 1), y = random_array(element, b, 2),
                        bias = random_array(element, {n}, 3);
            const array one = random_array(element, without_first(a), 4),
                        rest = random_array(element, {batch, m, n}, 5);
            const matmul_attributes at{transposed, transposed};
            const auto make = [&](const auto& v) {
              return std::vector<value>{matmul(v[0], v[1], at), relu(matmul(v[0], v[1], at) + v[2]),
                                        matmul(v[0], v[1], at) + v[4], matmul(v[3], v[1], at)};
            };
            const auto together = results_of({x, y, bias, one, rest}, make);
            const auto part = [&](const array& whole, std::int64_t i) {
              const auto size = static_cast<std::size_t>(whole.shape().size(1, 3)),
                         first = static_cast<std::size_t>(i) * size;
              return array_of(element, without_first(whole.shape()),
                              {whole.values.begin() + static_cast<std::ptrdiff_t>(first),
                               whole.values.begin() + static_cast<std::ptrdiff_t>(first + size)});
            };
            for (std::int64_t i = 0; i < batch; ++i) {
              const auto alone = results_of({part(x, i), part(y, i), bias, one, part(rest, i)}, make);
              for (std::size_t r = 0; r < alone.size(); ++r)
                BOOST_TEST(same_bits(part(together[r], i), alone[r]),
                           "m " << m << " k " << k << " n " << n << " product " << i << ", result " << r);
            }
          }
  small_graph g;
  const array x = random_array(dtype::float32, {64, 8, 8}, 1);
  g.output(matmul(g.input(x), g.input(x)));
  BOOST_TEST(g.make()->cost().steps == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
