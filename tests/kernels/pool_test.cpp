// Pooling in both layouts against scalar loops: windows of every kind, indices, gradients, NaN, padding.
#include "conv_reference.h"

using namespace lamina::kernels;
using namespace conv_reference;
using kernel_test::buffer;

namespace {

const conv_functions& functions() { return conv_of(kernel_test::tested()); }
const pool_functions& maxima() { return max_pool_of(kernel_test::tested()); }
const pool_functions& averages() { return average_pool_of(kernel_test::tested()); }
long lane_count() { return lanes(kernel_test::tested()); }

std::mt19937& generator() {
  static std::mt19937 value(11);
  return value;
}
long random_to(long least, long max) { return std::uniform_int_distribution<long>(least, max)(generator()); }

struct pixel_range {
  long top, bottom, left, right, padded;
};
pixel_range range_of(const window& w, long y, long x) {
  const long top = y * w.stride_h - w.pad_h, left = x * w.stride_w - w.pad_w;
  const long bottom = top + w.kernel_h, right = left + w.kernel_w;
  const long padded = (std::min(bottom, w.height + w.pad_h) - top) * (std::min(right, w.width + w.pad_w) - left);
  return {std::max(top, 0L), std::min(bottom, w.height), std::max(left, 0L), std::min(right, w.width), padded};
}

/// Calls use(result, range) for every result of one map.
template <class Use> void each_result(const window& w, Use use) {
  for (long y = 0; y < w.out_height; ++y)
    for (long x = 0; x < w.out_width; ++x) use(y * w.out_width + x, range_of(w, y, x));
}

template <class T> struct maps {
  window w;
  long images, count, plane, results;
  std::vector<T> in, gradient;
  std::vector<T> best;
  std::vector<std::int32_t> place;
  std::vector<double> best_gradient, mean, mean_gradient;

  maps(const window& sizes, long n, bool count_padding, bool ties)
      : w(sizes),
        images(n),
        count(n * w.channels),
        plane(w.height * w.width),
        results(w.out_height * w.out_width),
        in(at(count * plane)),
        gradient(at(count * results)),
        best(at(count * results)),
        place(at(count * results)),
        best_gradient(at(count * plane)),
        mean(at(count * results)),
        mean_gradient(at(count * plane)) {
    kernel_test::fill_uniform(in, generator());
    if (ties)
      for (auto& x : in) x = std::round(x * 2);
    kernel_test::fill_uniform(gradient, generator());
    for (long m = 0; m < count; ++m)
      each_result(w, [&](long r, pixel_range p) {
        const long here = m * results + r;
        T largest = 0;
        double sum = 0;
        long where = -1;
        for (long i = p.top; i < p.bottom; ++i)
          for (long j = p.left; j < p.right; ++j) {
            const T v = in[at(m * plane + i * w.width + j)];
            if (where < 0 || v > largest) largest = v, where = i * w.width + j;
            sum += v;
          }
        const double divisor = static_cast<double>(count_padding ? p.padded : (p.bottom - p.top) * (p.right - p.left));
        best[at(here)] = largest;
        place[at(here)] = static_cast<std::int32_t>(where);
        mean[at(here)] = sum / divisor;
        best_gradient[at(m * plane + where)] += gradient[at(here)];
        for (long i = p.top; i < p.bottom; ++i)
          for (long j = p.left; j < p.right; ++j)
            mean_gradient[at(m * plane + i * w.width + j)] += gradient[at(here)] / divisor;
      });
  }
};

template <class T> bool near(const buffer<T>& actual, const std::vector<double>& expected, double scale) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(static_cast<double>(actual[i]) - expected[i]) <= scale * std::numeric_limits<T>::epsilon()))
      return false;
  return true;
}

template <class T> void check(const window& w, long images, bool count_padding, bool ties) {
  constexpr int type = std::is_same_v<T, float> ? 0 : 1;
  const maps<T> x(w, images, count_padding, ties);
  BOOST_TEST_CONTEXT(name(w) << "images " << images << " padding " << count_padding << " ties " << ties) {
    buffer<T> out(x.best.size(), 1), back(x.in.size(), 1);
    buffer<std::int32_t> index(x.best.size(), 1);
    pool_args a{w, images, x.in.data(), out.data(), index.data(), count_padding, 0};
    maxima().of(w, type, true)(&a, nullptr);
    BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), x.best.data(), x.best.size()));
    BOOST_TEST(kernel_test::same_bits(std::as_const(index).data(), x.place.data(), x.place.size()));
    BOOST_TEST(index.guards_intact());
    for (auto& v : out) v = 77;
    a.index = nullptr;
    maxima().of(w, type, false)(&a, nullptr);
    BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), x.best.data(), x.best.size()));
    for (auto& v : back) v = 77;
    std::int64_t invalid[3] = {};
    pool_grad_args g{w, images, x.gradient.data(), x.place.data(), back.data(), invalid, count_padding, 0};
    max_pool_grad_of(kernel_test::tested()).of[type](&g, nullptr);
    BOOST_TEST(invalid[0] == 0);
    BOOST_TEST(near(back, x.best_gradient, 100));
    BOOST_TEST(back.guards_intact());

    averages().of(w, type, false)(&a, nullptr);
    BOOST_TEST(near(out, x.mean, 100));
    BOOST_TEST(out.guards_intact());
    for (auto& v : back) v = 77;
    g.index = nullptr;
    average_pool_grad_of(kernel_test::tested()).of[type](&g, nullptr);
    BOOST_TEST(near(back, x.mean_gradient, 100));
    BOOST_TEST(back.guards_intact());
  }
}

void check_blocked(const window& w, long images, bool count_padding) {
  const maps<float> x(w, images, count_padding, false);
  const auto& f = functions();
  const long l = lane_count(), blocks = (w.channels + l - 1) / l;
  std::vector<float> in(at(images * blocks * l * x.plane));
  buffer<float> out(at(images * blocks * l * x.results)), plain(x.best.size());
  reorder_args to{x.in.data(), in.data(), images, w.channels, x.plane};
  f.to_blocked(&to, nullptr);
  const auto result = [&](kernel run) {
    pool_args a{w, images, in.data(), out.data(), nullptr, count_padding, 0};
    run(&a, nullptr);
    reorder_args from{out.data(), plain.data(), images, w.channels, x.results};
    f.from_blocked(&from, nullptr);
  };
  BOOST_TEST_CONTEXT(name(w) << "images " << images << " padding " << count_padding) {
    result(maxima().blocked);
    BOOST_TEST(kernel_test::same_bits(std::as_const(plain).data(), x.best.data(), x.best.size()));
    result(averages().blocked);
    BOOST_TEST(near(plain, x.mean, 100));
    BOOST_TEST(out.guards_intact());
    long beyond = 0;
    for (long n = 0; n < images; ++n)
      for (long c = w.channels; c < blocks * l; ++c)
        for (long p = 0; p < x.results; ++p) beyond += out[at(((n * blocks + c / l) * x.results + p) * l + c % l)] != 0;
    BOOST_TEST(beyond == 0);
  }
}

window random_window() {
  for (;;) {
    window w{};
    w.channels = w.out_channels = w.groups = random_to(1, 5);
    w.dilation_h = w.dilation_w = 1;
    w.kernel_h = random_to(1, 5), w.kernel_w = random_to(1, 5);
    w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
    w.pad_h = random_to(0, w.kernel_h / 2), w.pad_w = random_to(0, w.kernel_w / 2);
    w.height = random_to(1, 14), w.width = random_to(1, 40);
    if (fits(w)) return sized(w);
  }
}

window pairs(long height, long width) { return sized({3, height, width, 3, 0, 0, 2, 2, 2, 2, 0, 0, 1, 1, 3}); }

// Gathers the lanes of a block from blocks of several images, in any order, some of them empty.
template <class T> void check_channel_block(lamina::kernels::kernel run, int blocks, long pixels, long images) {
  const long lanes = lane_count();
  std::vector<std::vector<T>> in;
  channel_block_args a{};
  const long out_image = 2 * lanes * pixels;
  std::vector<T> out(at(images * out_image), T(77));
  for (int k = 0; k < blocks; ++k) {
    a.in_image[k] = (k + 1) * lanes * pixels;
    in.emplace_back(at(images * a.in_image[k]));
    for (auto& x : in.back()) x = static_cast<T>(random_to(-100, 100));
    a.in[k] = in.back().data() + k * lanes * pixels;
  }
  a.out = out.data() + lanes * pixels;
  a.out_image = out_image;
  a.images = images, a.pixels = pixels, a.blocks = blocks;
  for (int i = 0; i < channel_block_args::max_lanes; ++i) {
    a.block[i] = static_cast<std::int32_t>(random_to(-1, blocks - 1));
    a.lane[i] = static_cast<std::int32_t>(random_to(0, lanes - 1));
  }
  run(&a, nullptr);
  for (long n = 0; n < images; ++n)
    for (long p = 0; p < pixels; ++p)
      for (long i = 0; i < lanes; ++i) {
        const auto k = at(a.block[i]);
        const T expected =
            a.block[i] < 0 ? T(0) : static_cast<const T*>(a.in[k])[n * a.in_image[k] + p * lanes + a.lane[i]];
        BOOST_TEST(out[at(n * out_image + (pixels + p) * lanes + i)] == expected);
        BOOST_TEST(out[at(n * out_image + p * lanes + i)] == T(77));
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(random_windows) {
  for (int i = 0; i < 200; ++i) {
    const window w = random_window();
    check<float>(w, random_to(1, 2), i % 2 != 0, i % 3 == 0);
    check<double>(w, random_to(1, 2), i % 2 != 0, i % 3 == 0);
  }
}

BOOST_AUTO_TEST_CASE(two_by_two) {
  for (long height = 2; height < 7; ++height)
    for (long width = 2; width < 70; ++width) check<float>(pairs(height, width), 1, width % 2 != 0, width % 3 == 0);
  check<double>(pairs(28, 28), 2, false, true);
}

BOOST_AUTO_TEST_CASE(whole_map) {
  for (const long size : {1L, 4L, 7L, 19L}) {
    const window w = sized({5, size, size + 2, 5, 0, 0, size, size + 2, 1, 1, 0, 0, 1, 1, 5});
    check<float>(w, 2, false, false);
    check<double>(w, 2, false, false);
    check_blocked(w, 2, false);
  }
}

// With rounding up, the last window extends beyond the padding: only elements within the padding count.
BOOST_AUTO_TEST_CASE(windows_beyond_the_padding) {
  window w = sized({2, 8, 9, 2, 0, 0, 3, 3, 2, 2, 0, 0, 1, 1, 2});
  ++w.out_height;
  check<float>(w, 2, true, false);
  check<double>(w, 1, false, false);
  check_blocked(w, 1, true);
  window far = sized({2, 9, 12, 2, 0, 0, 4, 4, 3, 3, 1, 1, 1, 1, 2});
  ++far.out_height, ++far.out_width;
  check<float>(far, 2, true, false);
  check<double>(far, 1, false, false);
  window pair = pairs(5, 7);
  ++pair.out_height;
  ++pair.out_width;
  check<float>(pair, 1, true, false);
}

// Rows are processed in pieces of some hundred columns.
BOOST_AUTO_TEST_CASE(wide_maps) {
  for (const long stride : {1, 2, 3, 7})
    for (const long kernel : {5, 600}) {
      const window w = sized({1, 4, 1100, 1, 0, 0, 2, kernel, 1, stride, 0, 2, 1, 1, 1});
      check<float>(w, 2, false, false);
      check<double>(w, 1, true, false);
    }
}

// Windows of stride 1: narrow maps, those of several bands of rows, and rows of up to a limit; windows with ties, -0, and
// NaNs, of which the last one of a window is its maximum.
BOOST_AUTO_TEST_CASE(windows_next_to_each_other) {
  for (const long width : {1L, 3L, 7L, 14L, 16L, 17L, 56L, 255L, 256L, 257L})
    for (const long kernel : {1L, 2L, 3L, 5L, 7L}) {
      window w = sized({3, random_to(1, 90), width, 3, 0, 0, random_to(1, 6), kernel, 1, 1, 0, 0, 1, 1, 3});
      w.pad_h = random_to(0, w.kernel_h - 1), w.pad_w = random_to(0, kernel - 1);
      if (w.height + 2 * w.pad_h < w.kernel_h || width + 2 * w.pad_w < kernel) continue;
      w = sized(w);
      check<float>(w, 1, kernel % 2 != 0, width % 2 != 0);
      check<double>(w, 1, kernel % 2 == 0, width % 2 != 0);
      const long plane = w.height * width, results = w.out_height * w.out_width;
      std::vector<float> in(at(3 * plane));
      for (float& x : in) {
        const long kind = random_to(0, 40);
        x = kind == 0  ? std::bit_cast<float>(0x7fc00000u + static_cast<unsigned>(&x - in.data()))
            : kind < 9 ? (kind % 2 ? 0.f : -0.f)
                       : -static_cast<float>(kind % 3);
      }
      buffer<float> out(at(3 * results), 1);
      const pool_args a{w, 1, in.data(), out.data(), nullptr, 0, 0};
      maxima().of(w, 0, false)(&a, nullptr);
      std::vector<float> expected(at(3 * results));
      for (long m = 0; m < 3; ++m)
        each_result(w, [&](long r, pixel_range p) {
          float best = -std::numeric_limits<float>::infinity();
          for (long i = p.top; i < p.bottom; ++i)
            for (long j = p.left; j < p.right; ++j)
              if (const float v = in[at(m * plane + i * width + j)]; v > best || std::isnan(v)) best = v;
          expected[at(m * results + r)] = best;
        });
      BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), expected.data(), expected.size()), name(w));
      BOOST_TEST(out.guards_intact());
    }
}

BOOST_AUTO_TEST_CASE(channels_in_another_order) {
  for (int blocks = 1; blocks <= static_cast<int>(lane_count()); ++blocks)
    for (long pixels : {1, 3, 20}) {
      check_channel_block<float>(functions().channel_block, blocks, pixels, 1 + blocks % 3);
      check_channel_block<std::int8_t>(functions().channel_block_bytes, blocks, pixels, 1 + blocks % 3);
    }
}
BOOST_AUTO_TEST_CASE(blocked_windows) {
  for (int i = 0; i < 100; ++i) {
    window w = random_window();
    w.channels = w.out_channels = w.groups = random_to(1, 2 * lane_count() + 1);
    check_blocked(w, random_to(1, 2), i % 2 != 0);
  }
}

BOOST_AUTO_TEST_CASE(nan_is_the_maximum) {
  for (const bool adjacent : {true, false})
    for (long bad = 0; bad < 4; ++bad) {
      const window w = adjacent ? pairs(4, 40) : sized({3, 4, 40, 3, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 3});
      std::vector<float> in(at(3 * 160), -1.0f), out(at(3 * w.out_height * w.out_width));
      std::vector<double> in_double(in.size(), -1.0), out_double(out.size());
      std::vector<std::int32_t> index(out.size());
      in[at(bad / 2 * 40 + 6 + bad % 2)] = std::nanf("");
      in_double[at(bad / 2 * 40 + 6 + bad % 2)] = std::nan("");
      pool_args a{w, 1, in.data(), out.data(), index.data(), 0, 0};
      maxima().of(w, 0, true)(&a, nullptr);
      long count = 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        if (std::isnan(out[i])) {
          ++count;
          BOOST_TEST(index[i] == bad / 2 * 40 + 6 + bad % 2);
        }
      BOOST_TEST(count == 1);
      std::vector<float> blocked(at(lane_count() * 160)), pooled(out.size() / 3 * at(lane_count()));
      reorder_args to{in.data(), blocked.data(), 1, 3, 160};
      functions().to_blocked(&to, nullptr);
      a.in = blocked.data(), a.out = pooled.data(), a.index = nullptr;
      maxima().blocked(&a, nullptr);
      BOOST_TEST(std::count_if(pooled.begin(), pooled.end(), [](float v) { return std::isnan(v); }) == 1);
      a.in = in_double.data(), a.out = out_double.data(), a.index = index.data();
      maxima().of(w, 1, true)(&a, nullptr);
      BOOST_TEST(std::count_if(out_double.begin(), out_double.end(), [](double v) { return std::isnan(v); }) == 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
