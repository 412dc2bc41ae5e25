// Transcendental functions: distance from a wider libm in units of the last place, specials, and values that do not
// depend on the place of an element.  accuracy.cpp has the bounds of those that are computed in single precision.
#include "kernel_test.h"

#include <functional>
#include <string>

using namespace lamina::kernels;

namespace {

map_function map_of(map_op op, element e) {
  const auto& f = KERNELS_OF(kernel_test::tested(), lamina_elementwise);
  return (*f.maps)[static_cast<int>(op)][static_cast<int>(e)];
}

/// Distance in units of the last place of the rounded reference; huge where one is special and the other not.
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
  double (*reference)(double);
  double allowed;
};
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
#define REF(f) [](double x) { return std::f(x); }
// Computed in double.
constexpr function functions[] = {{"sinh", map_op::sinh, REF(sinh), 1.0},
                                  {"cosh", map_op::cosh, REF(cosh), 1.0},
                                  {"atanh", map_op::atanh, REF(atanh), 1.0},
                                  {"sin", map_op::sin, REF(sin), 1.0},
                                  {"cos", map_op::cos, REF(cos), 1.0},
                                  {"tan", map_op::tan, REF(tan), 1.0},
                                  {"asin", map_op::asin, REF(asin), 1.0},
                                  {"acos", map_op::acos, REF(acos), 1.0},
                                  {"atan", map_op::atan, REF(atan), 1.0},
                                  {"asinh", map_op::asinh, REF(asinh), 1.0},
                                  {"acosh", map_op::acosh, REF(acosh), 1.0}};

}  // namespace

BOOST_AUTO_TEST_SUITE(math)

BOOST_AUTO_TEST_CASE(single_precision_by_way_of_double) {
  std::vector<float> in(specials, specials + std::size(specials));
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 14013) {  // 306 k patterns
    const auto word = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, 4);
    in.push_back(x);
  }
  std::mt19937 g(1);
  for (int i = 0; i < 100000; ++i) in.push_back(static_cast<float>(static_cast<double>(g()) * 0x1p-28 - 8));
  std::vector<float> out(in.size());
  for (const function& f : functions) {
    map_of(f.op, element::f32)(in.data(), nullptr, nullptr, out.data(), static_cast<long>(in.size()), 1);
    double most = 0;
    float at = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double d = distance(out[i], f.reference(static_cast<double>(in[i])));
      if (d > most) most = d, at = in[i];
    }
    BOOST_TEST_MESSAGE(f.name << " " << most << " units at " << at);
    BOOST_CHECK_MESSAGE(most <= f.allowed, f.name << ": " << most << " units at " << at);
  }
}

// What waits for each result may be off by this much of 1, and no more beyond the range where it changes.
BOOST_AUTO_TEST_CASE(low_latency) {
  std::vector<float> in;
  for (int i = -400000; i <= 400000; ++i) in.push_back(static_cast<float>(i) * 5e-5f);
  for (float x : specials) in.push_back(x);
  std::vector<float> out(in.size());
  const auto& f = KERNELS_OF(kernel_test::tested(), lamina_elementwise);
  const auto check = [&](const char* name, map_function run, double (*reference)(double), double allowed) {
    run(in.data(), nullptr, nullptr, out.data(), static_cast<long>(in.size()), 1);
    double most = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(in[i])) {
        BOOST_CHECK(std::isnan(out[i]));
        continue;
      }
      most = std::max(most, std::fabs(static_cast<double>(out[i]) - reference(static_cast<double>(in[i]))));
    }
    BOOST_TEST_MESSAGE(name << " off by " << most);
    BOOST_CHECK_MESSAGE(most <= allowed, name << " off by " << most);
  };
  check("tanh", f.low_latency[0].run, REF(tanh), 3.5e-7);
  check("sigmoid", f.low_latency[1].run, sigmoid, 2.4e-7);
}

BOOST_AUTO_TEST_CASE(double_precision) {
  std::vector<double> in(specials, specials + std::size(specials)), out;
  std::mt19937_64 g(2);
  for (int i = 0; i < 20000; ++i) {
    in.push_back(static_cast<double>(g()) * 0x1p-60 - 8);
    in.push_back(std::ldexp(static_cast<double>(g()) * 0x1p-64, static_cast<int>(g() % 120) - 80) * (g() & 1 ? 1 : -1));
  }
  out.resize(in.size());
  const auto check = [&](const char* name, map_op op, long double (*reference)(long double)) {
    map_of(op, element::f64)(in.data(), nullptr, nullptr, out.data(), static_cast<long>(in.size()), 1);
    for (std::size_t i = 0; i < in.size(); ++i)
      BOOST_REQUIRE_MESSAGE(distance(out[i], reference(in[i])) <= 2, name << " at " << in[i] << " gives " << out[i]);
  };
#define WIDE(f) [](long double x) { return std::f(x); }
  check("exp", map_op::exp, WIDE(exp)), check("log", map_op::log, WIDE(log)),
      check("sin", map_op::sin, WIDE(sin));
  check("cos", map_op::cos, WIDE(cos)), check("tan", map_op::tan, WIDE(tan)),
      check("asin", map_op::asin, WIDE(asin));
  check("acos", map_op::acos, WIDE(acos)), check("atan", map_op::atan, WIDE(atan));
  check("tanh", map_op::tanh, WIDE(tanh)), check("asinh", map_op::asinh, WIDE(asinh));
  check("acosh", map_op::acosh, WIDE(acosh)), check("erf", map_op::erf, WIDE(erf));
  check("expm1", map_op::expm1, WIDE(expm1));
  check("log1p", map_op::log1p, WIDE(log1p));
  check("sinh", map_op::sinh, WIDE(sinh)), check("cosh", map_op::cosh, WIDE(cosh));
  check("atanh", map_op::atanh, WIDE(atanh));
  check("softplus", map_op::softplus,
        [](long double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); });
  check("sigmoid", map_op::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); });
}

// Deep in the negative tail too, as far as numbers are normal, and at its end.
BOOST_AUTO_TEST_CASE(activations_in_double_precision) {
  const auto check = [](const char* name, map_op op, double low, long double (*reference)(long double),
                        double allowed) {
    const auto at = [&](double x) {
      double r;
      map_of(op, element::f64)(&x, nullptr, nullptr, &r, 1, 1);
      return r;
    };
    double most = 0;
    for (double x = low; x < 40; x += -low / 3000.7)
      most = std::max(most, distance(at(x), reference(static_cast<long double>(x))));
    BOOST_TEST_MESSAGE(name << " " << most << " units");
    BOOST_CHECK_MESSAGE(most <= allowed, name << ": " << most << " units");
    for (const double x : {-1e308, -1e4, -static_cast<double>(INFINITY), -0.})
      BOOST_CHECK_MESSAGE(at(x) == 0 && std::signbit(at(x)), name << " of " << x);
    for (const double x : {1e4, 1e308, static_cast<double>(INFINITY)}) BOOST_TEST(at(x) == x);
    BOOST_TEST(std::isnan(at(std::nan(""))));
  };
  check(
      "gelu", map_op::gelu, -37,
      [](long double x) { return x * .5L * std::erfc(-x * 0.707106781186547524400844362104849039L); }, 8);
  check(
      "gelu_tanh", map_op::gelu_tanh, -21,
      [](long double x) {
        return x / (1 + std::exp(-x * (0.0713548162726002487763875227498635L * x * x +
                                       1.59576912160573071175978423973752747L)));
      },
      4);
  check("silu", map_op::silu, -707, [](long double x) { return x / (1 + std::exp(-x)); }, 4);
  check("mish", map_op::mish, -707, [](long double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 4);
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
  for (int op = static_cast<int>(map_op::sqrt); op <= static_cast<int>(map_op::round); ++op) {
    const map_function run = map_of(static_cast<map_op>(op), element::f32);
    run(in.data(), nullptr, nullptr, whole.data(), 300, 1);
    for (int trial = 0; trial < 300; ++trial) {
      const std::size_t start = g() % 200, n = g() % 70;
      kernel_test::buffer<float> part(n, g() % 16);
      std::copy_n(in.data() + start, n, part.data());
      run(part.data(), nullptr, nullptr, part.data(), static_cast<long>(n), 1);  // in place
      BOOST_REQUIRE_MESSAGE(kernel_test::same_bits(part.data(), whole.data() + start, n) && part.guards_intact(), op);
    }
    float repeated[37];
    run(in.data() + 5, nullptr, nullptr, repeated, 37, 0);
    for (const float r : repeated) BOOST_REQUIRE_MESSAGE(std::memcmp(&r, &whole[5], 4) == 0, op);
  }
}

BOOST_AUTO_TEST_CASE(zeros_keep_their_sign) {
  const float x = -0.f;
  for (const map_op op :
       {map_op::expm1, map_op::log1p, map_op::sinh,
        map_op::atanh, map_op::tanh, map_op::erf, map_op::sin,
        map_op::tan, map_op::asin, map_op::atan, map_op::asinh, map_op::sqrt,
        map_op::gelu, map_op::gelu_tanh, map_op::silu, map_op::mish}) {
    float y = 1;
    map_of(op, element::f32)(&x, nullptr, nullptr, &y, 1, 1);
    BOOST_TEST((y == 0 && std::signbit(y)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
