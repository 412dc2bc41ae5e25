// Kernels of quantized tensors against scalar loops, bit by bit, in every form that the machine has.
#include "quantized_reference.h"

using namespace quantized_reference;
using conv_reference::fits;
using conv_reference::name;
using conv_reference::sized;

namespace {

// `w_zero_point`: weights have a zero point, and no bias.
void check_linear(long rows, long columns, long depth, bool rowwise, bool extreme, std::int8_t w_zero_point = 0) {
  parameters p(columns, depth, rowwise);
  if (w_zero_point) p.to.bias = nullptr, std::fill(p.bias.begin(), p.bias.end(), 0);
  buffer<std::int8_t> x(at(rows * depth), 1), w(at(columns * depth)), y(at(rows * columns), 1);
  fill(x, extreme), fill_weights(w, extreme);
  std::vector<std::int8_t> expected;
  for (long i = 0; i < rows; ++i)
    for (long o = 0; o < columns; ++o) {
      long sum = 0;
      for (long k = 0; k < depth; ++k)
        sum += (x[at(i * depth + k)] - p.x_zero_point) * (w[at(o * depth + k)] - w_zero_point);
      expected.push_back(p.result(sum, o));
    }
  for (const int form : all_forms())
    BOOST_TEST_CONTEXT(rows << " x " << columns << " x " << depth << " form " << form) {
      const auto& f = functions().products[form];
      for (auto& v : y) v = 77;
      buffer<std::int8_t> packed(f.linear_packed_bytes(columns, depth));
      pack_weights(f.linear_pack, quantized_linear_pack_args{columns, depth, depth, 1, w.data(), nullptr}, packed);
      const quantized_linear_args a{rows,    columns, depth,         x.data(),         depth, packed.data(), y.data(),
                                    columns, p.to,    &w_zero_point, w_zero_point != 0};
      buffer<std::byte> scratch(f.linear_scratch_bytes(&a));
      f.linear(&a, scratch.data());
      BOOST_TEST(kernel_test::same_bits(std::as_const(y).data(), expected.data(), expected.size()));
      BOOST_TEST((y.guards_intact() && scratch.guards_intact()));
    }
}

// `repeats`: how many times each filter reads each channel of the image.
void check_conv(const window& w, long images, bool extreme, long repeats = 1) {
  const long depth = w.channels / w.groups * w.kernel_h * w.kernel_w, pixels = w.out_height * w.out_width;
  const parameters p(w.out_channels, depth, true);
  const long there = w.channels / w.groups / repeats;  // image channels of a group
  buffer<std::int8_t> in(at(images * w.groups * there * w.height * w.width), 1), weight(at(w.out_channels * depth), 1),
      out(at(images * w.out_channels * pixels), 1);
  fill(in, extreme), fill_weights(weight, extreme);
  const std::vector<std::int8_t> image(in.begin(), in.end());  // AddressSanitizer finds reads past its end
  const auto [expected, expected_sums] = convolved(w, images, there, in, weight, p);
  buffer<std::int32_t> sums(out.size(), 1);
  for (const int form : all_forms()) BOOST_TEST_CONTEXT(name(w) << "images " << images << " form " << form) {
      const auto& f = functions().products[form];
      for (auto& v : out) v = 77;
      buffer<std::int8_t> packed(f.conv_packed_bytes(&w));
      pack_weights(f.conv_pack, quantized_conv_pack_args{w, weight.data(), nullptr}, packed);
      for (auto& v : sums) v = 77;
      const long filters = w.out_channels / w.groups;
      quantized_conv_args a{w,       0,   images, 0, w.out_height, 0, filters, repeats, image.data(), packed.data(),
                            nullptr, p.to};
      buffer<std::byte> scratch(f.conv_scratch_bytes(&a));
      const auto run = [&](kernel convolution, void* to) {
        a.out = to;
        a.first = 0, a.count = 1, a.first_row = 0, a.rows = w.out_height;
        // In several calls: images, then filters or rows.
        if (images > 1) convolution(&a, scratch.data()), a.first = 1, a.count = images - 1;
        const bool direct = f.conv_order(&w) < conv_order_of_depthwise;
        if (const long panels = (filters - 1) / 16; direct && panels && random_to(0, 1)) {
          a.first_filter = 16 * random_to(1, panels), a.filters = filters - a.first_filter;
          convolution(&a, scratch.data());
          a.filters = a.first_filter, a.first_filter = 0;
          convolution(&a, scratch.data());
          a.filters = filters;
          return;
        }
        const long cut = random_to(0, w.out_height - 1);
        a.first_row = cut, a.rows = w.out_height - cut;  // the last rows first: a part writes nothing past its end
        convolution(&a, scratch.data());
        a.first_row = 0, a.rows = cut;
        if (cut) convolution(&a, scratch.data());
      };
      run(f.conv, out.data());
      BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), expected.data(), expected.size()));
      auto bare = p.to;
      bare.bias = nullptr, bare.w_scale = bare.x_scale = bare.y_scale = nullptr, bare.y_zero_point = nullptr;
      a.to = bare;
      if (f.conv_sums) {
        run(f.conv_sums, sums.data());
        BOOST_TEST(kernel_test::same_bits(std::as_const(sums).data(), expected_sums.data(), expected_sums.size()));
      }
      BOOST_TEST((out.guards_intact() && scratch.guards_intact() && sums.guards_intact()));
    }
}

window random_window(long max_filters, long max_stride) {
  for (;;) {
    window w{};
    w.groups = random_to(1, 3);
    w.channels = w.groups * random_to(1, 6), w.out_channels = w.groups * random_to(1, max_filters);
    w.kernel_h = random_to(1, 5), w.kernel_w = random_to(1, 5);
    w.stride_h = random_to(1, max_stride), w.stride_w = random_to(1, max_stride);
    w.pad_h = random_to(0, w.kernel_h - 1), w.pad_w = random_to(0, w.kernel_w - 1);
    w.dilation_h = random_to(1, 3), w.dilation_w = random_to(1, 3);
    w.height = random_to(1, 12), w.width = random_to(1, 40);
    if (fits(w)) return sized(w);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quantized)

BOOST_AUTO_TEST_CASE(quantize_rounds_ties_to_even_and_saturates) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float scale = 0.5f;
  const std::int8_t zero_point = -3;
  const std::vector<float> in{0,     0.25f, 0.75f,   -0.25f, -0.75f, 1,    65,  65.25f,
                              1e30f, inf,   -62.25f, -62.5f, -1e30f, -inf, nan, -0.f};
  const std::vector<int> expected{-3, -3, -1, -3, -5, -1, 127, 127, 127, 127, -127, -128, -128, -128, -3, -3};
  buffer<std::int8_t> out(in.size(), 1);
  quantize_args a{1, 1, static_cast<long>(in.size()), in.data(), out.data(), &scale, &zero_point};
  functions().quantize(&a, nullptr);
  for (std::size_t i = 0; i < in.size(); ++i) BOOST_TEST(out[i] == expected[i], in[i] << " is " << int(out[i]));
  BOOST_TEST(out.guards_intact());
}

BOOST_AUTO_TEST_CASE(quantize_and_back_of_all_lengths) {
  for (long n = 0; n < 70; ++n) {
    std::vector<float> in(at(2 * 3 * n)), back(in.size());
    for (auto& x : in) x = static_cast<float>(random_to(-4000, 4000)) / 16;
    const float scale[3] = {0.5f, 1.7f, 0.01f};
    const std::int8_t zero_point[3] = {0, -128, 127};
    buffer<std::int8_t> out(in.size(), 1);
    quantize_args a{2, 3, n, in.data(), out.data(), scale, zero_point};
    functions().quantize(&a, nullptr);
    BOOST_TEST(out.guards_intact());
    a = {2, 3, n, out.data(), back.data(), scale, zero_point};
    functions().dequantize(&a, nullptr);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t c = i / at(n) % 3;
      const double q =
          std::min(127., std::max(-128., static_cast<double>(std::nearbyint(in[i] / scale[c])) + zero_point[c]));
      BOOST_REQUIRE(out[i] == q);
      BOOST_REQUIRE(back[i] == static_cast<float>(q - zero_point[c]) * scale[c]);
    }
  }
}

BOOST_AUTO_TEST_CASE(linear_of_all_small_sizes) {
  for (long rows = 1; rows <= 9; ++rows)
    for (const long columns : {1L, 7L, 16L, 17L, 33L, 64L, 70L, 130L})
      for (const long depth : {1L, 3L, 4L, 9L, 31L, 64L}) {
        check_linear(rows, columns, depth, columns % 2 != 0, false);
        check_linear(rows, columns, depth, false, false, static_cast<std::int8_t>(random_to(1, 127)));
      }
  check_linear(100, 40, 70, false, true, -128);
}

BOOST_AUTO_TEST_CASE(sums_of_extremes_are_exact) {
  check_linear(5, 40, 2000, true, true);
  check_linear(1, 10, 4097, false, true);
  check_linear(300, 150, 64, true, true);  // more rows than are packed together
  check_linear(33, 17, 260, false, true, 127);
  check_conv(sized({64, 9, 9, 8, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 1, true);
}

BOOST_AUTO_TEST_CASE(convolutions_of_random_windows) {
  for (int i = 0; i < 250; ++i) check_conv(random_window(9, 2), random_to(1, 3), i % 5 == 0);
  for (int i = 0; i < 150; ++i) check_conv(random_window(70, 7), random_to(1, 2), i % 5 == 0);
  // A single column, with strides that would skip others, and enough channels that the input is read in place.
  for (const long stride : {1L, 2L, 3L})
    check_conv(sized({96, 7, 1, 40, 0, 0, 1, 1, 1, stride, 0, 0, 1, 1, 1}), 1, false);
  // Rows that are a multiple of the stride are read in place too.
  check_conv(sized({96, 7, 6, 40, 0, 0, 1, 2, 1, 2, 0, 0, 1, 1, 1}), 1, false);
}

BOOST_AUTO_TEST_CASE(convolutions_with_two_weights_for_each_channel) {
  for (int i = 0; i < 150; ++i) {
    window w = random_window(i % 2 ? 9 : 70, 3);
    w.channels = 2 * w.groups * random_to(1, 4);
    check_conv(sized(w), random_to(1, 2), i % 5 == 0, 2);
  }
}

// Depthwise: all strides, dilations and paddings, in one band and in many, one filter and several per channel.
BOOST_AUTO_TEST_CASE(depthwise_convolutions) {
  for (int i = 0; i < 200; ++i) {
    window w{};
    do {
      w = random_window(9, 5);
      w.groups = w.channels = random_to(1, 5), w.out_channels = w.channels * random_to(1, 3);
      w.width = random_to(1, i % 7 ? 80 : 500), w.height = random_to(1, i % 7 ? 12 : 70);
    } while (!fits(w));
    check_conv(sized(w), random_to(1, 2), i % 5 == 0);
  }
  check_conv(sized({2, 40, 40, 2, 0, 0, 22, 23, 1, 1, 3, 3, 1, 1, 2}), 1, true);
}

// The same with channels that fill vector lanes, or not the last ones; rows of which a band holds many, or one.
BOOST_AUTO_TEST_CASE(depthwise_convolutions_of_many_channels) {
  for (int i = 0; i < 150; ++i) {
    window w{};
    do {
      w = random_window(9, 5);
      w.groups = w.channels = w.out_channels = random_to(9, 50);
      w.width = random_to(1, i % 7 ? 40 : 300), w.height = random_to(1, i % 7 ? 12 : 40);
    } while (!fits(w));
    check_conv(sized(w), random_to(1, 2), i % 5 == 0);
  }
  check_conv(sized({32, 56, 57, 32, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 32}), 1, false);
  check_conv(sized({20, 9, 1100, 20, 0, 0, 5, 7, 1, 1, 2, 3, 1, 1, 20}), 1, false);
}

// Maps that are split into bands, rows of pixels that are split, and patches.
BOOST_AUTO_TEST_CASE(convolutions_of_large_maps) {
  check_conv(sized({40, 50, 40, 9, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 1, false);
  check_conv(sized({40, 50, 40, 40, 0, 0, 3, 1, 2, 1, 1, 0, 1, 1, 1}), 1, false);
  check_conv(sized({1, 90, 700, 3, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 1, false);
  check_conv(sized({2, 3, 1500, 2, 0, 0, 2, 5, 1, 1, 1, 2, 1, 1, 2}), 2, false);
  check_conv(sized({3, 48, 64, 24, 0, 0, 16, 16, 16, 16, 0, 0, 1, 1, 1}), 1, false);
  check_conv(sized({5, 20, 20, 33, 0, 0, 1, 1, 3, 3, 0, 0, 1, 1, 1}), 2, false);
}

// 3x3 filters of stride 1 with many channels, in one band and in many; results of odd sizes have half tiles.
BOOST_AUTO_TEST_CASE(winograd_convolutions) {
  const auto of = [](long channels, long height, long width, long filters, long pad_h, long pad_w) {
    return sized({channels, height, width, filters, 0, 0, 3, 3, 1, 1, pad_h, pad_w, 1, 1, 1});
  };
  for (int i = 0; i < 60; ++i) {
    const long repeats = i % 4 ? 1 : 2;
    const window w = of(repeats * random_to(16, 40), random_to(14, 30), random_to(14, 60), random_to(16, 40),
                        random_to(0, 3), random_to(0, 3));
    if (kernel_test::tested() == isa::avx2 || kernel_test::tested() == isa::avx512)
      BOOST_TEST(functions().products[0].conv_order(&w) == conv_order_of_winograd);
    check_conv(w, random_to(1, 2), i % 5 == 0, repeats);
  }
  check_conv(of(200, 30, 29, 17, 1, 1), 1, false);
  check_conv(of(2048, 10, 17, 16, 1, 1), 1, true);
}

BOOST_AUTO_TEST_CASE(convolutions_of_nets) {
  check_conv(sized({1, 28, 28, 6, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}), 2, false);
  check_conv(sized({6, 14, 14, 16, 0, 0, 5, 5, 1, 1, 0, 0, 1, 1, 1}), 2, false);
  check_conv(sized({32, 7, 7, 32, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 32}), 1, false);
  check_conv(sized({6, 32, 32, 6, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1, 6}), 1, false);
  check_conv(sized({64, 14, 14, 50, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}), 2, true);
  check_conv(sized({3, 33, 35, 20, 0, 0, 7, 7, 2, 2, 3, 3, 1, 1, 1}), 1, false);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none_stay_in_range) {
  parameters p(16, 4, false);
  p.y_scale = 0;  // factors are infinite, and 0 times infinity is NaN
  for (auto& b : p.bias) b = 0;
  buffer<std::int8_t> x(4), y(16), w(64);
  for (auto& v : x) v = p.x_zero_point;
  fill(w, false);
  for (const int form : all_forms()) {
    const auto& f = functions().products[form];
    buffer<std::int8_t> packed(f.linear_packed_bytes(16, 4));
    const quantized_linear_pack_args pack{16, 4, 4, 1, w.data(), packed.data()};
    f.linear_pack(&pack, nullptr);
    const quantized_linear_args a{1, 16, 4, x.data(), 4, packed.data(), y.data(), 16, p.to, nullptr, false};
    buffer<std::byte> scratch(f.linear_scratch_bytes(&a));
    f.linear(&a, scratch.data());
    for (const auto v : y) BOOST_TEST(v == p.to.low);
  }
}

BOOST_AUTO_TEST_CASE(max_pool) {
  for (int k = 0; k < 300; ++k) {
    window w{};
    do {
      w = {};
      w.channels = w.out_channels = w.groups = random_to(1, 3);
      w.dilation_h = w.dilation_w = 1;
      w.kernel_h = random_to(1, 4), w.kernel_w = random_to(1, 4);
      w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
      w.pad_h = random_to(0, w.kernel_h / 2), w.pad_w = random_to(0, w.kernel_w / 2);
      w.height = random_to(1, 14), w.width = k % 20 ? random_to(1, 40) : random_to(400, 700);
    } while (!fits(w));
    w = sized(w);
    const long plane = w.height * w.width, results = w.out_height * w.out_width;
    buffer<std::int8_t> in(at(w.channels * plane), 1), out(at(w.channels * results), 1);
    buffer<std::int32_t> index(out.size());
    fill(in, k % 4 == 0);
    for (const bool with_index : {false, true}) {
      pool_args a{w, 1, in.data(), out.data(), with_index ? index.data() : nullptr, 1, 0};
      byte_images_of(kernel_test::tested()).max_pool(&a, nullptr);
      BOOST_TEST((out.guards_intact() && index.guards_intact()));
      for (long m = 0; m < w.channels; ++m)
        for (long r = 0; r < results; ++r) {
          int best = -128;
          long place = -1;
          for (long i = 0; i < w.kernel_h; ++i)
            for (long j = 0; j < w.kernel_w; ++j) {
              const long y = r / w.out_width * w.stride_h - w.pad_h + i, x = r % w.out_width * w.stride_w - w.pad_w + j;
              if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
              if (const int v = in[at(m * plane + y * w.width + x)]; place < 0 || v > best)
                best = v, place = y * w.width + x;
            }
          BOOST_REQUIRE(out[at(m * results + r)] == best);
          if (with_index) BOOST_REQUIRE(index[at(m * results + r)] == place);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(average_pool) {
  for (int k = 0; k < 300; ++k) {
    window w{};
    do {
      w = {};
      w.channels = w.out_channels = w.groups = random_to(1, 3);
      w.dilation_h = w.dilation_w = 1;
      w.height = random_to(1, 14), w.width = random_to(1, 40);
      const bool all = k % 3 == 0;
      w.kernel_h = all ? w.height : random_to(1, 4), w.kernel_w = all ? w.width : random_to(1, 4);
      w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
      if (!all) w.pad_h = random_to(0, w.kernel_h / 2), w.pad_w = random_to(0, w.kernel_w / 2);
    } while (!fits(w));
    w = sized(w);
    const long plane = w.height * w.width, results = w.out_height * w.out_width;
    buffer<std::int8_t> in(at(w.channels * plane), 1), out(at(w.channels * results), 1);
    fill(in, k % 4 == 0);
    // Equal scales, where ties are those of the mean, and different ones.
    const float x_scale = 0.02f, y_scale = k % 2 ? x_scale : 0.013f;
    const auto x_zero_point = static_cast<std::int8_t>(random_to(-128, 127)),
               y_zero_point = k % 2 ? x_zero_point : static_cast<std::int8_t>(random_to(-128, 127));
    const bool padding = random_to(0, 1) != 0;
    const quantized_average_args a{
        {w, 1, in.data(), out.data(), nullptr, padding, 0}, &x_scale, &y_scale, &x_zero_point, &y_zero_point};
    functions().average_pool(&a, nullptr);
    BOOST_TEST(out.guards_intact());
    for (long m = 0; m < w.channels; ++m)
      for (long r = 0; r < results; ++r) {
        long sum = 0, inside = 0;
        for (long i = 0; i < w.kernel_h; ++i)
          for (long j = 0; j < w.kernel_w; ++j) {
            const long y = r / w.out_width * w.stride_h - w.pad_h + i, x = r % w.out_width * w.stride_w - w.pad_w + j;
            if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
            sum += in[at(m * plane + y * w.width + x)] - x_zero_point, ++inside;
          }
        const long counted = padding ? w.kernel_h * w.kernel_w : std::max(inside, 1L);
        const float v = static_cast<float>(sum) * (x_scale / y_scale) / static_cast<float>(counted);
        const double expected = std::min(127., std::max(-128., static_cast<double>(std::nearbyint(v)) + y_zero_point));
        BOOST_REQUIRE(out[at(m * results + r)] == expected);
        if (k % 2 && inside == counted) {  // the mean, rounded once
          const double exact = std::nearbyint(static_cast<double>(sum) / static_cast<double>(counted));
          BOOST_REQUIRE(out[at(m * results + r)] == exact + x_zero_point);
        }
      }
  }
}

// Sums and products of two tensors; the second is repeated in rows or has one number for each.
BOOST_AUTO_TEST_CASE(sums_and_products_of_two) {
  for (long n = 0; n < 140; ++n)
    for (const bool sum : {true, false}) {
      const long rows = n % 4 == 3 ? 3 : 1, b_step = n % 8 == 7 ? 0 : 1, b_row = n % 8 == 3 ? 0 : b_step ? n : 1;
      buffer<std::int8_t> a(at(rows * n), 1), b(at(std::max(rows, 1L) * std::max(n, 1L)), 2), y(at(rows * n), 1);
      fill(a, n % 5 == 0), fill(b, n % 5 == 0);
      const float scales[3] = {0.01f * static_cast<float>(random_to(1, 9)), 0.02f, n % 3 ? 0.025f : 0.02f};
      const std::int8_t zero_points[3] = {static_cast<std::int8_t>(random_to(-128, 127)),
                                          static_cast<std::int8_t>(random_to(-128, 127)),
                                          static_cast<std::int8_t>(random_to(-128, 127))};
      const std::int32_t low = n % 2 ? zero_points[2] : -128, high = std::max<std::int32_t>(low, n % 7 ? 127 : 90);
      const quantized_add_args args{
          rows,       n,          b_row,           b_step,          a.data(),        b.data(), y.data(), &scales[0],
          &scales[1], &scales[2], &zero_points[0], &zero_points[1], &zero_points[2], low,      high};
      (sum ? functions().add : functions().multiply)(&args, nullptr);
      BOOST_TEST(y.guards_intact());
      for (std::size_t i = 0; i < at(rows * n); ++i) {
        const long r = static_cast<long>(i) / n, c = static_cast<long>(i) % n;
        const int x = a[i] - zero_points[0], z = b[at(r * b_row + c * b_step)] - zero_points[1];
        const float both =
            sum ? static_cast<float>(x) * (scales[0] / scales[2]) + static_cast<float>(z) * (scales[1] / scales[2])
                : static_cast<float>(x * z) * (scales[0] * scales[1] / scales[2]);
        const double expected = static_cast<double>(std::nearbyint(both)) + zero_points[2];
        BOOST_REQUIRE(y[i] == std::min<double>(std::max<double>(expected, low), high));
      }
    }
}

// x as the kernel rounds it: 16 bits with a scale for each block.
double rounded_in_block(const float* x, long depth, long block, long k, double& step) {
  const long begin = k / block * block, end = std::min(depth, begin + block);
  float max = 0;
  for (long i = begin; i < end; ++i) max = std::max(max, std::abs(x[i]));
  step = static_cast<double>(max) / 32512;
  return max == 0 ? 0
                  : static_cast<double>(std::nearbyint(x[k] * (32512.f / max))) * static_cast<double>(max / 32512.f);
}

// Rounds the rows in two parts, then multiplies them.
void run_block_linear(block_linear_args& a, const float* x, long depth, int bits, int form) {
  block_rows_args rows{a.rows, depth, a.block, a.blocks, 0, (a.rows + 1) / 2, x, nullptr};
  buffer<std::byte> rounded(functions().block_rows_bytes(&rows)), scratch(functions().block_linear_scratch_bytes(&a));
  a.rounded = rows.rounded = rounded.data();
  functions().block_rows[form][bits == 8](&rows, nullptr);
  rows.first = rows.count, rows.x = x + rows.first * depth, rows.count = a.rows - rows.first;
  functions().block_rows[form][bits == 8](&rows, nullptr);
  functions().block_linear[form][bits == 8](&a, scratch.data());
  BOOST_TEST((rounded.guards_intact() && scratch.guards_intact()));
}

BOOST_AUTO_TEST_CASE(weights_of_4_and_8_bits_in_blocks) {
  for (const int bits : {4, 8})
    for (const long rows : {1L, 3L, 4L, 9L})
      for (const long block : {16L, 32L, 48L, 64L, 128L})
        for (const long depth : {1L, 16L, 33L, 130L, 300L})
          for (const bool one : {false, true})
            for (int form = 0; form < forms(); ++form) {
              const long columns = 7, blocks = (depth + block - 1) / block, bytes = block * bits / 8;
              buffer<float> x(at(rows * depth), 1), scale(at(columns * blocks)),
                  zero_point(at(one ? 1 : columns * blocks)), y(at(rows * columns), 1);
              buffer<std::uint8_t> w(at(columns * blocks * bytes), 1);
              for (auto& v : x) v = static_cast<float>(random_to(-10000, 10000)) / 6400;
              for (auto& v : w) v = static_cast<std::uint8_t>(random_to(0, 255));
              for (auto& v : scale) v = static_cast<float>(random_to(1, 64)) / 1024;
              for (auto& v : zero_point) v = static_cast<float>(random_to(0, bits == 4 ? 15 : 255));
              block_linear_args a{rows,         columns,           block,       blocks,   nullptr, w.data(),
                                  scale.data(), zero_point.data(), one ? 0 : 1, y.data(), columns};
              run_block_linear(a, x.data(), depth, bits, form);
              BOOST_TEST(y.guards_intact());
              for (long i = 0; i < rows; ++i)
                for (long o = 0; o < columns; ++o) {
                  double sum = 0, exact = 0, size = 0, bound = 0;
                  for (long k = 0; k < depth; ++k) {
                    const long b = o * blocks + k / block;
                    const int byte = w[at(b * bytes + k % block * bits / 8)];
                    const int q = bits == 8 ? byte : k % 2 ? byte >> 4 : byte & 15;
                    const double weight = static_cast<double>(static_cast<float>(q) - zero_point[at(one ? 0 : b)]) *
                                          static_cast<double>(scale[at(b)]);
                    double step = 0;
                    sum += rounded_in_block(x.data() + i * depth, depth, block, k, step) * weight;
                    exact += static_cast<double>(x[at(i * depth + k)]) * weight;
                    // Zero points are subtracted from sums, not from weights.
                    size += std::abs(static_cast<double>(x[at(i * depth + k)] * scale[at(b)])) *
                            static_cast<double>(static_cast<float>(q) + zero_point[at(one ? 0 : b)]);
                    bound += step / 2 * std::abs(weight);
                  }
                  const auto result = static_cast<double>(y[at(i * columns + o)]);
                  BOOST_REQUIRE(std::abs(result - sum) <= 2e-6 * size + 1e-6);
                  BOOST_REQUIRE(std::abs(result - exact) <= bound + 2e-6 * size + 1e-6);
                  if (i == rows - 1 && rows > 1) {  // a row computed alone has the same bits
                    buffer<float> single(at(columns));
                    auto alone = a;
                    alone.rows = 1, alone.y = single.data();
                    run_block_linear(alone, x.data() + i * depth, depth, bits, form);
                    BOOST_REQUIRE(single[at(o)] == y[at(i * columns + o)]);
                  }
                }
            }
}

BOOST_AUTO_TEST_CASE(rows_that_are_not_finite_or_tiny_stay_alone_with_weights_in_blocks) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int bits : {4, 8})
    for (int form = 0; form < forms(); ++form) {
      const long rows = 5, columns = 3, depth = 70, block = 32, blocks = 3;
      buffer<float> x(at(rows * depth)), scale(at(columns * blocks)), y(at(rows * columns));
      buffer<std::uint8_t> w(at(columns * blocks * block * bits / 8));
      const float zero_point = 3;
      for (auto& v : w) v = 0x55;
      for (auto& v : scale) v = 1;
      for (long k = 0; k < depth; ++k) x[at(k)] = 1, x[at(3 * depth + k)] = 0x1p-120f, x[at(4 * depth + k)] = 0x1p100f;
      x[at(depth + 33)] = std::numeric_limits<float>::quiet_NaN(), x[at(2 * depth + 69)] = -infinity;
      block_linear_args a{rows,         columns,     block, blocks,   nullptr, w.data(),
                          scale.data(), &zero_point, 0,     y.data(), columns};
      run_block_linear(a, x.data(), depth, bits, form);
      const float sum = static_cast<float>(depth) * (bits == 4 ? 2 : 82);
      for (long o = 0; o < columns; ++o) {
        BOOST_TEST(y[at(o)] == sum, boost::test_tools::tolerance(1e-6f));
        BOOST_TEST(std::isnan(y[at(columns + o)]));
        BOOST_TEST(std::isnan(y[at(2 * columns + o)]));
        BOOST_TEST(std::abs(y[at(3 * columns + o)]) <= 0x1p-100f * sum);
        BOOST_TEST(y[at(4 * columns + o)] == 0x1p100f * sum, boost::test_tools::tolerance(1e-6f));
      }
    }
}

BOOST_AUTO_TEST_CASE(tables) {
  buffer<std::int8_t> table(256);
  fill(table, false);
  for (long n = 0; n < 70; ++n) {
    buffer<std::int8_t> in(at(n), 1), out(at(n), 1);
    fill(in, n % 5 == 0);
    const quantized_table_args args{n, in.data(), table.data(), out.data()};
    functions().table(&args, nullptr);
    BOOST_TEST(out.guards_intact());
    for (std::size_t i = 0; i < at(n); ++i) BOOST_REQUIRE(out[i] == table[at(in[i] + 128)]);
  }
}

BOOST_AUTO_TEST_CASE(integer_sums_of_both_orders_of_weights) {
  for (const long rows : {1L, 5L, 50L})
    for (const long columns : {1L, 7L, 16L, 33L, 70L})
      for (const long depth : {1L, 3L, 31L, 64L, 200L})
        for (const bool by_rows : {false, true}) {
          buffer<std::int8_t> x(at(rows * depth), 1), w(at(columns * depth), 1);
          fill(x, depth == 200), fill(w, depth == 200);
          const auto zero_point = static_cast<std::int8_t>(random_to(-128, 127));
          const long w_column = by_rows ? 1 : depth, w_depth = by_rows ? columns : 1;
          for (const int form : all_forms()) {
            const auto& f = functions().products[form];
            if (!f.sums) continue;
            buffer<std::int8_t> packed(f.linear_packed_bytes(columns, depth));
            pack_weights(f.linear_pack,
                         quantized_linear_pack_args{columns, depth, w_column, w_depth, w.data(), nullptr}, packed);
            buffer<std::int32_t> y(at(rows * columns), 1);
            const auto w_zero_point = static_cast<std::int8_t>(depth == 31 ? 0 : random_to(-128, 127));
            const bool has_w_zero_point = depth != 3;
            const integer_linear_args a{rows,     columns, depth,       x.data(),      depth,           packed.data(),
                                        y.data(), columns, &zero_point, &w_zero_point, has_w_zero_point};
            quantized_linear_args size{};
            size.rows = rows, size.columns = columns, size.depth = depth, size.has_w_zero_point = has_w_zero_point;
            buffer<std::byte> scratch(f.linear_scratch_bytes(&size));
            f.sums(&a, scratch.data());
            BOOST_TEST((y.guards_intact() && scratch.guards_intact() && packed.guards_intact()));
            for (long i = 0; i < rows; ++i)
              for (long o = 0; o < columns; ++o) {
                long sum = 0;
                for (long k = 0; k < depth; ++k)
                  sum += (x[at(i * depth + k)] - zero_point) *
                         (w[at(o * w_column + k * w_depth)] - (has_w_zero_point ? w_zero_point : 0));
                BOOST_REQUIRE(y[at(i * columns + o)] == sum);
              }
          }
        }
}

BOOST_AUTO_TEST_SUITE_END()
