// Micro-operations, conversions and chains against scalar references: every operation and element type, all short
// lengths, unaligned starts, repeated operands, outputs over inputs, guards.
#include "kernel_test.h"

#include <algorithm>
#include <array>
#include <string>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const elementwise_functions& functions() { return elementwise_of(kernel_test::tested()); }
map_function map_of(map_op op, element e) { return lamina::kernels::map_of(kernel_test::tested(), op, e); }

template <class T> constexpr bool is_float = std::is_floating_point_v<T>;
template <class T> T wrapped(__int128 x) { return static_cast<T>(static_cast<unsigned long long>(x)); }

constexpr map_op unary_ops[] = {map_op::copy, map_op::negate, map_op::abs, map_op::sign, map_op::square};
constexpr map_op float_ops[] = {map_op::sqrt,  map_op::reciprocal, map_op::relu,
                                map_op::floor, map_op::ceil,       map_op::round};
constexpr map_op binary_ops[] = {map_op::add,    map_op::subtract, map_op::multiply,
                                 map_op::divide, map_op::minimum,  map_op::maximum};
constexpr map_op comparisons[] = {map_op::equal,      map_op::not_equal, map_op::less,
                                  map_op::less_equal, map_op::greater,   map_op::greater_equal};

template <class T> T unary(map_op op, T x) {
  switch (op) {
    case map_op::copy: return x;
    case map_op::negate:
      if constexpr (is_float<T>) return -x;
      else return wrapped<T>(-static_cast<__int128>(x));
    case map_op::abs:
      if constexpr (is_float<T>) return std::fabs(x);
      else return wrapped<T>(x < 0 ? -static_cast<__int128>(x) : static_cast<__int128>(x));
    case map_op::sign: return x > 0 ? T(1) : x < 0 ? T(-1) : x;
    case map_op::square:
      if constexpr (is_float<T>) return x * x;
      else return wrapped<T>(static_cast<__int128>(x) * static_cast<__int128>(x));
    default: break;
  }
  if constexpr (is_float<T>) {
    switch (op) {
      case map_op::sqrt: return std::sqrt(x);
      case map_op::reciprocal: return T(1) / x;
      case map_op::relu: return std::isnan(x) ? x : x > 0 ? x : T(0);
      case map_op::floor: return std::floor(x);
      case map_op::ceil: return std::ceil(x);
      case map_op::round: return std::nearbyint(x);
      default: break;
    }
  }
  std::abort();
}
template <class T> T binary(map_op op, T x, T y) {
  using wide = std::conditional_t<is_float<T>, T, __int128>;
  const wide a = x, b = y;
  const auto result = [](wide r) {
    if constexpr (is_float<T>) return r;
    else return wrapped<T>(r);
  };
  const bool nan = x != x || y != y;
  switch (op) {
    case map_op::add: return result(a + b);
    case map_op::subtract: return result(a - b);
    case map_op::multiply: return result(a * b);
    case map_op::divide: return !is_float<T> && b == 0 ? T(0) : result(a / b);
    case map_op::minimum: return nan ? x + y : std::min(x, y);
    case map_op::maximum: return nan ? x + y : std::max(x, y);
    default: std::abort();
  }
}
template <class T> bool compare(map_op op, T x, T y) {
  switch (op) {
    case map_op::equal: return x == y;
    case map_op::not_equal: return x != y;
    case map_op::less: return x < y;
    case map_op::less_equal: return x <= y;
    case map_op::greater: return x > y;
    case map_op::greater_equal: return x >= y;
    default: std::abort();
  }
}
template <class T> bool agree(T x, T y) { return (x != x && y != y) || x == y; }

/// Values with zeros, extremes, equal pairs and, for floats, infinities and NaN among them.
template <class T> T value(std::mt19937& g) {
  const unsigned kind = g() % 8;
  if constexpr (is_float<T>) {
    constexpr T special[] = {T(0),
                             T(-0.0),
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             T(2.5),
                             T(-0.5),
                             T(1e30),
                             std::numeric_limits<T>::denorm_min()};
    if (kind == 0) return special[g() % std::size(special)];
    return static_cast<T>(std::ldexp(static_cast<double>(g()) - 0x1p31, static_cast<int>(g() % 40) - 50));
  } else {
    if (kind == 0) return std::numeric_limits<T>::min();
    if (kind == 1) return std::numeric_limits<T>::max();
    if (kind < 5) return static_cast<T>(static_cast<int>(g() % 7) - 3);
    return static_cast<T>((static_cast<std::uint64_t>(g()) << 32) | g());
  }
}
template <class T> void fill(buffer<T>& b, std::mt19937& g) {
  for (T& x : b) x = value<T>(g);
}

constexpr long lengths[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,  16,  17,  18,
                            19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,  35,  36,  37,
                            38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 63, 64, 65, 127, 129, 193, 300};

/// Runs `f` on every length, start and pattern of repeated operands; `check(i, a, b, c, out)` checks one element.
template <class A, class B, class C, class Out, class Check>
void sweep(map_function f, int operands, Check check, const std::string& name) {
  BOOST_REQUIRE_MESSAGE(f != nullptr, name);
  std::mt19937 g(7);
  for (const long n : lengths)
    for (unsigned steps = 0; steps < (1u << operands); ++steps) {
      const auto size = static_cast<std::size_t>(n);
      const std::size_t offset = g() % 4;
      buffer<A> a(std::max<std::size_t>(size, 1), offset);
      buffer<B> b(std::max<std::size_t>(size, 1), (offset + 1) % 4);
      buffer<C> c(std::max<std::size_t>(size, 1), (offset + 3) % 4);
      buffer<Out> out(size, (offset + 2) % 4);
      fill(a, g), fill(b, g), fill(c, g);
      if constexpr (std::is_same_v<A, bool>)
        for (auto& x : a) x = (g() & 1) != 0;
      f(a.data(), b.data(), c.data(), out.data(), n, steps);
      bool right = out.guards_intact();
      for (std::size_t i = 0; i < size; ++i)
        right = right && check(a[(steps & 1) ? i : 0], b[(steps & 2) ? i : 0], c[(steps & 4) ? i : 0], out[i]);
      // over an advancing operand of the same size
      if constexpr (std::is_same_v<A, Out>)
        if ((steps & 1) != 0) {
          f(a.data(), b.data(), c.data(), a.data(), n, steps);
          right = right && std::memcmp(a.data(), out.data(), size * sizeof(A)) == 0 && a.guards_intact();
        }
      if (!right) BOOST_ERROR(name << " n " << n << " steps " << steps);
      if (!right) return;
    }
}

template <class T> void numbers(element e) {
  const auto name = [e](map_op op) {
    return "op " + std::to_string(static_cast<int>(op)) + " element " + std::to_string(static_cast<int>(e));
  };
  const auto one = [&](map_op op) {
    sweep<T, T, T, T>(map_of(op, e), 1, [op](T x, T, T, T r) { return agree(r, unary(op, x)); }, name(op));
  };
  for (const map_op op : unary_ops) one(op);
  if constexpr (is_float<T>)
    for (const map_op op : float_ops) one(op);
  for (const map_op op : binary_ops)
    sweep<T, T, T, T>(map_of(op, e), 2, [op](T x, T y, T, T r) { return agree(r, binary(op, x, y)); }, name(op));
  if constexpr (is_float<T>)
    sweep<T, T, T, T>(
        map_of(map_op::prelu, e), 2, [](T x, T slope, T, T r) { return agree(r, x < 0 ? x * slope : x); },
        name(map_op::prelu));
  for (const map_op op : comparisons)
    sweep<T, T, T, std::uint8_t>(
        map_of(op, e), 2, [op](T x, T y, T, std::uint8_t r) { return r == (compare(op, x, y) ? 1 : 0); }, name(op));
  sweep<T, T, T, T>(
      map_of(map_op::clamp, e), 3,
      [](T x, T low, T high, T r) {
        const T raised = x < low ? low : x;
        return agree(r, raised > high ? high : raised);
      },
      name(map_op::clamp));
}
template <class T> void choices(element e) {
  BOOST_REQUIRE(map_of(map_op::where, e) != nullptr);
  sweep<std::uint8_t, T, T, T>(
      map_of(map_op::where, e), 3, [](std::uint8_t q, T x, T y, T r) { return agree(r, q != 0 ? x : y); }, "where");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(elementwise)

BOOST_AUTO_TEST_CASE(numbers_of_every_type) {
  numbers<float>(element::f32);
  numbers<double>(element::f64);
  numbers<std::int8_t>(element::i8);
  numbers<std::int16_t>(element::i16);
  numbers<std::int32_t>(element::i32);
  numbers<std::int64_t>(element::i64);
  numbers<std::uint8_t>(element::u8);
}

BOOST_AUTO_TEST_CASE(square_roots_are_rounded_correctly) {
  const map_function root = map_of(map_op::sqrt, element::f32);
  constexpr std::size_t block = 4096;
  std::vector<float> x(block), out(block);
  const auto check = [&](std::uint32_t begin, std::uint32_t step) {
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint32_t bits = begin + static_cast<std::uint32_t>(i) * step;
      std::memcpy(&x[i], &bits, 4);
    }
    root(x.data(), nullptr, nullptr, out.data(), block, 1);
    for (std::size_t i = 0; i < block; ++i) {
      const float wanted = std::sqrt(x[i]);
      const bool same = wanted != wanted ? out[i] != out[i] : std::memcmp(&out[i], &wanted, 4) == 0;
      if (!same) return false;
    }
    return true;
  };
  bool right = true;
  // all significands of two neighboring exponents: other exponents only scale them
  for (std::uint32_t b = 0x3f800000; b < 0x40800000; b += block) right = right && check(b, 1);
  BOOST_TEST(right);
  // all exponents and signs, zeros, denormal numbers, infinities, NaN; then both sides of the lower and upper limits of
  // the fast path
  for (std::uint32_t b = 0; b < 64; ++b) right = right && check(b * 977, 0x00100000);
  BOOST_TEST(right);
  for (const std::uint32_t b : {0x00000000u, 0x007ff800u, 0x1ffff800u, 0x7f7ff800u, 0x7ffff800u, 0xff7ff800u})
    right = right && check(b, 1);
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(choices_of_every_type) {
  choices<float>(element::f32), choices<double>(element::f64), choices<std::int8_t>(element::i8),
      choices<std::int16_t>(element::i16);
  choices<std::int32_t>(element::i32), choices<std::int64_t>(element::i64), choices<std::uint8_t>(element::u8);
  choices<std::uint16_t>(element::f16), choices<std::uint16_t>(element::bf16), choices<std::uint8_t>(element::boolean);
}

BOOST_AUTO_TEST_CASE(logic) {
  const std::uint8_t a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1};
  std::uint8_t out[4];
  const auto expect = [&](map_op op, std::array<int, 4> wanted) {
    map_of(op, element::boolean)(a, b, nullptr, out, 4, 3);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(static_cast<int>(out[i]) == wanted[i]);
  };
  expect(map_op::logical_and, {0, 0, 0, 1});
  expect(map_op::logical_or, {0, 1, 1, 1});
  expect(map_op::logical_xor, {0, 1, 1, 0});
  expect(map_op::equal, {1, 0, 0, 1});
  expect(map_op::not_equal, {0, 1, 1, 0});
  expect(map_op::logical_not, {1, 1, 0, 0});
  expect(map_op::copy, {0, 0, 1, 1});
}

BOOST_AUTO_TEST_CASE(only_operations_with_a_meaning) {
  BOOST_TEST((map_of(map_op::add, element::f16) == nullptr));
  BOOST_TEST((map_of(map_op::exp, element::i32) == nullptr));
  BOOST_TEST((map_of(map_op::logical_and, element::f32) == nullptr));
  BOOST_TEST((map_of(map_op::less, element::boolean) == nullptr));
}

BOOST_AUTO_TEST_CASE(map_driver) {
  const float x[3] = {1, 2, 3}, y[1] = {10};
  float out[3];
  const map_args args{map_of(map_op::add, element::f32), {x, y, nullptr}, out, 3, 1};
  functions().map(&args, nullptr);
  BOOST_TEST(out[2] == 13.f);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(chains)

namespace {

/// Sums of the rows of a chain's last operand, with memory and without, against those of the rows of `out`.
void check_sums(const chain_args& chain, const buffer<float>& out, bool has_memory) {
  const long positions = chain.extent[0] * chain.extent[1] * chain.extent[2], row = chain.extent[3];
  const long step[] = {chain.extent[1] * chain.extent[2], chain.extent[2], 1};
  const auto sum = reduce_sum_of(kernel_test::tested()).of[0];
  buffer<float> sums(static_cast<std::size_t>(positions));
  chain_sum_args args{};
  args.chain = chain;
  args.chain_run = functions().chain, args.sum_run = sum;
  args.out = sums.data();
  args.type = element::f32;
  args.operand = 3;
  args.has_memory = has_memory;
  for (int axis = 0; axis < 3; ++axis) args.outer[axis] = step[axis] * 4;
  alignas(64) static char scratch[chain_sum_scratch_bytes];
  functions().chain_sum(&args, scratch);
  bool right = sums.guards_intact();
  const chain_operand& o = chain.operand[3];
  for (long p = 0; p < positions; ++p) {
    const long i = p / step[0], j = p / step[1] % chain.extent[1], k = p % step[1];
    float wanted = 77;
    const reduce_args whole{out.data() + (i * o.outer[0] + j * o.outer[1] + k * o.outer[2]) / 4, &wanted, 1, row, 1};
    sum(&whole, nullptr);
    right = right && sums[static_cast<std::size_t>(p)] == wanted;
  }
  if (!right) BOOST_ERROR("sums of rows of " << row << " elements, memory " << has_memory);
}

/// out = (x * y + z) with y and z of any strides, against plain loops.
void check_chain(const long (&extent)[4], int y_mode, int z_mode, bool pad_out, bool woven) {
  std::mt19937 g(3);
  const long positions = extent[0] * extent[1] * extent[2], total = positions * extent[3];
  const long pitch = extent[3] + (pad_out ? 3 : 0);
  buffer<float> x(static_cast<std::size_t>(total)), y(static_cast<std::size_t>(total)),
      z(static_cast<std::size_t>(total));
  buffer<float> out(static_cast<std::size_t>(positions * pitch));
  kernel_test::fill_uniform(x, g), kernel_test::fill_uniform(y, g), kernel_test::fill_uniform(z, g);
  for (auto& v : out) v = -77;
  chain_args args{};
  for (int i = 0; i < 4; ++i) args.extent[i] = extent[i];
  const auto dense = [&](long row) {
    return std::array<long, 3>{extent[1] * extent[2] * row * 4, extent[2] * row * 4, row * 4};
  };
  // modes: 0 whole, 1 one element per row, 2 one row for all, 3 one element, 4 a row per second-axis position, 5 per
  // first-axis, 6 per third-axis position
  const auto operand = [&](float* data, int mode, long row) {
    chain_operand o{data, {0, 0, 0}, 4, mode == 1 || mode == 3 ? 0 : 1};
    const auto s = mode == 1 ? dense(1) : dense(row);
    if (mode == 0 || mode == 1)
      for (std::size_t i = 0; i < 3; ++i) o.outer[i] = s[i];
    if (mode == 4) o.outer[0] = extent[1] * extent[3] * 4, o.outer[1] = extent[3] * 4;
    if (mode == 5) o.outer[0] = extent[3] * 4;
    if (mode == 6) o.outer[2] = extent[3] * 4;
    return o;
  };
  args.operand[0] = operand(x.data(), 0, extent[3]);
  args.operand[1] = operand(y.data(), y_mode, extent[3]);
  args.operand[2] = operand(z.data(), z_mode, extent[3]);
  args.operand[3] = operand(out.data(), 0, pitch);
  args.operand_count = 4;
  args.step[0] = {map_of(map_op::multiply, element::f32), {0, 1, -1}, 16, map_op::multiply, element::f32};
  args.step[1] = {map_of(map_op::add, element::f32), {16, 2, -1}, 3, map_op::add, element::f32};
  args.step_count = 2;
  if (woven) {
    kernel_test::compile(args);
    BOOST_TEST(args.register_count == 3);
  }
  alignas(64) static char scratch[chain_scratch_bytes];
  functions().chain(&args, scratch);
  bool right = out.guards_intact();
  for (long i = 0; i < extent[0]; ++i)
    for (long j = 0; j < extent[1]; ++j)
      for (long k = 0; k < extent[2]; ++k)
        for (long l = 0; l < pitch; ++l) {
          const auto at = [&](const buffer<float>& b, int o) {
            const auto& d = args.operand[o];
            return b[static_cast<std::size_t>((i * d.outer[0] + j * d.outer[1] + k * d.outer[2]) / 4 +
                                              (d.inner ? l : 0))];
          };
          const float product = l < extent[3] ? at(x, 0) * at(y, 1) : 0;
          const float wanted = l < extent[3] ? product + at(z, 2) : -77;
          right = right && at(out, 3) == wanted;
        }
  check_sums(args, out, pad_out);
  if (!right)
    BOOST_ERROR("chain " << extent[0] << ' ' << extent[1] << ' ' << extent[2] << ' ' << extent[3] << " modes " << y_mode
                         << ' ' << z_mode << " padded " << pad_out << " woven " << woven);
}

}  // namespace

BOOST_AUTO_TEST_CASE(broadcast_patterns) {
  constexpr long extents[][4] = {{1, 1, 1, 1},    {1, 1, 1, 1500}, {1, 1, 100, 10}, {1, 1, 7, 120},  {2, 3, 50, 3},
                                 {1, 4, 129, 49}, {2, 1, 5, 513},  {1, 1, 1000, 1}, {3, 2, 1, 20},   {1, 2, 3, 95},
                                 {1, 1, 600, 2},  {0, 1, 1, 5},    {1, 1, 4, 0},    {3, 50, 2, 3},   {40, 7, 4, 4},
                                 {1, 300, 2, 1},  {700, 1, 2, 2},  {2, 9, 5, 50},   {1, 2, 2, 4097}, {1, 1, 2, 21000}};
  for (const auto& extent : extents)
    for (int y = 0; y < 7; ++y)
      for (int z = 0; z < 7; ++z) {
        for (const bool woven : {false, true})
          check_chain(extent, y, z, false, woven), check_chain(extent, y, z, true, woven);
      }
}

BOOST_AUTO_TEST_CASE(several_sizes_and_outputs) {
  // out1 = x > 0 (bool), out2 = where(out1, x, row), rows of 10, in place over x
  constexpr long rows = 333, row = 10;
  std::vector<float> x(rows * row), bias(row), original;
  std::vector<std::uint8_t> mask(rows * row);
  std::mt19937 g(5);
  kernel_test::fill_uniform(x, g), kernel_test::fill_uniform(bias, g);
  original = x;
  const float zero = 0;
  chain_args args{};
  args.extent[0] = args.extent[1] = 1, args.extent[2] = rows, args.extent[3] = row;
  args.operand[0] = {x.data(), {0, 0, row * 4}, 4, 1};
  args.operand[1] = {const_cast<float*>(&zero), {0, 0, 0}, 4, 0};
  args.operand[2] = {bias.data(), {0, 0, 0}, 4, 1};
  args.operand[3] = {mask.data(), {0, 0, row}, 1, 1};
  args.operand[4] = {x.data(), {0, 0, row * 4}, 4, 1};
  args.operand_count = 5;
  args.step[0] = {map_of(map_op::greater, element::f32), {0, 1, -1}, 3, map_op::greater, element::f32};
  args.step[1] = {map_of(map_op::where, element::f32), {3, 0, 2}, 4, map_op::where, element::f32};
  args.step_count = 2;
  alignas(64) static char scratch[chain_scratch_bytes];
  functions().chain(&args, scratch);
  for (std::size_t i = 0; i < x.size(); ++i) {
    BOOST_REQUIRE_EQUAL(static_cast<int>(mask[i]), original[i] > 0 ? 1 : 0);
    BOOST_REQUIRE_EQUAL(x[i], original[i] > 0 ? original[i] : bias[i % row]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
