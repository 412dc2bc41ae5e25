// Kernels of quantized images in channel blocks against scalar loops, bit by bit, where the machine has them.
#include "quantized_reference.h"

using namespace quantized_reference;
using conv_reference::fits;
using conv_reference::name;
using conv_reference::sized;

namespace {

const quantized_blocked_functions* blocks() { return functions().blocked; }
/// The product forms whose convolutions the machine can run.
std::vector<const quantized_blocked_convolutions*> convolutions() {
  std::vector<const quantized_blocked_convolutions*> all;
  if (const auto* f = blocks()) {
    if (functions().form_without_amx() == 1) all.push_back(&f->convolutions[1]);
    all.push_back(&f->convolutions[2]);
    if (functions().form() == quantized_form_of_amx) all.push_back(&f->convolutions[quantized_form_of_amx]);
  }
  return all;
}

const long block = lanes(kernel_test::tested());
long padded(long channels) { return (channels + block - 1) / block * block; }

/// [images, channels, pixels] in channel blocks, each number plus 128; arbitrary numbers in the padding channels.
buffer<std::int8_t> in_blocks(const std::int8_t* plain, long images, long channels, long pixels) {
  buffer<std::int8_t> to(at(images * padded(channels) * pixels), 1);
  for (auto& v : to) v = static_cast<std::int8_t>(random_to(-128, 127));
  for (long n = 0; n < images; ++n)
    for (long c = 0; c < channels; ++c)
      for (long p = 0; p < pixels; ++p)
        to[at(((n * padded(channels) + c / block * block) * pixels) + p * block + c % block)] =
            static_cast<std::int8_t>(plain[(n * channels + c) * pixels + p] ^ -128);
  return to;
}
std::vector<std::int8_t> in_plain(const std::int8_t* blocked, long images, long channels, long pixels) {
  std::vector<std::int8_t> to;
  for (long n = 0; n < images; ++n)
    for (long c = 0; c < channels; ++c)
      for (long p = 0; p < pixels; ++p)
        to.push_back(static_cast<std::int8_t>(
            blocked[((n * padded(channels) + c / block * block) * pixels) + p * block + c % block] ^ -128));
  return to;
}

/// A tensor that is added to results.
struct addend {
  float a_scale = 0.04f, scale = 0.03f, sum_scale = 0.05f;
  std::int8_t a_zero_point = static_cast<std::int8_t>(random_to(-128, 127)),
              zero_point = static_cast<std::int8_t>(random_to(-128, 127)),
              sum_zero_point = static_cast<std::int8_t>(random_to(-128, 127));
  std::int32_t low = random_to(0, 1) ? sum_zero_point : -128,
               high = std::max<std::int32_t>(low, random_to(0, 2) ? 127 : 80);
  std::int8_t sum(std::int8_t a, std::int8_t b) const {
    const float v = static_cast<float>(a - a_zero_point) * (a_scale / sum_scale) +
                    static_cast<float>(b - zero_point) * (scale / sum_scale);
    const double whole = static_cast<double>(std::nearbyint(v)) + sum_zero_point;
    return static_cast<std::int8_t>(std::min<double>(std::max<double>(whole, low), high));
  }
};

/// `bits`: of weights.
void check_conv(const quantized_blocked_convolutions* f, const window& w, long images, bool extreme, bool plain_in,
                bool adds, int bits) {
  BOOST_TEST_CONTEXT(name(w) << "images " << images << " plain " << plain_in << " adds " << adds << " bits " << bits) {
    const long depth = w.channels / w.groups * w.kernel_h * w.kernel_w, pixels = w.out_height * w.out_width;
    const parameters p(w.out_channels, depth, true);
    buffer<std::int8_t> in(at(images * w.channels * w.height * w.width), 1), weight(at(w.out_channels * depth), 1),
        other(at(images * w.out_channels * pixels), 1);
    fill(in, extreme), fill(weight, extreme), fill(other, extreme);
    for (auto& v : weight) v = static_cast<std::int8_t>(v >> (8 - bits));
    auto expected = convolved(w, images, w.channels / w.groups, in, weight, p).results;
    const addend more;
    for (std::size_t i = 0; adds && i < expected.size(); ++i) expected[i] = more.sum(expected[i], other[i]);

    BOOST_REQUIRE(f->supports(&w, plain_in));
    const auto blocked = in_blocks(in.data(), images, w.channels, w.height * w.width),
               added = in_blocks(other.data(), images, w.out_channels, pixels);
    buffer<std::int8_t> packed(f->packed_bytes(&w, plain_in)), out(at(images * padded(w.out_channels) * pixels), 1);
    pack_weights(f->pack, quantized_blocked_pack_args{w, weight.data(), nullptr, plain_in}, packed);
    for (auto& v : out) v = 77;
    const long all = padded(w.out_channels) / block;
    quantized_blocked_args a{};
    a.w = w, a.first = 0, a.count = images, a.blocks = all, a.rows = w.out_height, a.plain_in = plain_in;
    a.in = plain_in ? in.data() : blocked.data(), a.packed = packed.data(), a.out = out.data(), a.to = p.to;
    if (adds) {
      a.a_scale = &more.a_scale, a.a_zero_point = &more.a_zero_point;
      a.b = added.data(), a.b_scale = &more.scale, a.b_zero_point = &more.zero_point;
      a.sum_scale = &more.sum_scale, a.sum_zero_point = &more.sum_zero_point, a.sum_low = more.low,
      a.sum_high = more.high;
    }
    buffer<std::byte> scratch(f->scratch_bytes(&a));
    const auto run = [&] { f->conv(&a, scratch.data()); };
    a.count = 1;
    if (images > 1) run(), a.first = 1, a.count = images - 1;  // in two calls
    const long cut = random_to(0, w.out_height - 1), first = random_to(0, all - 1);
    a.first_row = cut, a.rows = w.out_height - cut;
    run();
    a.first_row = 0, a.rows = cut;
    if (a.first_block = first, a.blocks = all - first; cut) run();
    if (a.first_block = 0, a.blocks = first; cut && first) run();
    const auto got = in_plain(out.data(), images, w.out_channels, pixels);
    BOOST_TEST(kernel_test::same_bits(got.data(), expected.data(), expected.size()));
    BOOST_TEST((out.guards_intact() && scratch.guards_intact()));
    // From copies of the images, which parts by channels share.
    const std::size_t image = f->join ? f->joined_bytes(&w, plain_in) : 0;
    if (image == 0) return;
    buffer<std::int8_t> copies(at(images) * image, 1);
    quantized_join_args join{w, blocked.data(), p.to.x_zero_point, copies.data(), 0, 1};
    for (; join.first < images * f->joined_maps(&w, plain_in); ++join.first) f->join(&join, nullptr);
    BOOST_TEST(copies.guards_intact());
    for (auto& v : out) v = 77;
    a.joined_in = 1, a.in = copies.data();
    a.first = 0, a.count = images, a.rows = w.out_height;
    if (a.first_block = 0, a.blocks = first; first) run();
    a.first_block = first, a.blocks = all - first;
    run();
    const auto again = in_plain(out.data(), images, w.out_channels, pixels);
    BOOST_TEST(kernel_test::same_bits(again.data(), expected.data(), expected.size()));
    BOOST_TEST((out.guards_intact() && scratch.guards_intact()));
  }
}

void check_conv(const window& w, long images, bool extreme, bool plain_in, bool adds) {
  for (const auto* f : convolutions())
    for (const long bits : {8L, 7L, random_to(4, 6)})
      check_conv(f, w, images, extreme, plain_in, adds, static_cast<int>(bits));
}

window random_window(long max_channels) {
  for (;;) {
    window w{};
    w.groups = 1;
    w.channels = random_to(1, max_channels), w.out_channels = random_to(1, 70);
    w.kernel_h = random_to(1, 5), w.kernel_w = random_to(1, 5);
    w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
    w.pad_h = random_to(0, w.kernel_h - 1), w.pad_w = random_to(0, w.kernel_w - 1);
    w.dilation_h = random_to(1, 3), w.dilation_w = random_to(1, 3);
    w.height = random_to(1, 12), w.width = random_to(1, 30);
    if (random_to(0, 2) == 0) w.more_h = random_to(0, 1), w.more_w = random_to(0, 1);
    if (fits(w)) return sized(w);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quantized_blocked)

BOOST_AUTO_TEST_CASE(convolutions_of_random_windows) {
  for (int i = 0; i < 300; ++i) check_conv(random_window(i % 3 ? 70 : 150), random_to(1, 3), i % 5 == 0, false, i % 2);
  for (int i = 0; i < 150; ++i) check_conv(random_window(8), random_to(1, 3), i % 5 == 0, true, i % 3 == 0);
}

// Depthwise: with strides, dilations and paddings, in one band and in many.
BOOST_AUTO_TEST_CASE(depthwise_convolutions) {
  for (int i = 0; i < 300; ++i) {
    window w{};
    do {
      w = random_window(8);
      w.groups = w.channels = w.out_channels = random_to(2, 50);
      w.kernel_h = random_to(1, 3 + i % 6), w.kernel_w = i % 2 ? w.kernel_h : random_to(1, 9);
      w.stride_w = random_to(1, 2);
      if (w.stride_w == 2) w.dilation_w = 1;
      w.height = random_to(1, i % 9 ? 12 : 60), w.width = random_to(1, i % 9 ? 30 : 150);
    } while (!fits(w));
    check_conv(sized(w), random_to(1, 2), i % 5 == 0, false, i % 3 == 0);
  }
  const window strided = sized({6, 9, 9, 6, 0, 0, 3, 3, 1, 3, 1, 1, 1, 1, 6});
  for (const auto* f : convolutions()) BOOST_TEST(!f->supports(&strided, 0));
}

BOOST_AUTO_TEST_CASE(convolutions_of_nets) {
  check_conv(sized({64, 14, 14, 50, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}), 2, true, false, true);
  check_conv(sized({40, 50, 40, 40, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 1, true, false, false);
  check_conv(sized({130, 7, 7, 33, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1, 1}), 2, false, false, true);
  check_conv(sized({3, 33, 35, 20, 0, 0, 7, 7, 2, 2, 3, 3, 1, 1, 1}), 1, false, true, false);
  check_conv(sized({1, 28, 28, 16, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}), 2, true, true, false);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none_stay_in_range) {
  const window w = sized({16, 2, 3, 16, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1});
  for (const auto* f : convolutions()) {
    parameters p(16, 16, false);
    p.y_scale = 0;  // factors are infinite, and 0 times infinity is NaN
    for (auto& b : p.bias) b = 0;
    buffer<std::int8_t> x(96, 1), y(96, 1), weight(256), packed(f->packed_bytes(&w, 0));
    for (auto& v : x) v = static_cast<std::int8_t>(p.x_zero_point ^ -128);
    fill(weight, false);
    pack_weights(f->pack, quantized_blocked_pack_args{w, weight.data(), nullptr, 0}, packed);
    quantized_blocked_args a{};
    a.w = w, a.count = 1, a.blocks = 16 / block, a.rows = 2, a.in = x.data(), a.packed = packed.data(),
    a.out = y.data(), a.to = p.to;
    buffer<std::byte> scratch(f->scratch_bytes(&a));
    f->conv(&a, scratch.data());
    for (const auto v : y) BOOST_TEST(static_cast<std::int8_t>(v ^ -128) == p.to.low);
  }
}

BOOST_AUTO_TEST_CASE(into_blocks_and_back) {
  const auto* f = blocks();
  if (!f) return;
  for (const long images : {1L, 3L})
    for (const long channels : {1L, 7L, 16L, 33L})
      for (long pixels = 1; pixels < 70; pixels += pixels < 20 ? 1 : 7) {
        buffer<std::int8_t> plain(at(images * channels * pixels), 1),
            blocked(at(images * padded(channels) * pixels), 1);
        fill(plain, false);
        const reorder_args there{plain.data(), blocked.data(), images, channels, pixels};
        byte_images_of(kernel_test::tested()).to_blocked(&there, nullptr);
        const auto seen = in_plain(blocked.data(), images, channels, pixels);
        BOOST_TEST(kernel_test::same_bits(seen.data(), std::as_const(plain).data(), seen.size()));
        buffer<std::int8_t> again(plain.size(), 1);
        const reorder_args back{blocked.data(), again.data(), images, channels, pixels};
        byte_images_of(kernel_test::tested()).from_blocked(&back, nullptr);
        BOOST_TEST(kernel_test::same_bits(std::as_const(again).data(), seen.data(), seen.size()));
        BOOST_TEST((blocked.guards_intact() && again.guards_intact()));
      }
}

// Pools and elementwise operations give the same results as on plain images.
BOOST_AUTO_TEST_CASE(pools) {
  const auto* f = blocks();
  if (!f) return;
  for (int k = 0; k < 300; ++k) {
    window w{};
    do {
      w = random_window(40);
      w.groups = w.out_channels = w.channels;
      w.dilation_h = w.dilation_w = 1;
      if (k % 3 == 0) w.kernel_h = w.height, w.kernel_w = w.width, w.pad_h = w.pad_w = w.more_h = w.more_w = 0;
      else w.pad_h = std::min(w.pad_h, w.kernel_h / 2), w.pad_w = std::min(w.pad_w, w.kernel_w / 2);
    } while (!fits(w));
    w = sized(w);
    const long images = random_to(1, 2), pixels = w.height * w.width, results = w.out_height * w.out_width;
    buffer<std::int8_t> in(at(images * w.channels * pixels), 1), plain(at(images * w.channels * results), 1),
        out(at(images * padded(w.channels) * results), 1);
    fill(in, k % 4 == 0);
    const auto blocked = in_blocks(in.data(), images, w.channels, pixels);
    const float x_scale = 0.02f, y_scale = k % 2 ? x_scale : 0.013f;
    const auto x_zero_point = static_cast<std::int8_t>(random_to(-128, 127)),
               y_zero_point = static_cast<std::int8_t>(random_to(-128, 127));
    const bool padding = random_to(0, 1) != 0;
    pool_args of_plain{w, images, in.data(), plain.data(), nullptr, padding, 0}, of_blocks = of_plain;
    of_blocks.in = blocked.data(), of_blocks.out = out.data();
    for (const bool maximum : {true, false}) {
      const quantized_average_args there{of_plain, &x_scale, &y_scale, &x_zero_point, &y_zero_point},
          here{of_blocks, &x_scale, &y_scale, &x_zero_point, &y_zero_point};
      const auto& moving = byte_images_of(kernel_test::tested());
      if (maximum) moving.max_pool(&of_plain, nullptr), moving.max_pool_blocked(&of_blocks, nullptr);
      else functions().average_pool(&there, nullptr), f->average_pool(&here, nullptr);
      const auto got = in_plain(out.data(), images, w.channels, results);
      BOOST_TEST(kernel_test::same_bits(got.data(), std::as_const(plain).data(), got.size()));
      BOOST_TEST(out.guards_intact());
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_and_tables) {
  const auto* f = blocks();
  if (!f) return;
  for (long pixels = 1; pixels < 40; ++pixels) {
    const long channels = 20, n = channels * pixels;
    buffer<std::int8_t> a(at(n)), b(at(n)), plain(at(n)), out(at(padded(channels) * pixels), 1), table(256);
    fill(a, pixels % 5 == 0), fill(b, pixels % 5 == 0), fill(table, false);
    const auto a_blocks = in_blocks(a.data(), 1, channels, pixels), b_blocks = in_blocks(b.data(), 1, channels, pixels);
    const float scales[3] = {0.01f * static_cast<float>(random_to(1, 9)), 0.02f, 0.025f};
    const std::int8_t zero_points[3] = {static_cast<std::int8_t>(random_to(-128, 127)),
                                        static_cast<std::int8_t>(random_to(-128, 127)),
                                        static_cast<std::int8_t>(random_to(-128, 127))};
    const std::int32_t low = pixels % 2 ? zero_points[2] : -128,
                       high = std::max<std::int32_t>(low, pixels % 7 ? 127 : 90);
    quantized_add_args args{1,
                            n,
                            n,
                            1,
                            a.data(),
                            b.data(),
                            plain.data(),
                            &scales[0],
                            &scales[1],
                            &scales[2],
                            &zero_points[0],
                            &zero_points[1],
                            &zero_points[2],
                            low,
                            high};
    functions().add(&args, nullptr);
    args.count = args.b_row = padded(channels) * pixels;
    args.a = a_blocks.data(), args.b = b_blocks.data(), args.y = out.data();
    f->add(&args, nullptr);
    auto got = in_plain(out.data(), 1, channels, pixels);
    BOOST_TEST(kernel_test::same_bits(got.data(), std::as_const(plain).data(), got.size()));
    const quantized_table_args of_plain{n, a.data(), table.data(), plain.data()},
        of_blocks{padded(channels) * pixels, a_blocks.data(), table.data(), out.data()};
    functions().table(&of_plain, nullptr), f->table(&of_blocks, nullptr);
    got = in_plain(out.data(), 1, channels, pixels);
    BOOST_TEST(kernel_test::same_bits(got.data(), std::as_const(plain).data(), got.size()));
    BOOST_TEST(out.guards_intact());
  }
}

BOOST_AUTO_TEST_SUITE_END()
