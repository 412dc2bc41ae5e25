// Gathering along an axis against index arithmetic, for ascending, scattered, negative and invalid positions; the first
// positions in order against stable sorting; running sums against one column after the other.
#include "kernel_test.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

std::size_t at(long i) { return static_cast<std::size_t>(i); }

struct expected_positions {
  std::vector<long> from;  // -1: invalid
  std::int64_t invalid[3] = {};
};
expected_positions positions_of(const std::vector<std::int64_t>& index, long length) {
  expected_positions p;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t x = index[i] < 0 ? index[i] + length : index[i];
    const bool valid = index[i] >= -length && index[i] < length;
    p.from.push_back(valid ? static_cast<long>(x) : -1);
    if (valid || ++p.invalid[0] != 1) continue;
    p.invalid[1] = index[i];
    p.invalid[2] = static_cast<std::int64_t>(i);
  }
  return p;
}

/// Runs of ascending positions between random ones; some negative, and a few invalid ones if `wrong`.
std::vector<std::int64_t> some_positions(long count, long length, bool wrong, std::mt19937& generator) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  std::vector<std::int64_t> index;
  while (static_cast<long>(index.size()) < count) {
    const std::int64_t begin = pick(-length, length - 1), steps = pick(0, 1) ? pick(1, 30) : 1;
    for (std::int64_t i = 0; i < steps && begin + i < length; ++i) index.push_back(begin + i);
  }
  index.resize(at(count));
  if (wrong)
    for (const std::int64_t x : {std::int64_t{length}, std::int64_t{-length - 1},
                                 std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()})
      index[at(static_cast<long>(pick(0, count - 1)))] = x;
  return index;
}

template <class Word> void check_gather(long outer, long length, long count, bool wrong, std::mt19937& generator) {
  std::vector<Word> in(at(outer * length));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i * 7 + 1);
  const auto index = some_positions(count, length, wrong, generator);
  const auto expected = positions_of(index, length);
  const long all = outer * count;
  // A part of the rows, as a thread gets it.
  const long first = all / 3, rows = all - first - all / 5;
  buffer<Word> out(at(rows), 1);
  std::int64_t invalid[3] = {};
  const gather_args a{in.data(), index.data(), out.data(), invalid, first, rows, count, length, sizeof(Word)};
  rows_of(kernel_test::tested()).gather(&a, nullptr);
  bool right = out.guards_intact();
  for (long r = 0; r < rows; ++r) {
    const long from = expected.from[at((first + r) % count)];
    right = right && out[at(r)] == (from < 0 ? Word(0) : in[at((first + r) / count * length + from)]);
  }
  std::int64_t found = 0;
  for (long r = first; r < first + rows; ++r) found += expected.from[at(r % count)] < 0;
  BOOST_CHECK_MESSAGE(right && invalid[0] == found,
                      "gather of " << count << " from " << length << ", words of " << sizeof(Word));
}

template <class Word>
void check_take(long outer, long length, long count, long inner, bool wrong, std::mt19937& generator) {
  std::vector<Word> in(at(outer * length * inner));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i * 5 + 3);
  const auto index = some_positions(outer * count * inner, length, wrong, generator);
  const auto expected = positions_of(index, length);
  buffer<Word> out(index.size(), 1);
  std::int64_t invalid[3] = {};
  const take_args a{in.data(), index.data(), out.data(), invalid, outer, count, length, inner, sizeof(Word), 0};
  rows_of(kernel_test::tested()).take(&a, nullptr);
  bool right = out.guards_intact();
  for (long i = 0; i < static_cast<long>(index.size()); ++i) {
    const long from = expected.from[at(i)], o = i / (count * inner);
    right = right && out[at(i)] == (from < 0 ? Word(0) : in[at((o * length + from) * inner + i % inner)]);
  }
  BOOST_CHECK_MESSAGE(
      right, "take of " << count << " from " << length << ", inner " << inner << ", words of " << sizeof(Word));
  BOOST_CHECK_EQUAL_COLLECTIONS(invalid, invalid + 3, expected.invalid, expected.invalid + 3);
}

template <class Word> void check_words() {
  std::mt19937 generator(11);
  for (const long length : {1L, 3L, 8L, 9L, 100L})
    for (const long count : {1L, 7L, 8L, 9L, 62L, 200L})
      for (const bool wrong : {false, true}) {
        check_gather<Word>(5, length, count, wrong, generator);
        for (const long inner : {1L, 3L}) check_take<Word>(3, length, count, inner, wrong, generator);
      }
}

/// The first `count` positions along the middle axis, in the order of stable sorting; NaN is the largest number.
template <class T>
void check_order(element type, long outer, long length, long inner, long count, bool largest, bool special) {
  std::mt19937 generator(static_cast<unsigned>(length * 7 + count));
  std::vector<T> in(at(outer * length * inner));
  for (T& x : in) {
    const int drawn = std::uniform_int_distribution<int>(-200, 200)(generator);
    x = static_cast<T>(drawn);
    if (std::is_floating_point_v<T> && special) {
      if (drawn % 7 == 0) x = std::numeric_limits<T>::quiet_NaN();
      else if (drawn % 5 == 0) x = static_cast<T>(drawn % 2 ? -0.0 : 0.0);
      else if (drawn % 11 == 0) x = static_cast<T>(drawn) * std::numeric_limits<T>::infinity();
    }
  }
  buffer<std::int64_t> out(at(outer * count * inner), 1);
  std::vector<std::uint64_t> scratch(at(order_scratch(length) / 8));
  order_args a{};
  a.in = in.data(), a.out = out.data();
  a.outer = outer, a.length = length, a.inner = inner, a.count = count, a.largest = largest;
  order_of(kernel_test::tested()).of[static_cast<int>(type)](&a, scratch.data());
  bool right = out.guards_intact();
  for (long o = 0; o < outer; ++o)
    for (long i = 0; i < inner; ++i) {
      std::vector<std::int64_t> all(at(length));
      for (long l = 0; l < length; ++l) all[at(l)] = l;
      const auto number = [&](std::int64_t l) { return in[at((o * length + static_cast<long>(l)) * inner + i)]; };
      const auto less = [](T x, T y) { return x < y || (x == x && y != y); };
      std::sort(all.begin(), all.end(), [&](std::int64_t x, std::int64_t y) {
        const T first = number(largest ? y : x), second = number(largest ? x : y);
        return less(first, second) || (!less(second, first) && x < y);
      });
      for (long k = 0; k < count; ++k) right = right && out[at((o * count + k) * inner + i)] == all[at(k)];
    }
  BOOST_CHECK_MESSAGE(right, "the " << (largest ? "largest " : "smallest ") << count << " of " << length << ", inner "
                                    << inner << ", " << sizeof(T) << " bytes");
}
template <class T> void check_orders(element type) {
  for (const long length : {1L, 5L, 40L, 77L, 1000L})
    for (const long count : {1L, 2L, 5L, 100L, 1000L})
      for (const long inner : {1L, 3L})
        for (const bool largest : {false, true})
          for (const bool special : {false, true})
            if (count <= length) check_order<T>(type, 2, length, inner, count, largest, special);
}

/// Sums along the middle axis, in double or integers that wrap, one column after the other; in place as well.
template <class T>
void check_sums(element type, long outer, long length, long inner, bool exclusive, bool reverse, bool in_place) {
  using wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  std::mt19937 generator(static_cast<unsigned>(length * 31 + inner));
  buffer<T> in(at(outer * length * inner), 1), apart(in.size(), 1);
  for (T& x : in) {
    const int number = static_cast<int>(generator() % 1000) - 500;
    if constexpr (std::is_floating_point_v<T>) x = static_cast<T>(number) / 7;
    else x = static_cast<T>(number / 4);
  }
  std::vector<T> expected(in.size());
  for (long o = 0; o < outer; ++o)
    for (long i = 0; i < inner; ++i) {
      wide sum = 0;
      for (long l = 0; l < length; ++l) {
        const std::size_t k = at((o * length + (reverse ? length - 1 - l : l)) * inner + i);
        const wide before = sum;
        sum += static_cast<wide>(in[k]);
        expected[k] = static_cast<T>(exclusive ? before : sum);
      }
    }
  buffer<T>& out = in_place ? in : apart;
  const running_sum_args a{in.data(), out.data(), outer, length, inner, exclusive, reverse};
  running_sum_of(kernel_test::tested()).of[static_cast<int>(type)](&a, nullptr);
  BOOST_CHECK_MESSAGE(out.guards_intact() && std::equal(out.begin(), out.end(), expected.begin()),
                      "sums of " << length << " by " << inner << " of type " << static_cast<int>(type)
                                 << (exclusive ? ", exclusive" : "") << (reverse ? ", reverse" : ""));
}
template <class T> void check_sums(element type) {
  for (const long length : {1L, 2L, 9L})
    for (const long inner : {1L, 3L, 15L, 16L, 17L, 40L, 255L, 256L, 257L, 271L, 272L, 600L})
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const bool in_place : {false, true}) check_sums<T>(type, 2, length, inner, exclusive, reverse, in_place);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(positions)

BOOST_AUTO_TEST_CASE(words_of_every_size) {
  check_words<std::uint8_t>(), check_words<std::uint16_t>(), check_words<std::uint32_t>(), check_words<std::uint64_t>();
}
BOOST_AUTO_TEST_CASE(the_first_in_order) {
  check_orders<float>(element::f32), check_orders<double>(element::f64);
  check_orders<std::int32_t>(element::i32), check_orders<std::int16_t>(element::i16);
}
BOOST_AUTO_TEST_CASE(running_sums) {
  check_sums<float>(element::f32), check_sums<double>(element::f64);
  check_sums<std::int32_t>(element::i32), check_sums<std::int64_t>(element::i64);
  check_sums<std::int8_t>(element::i8), check_sums<std::uint8_t>(element::u8);
}
BOOST_AUTO_TEST_CASE(an_axis_without_elements) {
  const std::int64_t index[9] = {};
  std::int64_t invalid[3] = {};
  buffer<std::uint32_t> out(9, 1);
  const gather_args a{nullptr, index, out.data(), invalid, 0, 9, 9, 0, 4};
  rows_of(kernel_test::tested()).gather(&a, nullptr);
  BOOST_TEST(invalid[0] == 9);
  BOOST_TEST(std::count(out.begin(), out.end(), 0u) == 9);
}

BOOST_AUTO_TEST_SUITE_END()
