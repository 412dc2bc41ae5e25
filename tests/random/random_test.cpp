// The counter-based generator: known answers, moments, and permutations that depend only on seed and epoch.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

import lamina;

using namespace lamina;

namespace {

using words = std::array<std::uint32_t, 4>;

// Random123's known answers for philox4x32-10.
static_assert(philox::mix({0, 0, 0, 0}, 0, 0) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox::mix({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff) ==
              words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox::mix({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
              words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

}  // namespace

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(a_stream_is_the_counter_of_its_documentation) {
  philox stream(0x299f31d0a4093822, 0x85a308d3, 0x0370734413198a2e);
  BOOST_CHECK(stream.block(0x243f6a88) == (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  BOOST_CHECK_EQUAL(philox(0).uniform(1), static_cast<float>(0xe169c5) * 0x1p-24f);
  BOOST_CHECK_EQUAL(philox(0).uniform<double>(1),
                    static_cast<double>(std::uint64_t(0xbc57ac4c) << 21 | 0x9b00dbd8 >> 11) * 0x1p-53);
  BOOST_CHECK_EQUAL(philox(0).bits(0), 0xe169c58d6627e8d5u);
  BOOST_CHECK(philox(random_state{7, 3}, 2).block(9) == philox(7, 2, 3).block(9));
}

BOOST_AUTO_TEST_CASE(seed_site_step_and_position_make_other_numbers) {
  std::set<std::uint64_t> seen;
  for (std::int64_t seed : {0, 1, -1})
    for (std::int64_t site : {0, 1})
      for (std::int64_t step : {0, 1})
        for (std::uint64_t e = 0; e < 100; ++e) seen.insert(philox(seed, site, step).bits(e));
  BOOST_CHECK_EQUAL(seen.size(), 1200u);
}

BOOST_AUTO_TEST_CASE(uniform_numbers_fill_the_unit_interval_evenly) {
  philox stream(42);
  int bins[10]{};
  double sum = 0, precise = 0;
  const int n = 100'000;
  for (int e = 0; e < n; ++e) {
    float u = stream.uniform(static_cast<std::uint64_t>(e));
    BOOST_REQUIRE(u >= 0 && u < 1);
    double d = stream.uniform<double>(static_cast<std::uint64_t>(e));
    BOOST_REQUIRE(d >= 0 && d < 1);
    precise += d;
    ++bins[static_cast<int>(u * 10)];
    sum += static_cast<double>(u);
  }
  BOOST_CHECK_SMALL(sum / n - 0.5, 4 * 0.289 / std::sqrt(n));
  BOOST_CHECK_SMALL(precise / n - 0.5, 4 * 0.289 / std::sqrt(n));
  for (int b : bins) BOOST_CHECK_SMALL(b - n / 10.0, 4 * std::sqrt(n * 0.09));
}

template <class T> static void check_normal() {
  philox stream(42);
  const int n = 100'000;
  double sum = 0, squares = 0, fourth = 0, neighbors = 0, last = 0;
  for (int e = 0; e < n; ++e) {
    double z = static_cast<double>(stream.normal<T>(static_cast<std::uint64_t>(e)));
    BOOST_REQUIRE(std::isfinite(z));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    neighbors += z * last;
    last = z;
  }
  BOOST_CHECK_SMALL(sum / n, 4 / std::sqrt(n));
  BOOST_CHECK_SMALL(squares / n - 1, 4 * std::sqrt(2.0 / n));
  BOOST_CHECK_SMALL(fourth / n - 3, 4 * std::sqrt(96.0 / n));
  BOOST_CHECK_SMALL(neighbors / n, 4 / std::sqrt(n));
}

BOOST_AUTO_TEST_CASE(normal_numbers_have_their_moments_and_do_not_follow_each_other) {
  check_normal<float>();
  check_normal<double>();
}

BOOST_AUTO_TEST_CASE(a_permutation_holds_every_number_once_and_is_the_same_every_time) {
  for (std::int64_t n : {0, 1, 2, 3, 1000}) {
    auto order = permutation(n, 5, 1);
    BOOST_CHECK(order == permutation(n, 5, 1));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) BOOST_REQUIRE_EQUAL(order[static_cast<std::size_t>(i)], i);
    BOOST_CHECK_EQUAL(order.size(), static_cast<std::size_t>(n));
  }
  BOOST_CHECK(permutation(1000, 5, 1) != permutation(1000, 5, 2));
  BOOST_CHECK(permutation(1000, 5, 1) != permutation(1000, 6, 1));
  BOOST_CHECK_THROW(permutation(-1, 0, 0), value_error);
}

BOOST_AUTO_TEST_CASE(every_order_is_as_likely_as_any_other) {
  int counts[24]{};
  const int n = 24'000;
  for (int epoch = 0; epoch < n; ++epoch) {
    auto p = permutation(4, 1, epoch);
    std::int64_t rank = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      std::int64_t smaller =
          std::count_if(p.begin() + static_cast<std::ptrdiff_t>(i), p.end(), [&](auto v) { return v < p[i]; });
      rank = rank * static_cast<std::int64_t>(4 - i) + smaller;
    }
    ++counts[rank];
  }
  double chi = 0;
  for (int c : counts) chi += (c - 1000.0) * (c - 1000.0) / 1000;
  BOOST_CHECK_LT(chi, 55.0);  // 23 degrees of freedom: a uniform generator exceeds this once in five thousand times
}

BOOST_AUTO_TEST_SUITE_END()
