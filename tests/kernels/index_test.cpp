// Gathering along an axis against index arithmetic: ascending, scattered, negative and invalid positions.
#include "kernel_test.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
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

}  // namespace

BOOST_AUTO_TEST_SUITE(positions)

BOOST_AUTO_TEST_CASE(words_of_every_size) {
  check_words<std::uint8_t>(), check_words<std::uint16_t>(), check_words<std::uint32_t>(), check_words<std::uint64_t>();
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
