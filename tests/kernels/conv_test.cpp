// Convolutions in both layouts against scalar loops: windows of every kind, gradients, borders, padded channels.
#include "conv_reference.h"

using namespace lamina::kernels;
using namespace conv_reference;
using kernel_test::buffer;

namespace {

const conv_functions& functions() { return conv_of(kernel_test::tested()); }
long lane_count() { return lanes(kernel_test::tested()); }
long up(long a) { return (a + lane_count() - 1) / lane_count() * lane_count(); }

std::mt19937& generator() {
  static std::mt19937 value(7);
  return value;
}
long random_to(long least, long max) { return std::uniform_int_distribution<long>(least, max)(generator()); }

template <class T> std::vector<T> random_values(long count) {
  std::vector<T> x(at(count));
  kernel_test::fill_uniform(x, generator());
  return x;
}

/// Puts infinities and NaN into a filter or a gradient, so that some of them meet padding.
enum class numbers { finite, any };
template <class T> void spoil(std::vector<T>& x, numbers kind) {
  if (kind == numbers::finite || x.empty()) return;
  const T odd[] = {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN()};
  for (const T& value : odd) x[at(random_to(0, static_cast<long>(x.size()) - 1))] = value;
}

// ---- plain layout

template <class T> const conv_plain_functions& plain() { return functions().plain[std::is_same_v<T, float> ? 0 : 1]; }

template <class T> void run_plain(conv_plain_args& a, int role) {
  const auto& f = plain<T>();
  f.prepare(&a, role);
  buffer<std::byte> scratch(f.scratch_bytes(&a, role));
  (role == 0 ? f.forward_of(a) : role == 1 ? f.input_grad : f.weight_grad)(&a, scratch.data());
  BOOST_TEST(scratch.guards_intact(), name(a.w));
}

template <class T>
void check_plain(const window& w, long images, bool bias, bool clamp, numbers kind = numbers::finite) {
  auto in = random_values<T>(images * in_size(w)), weight = random_values<T>(weight_size(w));
  auto shift = random_values<T>(w.out_channels), gradient = random_values<T>(images * out_size(w));
  spoil(weight, kind);
  spoil(gradient, kind);
  const long first = images > 1 ? 1 : 0, count = images - first;
  conv_plain_args a{};
  a.w = w;
  a.first = first;
  a.count = count;

  sums<T> result(images * out_size(w)), in_gradient(images * in_size(w)), weight_gradient(weight_size(w));
  for (long n = first; n < images; ++n)
    each_product(w, [&](long r, long i, long k) {
      r += n * out_size(w);
      i += n * in_size(w);
      result.add(r, in[at(i)], weight[at(k)]);
      in_gradient.add(i, gradient[at(r)], weight[at(k)]);
      weight_gradient.add(k, gradient[at(r)], in[at(i)]);
    });
  const T low = T(-0.25), high = T(0.5);
  for (long r = first * out_size(w); r < images * out_size(w); ++r) {
    auto& value = result.value[at(r)];
    if (bias) {
      value += shift[at(r / (w.out_height * w.out_width) % w.out_channels)];
      result.magnitude[at(r)] += 1;
    }
    if (clamp) value = std::min<wide<T>>(std::max<wide<T>>(value, low), high);
  }

  const auto untouched = [&](const buffer<T>& x, long size) {
    for (long i = 0; i < size; ++i)
      if (x[at(i)] != T(77)) return false;
    return true;
  };
  const auto filled = [](buffer<T>& x) {
    for (auto& v : x) v = T(77);
  };
  BOOST_TEST_CONTEXT(name(w) << "images " << images << " bias " << bias << " clamp " << clamp) {
    buffer<T> out(at(images * out_size(w)), 1);
    filled(out);
    a.in = in.data(), a.weight = weight.data(), a.bias = bias ? shift.data() : nullptr, a.out = out.data();
    a.low = low, a.high = high, a.clamp = clamp;
    // Computes the rows in two parts, if the first one has any.
    a.first_row = 0, a.row_count = random_to(0, w.out_height - 1);
    if (a.row_count) run_plain<T>(a, 0), a.first_row = a.row_count, a.row_count = w.out_height - a.first_row;
    run_plain<T>(a, 0);
    a.first_row = a.row_count = 0;
    BOOST_TEST(untouched(out, first * out_size(w)));
    for (long i = 0; i < first * out_size(w); ++i) out[at(i)] = 0;
    BOOST_TEST(mismatches(out.data(), result) == 0);
    BOOST_TEST(out.guards_intact());

    buffer<T> back(at(images * in_size(w)), 1);
    filled(back);
    a.in = gradient.data(), a.bias = nullptr, a.out = back.data(), a.clamp = 0;
    if (const long whole = w.channels; w.groups == 1 && (w.stride_h > 1 || w.stride_w > 1) && whole > 1) {
      const long cut = random_to(1, whole - 1);  // computes the channels in two parts
      a.whole_channels = whole, a.w.channels = cut;
      run_plain<T>(a, 1);
      a.weight = weight.data() + cut * w.kernel_h * w.kernel_w;
      a.out = back.data() + cut * w.height * w.width, a.w.channels = whole - cut;
      run_plain<T>(a, 1);
      a.whole_channels = 0, a.w.channels = whole;
    } else {
      run_plain<T>(a, 1);
    }
    BOOST_TEST(untouched(back, first * in_size(w)));
    for (long i = 0; i < first * in_size(w); ++i) back[at(i)] = 0;
    BOOST_TEST(mismatches(back.data(), in_gradient) == 0);
    BOOST_TEST(back.guards_intact());

    buffer<T> change(at(weight_size(w)), 1);
    filled(change);
    a.in = in.data(), a.weight = gradient.data(), a.out = change.data();
    if (const long whole = w.out_channels; w.groups == 1 && whole > 1 && random_to(0, 1)) {
      const long cut = random_to(1, whole - 1);  // computes the output channels in two parts
      a.whole_out_channels = whole, a.w.out_channels = cut;
      run_plain<T>(a, 2);
      a.weight = gradient.data() + cut * w.out_height * w.out_width;
      a.out = change.data() + cut * w.channels * w.kernel_h * w.kernel_w, a.w.out_channels = whole - cut;
      run_plain<T>(a, 2);
      a.whole_out_channels = 0, a.w.out_channels = whole;
    } else {
      run_plain<T>(a, 2);
    }
    BOOST_TEST(mismatches(change.data(), weight_gradient) == 0);
    BOOST_TEST(change.guards_intact());
  }
}

window random_window() {
  for (;;) {
    window w{};
    w.groups = random_to(0, 3) ? 1 : random_to(2, 3);
    w.channels = w.groups * random_to(1, 7);
    w.out_channels = w.groups * (random_to(0, 3) ? random_to(1, 14) : random_to(15, 70));
    w.kernel_h = random_to(1, 5), w.kernel_w = random_to(1, 5);
    w.stride_h = random_to(0, 1) ? 1 : random_to(1, 3), w.stride_w = random_to(0, 1) ? w.stride_h : random_to(1, 4);
    w.dilation_h = random_to(0, 3) ? 1 : 2, w.dilation_w = random_to(0, 3) ? 1 : random_to(2, 3);
    w.pad_h = random_to(0, 3), w.pad_w = random_to(0, 3);
    if (random_to(0, 1)) w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = random_to(1, 20), w.width = random_to(1, 40);
    if (fits(w)) return sized(w);
  }
}

// ---- blocked layout

/// Converts [count][channels][pixels] to [count][channel blocks][pixels][lanes]; zeros in the padding channels.
std::vector<float> blocked_form(const float* from, long count, long channels, long pixels) {
  const long c = lane_count(), blocks = up(channels) / c;
  std::vector<float> to(at(count * blocks * pixels * c));
  for (long n = 0; n < count; ++n)
    for (long i = 0; i < channels; ++i)
      for (long p = 0; p < pixels; ++p)
        to[at(((n * blocks + i / c) * pixels + p) * c + i % c)] = from[(n * channels + i) * pixels + p];
  return to;
}

const bfloat_functions& bfloat() { return bfloat_of(kernel_test::tested()); }

struct blocked_options {
  bool planar = false, bias = true, residual = false, clamp = false;
  int form = -1;  // form of bfloat16 products, -1: float32
};
const conv_blocked_functions& functions_of(const blocked_options& o) {
  return o.form < 0 ? functions().blocked : bfloat().products[o.form].conv;
}
/// Operands as the products read them: rounded to bfloat16 if `form` is set.
std::vector<float> read_by(const blocked_options& o, std::vector<float> values) {
  if (o.form >= 0)
    for (auto& x : values) x = kernel_test::rounded_to_bfloat(x);
  return values;
}

/// The window of one of several groups, unless each is one channel.
window window_of_kernel(const window& w) { return w.groups == w.channels ? w : w.of_one_group(); }
/// Calls a prepared convolution in channel blocks, `sets` groups with a set of filters each.
void run_blocked(conv_blocked_args a, const conv_blocked_functions& f, long sets) {
  conv_grouped_args g{};
  g.first = a.first * sets, g.count = a.count * sets, g.groups = sets;
  g.filters = static_cast<long>(f.packed_bytes(&a.w, a.planar_in) / sizeof(float));
  if (sets > 1) a.first = 0, a.count = 1;
  g.conv_run = f.prepare(&a);
  g.conv = a;
  buffer<std::byte> scratch(f.scratch_bytes(&a));
  if (sets > 1) functions().grouped(&g, scratch.data());
  else g.conv_run(&a, scratch.data());
  BOOST_TEST(scratch.guards_intact());
}

/// Filters as kernels read them.
buffer<float> packed_filters(const conv_blocked_functions& f, const window& w, const std::vector<float>& weight,
                             bool planar = false, long sets = 1) {
  buffer<float> packed(at(sets) * f.packed_bytes(&w, planar) / sizeof(float));
  const conv_pack_args pack{w, weight.data(), packed.data(), planar, 0, sets};
  f.pack(&pack, nullptr);
  BOOST_TEST(packed.guards_intact());
  return packed;
}
/// Arguments of a convolution of whole images; `residual` may be null.
conv_blocked_args args_of(const window& w, long images, const float* in, const buffer<float>& weight, const float* bias,
                          const float* residual, bool clamp) {
  conv_blocked_args a{};
  a.w = w;
  a.count = images;
  a.in = in, a.weight = weight.data(), a.bias = bias, a.residual = residual;
  a.low = -0.25f, a.high = 1.5f, a.clamp = clamp;
  return a;
}

void check_blocked(const window& w, long images, blocked_options o, numbers kind = numbers::finite) {
  const auto& f = functions_of(o);
  const window group = window_of_kernel(w);
  const long sets = w.groups == group.groups ? 1 : w.groups;
  BOOST_TEST_REQUIRE(f.supports(&group, o.planar) == 1, name(w));
  const long out_pixels = w.out_height * w.out_width;
  auto in = random_values<float>(images * in_size(w));
  auto weight = random_values<float>(weight_size(w));
  spoil(weight, kind);
  if (o.form >= 0 && f.by_winograd(&group, o.planar)) {  // numbers whose Winograd transforms are exact
    for (auto& x : in) x = std::nearbyint(3 * x);
    for (auto& x : weight) x = 4 * std::nearbyint(2 * x);
  }
  const auto residual = random_values<float>(images * out_size(w));
  auto bias = random_values<float>(w.out_channels);
  sums<float> expected(images * out_size(w));
  const auto pixels = read_by(o, in), filters = read_by(o, weight);
  for (long n = 0; n < images; ++n)
    each_product(w, [&](long r, long i, long k) {
      expected.add(n * out_size(w) + r, pixels[at(n * in_size(w) + i)], filters[at(k)]);
    });
  const float low = -0.25f, high = 1.5f;
  for (std::size_t r = 0; r < expected.value.size(); ++r) {
    auto& value = expected.value[r];
    if (o.bias) value += bias[at(static_cast<long>(r) / out_pixels % w.out_channels)];
    if (o.residual) value += residual[r];
    expected.magnitude[r] += 2;
    if (o.clamp) value = std::min<double>(std::max<double>(value, low), high);
  }
  BOOST_TEST_CONTEXT(name(w) << "images " << images << " planar " << o.planar << " residual " << o.residual << " clamp "
                             << o.clamp << " form " << o.form) {
    const auto packed = packed_filters(f, group, weight, o.planar, sets);
    const auto source = o.planar ? in : blocked_form(in.data(), images, w.channels, w.height * w.width);
    const auto added = blocked_form(residual.data(), images, w.out_channels, out_pixels);
    bias.resize(at(up(w.out_channels)));
    const long out_image = up(w.out_channels) * out_pixels;
    buffer<float> out(at(images * out_image));
    for (auto& x : out) x = 77;
    conv_blocked_args a{};
    a.w = group;
    a.first = images > 1 ? 1 : 0;
    a.count = images - a.first;
    a.in = source.data();
    a.weight = packed.data();
    a.bias = o.bias ? bias.data() : nullptr;
    a.residual = o.residual ? added.data() : nullptr;
    a.out = out.data();
    a.low = low, a.high = high, a.clamp = o.clamp, a.planar_in = o.planar;
    // Computes an image in two parts, where it has pieces.
    const long pieces = f.pieces(&group, o.planar), cut = pieces > 1 ? random_to(1, pieces - 1) : 0;
    for (const long first : {0L, cut}) {
      a.first_piece = first;
      a.piece_count = cut == 0 ? 0 : first == 0 ? cut : pieces - cut;
      run_blocked(a, f, sets);
      if (cut == 0) break;
    }
    if (cut > 0) {  // and as a whole, with the same bits
      const auto in_parts = out;
      a.first_piece = a.piece_count = 0;
      run_blocked(a, f, sets);
      BOOST_TEST(kernel_test::same_bits(out.data(), in_parts.data(), out.size()));
    }
    BOOST_TEST(out.guards_intact());
    long wrong = 0, beyond = 0, touched = 0;
    for (long n = 0; n < images; ++n)
      for (long c = 0; c < up(w.out_channels); ++c)
        for (long p = 0; p < out_pixels; ++p) {
          const long l = lane_count();
          const float actual = out[at(n * out_image + (c / l * out_pixels + p) * l + c % l)];
          const std::size_t r = at((n * w.out_channels + c) * out_pixels + p);
          if (n < a.first) touched += actual != 77;
          else if (c >= w.out_channels) beyond += actual != 0;
          else if (!kernel_test::close(actual, expected.value[r], expected.magnitude[r],
                                       (w.large_tiles ? 16 : 1) * (expected.terms[r] + 4)))
            ++wrong;
        }
    BOOST_TEST(wrong == 0);
    BOOST_TEST(beyond == 0);
    BOOST_TEST(touched == 0);
  }
}
/// Channels of a window over images of one row.
window random_row(bool planar) {
  window w{};
  w.groups = w.dilation_h = w.stride_h = w.height = w.kernel_h = 1;
  w.channels = planar ? random_to(1, 4) : random_to(1, 3 * lane_count());
  w.out_channels = random_to(1, 3 * lane_count() + 2);
  return w;
}
void check_depthwise(int windows, numbers kind = numbers::finite) {
  for (int i = 0; i < windows; ++i) {
    window w{};
    w.channels = w.out_channels = w.groups = random_to(2, 3 * lane_count());
    w.kernel_h = w.kernel_w = 3;
    w.dilation_h = w.dilation_w = w.pad_h = w.pad_w = 1;
    w.stride_h = w.stride_w = 1 + i % 2;
    w.height = random_to(1, 12), w.width = random_to(1, 26);
    if (i % 2 && random_to(0, 1)) {  // a window of any size
      w.kernel_h = random_to(1, 7), w.kernel_w = random_to(1, 7);
      w.dilation_h = random_to(1, 2), w.dilation_w = random_to(1, 3);
      w.pad_h = random_to(0, w.kernel_h), w.pad_w = random_to(0, w.kernel_w);
      w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
    }
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    if (!fits(w)) continue;
    check_blocked(sized(w), random_to(1, 2), {false, i % 3 != 0, i % 5 == 0, i % 4 == 0}, kind);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conv)

BOOST_AUTO_TEST_CASE(comparator_fails_where_it_should) {
  sums<float> expected(2);
  expected.add(0, 1, 2);
  expected.add(1, 3, 1);
  const float right[] = {2, 3}, wrong[] = {2, 3.001f};
  BOOST_TEST(mismatches(right, expected) == 0);
  BOOST_TEST(mismatches(wrong, expected) == 1);
}

BOOST_AUTO_TEST_CASE(plain_on_random_windows) {
  for (int i = 0; i < 150; ++i) {
    const window w = random_window();
    check_plain<float>(w, random_to(1, 3), random_to(0, 1) != 0, random_to(0, 1) != 0);
    check_plain<double>(w, random_to(1, 3), random_to(0, 1) != 0, random_to(0, 1) != 0);
  }
}

BOOST_AUTO_TEST_CASE(plain_on_layers_of_networks) {
  for (window w :
       {window{1, 28, 28, 6, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}, window{6, 14, 14, 16, 0, 0, 5, 5, 1, 1, 0, 0, 1, 1, 1},
        window{24, 9, 11, 40, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}, window{20, 12, 13, 20, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1, 1},
        window{33, 7, 9, 18, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}, window{8, 15, 15, 8, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 8},
        window{12, 20, 20, 24, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2}, window{3, 33, 35, 7, 0, 0, 7, 7, 2, 2, 3, 3, 1, 1, 1},
        window{1, 1, 700, 1, 0, 0, 1, 64, 1, 2, 0, 0, 1, 1, 1}}) {
    check_plain<float>(sized(w), 2, true, false);
    check_plain<double>(sized(w), 2, true, true);
  }
}

// More columns than one group of rows holds: the products of a full and of a shorter group, and the sum over groups.
BOOST_AUTO_TEST_CASE(plain_in_groups_of_rows) {
  check_plain<float>(sized({48, 31, 40, 5, 0, 0, 3, 3, 2, 1, 1, 1, 1, 1, 1}), 1, true, false);
  check_plain<float>(sized({40, 23, 80, 30, 0, 0, 3, 3, 1, 1, 1, 4, 1, 1, 1}), 1, true, false);
  check_plain<double>(sized({30, 29, 33, 30, 0, 0, 3, 3, 1, 2, 0, 1, 1, 1, 1}), 1, false, false);
}

// Padded images so large that the gradient of the weights takes them in several groups.
BOOST_AUTO_TEST_CASE(plain_in_groups_of_images) {
  check_plain<float>(sized({1, 210, 210, 2, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 4, true, false);
  check_plain<double>(sized({2, 130, 130, 2, 0, 0, 3, 3, 2, 1, 1, 1, 1, 1, 2}), 5, true, false);
  check_plain<float>(sized({5, 30, 30, 37, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 12, true, false);
  check_plain<float>(sized({6, 21, 40, 16, 0, 0, 5, 5, 2, 2, 2, 2, 1, 1, 2}), 9, true, false);
}

BOOST_AUTO_TEST_CASE(gradients_of_weights_do_not_depend_on_earlier_content_or_repetition) {
  const window w = sized({6, 14, 14, 16, 0, 0, 5, 5, 1, 1, 0, 0, 1, 1, 1});
  const auto in = random_values<float>(5 * in_size(w)), gradient = random_values<float>(5 * out_size(w));
  std::vector<float> once(at(weight_size(w)), 1.0f), again(at(weight_size(w)), -3.0f);
  conv_plain_args a{};
  a.w = w, a.first = 0, a.count = 5, a.in = in.data(), a.weight = gradient.data();
  a.out = once.data();
  run_plain<float>(a, 2);
  a.out = again.data();
  run_plain<float>(a, 2);
  BOOST_TEST(kernel_test::same_bits(once.data(), again.data(), once.size()));
}

BOOST_AUTO_TEST_CASE(blocked_on_random_windows) {
  for (int i = 0; i < 200; ++i) {
    const bool planar = i % 4 == 0, small = i % 5 == 0;
    const long kernel = 2 * random_to(0, 3) + 1;
    window w{};
    w.groups = w.dilation_h = w.dilation_w = 1;
    w.channels = planar ? random_to(1, 4) : random_to(1, 3 * lane_count());
    w.out_channels = random_to(1, 3 * lane_count() + 2);
    w.kernel_h = kernel, w.kernel_w = random_to(0, 2) ? kernel : random_to(1, 7);
    w.stride_w = random_to(0, 5) ? random_to(1, 2) : 3, w.stride_h = random_to(0, 3) ? w.stride_w : random_to(1, 3);
    w.pad_h = random_to(0, kernel / 2), w.pad_w = random_to(0, 2) ? w.kernel_w / 2 : random_to(0, 4);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.dilation_h = random_to(0, 2) ? 1 : random_to(2, 4), w.dilation_w = random_to(0, 2) ? 1 : random_to(2, 4);
    w.height = small ? random_to(1, 4) : random_to(kernel, kernel + 14);
    w.width = small ? random_to(1, 4) : random_to(kernel, kernel + 34);
    if (!fits(w)) continue;
    check_blocked(sized(w), random_to(1, 2), {planar, i % 3 != 0, i % 2 != 0, random_to(0, 1) != 0});
  }
}

// Deep and wide enough that input channels and rows are taken in several blocks.
BOOST_AUTO_TEST_CASE(blocked_in_blocks_of_channels_and_rows) {
  check_blocked(sized({40 * lane_count(), 9, 9, 3 * lane_count(), 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}), 1,
                {false, true, true, true});
  check_blocked(sized({16 * lane_count(), 12, 13, 2 * lane_count(), 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}), 1,
                {false, true, true, true});
  check_blocked(sized({3, 120, 230, 2 * lane_count(), 0, 0, 7, 7, 2, 2, 3, 3, 1, 1, 1}), 1, {true, true, false, true});
  check_blocked(sized({30 * lane_count(), 40, 41, lane_count() + 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}), 1,
                {false, true, true, false});
}

// Of a plain image, a kernel row of as many steps as a block has channels.
BOOST_AUTO_TEST_CASE(blocked_rows_of_a_plain_image) {
  for (const long kernel : {1, 2})
    for (const long channels : {1, 3}) {
      window w{};
      w.channels = channels, w.out_channels = 3 * lane_count();
      w.groups = w.dilation_h = w.dilation_w = w.stride_h = w.stride_w = 1;
      w.height = 3, w.width = 41;
      w.kernel_h = kernel, w.kernel_w = lane_count(), w.pad_h = kernel - 1;
      check_blocked(sized(w), 2, {true, true, false, false});
    }
}

// At a border such a window has a single tap, as a 1x1 window has everywhere.
BOOST_AUTO_TEST_CASE(blocked_windows_of_one_column) {
  for (const long kernel : {1, 2, 3})
    for (const long stride : {1, 2})
      for (const long rest : {0, 3}) {
        window w{};
        w.channels = 3 * lane_count() + rest, w.out_channels = 3 * lane_count();
        w.groups = w.dilation_h = w.dilation_w = w.kernel_w = 1;
        w.height = 4, w.width = 25;
        w.kernel_h = kernel, w.pad_h = kernel - 1;
        w.stride_h = w.stride_w = stride;
        check_blocked(sized(w), 2, {false, true, stride == 1, rest == 0});
      }
}

BOOST_AUTO_TEST_CASE(blocked_rows_with_dilation) {
  for (int i = 0; i < 80; ++i) {
    const bool planar = i % 5 == 0;
    window w = random_row(planar);
    w.kernel_w = random_to(1, 5), w.dilation_w = random_to(1, 7), w.stride_w = random_to(0, 2) ? 1 : 2;
    w.pad_w = random_to(0, 9), w.more_w = random_to(-w.pad_w, 3);
    w.width = random_to(1, 90);
    if (fits(w))
      check_blocked(sized(w), random_to(1, 2), {planar, i % 3 != 0, i % 2 != 0, i % 7 == 0},
                    i % 4 ? numbers::finite : numbers::any);
  }
}

// Taps far apart, many of them beyond the map for whole tiles, rows or results; several blocks of channels and of rows.
BOOST_AUTO_TEST_CASE(blocked_with_dilation) {
  for (int i = 0; i < 120; ++i) {
    window w{};
    w.groups = 1;
    const bool planar = i % 6 == 0;
    w.channels = planar ? random_to(1, 4) : random_to(1, 3 * lane_count());
    w.out_channels = random_to(1, 3 * lane_count() + 2);
    w.kernel_h = random_to(1, 4), w.kernel_w = random_to(2, 5);
    w.dilation_h = random_to(1, 24), w.dilation_w = random_to(2, 24);
    w.stride_w = random_to(0, 2) ? 1 : 2, w.stride_h = random_to(0, 2) ? 1 : 2;
    w.pad_h = random_to(0, 3) ? w.dilation_h * (w.kernel_h - 1) / 2 : random_to(0, 30);
    w.pad_w = random_to(0, 3) ? w.dilation_w * (w.kernel_w - 1) / 2 : random_to(0, 30);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = random_to(1, 20), w.width = random_to(1, 40);
    if (fits(w))
      check_blocked(sized(w), random_to(1, 2), {planar, i % 3 != 0, i % 2 != 0, i % 7 == 0},
                    i % 4 ? numbers::finite : numbers::any);
  }
  for (const long dilation : {2, 6, 24})
    check_blocked(sized({40 * lane_count(), 9, 21, 3 * lane_count(), 0, 0, 3, 3, 1, 1, dilation, dilation, dilation,
                         dilation, 1}),
                  1, {false, true, true, true});
  check_blocked(sized({lane_count(), 90, 230, lane_count(), 0, 0, 3, 3, 2, 1, 0, 8, 5, 8, 1}), 1,
                {false, true, false, true});
}

BOOST_AUTO_TEST_CASE(blocked_by_winograd) {
  int taken = 0, dilated = 0;
  for (int i = 0; i < 90; ++i) {
    window w{};
    w.groups = w.stride_h = w.stride_w = 1;
    w.dilation_h = i % 3 ? 1 : random_to(1, 4), w.dilation_w = i % 3 ? 1 : random_to(1, 4);
    w.kernel_h = w.kernel_w = 3;
    w.channels = random_to(2 * lane_count(), 5 * lane_count());
    w.out_channels = random_to(2 * lane_count(), 5 * lane_count());
    w.pad_h = random_to(0, 2 * w.dilation_h), w.pad_w = random_to(0, 2 * w.dilation_w);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = random_to(12, 30), w.width = random_to(12, 30);
    w = sized(w);
    const bool by_winograd = functions().blocked.by_winograd(&w, false) != 0;
    taken += by_winograd;
    dilated += by_winograd && w.dilation_h * w.dilation_w > 1;
    check_blocked(w, random_to(1, 2), {false, i % 4 != 0, i % 2 != 0, i % 5 == 0});
  }
  BOOST_TEST((lane_count() < 8 || (taken > 40 && dilated > 10)));
  // Taps so far apart that most of them are beyond the map: fewer products without transforms.
  const long c = 2 * lane_count();
  window far = sized({c, 20, 20, c, 0, 0, 3, 3, 1, 1, 12, 12, 12, 12, 1});
  BOOST_TEST(functions().blocked.by_winograd(&far, false) == 0);
}

// Filters of one row are transformed along it alone.
BOOST_AUTO_TEST_CASE(blocked_rows_by_winograd) {
  int taken = 0, large = 0, dilated = 0, rounded = 0;
  for (int i = 0; i < 120; ++i) {
    window w{};
    w.groups = w.stride_h = w.stride_w = w.kernel_h = 1;
    w.kernel_w = 3;
    w.dilation_h = i % 5 ? 1 : 2, w.dilation_w = i % 3 ? 1 : random_to(2, 12);
    w.channels = random_to(35, 80), w.out_channels = random_to(35, 80);
    w.pad_h = i % 4 ? 0 : random_to(0, 2), w.pad_w = random_to(0, 2 * w.dilation_w);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = i % 6 == 2 ? random_to(1, 9) : 1, w.width = w.height == 1 ? random_to(150, 600) : random_to(60, 90);
    w.large_tiles = i % 6 == 1;
    if (!fits(w)) continue;
    w = sized(w);
    const int form = i % 4 == 3 && !w.large_tiles ? static_cast<int>(random_to(0, bfloat().forms())) - 1 : -1;
    const int columns = functions_of({.form = form}).by_winograd(&w, false);
    taken += columns > 0, large += columns == 4, dilated += columns > 0 && w.dilation_w > 1;
    rounded += columns > 0 && form >= 0;
    check_blocked(w, random_to(1, 2), {false, i % 4 != 0, i % 2 != 0, i % 5 == 0, form});
  }
  if (lane_count() < 8) return;
  BOOST_TEST(taken > 40);
  BOOST_TEST(large > 4);
  BOOST_TEST(dilated > 3);
  BOOST_TEST(rounded > 0);
}

// Groups of whole channel blocks, directly and by Winograd, also of bfloat16 numbers.
BOOST_AUTO_TEST_CASE(blocked_in_groups) {
  int winograd = 0;
  for (int i = 0; i < 120; ++i) {
    window w{};
    const bool square = i % 3 == 0;
    w.groups = random_to(2, 4);
    w.channels = w.groups * lane_count() * (square ? random_to(2, 3) : random_to(1, 3));
    w.out_channels = w.groups * lane_count() * (square ? random_to(2, 3) : random_to(1, 3));
    w.kernel_h = square ? 3 : random_to(1, 5), w.kernel_w = square ? 3 : random_to(1, 5);
    w.stride_h = square ? 1 : random_to(1, 2), w.stride_w = square ? 1 : random_to(1, 2);
    w.dilation_h = random_to(0, 2) ? 1 : 2, w.dilation_w = random_to(0, 2) ? 1 : 2;
    w.pad_h = random_to(0, w.kernel_h), w.pad_w = random_to(0, w.kernel_w);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = square ? random_to(12, 20) : random_to(1, 14), w.width = square ? random_to(12, 20) : random_to(1, 30);
    if (!fits(w)) continue;
    w = sized(w);
    const int form = i % 4 ? -1 : static_cast<int>(random_to(0, bfloat().forms())) - 1;
    const window group = window_of_kernel(w);
    const bool by_winograd = functions_of({.form = form}).by_winograd(&group, 0) != 0;
    winograd += by_winograd;
    check_blocked(w, random_to(1, 2), {false, i % 3 != 0, i % 2 != 0, i % 5 == 0, form},
                  i % 4 || by_winograd ? numbers::finite : numbers::any);
  }
  BOOST_TEST((lane_count() < 8 || winograd > 10));
}

// Winograd tiles of 4x4 results for large maps, whole and in parts, and tiles of 2x2.
BOOST_AUTO_TEST_CASE(blocked_in_large_tiles) {
  int large = 0, taken = 0;
  for (int i = 0; i < 60; ++i) {
    window w{};
    w.groups = w.stride_h = w.stride_w = 1;
    w.dilation_h = i % 3 ? 1 : 2, w.dilation_w = i % 3 ? 1 : random_to(1, 3);
    w.kernel_h = w.kernel_w = 3;
    w.large_tiles = 1;
    w.channels = random_to(2 * lane_count(), 4 * lane_count());
    w.out_channels = random_to(2 * lane_count(), 4 * lane_count());
    w.pad_h = random_to(0, 2), w.pad_w = random_to(0, 2);
    w.height = random_to(16, 40), w.width = random_to(16, 40);
    w = sized(w);
    const auto& f = functions().blocked;
    if (!f.by_winograd(&w, false)) continue;
    ++taken;
    large += f.by_winograd(&w, false) == 4;
    check_blocked(w, random_to(1, 2), {false, i % 3 != 0, i % 2 != 0, i % 5 == 0});
  }
  BOOST_TEST((lane_count() < 8 || (large > 20 && taken > large)));
}

// Products of bfloat16 numbers, in every form that the machine has.
BOOST_AUTO_TEST_CASE(blocked_of_bfloat) {
  for (int form = 0; form < bfloat().forms(); ++form) {
    int winograd = 0, taken = 0;
    for (int i = 0; i < 240; ++i) {
      window w{};
      w.groups = w.dilation_h = w.dilation_w = 1;
      const long kernel = i % 4 == 3 ? 3 : 2 * random_to(0, 2) + 1;
      w.channels = i % 4 == 3 ? random_to(2 * lane_count(), 5 * lane_count()) : random_to(1, 3 * lane_count());
      w.out_channels = i % 4 == 3 ? random_to(2 * lane_count(), 5 * lane_count()) : random_to(1, 3 * lane_count() + 2);
      w.kernel_h = kernel, w.kernel_w = i % 4 == 3 || random_to(0, 2) ? kernel : random_to(1, 7);
      w.stride_w = i % 4 == 3 || random_to(0, 2) ? 1 : random_to(2, 3), w.stride_h = w.stride_w;
      w.pad_h = random_to(0, kernel / 2), w.pad_w = random_to(0, 2) ? w.kernel_w / 2 : random_to(0, 4);
      w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
      w.dilation_h = random_to(0, 2) ? 1 : random_to(2, 4), w.dilation_w = random_to(0, 2) ? 1 : random_to(2, 4);
      w.height = random_to(1, 20), w.width = random_to(1, 34);
      if (!fits(w)) continue;
      w = sized(w);
      ++taken;
      const bool by_winograd = functions_of({.form = form}).by_winograd(&w, 0) != 0;
      winograd += by_winograd;
      check_blocked(w, random_to(1, 2), {false, i % 3 != 0, i % 2 != 0, random_to(0, 1) != 0, form},
                    i % 5 || by_winograd ? numbers::finite : numbers::any);
    }
    BOOST_TEST(taken > 120);
    BOOST_TEST((lane_count() < 8 || functions_of({.form = form}).by_amx || winograd > 10));
    // Blocks of channels and of rows, and a map of one row.
    check_blocked(sized({40 * lane_count(), 9, 9, 3 * lane_count(), 0, 0, 3, 3, 1, 1, 1, 1, 2, 1, 1}), 1,
                  {false, true, true, true, form});
    check_blocked(sized({26 * lane_count(), 12, 13, 2 * lane_count(), 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}), 1,
                  {false, true, true, true, form});
    check_blocked(sized({60 * lane_count(), 40, 41, lane_count() + 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}), 1,
                  {false, true, true, false, form});
    for (int i = 0; i < 30; ++i) {
      window w = random_row(false);
      w.kernel_w = random_to(1, 5), w.dilation_w = random_to(1, 7), w.stride_w = random_to(0, 2) ? 1 : 2;
      w.pad_w = random_to(0, 9), w.width = random_to(1, 90);
      if (fits(w)) check_blocked(sized(w), 2, {false, i % 3 != 0, i % 2 != 0, i % 7 == 0, form});
    }
  }
  const window planes = sized({3, 9, 9, 32, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  BOOST_TEST(functions_of({.form = 0}).supports(&planes, 1) == 0);
}

// Filters of the convolution that is the gradient of another one's input: packed as if they were turned beforehand.
BOOST_AUTO_TEST_CASE(turned_filters) {
  for (int form = -1; form < bfloat().forms(); ++form)
    for (int i = 0; i < 40; ++i) {
      window w{};
      w.groups = w.dilation_h = w.dilation_w = w.stride_h = w.stride_w = 1;
      w.channels = random_to(1, 5 * lane_count()), w.out_channels = random_to(1, 5 * lane_count());
      w.kernel_h = random_to(1, 5), w.kernel_w = i % 3 ? random_to(1, 5) : 1;
      if (i % 3 == 0) w.kernel_h = 1;
      w.height = w.width = 9;
      w = sized(w);
      const long taps = w.kernel_h * w.kernel_w;
      const auto weight = random_values<float>(weight_size(w));
      std::vector<float> turned(weight.size());
      for (long o = 0; o < w.out_channels; ++o)
        for (long c = 0; c < w.channels; ++c)
          for (long t = 0; t < taps; ++t)
            turned[at((o * w.channels + c) * taps + t)] = weight[at((c * w.out_channels + o) * taps + taps - 1 - t)];
      const auto& f = functions_of({.form = form});
      buffer<float> one(f.packed_bytes(&w, 0) / sizeof(float)), other(one.size());
      const conv_pack_args of{w, weight.data(), one.data(), 0, 1, 1}, as{w, turned.data(), other.data(), 0, 0, 1};
      f.pack(&of, nullptr);
      f.pack(&as, nullptr);
      BOOST_TEST((one.guards_intact() && other.guards_intact()));
      BOOST_TEST(kernel_test::same_bits(std::as_const(one).data(), std::as_const(other).data(), one.size()),
                 name(w) << "form " << form);
    }
}

// Images of few channels in plain layout, which only the form with AMX reads.
BOOST_AUTO_TEST_CASE(plain_images_of_bfloat) {
  constexpr int form = bfloat_form_of_amx;
  if (bfloat().forms() <= form) return;
  int taken = 0, in_steps = 0;
  for (int i = 0; i < 300; ++i) {
    window w{};
    w.groups = w.dilation_w = 1, w.dilation_h = i % 5 ? 1 : 2;
    w.channels = random_to(1, 4), w.out_channels = random_to(1, 5 * lane_count());
    const long longest = w.channels > 2 ? 8 : 16;  // pixels of a step
    w.kernel_h = random_to(1, 7), w.kernel_w = random_to(1, i % 2 ? longest + 1 : 4 * longest);
    w.stride_h = random_to(1, 3), w.stride_w = random_to(1, 3);
    w.pad_h = random_to(0, w.kernel_h), w.pad_w = random_to(0, w.kernel_w);
    w.more_h = random_to(-w.pad_h, 2), w.more_w = random_to(-w.pad_w, 2);
    w.height = i % 7 ? random_to(1, 30) : 1, w.width = i % 7 ? random_to(1, 120) : random_to(60, 900);
    if (!fits(w)) continue;
    w = sized(w);
    // Longer rows of a window are taken in equal steps of at least half as many pixels.
    bool expected = w.kernel_w <= longest;
    for (long pixels = longest / 2; pixels <= longest; ++pixels) expected = expected || w.kernel_w % pixels == 0;
    BOOST_TEST(functions_of({.form = form}).supports(&w, 1) == expected, name(w));
    if (!expected) continue;
    ++taken, in_steps += w.kernel_w > longest;
    check_blocked(w, random_to(1, 2), {true, i % 3 != 0, i % 2 != 0, i % 4 == 0, form},
                  i % 4 ? numbers::finite : numbers::any);
  }
  BOOST_TEST((taken > 100 && in_steps > 20), taken << " " << in_steps);
}

// Parts by channels of a convolution by Winograd, which share the transforms of an image: the same bits as the whole.
BOOST_AUTO_TEST_CASE(winograd_by_channels) {
  const auto& f = functions().blocked;
  const long lanes = lane_count();
  int taken = 0;
  for (int i = 0; i < 60; ++i) {
    window w{};
    w.groups = w.dilation_h = w.dilation_w = w.stride_h = w.stride_w = 1;
    w.kernel_h = i % 4 ? 3 : 1, w.kernel_w = 3;
    w.channels = random_to(2 * lanes, 9 * lanes), w.out_channels = random_to(2 * lanes, 9 * lanes);
    w.pad_h = i % 4 ? random_to(0, 2) : 0, w.pad_w = random_to(0, 2);
    w.height = i % 4 ? random_to(12, 18) : random_to(3, 7), w.width = random_to(14, 30);
    w.large_tiles = i % 3 == 0;
    w = sized(w);
    if (!f.by_winograd(&w, 0)) continue;
    ++taken;
    const long images = random_to(1, 2), results = w.out_height * w.out_width, outs = up(w.out_channels) / lanes;
    const auto in = random_values<float>(images * in_size(w)), residual = random_values<float>(images * out_size(w)),
               weight = random_values<float>(weight_size(w));
    auto bias = random_values<float>(w.out_channels);
    bias.resize(at(up(w.out_channels)));
    const auto packed = packed_filters(f, w, weight);
    const auto blocks = blocked_form(in.data(), images, w.channels, w.height * w.width),
               added = blocked_form(residual.data(), images, w.out_channels, results);
    conv_blocked_args a =
        args_of(w, images, blocks.data(), packed, bias.data(), i % 2 ? added.data() : nullptr, i % 5 == 0);
    buffer<float> whole(at(images * outs * lanes * results)), out(whole.size());
    a.out = whole.data();
    run_blocked(a, f, 1);
    BOOST_TEST_CONTEXT(name(w) << "images " << images << " large tiles " << w.large_tiles) {
      BOOST_TEST(!f.reads_in_place(&a));
      const long maps = f.joined_maps(&w, 0), image = static_cast<long>(f.joined_bytes(&w, 0) / sizeof(float));
      buffer<float> transforms(at(images * image));
      conv_join_args join{w, blocks.data(), transforms.data(), 0, 1, 0, 0};
      for (; join.first < images * maps; ++join.first) f.join(&join, nullptr);
      BOOST_TEST(transforms.guards_intact());
      const auto filters = static_cast<long>(f.filter_bytes(&w, 0) / sizeof(float));
      for (long n = 0; n < images; ++n)
        for (long first = 0; first < outs;) {
          const long count = random_to(1, outs - first), place = (n * outs + first) * lanes * results;
          conv_blocked_args part = a;
          part.count = 1, part.joined_in = 1;
          part.whole_out_channels = w.out_channels;
          part.w.out_channels = std::min(count * lanes, w.out_channels - first * lanes);
          part.in = std::as_const(transforms).data() + n * image;
          part.weight += first * filters, part.bias += first * lanes;
          part.out = out.data() + place;
          if (a.residual) part.residual += place;
          run_blocked(part, f, 1);
          first += count;
        }
      BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), std::as_const(whole).data(), out.size()));
      BOOST_TEST((out.guards_intact() && whole.guards_intact()));
    }
  }
  BOOST_TEST((lane_count() < 8 || taken > 20));
}

// Images of bfloat16 numbers in pairs of channel blocks, as they are and copied, and parts by channels: the same bits as
// from images of float32, whose results are rounded then. Only the form with AMX has them.
BOOST_AUTO_TEST_CASE(rounded_images) {
  constexpr int form = bfloat_form_of_amx;
  if (bfloat().forms() <= form) return;
  const auto& f = functions_of({.form = form});
  const long lanes = lane_count();
  int taken = 0, in_place = 0;
  for (int i = 0; i < 300; ++i) {
    window w{};
    w.groups = w.dilation_w = 1, w.dilation_h = i % 7 ? 1 : 2;
    w.channels = random_to(1, 5 * lanes), w.out_channels = random_to(1, 8 * lanes);
    w.kernel_h = w.kernel_w = i % 3 ? random_to(1, 5) : 1;
    w.stride_h = random_to(1, 2), w.stride_w = i % 4 ? w.stride_h : random_to(1, 3);
    w.pad_h = i % 3 ? random_to(0, w.kernel_h) : 0, w.pad_w = i % 3 ? random_to(0, w.kernel_w) : 0;
    w.height = i % 11 ? random_to(1, 20) : 1, w.width = i % 11 ? random_to(1, 40) : random_to(60, 900);
    if (!fits(w)) continue;
    w = sized(w);
    ++taken;
    const long images = random_to(1, 2), pixels = w.height * w.width, results = w.out_height * w.out_width,
               outs = up(w.out_channels) / lanes, pairs = (outs + 1) / 2;
    // [images][channels][pixels] in pairs of blocks, and what kernels may read after it.
    const auto as_pairs = [&](const std::vector<float>& from, long channels, long map) {
      const long count = (channels + 2 * lanes - 1) / (2 * lanes), numbers = images * count * map * 2 * lanes;
      buffer<std::uint16_t> to(at(numbers + rounded_slack / 2));
      for (long k = 0; k < numbers; ++k) to[at(k)] = 0;
      for (long k = numbers; k < numbers + rounded_slack / 2; ++k) to[at(k)] = 0x7fc0;
      for (long n = 0; n < images; ++n)
        for (long c = 0; c < channels; ++c)
          for (long x = 0; x < map; ++x)
            to[at(((n * count + c / (2 * lanes)) * map + x) * 2 * lanes + c % (2 * lanes))] =
                static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from[at((n * channels + c) * map + x)]) >> 16);
      return to;
    };
    const auto in = read_by({.form = form}, random_values<float>(images * in_size(w))),
               residual = read_by({.form = form}, random_values<float>(images * out_size(w)));
    auto weight = random_values<float>(weight_size(w));
    spoil(weight, i % 5 ? numbers::finite : numbers::any);
    auto bias = random_values<float>(w.out_channels);
    bias.resize(at(2 * up(w.out_channels)));
    const auto packed = packed_filters(f, w, weight);
    const auto blocks = blocked_form(in.data(), images, w.channels, pixels),
               added = blocked_form(residual.data(), images, w.out_channels, results);
    const auto half = as_pairs(in, w.channels, pixels), half_added = as_pairs(residual, w.out_channels, results);
    conv_blocked_args a =
        args_of(w, images, blocks.data(), packed, bias.data(), i % 2 ? added.data() : nullptr, i % 4 == 0);
    buffer<float> whole(at(images * up(w.out_channels) * results));
    a.out = whole.data();
    run_blocked(a, f, 1);
    std::vector<float> plain(at(images * out_size(w)));  // those results, rounded
    for (long n = 0; n < images; ++n)
      for (long c = 0; c < w.out_channels; ++c)
        for (long x = 0; x < results; ++x)
          plain[at((n * w.out_channels + c) * results + x)] =
              kernel_test::rounded_to_bfloat(whole[at(((n * outs + c / lanes) * results + x) * lanes + c % lanes)]);
    const auto expected = as_pairs(plain, w.out_channels, results);
    BOOST_TEST_CONTEXT(name(w) << "images " << images << " case " << i) {
      buffer<std::uint16_t> out(at(images * pairs * results * 2 * lanes));
      const auto check = [&](const char* what) {
        BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), std::as_const(expected).data(), out.size()), what);
        BOOST_TEST(out.guards_intact());
        for (auto& x : out) x = 0x4242;
      };
      a.out = reinterpret_cast<float*>(out.data()), a.rounded_out = 1;
      run_blocked(a, f, 1);
      check("rounded results");
      a.in = reinterpret_cast<const float*>(half.data()), a.rounded_in = 1;
      in_place += f.reads_in_place(&a);
      if (a.residual) a.residual = reinterpret_cast<const float*>(half_added.data()), a.rounded_residual = 1;
      run_blocked(a, f, 1);
      check("rounded images");
      // Parts by channels of each image, which read a copy of it.
      for (const bool rounded : {false, true}) {
        const long maps = f.joined_maps(&w, 0);
        buffer<std::byte> copies(at(images) * f.joined_bytes(&w, 0));
        for (auto& x : copies) x = std::byte{0xff};
        conv_join_args join{
            w, rounded ? static_cast<const void*>(half.data()) : blocks.data(), copies.data(), 0, 1, 0, rounded};
        for (join.first = 0; join.first < images * maps; ++join.first) f.join(&join, nullptr);
        BOOST_TEST(copies.guards_intact());
        a.joined_in = 1, a.rounded_in = rounded;
        const long cut = 2 * random_to(0, (outs - 1) / 2);
        for (long n = 0; n < images; ++n)
          for (const long first : {0L, cut}) {
            const long count = first == 0 && cut > 0 ? cut : outs - first;
            conv_blocked_args part = a;
            part.count = 1;
            part.whole_out_channels = w.out_channels;
            part.w.out_channels = std::min(count * lanes, w.out_channels - first * lanes);
            part.in = reinterpret_cast<const float*>(copies.data() + at(n) * f.joined_bytes(&w, 0));
            part.weight += at(first) * f.filter_bytes(&w, 0) / sizeof(float), part.bias += first * lanes;
            const long place = (n * pairs + first / 2) * results * 2 * lanes;  // of numbers
            part.out = reinterpret_cast<float*>(out.data() + place);
            if (a.residual) part.residual = reinterpret_cast<const float*>(half_added.data() + place);
            run_blocked(part, f, 1);
            if (cut == 0) break;
          }
        check(rounded ? "copies of rounded images" : "copies of images");
        a.joined_in = 0, a.rounded_in = 1;
      }
    }
  }
  BOOST_TEST((taken > 200 && in_place > 20));
}

// The gradient of the weights from numbers rounded to bfloat16, in every form that the machine has.
BOOST_AUTO_TEST_CASE(weight_gradients_of_bfloat) {
  std::vector<std::vector<float>> found[3];
  for (int form = 0; form < bfloat().forms(); ++form) {
    generator().seed(11);
    const auto& f = bfloat().products[form].weight_grad;
    int taken = 0;
    for (int i = 0; i < 300; ++i) {
      window w =
          i % 3 ? random_window() : sized({random_to(1, 20), 9, 11, random_to(1, 40), 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1});
      if (!f.supports(&w)) {
        BOOST_TEST(w.stride_w > 1);
        continue;
      }
      ++taken;
      const blocked_options how{.form = form};
      const long images = random_to(1, 3), first = images > 1 ? 1 : 0;
      auto in = random_values<float>(images * in_size(w)), gradient = random_values<float>(images * out_size(w));
      spoil(gradient, i % 5 ? numbers::finite : numbers::any);
      sums<float> expected(weight_size(w));
      const auto results = read_by(how, gradient), pixels = read_by(how, in);
      for (long n = first; n < images; ++n)
        each_product(w, [&](long r, long at_in, long k) {
          expected.add(k, results[at(n * out_size(w) + r)], pixels[at(n * in_size(w) + at_in)]);
        });
      conv_plain_args a{};
      a.w = w;
      a.first = first, a.count = images - first;
      a.in = in.data(), a.weight = gradient.data();
      buffer<float> change(at(weight_size(w)), 1);
      a.out = change.data();
      const kernel run = f.prepare(&a);
      buffer<std::byte> scratch(f.scratch_bytes(&a));
      run(&a, scratch.data());
      BOOST_TEST(scratch.guards_intact(), name(w));
      BOOST_TEST(change.guards_intact(), name(w));
      // Sums that padding spoiled are recomputed from unrounded numbers.
      if (i % 5) BOOST_TEST(mismatches(change.data(), expected) == 0, name(w) << "form " << form);
      else
        for (long k = 0; k < weight_size(w); ++k)
          BOOST_TEST(std::isfinite(change[at(k)]) == std::isfinite(expected.value[at(k)]), name(w));
      found[form].emplace_back(change.data(), change.data() + weight_size(w));
    }
    BOOST_TEST(taken > 150);
  }
  if (found[1].empty()) return;
  long differing = 0;
  for (std::size_t i = 0; i < found[0].size(); ++i)
    differing += std::memcmp(found[0][i].data(), found[1][i].data(), found[0][i].size() * sizeof(float)) != 0;
  BOOST_TEST(differing == 0);
}

BOOST_AUTO_TEST_CASE(blocked_depthwise) { check_depthwise(120); }
// Neighboring windows of 5 and 7 columns read each pixel once; narrow maps have fewer results in a tile.
BOOST_AUTO_TEST_CASE(depthwise_of_adjacent_windows) {
  for (const long kernel : {5, 7})
    for (long width = 1; width <= 26; ++width) {
      window w{};
      w.channels = w.out_channels = w.groups = random_to(2, 2 * lane_count());
      w.kernel_h = random_to(1, 7), w.kernel_w = kernel;
      w.stride_h = w.stride_w = w.dilation_h = w.dilation_w = 1;
      w.pad_h = w.kernel_h / 2, w.pad_w = kernel / 2;
      w.height = random_to(1, 12), w.width = width;
      check_blocked(sized(w), random_to(1, 2), {false, width % 3 != 0, width % 5 == 0, width % 4 == 0});
    }
}

// Padding adds nothing, in either layout and in each gradient, even where it meets an infinity or NaN of a filter.
BOOST_AUTO_TEST_CASE(plain_filters_that_are_not_finite) {
  for (int i = 0; i < 150; ++i) {
    const window w = random_window();
    check_plain<float>(w, random_to(1, 3), random_to(0, 1) != 0, random_to(0, 1) != 0, numbers::any);
    check_plain<double>(w, random_to(1, 3), random_to(0, 1) != 0, random_to(0, 1) != 0, numbers::any);
  }
  for (const window& w :
       {window{1, 28, 28, 6, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1, 1}, window{6, 14, 14, 16, 0, 0, 5, 5, 1, 1, 0, 0, 1, 1, 1},
        window{24, 9, 11, 40, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}, window{40, 3, 3, 40, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1}})
    for (int i = 0; i < 10; ++i) check_plain<float>(sized(w), 1 + i % 3, i % 2 != 0, false, numbers::any);
}

BOOST_AUTO_TEST_CASE(blocked_filters_that_are_not_finite) {
  for (int i = 0; i < 120; ++i) {
    window w{};
    w.groups = w.dilation_h = w.dilation_w = 1;
    const bool planar = i % 3 == 0;
    w.channels = planar ? random_to(1, 3) : random_to(1, 2 * lane_count());
    w.out_channels = random_to(1, 2 * lane_count() + 2);
    w.kernel_h = random_to(1, 5), w.kernel_w = random_to(1, 5);
    w.stride_h = random_to(1, 2), w.stride_w = random_to(1, 2);
    w.pad_h = random_to(0, 2), w.pad_w = random_to(0, 3);
    w.height = random_to(1, 9), w.width = random_to(1, 20);
    if (!fits(w)) continue;
    w = sized(w);
    if (functions().blocked.by_winograd(&w, planar)) continue;  // Winograd spreads non-finite values further
    check_blocked(w, random_to(1, 3), {planar, i % 3 != 0, i % 2 != 0, i % 5 == 0}, numbers::any);
  }
  check_depthwise(60, numbers::any);
}

// Pieces of an image of one row are parts of that row.
BOOST_AUTO_TEST_CASE(blocked_sequences) {
  int in_pieces = 0;
  for (int i = 0; i < 120; ++i) {
    const bool planar = i % 5 == 4;
    window w = random_row(planar);
    w.kernel_w = random_to(0, 2) ? random_to(1, 7) : 3, w.stride_w = random_to(0, 2) ? 1 : random_to(2, 4);
    w.dilation_w = random_to(0, 1) ? 1 : random_to(2, 90);
    w.pad_w = random_to(0, 2) ? random_to(0, w.kernel_w * w.dilation_w) : w.kernel_w / 2;
    w.more_w = random_to(-w.pad_w, 2), w.width = random_to(60, 900);
    if (!fits(w)) continue;
    w = sized(w);
    const int form = planar || i % 3 ? -1 : static_cast<int>(random_to(0, bfloat().forms())) - 1;
    const auto& f = functions_of({.form = form});
    in_pieces += f.pieces(&w, planar) > 1;
    check_blocked(w, random_to(1, 2), {planar, i % 3 != 0, i % 2 != 0, i % 7 == 0, form},
                  i % 4 || f.by_winograd(&w, planar) ? numbers::finite : numbers::any);
  }
  BOOST_TEST(in_pieces > 15);
}

BOOST_AUTO_TEST_CASE(blocked_refuses_what_it_cannot_run) {
  const auto refused = [](window w) { return functions().blocked.supports(&w, 0) == 0; };
  const window w = sized({32, 9, 9, 32, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  BOOST_TEST(!refused(w));
  window other = w;
  other.dilation_h = 2, other.dilation_w = 3;
  BOOST_TEST(!refused(other));
  other = w, other.groups = 2;
  BOOST_TEST(refused(other));
  other = w, other.groups = 32, other.out_channels = 64;
  BOOST_TEST(refused(other));
}

BOOST_AUTO_TEST_CASE(clamp_keeps_nan) {
  const window w = sized({2, 6, 18, 3, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  std::vector<float> in(at(in_size(w)), 1.0f), weight(at(weight_size(w)), 1.0f), out(at(out_size(w)));
  in[20] = std::nanf("");
  conv_plain_args a{};
  a.w = w, a.count = 1, a.in = in.data(), a.weight = weight.data(), a.out = out.data();
  a.clamp = 1, a.low = 0, a.high = 6;
  run_plain<float>(a, 0);
  BOOST_TEST(std::isnan(out[20]));
  BOOST_TEST(out[25] == 6);
}

BOOST_AUTO_TEST_CASE(reorders_there_and_back) {
  for (const long channels : {1L, lane_count() - 1, lane_count(), lane_count() + 3, 3 * lane_count()})
    for (const long pixels : {1L, lane_count() - 1, lane_count(), 2 * lane_count() + 5}) {
      const long images = 2;
      const auto in = random_values<float>(images * channels * pixels);
      const auto expected = blocked_form(in.data(), images, channels, pixels);
      buffer<float> there(expected.size(), 1), back(in.size(), 3);
      for (auto& x : there) x = 77;
      reorder_args a{in.data(), there.data(), images, channels, pixels};
      functions().to_blocked(&a, nullptr);
      BOOST_TEST(there.guards_intact());
      BOOST_TEST(kernel_test::same_bits(std::as_const(there).data(), expected.data(), expected.size()));
      a.in = there.data(), a.out = back.data();
      functions().from_blocked(&a, nullptr);
      BOOST_TEST(back.guards_intact());
      BOOST_TEST(kernel_test::same_bits(std::as_const(back).data(), in.data(), in.size()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
