// Random fills: published answers of Philox 4x32-10, the stated mapping to numbers, moments, and equal bits on all
// sets.
#include "kernel_test.h"

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const random_functions& functions(isa set = kernel_test::tested()) { return random_of(set); }

struct answer {
  std::uint32_t counter[4], key[2], words[4];
};
constexpr answer answers[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                              {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                               {0xffffffff, 0xffffffff},
                               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                              {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                               {0xa4093822, 0x299f31d0},
                               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};

std::int64_t joined(const std::uint32_t* low) {
  return static_cast<std::int64_t>(low[0] | static_cast<std::uint64_t>(low[1]) << 32);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_fills)

BOOST_AUTO_TEST_CASE(published_answers) {
  for (const answer& a : answers) {
    const std::int64_t state[2] = {joined(a.key), joined(a.counter + 2)};
    float f[4];
    random_args args{state, f, 4 * static_cast<long>(a.counter[0]), 4, a.counter[1], 0, 1};
    functions().uniform[0](&args, nullptr);
    for (int i = 0; i < 4; ++i) BOOST_TEST(f[i] == static_cast<float>(a.words[i] >> 8) * 0x1p-24f);
    double d[2];
    args.out = d, args.first = 2 * static_cast<long>(a.counter[0]), args.n = 2;
    functions().uniform[1](&args, nullptr);
    for (int i = 0; i < 2; ++i)
      BOOST_TEST(d[i] ==
                 static_cast<double>(static_cast<std::uint64_t>(a.words[2 * i]) << 21 | a.words[2 * i + 1] >> 11) *
                     0x1p-53);
  }
}

BOOST_AUTO_TEST_CASE(parts_make_the_whole_on_every_set) {
  const std::int64_t state[2] = {1234567890123, 42};
  const auto check = [&](auto zero, kernel here, kernel plain, std::size_t count) {
    using T = decltype(zero);
    std::vector<T> whole(count);
    random_args all{state, whole.data(), 0, static_cast<long>(count), 5, -2, 3};
    plain(&all, nullptr);
    for (const long first : {0L, 4L, 64L, 500L})
      for (const long n : {0L, 1L, 3L, 63L, 64L, 65L, 130L, 300L}) {
        buffer<T> part(static_cast<std::size_t>(n), 1);
        random_args args{state, part.data(), first, n, 5, -2, 3};
        here(&args, nullptr);
        BOOST_TEST((part.guards_intact() && kernel_test::same_bits(part.data(), whole.data() + first, part.size())));
      }
  };
  check(0.f, functions().uniform[0], functions(isa::sse2).uniform[0], 1000);
  check(0., functions().uniform[1], functions(isa::sse2).uniform[1], 1000);
  check(0.f, functions().normal[0], functions(isa::sse2).normal[0], 1000);
  check(0., functions().normal[1], functions(isa::sse2).normal[1], 1000);
}

BOOST_AUTO_TEST_CASE(uniform_stays_below_high) {
  const std::int64_t state[2] = {1, 1};
  std::vector<float> x(1 << 16);
  random_args args{state, x.data(), 0, 1 << 16, 0, 16777215, 16777216};
  functions().uniform[0](&args, nullptr);
  for (const float v : x) BOOST_REQUIRE(v >= 16777215.f && v < 16777216.f);
}

BOOST_AUTO_TEST_CASE(normal_is_box_muller) {
  const std::int64_t state[2] = {7, 3};
  std::vector<double> u(2000), z(2000);
  random_args args{state, u.data(), 0, 2000, 9, 0, 1};
  functions().uniform[1](&args, nullptr);
  args.out = z.data();
  functions().normal[1](&args, nullptr);
  for (std::size_t i = 0; i < 2000; i += 2) {
    const double r = std::sqrt(-2 * std::log(1 - u[i])), angle = 2 * M_PI * u[i + 1];
    BOOST_TEST(std::fabs(z[i] - r * std::cos(angle)) < 1e-12);
    BOOST_TEST(std::fabs(z[i + 1] - r * std::sin(angle)) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(normal_moments) {
  const std::int64_t state[2] = {99, 0};
  constexpr long n = 1 << 20;
  std::vector<float> z(n);
  random_args args{state, z.data(), 0, n, 1, 1, 2};
  functions().normal[0](&args, nullptr);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, beyond = 0, neighbors = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = (static_cast<double>(z[i]) - 1) / 2;
    m1 += x, m2 += x * x, m3 += x * x * x, m4 += x * x * x * x, beyond += std::fabs(x) > 1.959964 ? 1 : 0;
    if (i % 2 == 0) neighbors += x * (static_cast<double>(z[i + 1]) - 1) / 2;
  }
  const double s = 5 / std::sqrt(static_cast<double>(n));  // five standard errors of a unit variance
  BOOST_TEST(std::fabs(m1 / n) < s);
  BOOST_TEST(std::fabs(m2 / n - 1) < s * std::sqrt(2.));
  BOOST_TEST(std::fabs(m3 / n) < s * std::sqrt(15.));
  BOOST_TEST(std::fabs(m4 / n - 3) < s * std::sqrt(96.));
  BOOST_TEST(std::fabs(beyond / n - 0.05) < s * std::sqrt(0.0475));
  BOOST_TEST(std::fabs(2 * neighbors / n) < s * std::sqrt(2.));
}

BOOST_AUTO_TEST_SUITE_END()
