// Reductions, argmax, softmax and losses against plain loops.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
enum class kind { sum, mean, maximum, minimum };

array reduced(const array& x, unsigned bits, bool keep, kind k) {
  array r{{x.type.element, {}}, {}};
  const shape& s = x.shape();
  std::int64_t count = 1;
  for (int i = 0; i < s.rank; ++i) {
    if (!(bits >> i & 1u)) r.type.dims.push_back(s[i]);
    else {
      if (keep) r.type.dims.push_back(1);
      count *= s.at(i);
    }
  }
  r.values.assign(static_cast<std::size_t>(r.shape().size()), k == kind::maximum   ? -infinity
                                                              : k == kind::minimum ? infinity
                                                                                   : 0);
  for (std::int64_t p = 0; p < s.size(); ++p) {
    std::int64_t rest = p, at = 0, stride = 1;
    for (int i = s.rank - 1; i >= 0; --i) {
      std::int64_t index = rest % s.at(i);
      rest /= s.at(i);
      if (bits >> i & 1u) continue;
      at += index * stride;
      stride *= s.at(i);
    }
    double v = x.values[static_cast<std::size_t>(p)], &to = r.values[static_cast<std::size_t>(at)];
    if (k == kind::maximum) to = std::max(to, v);
    else if (k == kind::minimum) to = std::min(to, v);
    else to += v;
  }
  if (k == kind::mean)
    for (auto& v : r.values) v /= static_cast<double>(count);
  return r;
}

axes axes_of(unsigned bits, int rank) {
  axes a;
  for (int i = 0; i < rank; ++i)
    if (bits >> i & 1u) a.values[a.count++] = i % 2 ? i - rank : i;
  return a;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reductions)

BOOST_AUTO_TEST_CASE(every_axis_combination) {
  for (const auto& s : {shape{}, shape{1}, shape{300}, shape{3, 50}, shape{50, 3}, shape{2, 3, 4}, shape{1, 5, 1},
                        shape{2, 3, 4, 5}, shape{2, 2, 2, 2, 3}})
    for (unsigned bits = 0; bits < 1u << s.rank; ++bits)
      for (bool keep : {false, true})
        for (auto element : {dtype::float32, dtype::float64, dtype::int32, dtype::int64}) {
          unsigned all = bits ? bits : (1u << s.rank) - 1u;  // no axis named: all
          array x = random_array(element, s, 1, -50, 50);
          reduce_attributes a{axes_of(bits, s.rank), keep};
          double tolerance = element == dtype::float32 ? 2e-5 : element == dtype::float64 ? 1e-13 : 0;
          auto check = [&](kind k, const array& got) {
            array want = reduced(x, all, keep, k);
            BOOST_CHECK_MESSAGE(
                (got.type == want.type) && distance(got, want) <= tolerance,
                s.string() << " over " << bits << " kind " << static_cast<int>(k) << ": " << distance(got, want));
          };
          auto r = results_of({x}, [&](const auto& v) {
            return std::vector<value>{reduce_sum(v[0], a), reduce_max(v[0], a), reduce_min(v[0], a)};
          });
          check(kind::sum, r[0]);
          check(kind::maximum, r[1]);
          check(kind::minimum, r[2]);
          if (is_real(element))
            check(kind::mean, result_of({x}, [&](const auto& v) { return value(reduce_mean(v[0], a)); }));
        }
}

BOOST_AUTO_TEST_CASE(reductions_of_nothing) {
  for (const auto& s : {shape{0}, shape{0, 3}, shape{3, 0}}) {
    auto r = results_of({array_of(dtype::float32, s, {})},
                        [&](const auto& v) { return std::vector<value>{reduce_sum(v[0]), reduce_mean(v[0])}; });
    BOOST_TEST(r[0].values[0] == 0);
    BOOST_TEST(std::isnan(r[1].values[0]));
  }
  auto rows =
      result_of({array_of(dtype::float32, {0, 3}, {})}, [](const auto& v) { return value(reduce_sum<axes(0)>(v[0])); });
  BOOST_TEST(rows.values == (std::vector<double>{0, 0, 0}), boost::test_tools::per_element());
  auto none =
      result_of({array_of(dtype::float32, {0, 3}, {})}, [](const auto& v) { return value(reduce_max<axes(1)>(v[0])); });
  BOOST_TEST((none.shape() == shape{0}));
}

BOOST_AUTO_TEST_CASE(long_sums_are_accurate) {
  for (std::int64_t n : {4096, 4097, 100000, 300001}) {
    array x = random_array(dtype::float32, {n}, 7, 0, 1);
    double want = 0;
    for (double v : x.values) want += v;
    BOOST_TEST(result_of({x}, [](const auto& v) { return value(reduce_sum(v[0])); }).values[0] == want,
               boost::test_tools::tolerance(1e-6));
    BOOST_TEST(result_of({x}, [](const auto& v) { return value(reduce_mean(v[0])); }).values[0] ==
                   want / static_cast<double>(n),
               boost::test_tools::tolerance(1e-6));
  }
}

BOOST_AUTO_TEST_CASE(argmax_takes_the_first_of_equals) {
  for (auto element : {dtype::float32, dtype::float64, dtype::int32, dtype::int64, dtype::uint8}) {
    auto r = results_of({array_of(element, {3, 4}, {1, 7, 7, 2, 5, 5, 5, 5, 0, 1, 2, 3})}, [](const auto& v) {
      return std::vector<value>{argmax(v[0]), argmax<0>(v[0]), argmax<1, true>(v[0]), argmax<-2>(v[0])};
    });
    BOOST_TEST((r[0].type == tensor_type{dtype::int64, {3}}));
    BOOST_TEST(r[0].values == (std::vector<double>{1, 0, 3}), boost::test_tools::per_element());
    BOOST_TEST(r[1].values == (std::vector<double>{1, 0, 0, 1}), boost::test_tools::per_element());
    BOOST_TEST((r[2].shape() == shape{3, 1}));
    BOOST_TEST(same_bits(r[3], r[1]));
  }
  for (std::int64_t n : {1, 7, 16, 17, 64, 1000}) {  // ties in every lane
    array x = array_of(dtype::float32, {n}, std::vector<double>(static_cast<std::size_t>(n), 3.0));
    BOOST_TEST(result_of({x}, [](const auto& v) { return value(argmax(v[0])); }).values[0] == 0);
    x.values.back() = 4;
    BOOST_TEST(result_of({x}, [](const auto& v) { return value(argmax(v[0])); }).values[0] ==
               static_cast<double>(n - 1));
  }
}

BOOST_AUTO_TEST_CASE(softmax_along_every_axis) {
  for (const auto& s : {shape{1}, shape{9}, shape{3, 40}, shape{40, 3}, shape{2, 3, 4}, shape{0, 3}})
    for (int axis = -s.rank; axis < s.rank; ++axis) {
      array x = random_array(dtype::float64, s, 1, -5, 5), e = x;
      for (auto& v : e.values) v = std::exp(v);
      int positive = axis < 0 ? axis + s.rank : axis;
      array sums = reduced(e, 1u << positive, true, kind::sum);
      auto want = result_of({e, sums}, [](const auto& v) { return value(v[0] / v[1]); });
      auto r = results_of({x}, [&](const auto& v) {
        return std::vector<value>{softmax(v[0], {.axis = axis}), exp(log_softmax(v[0], {.axis = axis}))};
      });
      BOOST_TEST(distance(r[0], want) < 1e-14);
      BOOST_TEST(distance(r[1], want) < 1e-14);
    }
  auto far = results_of({array_of(dtype::float32, {3}, {1e4, -1e4, 1e4})},
                        [](const auto& v) { return std::vector<value>{softmax(v[0]), log_softmax(v[0])}; });
  BOOST_TEST(far[0].values == (std::vector<double>{0.5, 0, 0.5}), boost::test_tools::per_element());
  BOOST_TEST(far[1].values[1] == -20000, boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(losses) {
  array x = array_of(dtype::float64, {2, 3}, {1, 2, 3, -1, 0, 5}), labels = array_of(dtype::int64, {2}, {2, 0});
  auto r = results_of({x, labels, array_of(dtype::float64, {2, 3}, {1, 1, 1, 1, 1, 1})}, [](const auto& v) {
    return std::vector<value>{pick(v[0], v[1]), nll(v[0], v[1]),     cross_entropy(v[0], v[1]),
                              mse(v[0], v[2]),  l1_loss(v[0], v[2]), squared_l2_distance(v[0], v[2])};
  });
  BOOST_TEST(r[0].values == (std::vector<double>{3, -1}), boost::test_tools::per_element());
  BOOST_TEST(r[1].values[0] == -1);
  double a = std::log(std::exp(1) + std::exp(2) + std::exp(3)) - 3, b = std::log(std::exp(-1) + 1 + std::exp(5)) + 1;
  BOOST_TEST(r[2].values[0] == (a + b) / 2, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(r[3].values[0] == (0 + 1 + 4 + 4 + 1 + 16) / 6.0, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(r[4].values[0] == (0 + 1 + 2 + 2 + 1 + 4) / 6.0, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(r[5].values == (std::vector<double>{2.5, 10.5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(random_fills) {
  array state = array_of(dtype::int64, {2}, {5, 1}), like = random_array(dtype::float32, {100000}, 1);
  auto r = results_of({state, like}, [](const auto& v) {
    return std::vector<value>{random_uniform(v[0], v[1], {.a = -1, .b = 3, .site = 0}),
                              random_normal(v[0], v[1], {.a = 2, .b = 0.5, .site = 1}),
                              dropout(v[1] * 0 + 1, v[0], {.probability = 0.25, .site = 2})};
  });
  auto moments = [](const array& a) {
    double m = 0, s = 0;
    for (double v : a.values) m += v;
    m /= static_cast<double>(a.values.size());
    for (double v : a.values) s += (v - m) * (v - m);
    return std::pair{m, s / static_cast<double>(a.values.size())};
  };
  auto [um, uv] = moments(r[0]);
  BOOST_TEST(std::abs(um - 1) < 0.02);
  BOOST_TEST(std::abs(uv - 16.0 / 12) < 0.02);
  auto [nm, nv] = moments(r[1]);
  BOOST_TEST(std::abs(nm - 2) < 0.01);
  BOOST_TEST(std::abs(nv - 0.25) < 0.01);
  auto [dm, dv] = moments(r[2]);
  BOOST_TEST(std::abs(dm - 1) < 0.02);
  for (double v : r[2].values) BOOST_REQUIRE((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
}

BOOST_AUTO_TEST_SUITE_END()
