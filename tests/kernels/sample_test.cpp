// Weighted sums, their adjoints and maxima at positions of an axis that a table lists, against plain loops.
#include "kernel_test.h"

using namespace lamina::kernels;
using namespace kernel_test;

namespace {

const sample_functions& functions() { return sample_of(tested()); }

struct extents {
  long tables, rows, length, points, taps, inner;
  long outer() const { return tables * rows; }
  long table() const { return tables * points * taps; }
};
// Taps 1 to 5, rows from single elements to more than two registers, an axis of one element, no points, no taps.
const extents all[] = {{1, 1, 5, 3, 2, 1},  {1, 3, 7, 4, 1, 1},  {2, 2, 6, 5, 3, 1},  {1, 2, 4, 6, 4, 1},
                       {3, 1, 9, 2, 5, 1},  {1, 2, 5, 3, 2, 7},  {1, 3, 4, 5, 3, 16}, {2, 2, 6, 3, 4, 33},
                       {1, 1, 1, 2, 5, 65}, {1, 2, 5, 0, 2, 3},  {1, 2, 5, 2, 0, 17}, {1, 1, 3, 2, 2, 130},
                       {1, 17, 7, 4, 2, 1}, {2, 10, 5, 3, 3, 1}, {1, 14, 6, 5, 4, 1}, {3, 9, 9, 3, 5, 1}};

// Positions on the axis and, one in five, outside of it.
std::vector<std::int64_t> positions(const extents& e, std::mt19937& random) {
  std::vector<std::int64_t> at;
  for (long i = 0; i < e.table(); ++i) {
    const auto r = random();
    at.push_back(r % 5 == 0
                     ? (r % 2 ? -1 - static_cast<std::int64_t>(r % 3) : e.length + static_cast<std::int64_t>(r % 3))
                     : static_cast<std::int64_t>(r % static_cast<unsigned>(e.length)));
  }
  return at;
}
template <class A> A arguments(const extents& e, long first, long count) {
  A a{};
  a.first = first, a.count = count, a.length = e.length, a.points = e.points, a.taps = e.taps, a.inner = e.inner;
  if constexpr (requires { a.rows; }) a.rows = e.rows;
  return a;
}
bool inside(std::int64_t at, const extents& e) { return at >= 0 && at < e.length; }
std::size_t at(long i) { return static_cast<std::size_t>(i); }

template <class T> void sums_and_adjoints() {
  constexpr int which = sizeof(T) == 8;
  std::mt19937 random(7);
  for (const extents& e : all) {
    const auto table = positions(e, random);
    buffer<T> in(at(e.outer() * e.length * e.inner), 1), weight(at(e.table()), 1),
        grad(at(e.outer() * e.points * e.inner), 1);
    fill_uniform(in, random), fill_uniform(weight, random), fill_uniform(grad, random);
    std::vector<double> sum(grad.size()), size(grad.size()), back(in.size()), back_size(in.size()),
        of_weight(weight.size()), weight_size(weight.size());
    for (long o = 0; o < e.outer(); ++o)
      for (long p = 0; p < e.points; ++p)
        for (long k = 0; k < e.taps; ++k) {
          const std::size_t t = at((o / e.rows * e.points + p) * e.taps + k);
          if (!inside(table[t], e)) continue;
          for (long i = 0; i < e.inner; ++i) {
            const std::size_t x = at((o * e.length + table[t]) * e.inner + i), y = at((o * e.points + p) * e.inner + i);
            const double w = weight[t], g = grad[y], v = in[x];
            sum[y] += w * v, size[y] += std::abs(w * v);
            back[x] += w * g, back_size[x] += std::abs(w * g);
            of_weight[t] += g * v, weight_size[t] += std::abs(g * v);
          }
        }
    // In two calls; the second begins inside a slice.
    const auto in_parts = [&](long pairs, auto f) {
      const long first = pairs / 3;
      f(0, first), f(first, pairs - first);
    };
    buffer<T> out(grad.size(), 1), in_grad(in.size(), 1), weight_grad(weight.size(), 1);
    in_parts(e.outer() * e.points, [&](long first, long count) {
      auto a = arguments<resample_args>(e, first, count);
      a.in = in.data(), a.at = table.data(), a.weight = weight.data(), a.out = out.data() + first * e.inner;
      functions().resample[which](&a, nullptr);
    });
    in_parts(e.outer(), [&](long first, long count) {
      auto a = arguments<resample_grad_args>(e, first, count);
      a.in = grad.data(), a.at = table.data(), a.weight = weight.data();
      a.out = in_grad.data() + first * e.length * e.inner;
      functions().resample_grad[which](&a, nullptr);
    });
    in_parts(e.tables * e.points, [&](long first, long count) {
      auto a = arguments<resample_weight_grad_args>(e, first, count);
      a.grad = grad.data(), a.in = in.data(), a.at = table.data(), a.out = weight_grad.data() + first * e.taps;
      functions().resample_weight_grad[which](&a, nullptr);
    });
    const auto same = [&](const buffer<T>& got, const std::vector<double>& want, const std::vector<double>& magnitude) {
      for (std::size_t i = 0; i < want.size(); ++i) BOOST_REQUIRE(close(got[i], want[i], magnitude[i], 200));
      BOOST_TEST(got.guards_intact());
    };
    same(out, sum, size), same(in_grad, back, back_size), same(weight_grad, of_weight, weight_size);
  }
}

template <class T> void maxima(element type) {
  std::mt19937 random(9);
  for (extents e : all) {
    e.rows *= e.tables, e.tables = 1;
    const auto table = positions(e, random);
    buffer<T> in(at(e.outer() * e.length * e.inner), 1);
    for (auto& x : in) {
      x = static_cast<T>(static_cast<int>(random() % 7) - (std::is_signed_v<T> ? 3 : 0));  // includes ties
      if constexpr (std::is_floating_point_v<T>)
        if (random() % 9 == 0) x = std::numeric_limits<T>::quiet_NaN();
    }
    const long pairs = e.outer() * e.points, first = pairs / 3;
    buffer<T> out(at(pairs * e.inner), 1), alone(out.size(), 1);
    buffer<std::int64_t> index(out.size(), 1);
    for (auto [begin, count] : {std::pair{0L, first}, std::pair{first, pairs - first}}) {
      auto a = arguments<max_windows_args>(e, begin, count);
      a.in = in.data(), a.at = table.data(), a.out = out.data() + begin * e.inner,
      a.index = index.data() + begin * e.inner;
      functions().max_windows[static_cast<int>(type)](&a, nullptr);
      a.out = alone.data() + begin * e.inner, a.index = nullptr;
      functions().max_windows[static_cast<int>(type)](&a, nullptr);
    }
    for (long o = 0; o < e.outer(); ++o)
      for (long p = 0; p < e.points; ++p)
        for (long i = 0; i < e.inner; ++i) {
          std::int64_t best = -1;
          T max = std::numeric_limits<T>::lowest();
          if constexpr (std::is_floating_point_v<T>) max = -std::numeric_limits<T>::infinity();
          for (long k = 0; k < e.taps; ++k) {
            const std::int64_t q = table[at(p * e.taps + k)];
            if (!inside(q, e)) continue;
            const T x = in[at((o * e.length + q) * e.inner + i)];
            if (best < 0 || x > max || (x != x && max == max)) best = q, max = x;
          }
          const std::size_t y = at((o * e.points + p) * e.inner + i);
          BOOST_REQUIRE((out[y] == max || (max != max && out[y] != out[y])));
          BOOST_REQUIRE(index[y] == std::max<std::int64_t>(best, 0));
        }
    BOOST_TEST(same_bits(out.data(), alone.data(), out.size()));
    BOOST_TEST((out.guards_intact() && alone.guards_intact() && index.guards_intact()));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sample_kernels)

BOOST_AUTO_TEST_CASE(sums_and_adjoints_float) { sums_and_adjoints<float>(); }
BOOST_AUTO_TEST_CASE(sums_and_adjoints_double) { sums_and_adjoints<double>(); }
BOOST_AUTO_TEST_CASE(maxima_of_each_type) {
  maxima<float>(element::f32);
  maxima<double>(element::f64);
  maxima<std::int8_t>(element::i8);
  maxima<std::int16_t>(element::i16);
  maxima<std::int32_t>(element::i32);
  maxima<std::int64_t>(element::i64);
  maxima<std::uint8_t>(element::u8);
}

BOOST_AUTO_TEST_SUITE_END()
