// Initializers: moments, fans, orthogonality, integers, equal bits for equal seeds, and diagnostics.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace engine_test;

namespace {

// ---- fans
static_assert(fans_of({8, 3, 5, 5}) == fans{75, 200} && fans_of({120, 400}) == fans{400, 120});
static_assert(fans_of({7}) == fans{7, 7} && fans_of({}) == fans{1, 1});
static_assert(fans_of({784, 10}, fan_layout::in_out) == fans{784, 10});
static_assert(fans_of({2, 3, 4, 5}, fan_layout::in_out) == fans{24, 30} &&
              fans_of({7}, fan_layout::in_out) == fans{1, 1});

array made(const initializer& how, const shape& s, std::int64_t seed = 1, dtype element = dtype::float32,
           const char* name = "w") {
  any_tensor t(tensor_type{element, s});
  fill(t, how, seed, name);
  return from_tensor(t);
}
struct moments {
  double mean = 0, variance = 0, low = 0, high = 0;
};
moments moments_of(const array& a) {
  moments m;
  const auto n = static_cast<double>(a.values.size());
  for (double v : a.values) m.mean += v / n;
  for (double v : a.values) m.variance += (v - m.mean) * (v - m.mean) / n;
  auto [low, high] = std::minmax_element(a.values.begin(), a.values.end());
  m.low = *low;
  m.high = *high;
  return m;
}
void expect(const initializer& how, const shape& s, double variance, double limit) {
  for (auto element : {dtype::float32, dtype::float64}) {
    auto m = moments_of(made(how, s, 3, element));
    BOOST_TEST(std::abs(m.mean) < 0.015 * std::sqrt(variance));
    BOOST_TEST(m.variance == variance, boost::test_tools::tolerance(0.02));
    BOOST_TEST(m.low >= -limit * (1 + 1e-6));
    BOOST_TEST(m.high <= limit * (1 + 1e-6));
  }
}
constexpr double any = 1e9;

// Largest difference between W W^T, or W^T W if there are fewer columns, and gain^2 times the identity.
double distance_from_orthogonal(const array& a, double gain) {
  const auto rows = static_cast<std::size_t>(a.shape().at(0)), columns = a.values.size() / rows;
  const bool wide = rows <= columns;
  const std::size_t n = wide ? rows : columns, length = wide ? columns : rows;
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double dot = 0;
      for (std::size_t k = 0; k < length; ++k)
        dot += wide ? a.values[i * columns + k] * a.values[j * columns + k]
                    : a.values[k * columns + i] * a.values[k * columns + j];
      worst = std::max(worst, std::abs(dot - (i == j ? gain * gain : 0)));
    }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(initializers)

BOOST_AUTO_TEST_CASE(variances_follow_the_fans_of_the_shape) {
  const shape conv{40, 20, 5, 25}, dense{400, 250};  // 1e5 elements each
  expect(initializer::xavier_uniform(), dense, 2.0 / 650, std::sqrt(6.0 / 650));
  expect(initializer::xavier_normal(), conv, 2.0 / (60 * 125), any);
  expect(initializer::kaiming_uniform(), conv, 2.0 / 2500, std::sqrt(6.0 / 2500));
  expect(initializer::kaiming_normal(), dense, 2.0 / 250, any);
  expect(initializer::kaiming_normal(fan_layout::in_out), dense, 2.0 / 400, any);
  expect(initializer::variance_scaling({.scale = 3, .mode = fan_mode::out}), dense, 3.0 / 400, any);
  const double deviation = std::sqrt(1.0 / 250);
  expect(initializer::variance_scaling({.distribution = fan_distribution::truncated}), dense, 1.0 / 250,
         2 * deviation / 0.87962566103423978);
  expect(initializer::xavier_uniform(), {100000}, 1.0 / 100000, std::sqrt(3.0 / 100000));
}

BOOST_AUTO_TEST_CASE(a_truncated_normal_distribution_has_the_moments_of_one) {
  auto m = moments_of(made(initializer::truncated_normal(1, 2), {100000}));
  BOOST_TEST(m.mean == 1, boost::test_tools::tolerance(0.02));
  BOOST_TEST(m.variance == 4 * 0.7737412925, boost::test_tools::tolerance(0.02));
  BOOST_TEST(m.low >= -3);
  BOOST_TEST(m.high <= 5);
  // The upper tail only: mean phi(3) / (1 - Phi(3)) = 3.2830986.
  auto tail = moments_of(made(initializer::truncated_normal(0, 1, 3, 40), {100000}));
  BOOST_TEST(tail.mean == 3.2830986, boost::test_tools::tolerance(0.002));
  BOOST_TEST(tail.low >= 3);
}

BOOST_AUTO_TEST_CASE(orthogonal_ones_are_orthogonal_at_every_rank) {
  for (const auto& s : {shape{16, 16}, shape{8, 40}, shape{40, 8}, shape{6, 3, 5, 2}, shape{1, 5}, shape{5, 1}})
    for (double gain : {1.0, 1.5}) {
      auto a = made(initializer::orthogonal(gain), s, 4, dtype::float64);
      BOOST_TEST(distance_from_orthogonal(a, gain) < 1e-13);
      BOOST_TEST(distance_from_orthogonal(made(initializer::orthogonal(gain), s, 4), gain) < 2e-6);
    }
  BOOST_TEST(made(initializer::orthogonal(), {0, 4}).values.empty());
  // Uniform directions: signs of the first element over many seeds.
  int positive = 0;
  for (int seed = 0; seed < 200; ++seed) positive += made(initializer::orthogonal(), {3, 3}, seed).values[0] > 0;
  BOOST_TEST(positive > 60);
  BOOST_TEST(positive < 140);
}

BOOST_AUTO_TEST_CASE(integers_are_uniform) {
  std::vector<int> count(7);
  for (double v : made(initializer::uniform(-3, 4), {70000}, 1, dtype::int32).values) {
    BOOST_REQUIRE(v == std::floor(v));
    BOOST_REQUIRE(v >= -3);
    BOOST_REQUIRE(v <= 3);
    ++count[static_cast<std::size_t>(v + 3)];
  }
  for (int n : count) BOOST_TEST(std::abs(n - 10000) < 500);
}

BOOST_AUTO_TEST_CASE(one_seed_and_name_give_the_same_bits) {
  for (const auto& how :
       {initializer::xavier_uniform(), initializer::orthogonal(), initializer::truncated_normal(0, 1)}) {
    BOOST_TEST(same_bits(made(how, {20, 30}, 5), made(how, {20, 30}, 5)));
    BOOST_TEST(!same_bits(made(how, {20, 30}, 5), made(how, {20, 30}, 6)));
    BOOST_TEST(!same_bits(made(how, {20, 30}, 5), made(how, {20, 30}, 5, dtype::float32, "v")));
  }
  // An element depends on its position, not on the number of elements.
  auto few = made(initializer::normal(0, 1), {10}), many = made(initializer::normal(0, 1), {1000});
  many.values.resize(10);
  BOOST_TEST(few.values == many.values, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(shared_memory_is_not_filled) {
  matrix<float> m{{1, 2}, {3, 4}};
  any_tensor a = m;
  BOOST_CHECK_THROW(fill(a, initializer::constant(9), 1, "w"), state_error);
  BOOST_TEST(m(0, 0) == 1);
  fill(a.detach(), initializer::constant(9), 1, "w");
  BOOST_TEST(m(0, 0) == 1);
  BOOST_TEST(a.elements<float>()[0] == 9);
}

BOOST_AUTO_TEST_CASE(misuse_is_diagnosed) {
  auto says = [](const initializer& how, const shape& s = {2, 2}, dtype element = dtype::float32) {
    return message_of([&] { made(how, s, 1, element); });
  };
  BOOST_TEST(says(initializer::uniform(3, 1)) == "parameter `w`: uniform needs low below high but has 3 and 1");
  BOOST_TEST(says(initializer::uniform(1, 1)) == "parameter `w`: uniform needs low below high but has 1 and 1");
  BOOST_TEST(says(initializer::normal(0, 0)) == "parameter `w`: normal needs a positive deviation but has 0");
  BOOST_TEST(says(initializer::truncated_normal(0, -1)) ==
             "parameter `w`: truncated_normal needs a positive deviation but has -1");
  BOOST_TEST(says(initializer::truncated_normal(0, 1, 2, -2)) ==
             "parameter `w`: truncated_normal needs low below high but has 2 and -2");
  BOOST_TEST(says(initializer::variance_scaling({.scale = 0})) ==
             "parameter `w`: variance_scaling needs a positive scale but has 0");
  BOOST_TEST(says(initializer::orthogonal(), {5}) ==
             "parameter `w`: orthogonal needs a rank of at least 2 but has the shape [5]");
  BOOST_TEST(says(initializer::constant(2.5), {2}, dtype::int64) == "parameter `w`: the number 2.5 does not fit int64");
  BOOST_TEST(says(initializer::constant(300), {2}, dtype::int8) == "parameter `w`: the number 300 does not fit int8");
  BOOST_TEST(says(initializer::uniform(0, 1), {2}, dtype::boolean) ==
             "parameter `w` of bool takes constant or uniform initializers only");
  BOOST_TEST(says(initializer::normal(0, 1), {2}, dtype::int32) ==
             "parameter `w` of int32 takes constant or uniform initializers only");
}

BOOST_AUTO_TEST_SUITE_END()
