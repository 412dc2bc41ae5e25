// Transcendental functions: error in ulps against a wider libm, special values, and results that do not depend on the
// position of an element.  accuracy.cpp has the bounds of those that are computed in single precision.
#include "kernel_test.h"

#include <functional>
#include <string>

#include "../support/elementwise_functions.h"

using namespace lamina::kernels;

namespace {

map_function map_of(map_op op, element e) { return lamina::kernels::map_of(kernel_test::tested(), op, e); }

/// Distance in units of the last place of the rounded reference; huge if only one of them is special.
template <class T, class Wide> double distance(T actual, Wide wanted) {
  if (std::isnan(wanted)) return std::isnan(actual) ? 0 : 1e30;
  const T rounded = static_cast<T>(wanted);
  if (std::isinf(rounded) || std::isinf(actual)) return actual == rounded ? 0 : 1e30;
  const T a = std::fabs(rounded), unit = std::nextafter(a, std::numeric_limits<T>::infinity()) - a;
  return static_cast<double>(std::fabs(static_cast<Wide>(actual) - wanted) / static_cast<Wide>(unit));
}

constexpr float specials[] = {
    0.f,     -0.f,     1.f,   -1.f,   INFINITY, -INFINITY, NAN,     -NAN,   1e-45f, -1e-45f, 1e-40f, 1.17549435e-38f,
    3.4e38f, -3.4e38f, 88.7f, 88.73f, -87.3f,   -87.4f,    -103.9f, -104.f, -200.f, 200.f,   0.5f,   -0.5f,
    9.f,     -9.f,     20.f,  1e5f,   1e6f,     -1e10f,    1e30f};

struct function {
  const char* name;
  map_op op;
  double float_units, double_units;
  double (*reference)(double);
  long double (*wide)(long double);
};
namespace reference = elementwise_functions::reference;
#define FUNCTION(name, low, high, gradient_low, gradient_high, float_units, double_units, ...) \
  {#name, map_op::name, float_units, double_units, &reference::name<double>, &reference::name<long double>},
constexpr function functions[] = {ELEMENTWISE_FUNCTIONS(FUNCTION)};
#undef FUNCTION

/// Checks a function's largest error against its reference; zeros must have the sign of the reference.
template <class T, class Wide>
void check(const function& f, const std::vector<T>& in, double allowed, Wide (*reference)(Wide)) {
  std::vector<T> out(in.size());
  map_of(f.op, sizeof(T) == 4 ? element::f32 : element::f64)(in.data(), nullptr, nullptr, out.data(),
                                                             static_cast<long>(in.size()), 1);
  double max = 0;
  T at = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Wide wanted = reference(static_cast<Wide>(in[i]));
    double d = distance(out[i], wanted);
    if (wanted == 0 && std::signbit(out[i]) != std::signbit(wanted)) d = 1e30;
    // the C library's denormal results are less accurate: their error counts 1/16
    if (sizeof(T) == 8 && std::fabs(wanted) < static_cast<Wide>(std::numeric_limits<T>::min())) d /= 16;
    if (d > max) max = d, at = in[i];
  }
  BOOST_TEST_MESSAGE(f.name << " " << max << " units at " << at);
  BOOST_CHECK_MESSAGE(max <= allowed, f.name << ": " << max << " units at " << at);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(math)

BOOST_AUTO_TEST_CASE(single_precision) {
  std::vector<float> in(specials, specials + std::size(specials));
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 42043) {  // 102 k patterns
    const auto word = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, 4);
    in.push_back(x);
  }
  std::mt19937 g(1);
  for (int i = 0; i < 40000; ++i) in.push_back(static_cast<float>(static_cast<double>(g()) * 0x1p-28 - 8));
  for (const function& f : functions) check(f, in, f.float_units, f.reference);
}

// Low-latency variants: an absolute error within the bound, also beyond the range where the function changes.
BOOST_AUTO_TEST_CASE(low_latency) {
  std::vector<float> in;
  for (int i = -400000; i <= 400000; ++i) in.push_back(static_cast<float>(i) * 5e-5f);
  for (float x : specials) in.push_back(x);
  std::vector<float> out(in.size());
  const auto check = [&](const char* name, map_function run, double (*reference)(double), double allowed) {
    run(in.data(), nullptr, nullptr, out.data(), static_cast<long>(in.size()), 1);
    double max = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(in[i])) {
        BOOST_CHECK(std::isnan(out[i]));
        continue;
      }
      max = std::max(max, std::fabs(static_cast<double>(out[i]) - reference(static_cast<double>(in[i]))));
    }
    BOOST_TEST_MESSAGE(name << " off by " << max);
    BOOST_CHECK_MESSAGE(max <= allowed, name << " off by " << max);
  };
  check("tanh", map_tanh_of(kernel_test::tested()).low_latency, reference::tanh<double>, 3.5e-7);
  check("sigmoid", map_sigmoid_of(kernel_test::tested()).low_latency, reference::sigmoid<double>, 2.4e-7);
}

BOOST_AUTO_TEST_CASE(double_precision) {
  std::vector<double> in(specials, specials + std::size(specials));
  std::mt19937_64 g(2);
  for (int i = 0; i < 20000; ++i) {
    in.push_back(static_cast<double>(g()) * 0x1p-60 - 8);
    in.push_back(static_cast<double>(g()) * 0x1p-64 * 760 - 720);  // the tails
    in.push_back(std::ldexp(static_cast<double>(g()) * 0x1p-64, static_cast<int>(g() % 120) - 80) * (g() & 1 ? 1 : -1));
  }
  for (const function& f : functions) check(f, in, f.double_units, f.wide);
}

BOOST_AUTO_TEST_CASE(power) {
  std::vector<float> x, y;
  for (const float a : specials)
    for (const float b : specials) x.push_back(a), y.push_back(b);
  for (const float a : {-2.f, 2.f, -8.f})
    for (const float b : {3.f, 2.f, -3.f, 0.f, 1.f / 3}) x.push_back(a), y.push_back(b);
  std::mt19937 g(3);
  for (int i = 0; i < 200000; ++i) {
    x.push_back(
        static_cast<float>(std::ldexp(static_cast<double>(g()) * 0x1p-32 + 0.5, static_cast<int>(g() % 40) - 20)));
    y.push_back(static_cast<float>(static_cast<double>(g()) * 0x1p-29 - 4));
  }
  std::vector<float> out(x.size());
  map_of(map_op::pow, element::f32)(x.data(), y.data(), nullptr, out.data(), static_cast<long>(x.size()), 3);
  for (std::size_t i = 0; i < x.size(); ++i)
    BOOST_REQUIRE_MESSAGE(distance(out[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))) <= 1,
                          x[i] << " to the " << y[i] << " gives " << out[i]);
  // one operand repeated
  std::vector<float> repeated(100);
  map_of(map_op::pow, element::f32)(x.data() + 2000, y.data() + 3000, nullptr, repeated.data(), 100, 1);
  for (std::size_t i = 0; i < 100; ++i)
    BOOST_TEST(distance(repeated[i], std::pow(static_cast<double>(x[2000 + i]), static_cast<double>(y[3000]))) <= 1);
  const double dx[] = {2, -2, 0}, dy[] = {0.5, 3, -1};
  double dz[3];
  map_of(map_op::pow, element::f64)(dx, dy, nullptr, dz, 3, 3);
  for (int i = 0; i < 3; ++i) BOOST_TEST(dz[i] == std::pow(dx[i], dy[i]));
}

BOOST_AUTO_TEST_CASE(an_element_keeps_its_bits_anywhere) {
  std::mt19937 g(4);
  std::vector<float> in(300), whole(300);
  for (auto& x : in) {
    const auto bits = static_cast<std::uint32_t>(g());
    if (g() & 1) std::memcpy(&x, &bits, 4);
    else x = static_cast<float>(static_cast<double>(bits) * 0x1p-28 - 8);
  }
  for (const function& f : functions) {
    const map_function run = map_of(f.op, element::f32);
    run(in.data(), nullptr, nullptr, whole.data(), 300, 1);
    for (int trial = 0; trial < 300; ++trial) {
      const std::size_t start = g() % 200, n = g() % 70;
      kernel_test::buffer<float> part(n, g() % 16);
      std::copy_n(in.data() + start, n, part.data());
      run(part.data(), nullptr, nullptr, part.data(), static_cast<long>(n), 1);  // in place
      BOOST_REQUIRE_MESSAGE(kernel_test::same_bits(part.data(), whole.data() + start, n) && part.guards_intact(),
                            f.name);
    }
    float repeated[37];
    run(in.data() + 5, nullptr, nullptr, repeated, 37, 0);
    for (const float r : repeated) BOOST_REQUIRE_MESSAGE(std::memcmp(&r, &whole[5], 4) == 0, f.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
