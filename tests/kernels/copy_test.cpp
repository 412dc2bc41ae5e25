// Strided copies and fills against index arithmetic.
#include "kernel_test.h"

#include <algorithm>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const copy_functions& functions() { return copies_of(kernel_test::tested()); }

/// Copies a box with the given input strides (negative: count of axes repeated) into a permuted, padded output.
template <class Word>
void check(const std::vector<long>& extent, const std::vector<int>& order, unsigned repeated, long pad) {
  const auto axes = extent.size();
  copy_args args{};
  args.axes = static_cast<std::int32_t>(axes), args.size = sizeof(Word);
  long in_size = 1, out_size = 1;
  for (std::size_t k = axes; k-- > 0;) {
    args.extent[k] = extent[k];
    args.in_stride[k] = (repeated >> k & 1) ? 0 : in_size;
    if (!(repeated >> k & 1)) in_size *= extent[k];
  }
  for (std::size_t k = axes; k-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[k]);
    args.out_stride[axis] = out_size;
    out_size *= extent[axis] + pad;
  }
  buffer<Word> in(static_cast<std::size_t>(in_size), 1), out(static_cast<std::size_t>(out_size), 3);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i * 7 + 1);
  std::vector<Word> wanted(out.size(), Word(42));
  std::fill(out.begin(), out.end(), Word(42));
  std::vector<long> at(axes, 0);
  for (bool more = std::all_of(extent.begin(), extent.end(), [](long e) { return e > 0; }); more;) {
    long from = 0, to = 0;
    for (std::size_t k = 0; k < axes; ++k) from += at[k] * args.in_stride[k], to += at[k] * args.out_stride[k];
    wanted[static_cast<std::size_t>(to)] = in[static_cast<std::size_t>(from)];
    more = false;
    for (std::size_t k = axes; k-- > 0 && !more;) {
      more = ++at[k] < extent[k];
      if (!more) at[k] = 0;
    }
  }
  args.in = in.data(), args.out = out.data();
  functions().copy(&args, nullptr);
  const bool right = out.guards_intact() && kernel_test::same_bits(out.data(), wanted.data(), wanted.size());
  BOOST_CHECK_MESSAGE(
      right, "copy of " << axes << " axes, first extent " << (axes ? extent[0] : 0) << ", size " << sizeof(Word));
}
template <class Word> void check_all() {
  check<Word>({}, {}, 0, 0);
  check<Word>({0}, {0}, 0, 0);
  check<Word>({100}, {0}, 0, 0), check<Word>({100}, {0}, 1, 0);
  for (const long pad : {0L, 3L})
    for (const unsigned repeated : {0u, 1u, 2u, 3u}) {
      check<Word>({7, 100}, {0, 1}, repeated, pad);
      check<Word>({37, 53}, {1, 0}, repeated, pad), check<Word>({64, 128}, {1, 0}, repeated, pad),
          check<Word>({130, 3}, {1, 0}, repeated, pad);
      for (const auto& order : {std::vector<int>{0, 1}, std::vector<int>{1, 0}})
        for (const long n : {2L, 15L, 16L, 45L})
          check<Word>({n, 2}, order, repeated, pad), check<Word>({2, n}, order, repeated, pad),
              check<Word>({3, n, 2}, {0, order[0] + 1, order[1] + 1}, repeated << 1, pad);
      for (const long group : {2L, 3L, 4L, 5L})  // neighbors that stay together
        check<Word>({3, 7, 20, group}, {1, 2, 0, 3}, repeated, pad),
            check<Word>({9, 6, group}, {1, 0, 2}, repeated, pad);
      check<Word>({5, 19, 33}, {0, 2, 1}, repeated, pad), check<Word>({5, 19, 33}, {2, 1, 0}, repeated, pad);
      check<Word>({18, 5, 40}, {1, 2, 0}, repeated, pad), check<Word>({3, 4, 5, 6}, {3, 1, 0, 2}, repeated, pad);
      for (const long channels : {2L, 3L})  // of pixels
        for (const long pixels : {2L, 3L, 15L, 16L, 57L}) {
          check<Word>({2, pixels, channels}, {0, 2, 1}, repeated, pad);
          check<Word>({2, channels, pixels}, {0, 2, 1}, repeated, pad);
        }
    }
  check<Word>({2, 1, 3, 2, 1, 2, 3, 2}, {7, 2, 4, 0, 1, 3, 6, 5}, 4u, 1);
  check<Word>({2, 3, 2, 3, 2, 2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, 0u, 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(copies)

BOOST_AUTO_TEST_CASE(boxes_of_every_size) {
  check_all<std::uint8_t>(), check_all<std::uint16_t>(), check_all<std::uint32_t>(), check_all<std::uint64_t>();
}

BOOST_AUTO_TEST_CASE(large_transposes) {
  const auto run = [](auto zero, long rows, long columns, long offset) {
    using Word = decltype(zero);
    std::vector<Word> in(static_cast<std::size_t>(rows * columns));
    buffer<Word> out(in.size(), static_cast<std::size_t>(offset));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(i);
    copy_args args{};
    args.in = in.data(), args.out = out.data(), args.axes = 2, args.size = sizeof(Word);
    args.extent[0] = rows, args.extent[1] = columns;
    args.in_stride[0] = columns, args.in_stride[1] = 1, args.out_stride[0] = 1, args.out_stride[1] = rows;
    functions().copy(&args, nullptr);
    bool right = out.guards_intact();
    for (long i = 0; i < rows; ++i)
      for (long j = 0; j < columns; ++j)
        right = right && out[static_cast<std::size_t>(j * rows + i)] == in[static_cast<std::size_t>(i * columns + j)];
    BOOST_CHECK_MESSAGE(right, rows << " x " << columns << " from " << offset);
  };
  run(std::uint32_t{}, 1024, 1030, 0), run(std::uint32_t{}, 1040, 1024, 0), run(std::uint32_t{}, 1024, 1024, 1);
  run(std::uint32_t{}, 1024, 200, 0), run(std::uint64_t{}, 512, 77, 0);  // rows of the result a page apart
  run(std::uint64_t{}, 1024, 600, 0), run(std::uint64_t{}, 1001, 700, 0), run(std::uint16_t{}, 130, 200, 0);
}

BOOST_AUTO_TEST_CASE(negative_strides_reverse) {
  const float in[] = {1, 2, 3};
  float out[3];
  copy_args args{};
  args.in = in + 2, args.out = out, args.extent[0] = 3, args.in_stride[0] = -1, args.out_stride[0] = 1, args.axes = 1,
  args.size = 4;
  functions().copy(&args, nullptr);
  BOOST_TEST((out[0] == 3 && out[1] == 2 && out[2] == 1));
}

BOOST_AUTO_TEST_CASE(fills) {
  const auto run = [](auto value) {
    for (std::size_t n = 0; n < 70; ++n) {
      buffer<decltype(value)> out(n, n % 4);
      fill_args args{out.data(), static_cast<long>(n), sizeof value, 0, {}};
      std::memcpy(args.value, &value, sizeof value);
      functions().fill(&args, nullptr);
      BOOST_REQUIRE(out.guards_intact() && std::all_of(out.begin(), out.end(), [=](auto x) { return x == value; }));
    }
  };
  run(std::uint8_t{7}), run(std::uint16_t{700}), run(1.5f), run(2.25);
}

BOOST_AUTO_TEST_SUITE_END()
