// Reductions, softmax, picks and spreads against references in wider arithmetic.
#include "kernel_test.h"

#include <algorithm>
#include <cmath>
#include <string>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const reduce_functions& functions() { return reduce_of(kernel_test::tested()); }
const softmax_functions& softmaxing() { return softmax_of(kernel_test::tested()); }
enum class reduce_op { sum, mean, maximum, minimum, product, argmax, argmin };
kernel reduction(reduce_op op, element e) {
  const isa set = kernel_test::tested();
  const auto of = [e](const reduction_functions& f) { return f.of[static_cast<int>(e)]; };
  switch (op) {
    case reduce_op::sum: return of(reduce_sum_of(set));
    case reduce_op::mean: return of(reduce_mean_of(set));
    case reduce_op::maximum: return of(reduce_maximum_of(set));
    case reduce_op::minimum: return of(reduce_minimum_of(set));
    case reduce_op::product: return of(reduce_product_of(set));
    case reduce_op::argmax: return of(reduce_argmax_of(set));
    default: return of(reduce_argmin_of(set));
  }
}

struct shape {
  long outer, length, inner;
};
constexpr shape shapes[] = {{1, 0, 1},    {3, 0, 5},    {1, 1, 1},     {5, 10, 1}, {3, 15, 1},   {2, 16, 1},
                            {2, 17, 1},   {3, 63, 1},   {2, 64, 1},    {2, 65, 1}, {2, 257, 1},  {2, 1000, 1},
                            {1, 4096, 1}, {2, 4097, 1}, {1, 30000, 1}, {2, 3, 2},  {2, 7, 3},    {3, 9, 17},
                            {2, 5, 300},  {37, 3, 1},   {16, 8, 1},    {50, 1, 1}, {1, 4097, 3}, {1, 13000, 5},
                            {2, 33, 129}, {1, 4, 1025}};
template <class T> T sample(std::mt19937& g, bool special) {
  if constexpr (std::is_floating_point_v<T>) {
    if (special && g() % 40 == 0) return std::numeric_limits<T>::quiet_NaN();
    if (special && g() % 20 == 0)
      return g() & 1 ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
    return static_cast<T>(static_cast<double>(static_cast<std::int64_t>(g() % 2000) - 1000) / 64);
  } else {
    return static_cast<T>(g());
  }
}

/// Calls check(column of values in double or exact integers, output index) for each reduced column.
template <class T, class Out, class Check> void sweep(reduce_op op, element e, bool special, Check check) {
  const kernel run = reduction(op, e);
  BOOST_REQUIRE(run != nullptr);
  std::mt19937 g(9);
  for (const shape& s : shapes) {
    buffer<T> in(static_cast<std::size_t>(s.outer * s.length * s.inner), g() % 4);
    buffer<Out> out(static_cast<std::size_t>(s.outer * s.inner), g() % 4);
    for (T& x : in) x = sample<T>(g, special);
    const reduce_args args{in.data(), out.data(), s.outer, s.length, s.inner};
    if (s.outer == 1 && s.inner > 1) {  // in two parts
      const long first = static_cast<long>(g() % static_cast<unsigned long>(s.inner - 1)) + 1;
      const reduce_args parts[] = {{in.data(), out.data(), 1, s.length, first, s.inner},
                                   {in.data() + first, out.data() + first, 1, s.length, s.inner - first, s.inner}};
      for (const auto& part : parts) run(&part, nullptr);
    } else {
      run(&args, nullptr);
    }
    bool right = out.guards_intact();
    for (long o = 0; o < s.outer; ++o)
      for (long i = 0; i < s.inner; ++i) {
        std::vector<T> column;
        for (long l = 0; l < s.length; ++l)
          column.push_back(in[static_cast<std::size_t>((o * s.length + l) * s.inner + i)]);
        right = right && check(column, out[static_cast<std::size_t>(o * s.inner + i)]);
      }
    if (!right)
      BOOST_ERROR("reduction " << static_cast<int>(op) << " element " << static_cast<int>(e) << " shape " << s.outer
                               << ' ' << s.length << ' ' << s.inner);
  }
}
template <class T> bool agree(T a, T b) { return a == b || (a != a && b != b); }

template <class T> T extreme(const std::vector<T>& column, bool largest) {
  using limits = std::numeric_limits<T>;
  T best = std::is_floating_point_v<T> ? (largest ? -limits::infinity() : limits::infinity())
                                       : (largest ? limits::min() : limits::max());
  for (const T x : column) {
    if (x != x) return x;
    best = largest ? std::max(best, x) : std::min(best, x);
  }
  return best;
}
template <class T> void extremes(element e) {
  for (const bool special : {false, true})
    for (const bool largest : {false, true})
      sweep<T, T>(largest ? reduce_op::maximum : reduce_op::minimum, e, special,
                  [=](const std::vector<T>& c, T r) { return agree(r, extreme(c, largest)); });
}
template <class T> void places(element e) {
  for (const bool special : {false, true})
    for (const bool largest : {false, true})
      sweep<T, std::int64_t>(largest ? reduce_op::argmax : reduce_op::argmin, e, special,
                             [=](const std::vector<T>& c, std::int64_t r) {
                               const T best = extreme(c, largest);
                               for (std::size_t i = 0; i < c.size(); ++i)
                                 if (agree(c[i], best)) return r == static_cast<std::int64_t>(i);
                               return r == 0;
                             });
}
template <class T> void wrapping(element e) {
  sweep<T, T>(reduce_op::sum, e, false, [](const std::vector<T>& c, T r) {
    std::uint64_t s = 0;
    for (const T x : c) s += static_cast<std::uint64_t>(x);
    return r == static_cast<T>(s);
  });
  sweep<T, T>(reduce_op::product, e, false, [](const std::vector<T>& c, T r) {
    std::uint64_t s = 1;
    for (const T x : c) s *= static_cast<std::uint64_t>(x);
    return r == static_cast<T>(s);
  });
}
template <class T> void sums(element e) {
  for (const bool mean : {false, true})
    sweep<T, T>(mean ? reduce_op::mean : reduce_op::sum, e, false, [mean](const std::vector<T>& c, T r) {
      long double s = 0, size = 0;
      for (const T x : c) s += x, size += std::fabs(x);
      const auto n = static_cast<long double>(c.size());
      if (mean) return kernel_test::close(r, s / n, size / n, 40);
      return kernel_test::close(r, s, size, 40);
    });
  sweep<T, T>(reduce_op::product, e, false, [](const std::vector<T>& c, T r) {
    if (c.size() > 30) return true;
    long double p = 1;
    for (const T x : c) p *= x;
    return kernel_test::close(r, p, std::fabs(p), static_cast<long>(c.size()) + 1);
  });
}

template <class T> void softmaxes(int which) {
  std::mt19937 g(21);
  for (const bool log : {false, true})
    for (const shape& s : shapes) {
      buffer<T> in(static_cast<std::size_t>(s.outer * s.length * s.inner), g() % 4), out(in.size(), g() % 4);
      kernel_test::fill_uniform(in, g, -30, 30);
      if (s.length > 3) in[2] = -std::numeric_limits<T>::infinity();
      const softmax_args args{in.data(), out.data(), s.outer, s.length, s.inner};
      (log ? softmaxing().log_softmax : softmaxing().softmax)[which](&args, nullptr);
      BOOST_TEST(out.guards_intact());
      bool right = true;
      for (long o = 0; o < s.outer; ++o)
        for (long i = 0; i < s.inner; ++i) {
          const auto at = [&](long l) { return static_cast<std::size_t>((o * s.length + l) * s.inner + i); };
          long double top = -INFINITY, sum = 0;
          for (long l = 0; l < s.length; ++l) top = std::max<long double>(top, in[at(l)]);
          for (long l = 0; l < s.length; ++l) sum += std::exp(in[at(l)] - top);
          for (long l = 0; l < s.length; ++l) {
            const long double x = in[at(l)] - top, wanted = log ? x - std::log(sum) : std::exp(x) / sum;
            // the difference from the maximum is rounded before the exponential
            const long double scale = log           ? 1 + std::fabs(x) + std::fabs(wanted)
                                      : wanted == 0 ? 0
                                                    : wanted * (1 + std::fabs(x));
            right = right && kernel_test::close(out[at(l)], wanted, std::isinf(scale) ? 0.L : scale, 2);
          }
        }
      if (!right) BOOST_ERROR("softmax log " << log << " shape " << s.outer << ' ' << s.length << ' ' << s.inner);
      // in place
      buffer<T> same(in.size());
      std::copy(in.begin(), in.end(), same.begin());
      const softmax_args over{same.data(), same.data(), s.outer, s.length, s.inner};
      (log ? softmaxing().log_softmax : softmaxing().softmax)[which](&over, nullptr);
      BOOST_TEST(kernel_test::same_bits(same.data(), out.data(), out.size()));
      if (s.outer != 1 || s.inner == 1) continue;
      const long first = s.inner / 2;
      for (const softmax_args& part :
           {softmax_args{in.data(), same.data(), 1, s.length, first, s.inner},
            softmax_args{in.data() + first, same.data() + first, 1, s.length, s.inner - first, s.inner}})
        (log ? softmaxing().log_softmax : softmaxing().softmax)[which](&part, nullptr);
      BOOST_TEST(kernel_test::same_bits(same.data(), out.data(), out.size()));
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reduction_suite)

BOOST_AUTO_TEST_CASE(extremes_of_every_type) {
  extremes<float>(element::f32), extremes<double>(element::f64), extremes<std::int8_t>(element::i8),
      extremes<std::int16_t>(element::i16);
  extremes<std::int32_t>(element::i32), extremes<std::int64_t>(element::i64), extremes<std::uint8_t>(element::u8);
  extremes<std::uint8_t>(element::boolean);
}
BOOST_AUTO_TEST_CASE(places_of_extremes) {
  places<float>(element::f32), places<double>(element::f64), places<std::int8_t>(element::i8),
      places<std::int16_t>(element::i16);
  places<std::int32_t>(element::i32), places<std::int64_t>(element::i64), places<std::uint8_t>(element::u8);
}
BOOST_AUTO_TEST_CASE(integer_sums_wrap) {
  wrapping<std::int8_t>(element::i8), wrapping<std::int16_t>(element::i16), wrapping<std::int32_t>(element::i32);
  wrapping<std::int64_t>(element::i64), wrapping<std::uint8_t>(element::u8);
}
BOOST_AUTO_TEST_CASE(sums_means_products) { sums<float>(element::f32), sums<double>(element::f64); }

BOOST_AUTO_TEST_CASE(sums_have_the_same_bits_on_every_set) {
  std::mt19937 g(2);
  std::vector<float> in(3 * 10000);
  kernel_test::fill_uniform(in, g);
  for (const shape s : {shape{3, 10000, 1}, shape{1, 10000, 3}, shape{300, 100, 1}}) {
    std::vector<float> here(static_cast<std::size_t>(s.outer * s.inner)), plain(here.size());
    const reduce_args a{in.data(), here.data(), s.outer, s.length, s.inner},
        b{in.data(), plain.data(), s.outer, s.length, s.inner};
    reduction(reduce_op::sum, element::f32)(&a, nullptr);
    reduce_sum_of(isa::sse2).of[0](&b, nullptr);
    BOOST_TEST(kernel_test::same_bits(here.data(), plain.data(), here.size()));
    if (s.outer != 1) continue;
    const reduce_args last{in.data() + 1, here.data() + 1, 1, s.length, s.inner - 1, s.inner};
    reduction(reduce_op::sum, element::f32)(&last, nullptr);
    BOOST_TEST(kernel_test::same_bits(here.data(), plain.data(), here.size()));
  }
}

BOOST_AUTO_TEST_CASE(short_rows_have_the_bits_of_a_row_alone) {
  std::mt19937 g(4);
  for (const auto op : {reduce_op::sum, reduce_op::mean, reduce_op::maximum, reduce_op::minimum, reduce_op::product})
    for (long length = 1; length < 10; ++length) {
      const kernel run = reduction(op, element::f32);
      buffer<float> in(static_cast<std::size_t>(53 * length), 1), all(53, 1), one(53, 1);
      for (auto& x : in) x = sample<float>(g, true) * 0.3f;
      if (length == 2) in[0] = in[1] = -0.f;
      const reduce_args whole{in.data(), all.data(), 53, length, 1};
      run(&whole, nullptr);
      for (long r = 0; r < 53; ++r) {
        const reduce_args row{in.data() + r * length, one.data() + r, 1, length, 1};
        run(&row, nullptr);
      }
      BOOST_TEST(kernel_test::same_bits(std::as_const(all).data(), std::as_const(one).data(), 53), "length " << length);
      BOOST_TEST(all.guards_intact());
    }
}

BOOST_AUTO_TEST_CASE(softmax) { softmaxes<float>(0), softmaxes<double>(1); }

BOOST_AUTO_TEST_CASE(softmax_of_nothing_but_minus_infinity) {
  std::vector<float> in(20, -INFINITY), out(20);
  const softmax_args args{in.data(), out.data(), 1, 20, 1};
  softmaxing().softmax[0](&args, nullptr);
  for (const float x : out) BOOST_TEST(std::isnan(x));
}

BOOST_AUTO_TEST_CASE(softmax_of_a_row_with_a_nan) {
  for (const long length : {3L, 16L, 90L, 5000L})
    for (const long at : {0L, length / 2, length - 1})
      for (const float other : {-INFINITY, 1.f, INFINITY}) {
        std::vector<float> in(static_cast<std::size_t>(length), other), out(in.size());
        in[static_cast<std::size_t>(at)] = NAN;
        const softmax_args args{in.data(), out.data(), 1, length, 1};
        for (const kernel run : {softmaxing().softmax[0], softmaxing().log_softmax[0]}) {
          run(&args, nullptr);
          BOOST_TEST(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }),
                     length << " at " << at);
        }
      }
}

BOOST_AUTO_TEST_CASE(pick_and_spread) {
  const double in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::int64_t index[] = {2, -1, 1};
  std::int64_t invalid[] = {0, 77, 77};
  double out[3], back[9];
  const pick_args pick{in, index, out, invalid, 3, 3};
  functions().pick[1](&pick, nullptr);
  BOOST_TEST((out[0] == 3 && out[1] == 0 && out[2] == 8));
  BOOST_TEST((invalid[0] == 1 && invalid[1] == -1 && invalid[2] == 1));  // the count, the first value, and its row
  const pick_args spread{in, index, back, invalid, 3, 3};
  functions().spread[3](&spread, nullptr);
  const double wanted[] = {0, 0, 1, 0, 0, 0, 0, 3, 0};
  BOOST_TEST(std::equal(back, back + 9, wanted));
  BOOST_TEST((invalid[0] == 2 && invalid[1] == -1 && invalid[2] == 1));
}

template <class T> void counts_not_finite(int which) {
  std::mt19937 g(3);
  for (const long n : {0L, 1L, 3L, 16L, 17L, 100L, 4097L})
    for (const bool special : {false, true}) {
      buffer<T> in(static_cast<std::size_t>(n), g() % 4);
      for (T& x : in)
        x = g() % 7 ? sample<T>(g, special)
                    : static_cast<T>(g() & 1 ? std::numeric_limits<T>::max() : -std::numeric_limits<T>::denorm_min());
      std::int64_t wanted = 5, invalid[] = {5, 77};
      for (const T x : in) wanted += !std::isfinite(x);
      const finite_args args{in.data(), invalid, n};
      functions().count_not_finite[which](&args, nullptr);
      BOOST_TEST((invalid[0] == wanted && invalid[1] == 77), n << " elements");
    }
}
BOOST_AUTO_TEST_CASE(elements_that_are_not_finite_are_counted) {
  counts_not_finite<float>(0);
  counts_not_finite<double>(1);
}

BOOST_AUTO_TEST_SUITE_END()
