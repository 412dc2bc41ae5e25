// Shared by the tests of quantized kernels: operands, and convolutions by scalar loops.
#pragma once
#include "conv_reference.h"
#include "quantized.h"

namespace quantized_reference {

using namespace lamina::kernels;
using kernel_test::buffer;

inline const quantized_functions& functions() { return quantized_of(kernel_test::tested()); }
/// Number of product forms for any weights that this machine can run, without the one with AMX.
inline int forms() { return functions().form_without_amx() + 1; }
/// Those, the one for weights of 7 bits, and the one with AMX.
inline std::vector<int> all_forms() {
  std::vector<int> all;
  for (int form = 0; form < forms(); ++form) all.push_back(form);
  if (functions().products[2].linear) all.push_back(2);
  if (functions().form() == quantized_form_of_amx) all.push_back(quantized_form_of_amx);
  return all;
}

inline std::mt19937& generator() {
  static std::mt19937 value(17);
  return value;
}
inline long random_to(long least, long max) { return std::uniform_int_distribution<long>(least, max)(generator()); }
inline std::size_t at(long i) { return static_cast<std::size_t>(i); }

/// Fills with bytes of the full range; `extreme`: only its ends, at which narrow sums would saturate.
inline void fill(buffer<std::int8_t>& b, bool extreme) {
  for (auto& x : b) x = static_cast<std::int8_t>(extreme ? (random_to(0, 3) ? -128 : 127) : random_to(-128, 127));
}

/// Fills with weights: of 7 bits in one of three calls, and with two neighbors beyond them in another one.
inline void fill_weights(buffer<std::int8_t>& b, bool extreme) {
  const long how = random_to(0, 2);
  if (how == 0) return fill(b, extreme);
  for (auto& x : b) x = static_cast<std::int8_t>(extreme ? (random_to(0, 3) ? -64 : 63) : random_to(-64, 63));
  if (how == 2 && b.size() > 1) {
    const auto i = at(random_to(0, static_cast<long>(b.size()) - 2));
    b[i] = b[i + 1] = random_to(0, 1) ? -128 : 127;
  }
}

/// Packs weights, twice over different bytes: every byte must be written, because files contain packed weights.
template <class Args> void pack_weights(kernel pack, Args args, buffer<std::int8_t>& packed) {
  buffer<std::int8_t> other(packed.size());
  for (auto& v : other) v = 0x55;
  for (buffer<std::int8_t>* to : {&other, &packed}) {
    args.packed = to->data();
    pack(&args, nullptr);
    BOOST_TEST(to->guards_intact());
  }
  BOOST_TEST(kernel_test::same_bits(std::as_const(packed).data(), std::as_const(other).data(), packed.size()));
}

/// Parameters of a product besides its operands.
struct parameters {
  std::vector<std::int32_t> bias;
  std::vector<float> w_scale;
  float x_scale = 0.02f, y_scale;
  std::int8_t x_zero_point, y_zero_point;
  requantization to;
  parameters(long channels, long depth, bool rowwise)
      : bias(at(channels)),
        w_scale(at(rowwise ? channels : 1)),
        y_scale(static_cast<float>(depth) * 0.002f + 0.01f),
        x_zero_point(static_cast<std::int8_t>(random_to(-128, 127))),
        y_zero_point(static_cast<std::int8_t>(random_to(-128, 127))) {
    for (auto& b : bias) b = static_cast<std::int32_t>(random_to(-100000, 100000));
    for (auto& s : w_scale) s = 0.001f * static_cast<float>(random_to(1, 30));
    to = {&x_scale, w_scale.data(), &y_scale, &x_zero_point, &y_zero_point, bias.data(), rowwise, -128, 127};
    if (random_to(0, 1)) to.low = y_zero_point;
    if (random_to(0, 3) == 0) to.high = std::max<std::int32_t>(to.low, 100);
  }
  std::int8_t result(long sum, long channel) const {
    const float factor = x_scale * w_scale[w_scale.size() == 1 ? 0 : at(channel)] / y_scale;
    const double v = std::nearbyint(static_cast<float>(sum + bias[at(channel)]) * factor) + y_zero_point;
    return static_cast<std::int8_t>(std::min<double>(std::max<double>(v, to.low), to.high));
  }
};

/// The sums of a convolution, [images, O, OH, OW], and the requantized results. `in` has `there` channels per group.
struct convolution {
  std::vector<std::int8_t> results;
  std::vector<std::int32_t> sums;
};
inline convolution convolved(const window& w, long images, long there, const buffer<std::int8_t>& in,
                             const buffer<std::int8_t>& weight, const parameters& p) {
  using conv_reference::each_product, conv_reference::in_size, conv_reference::out_size;
  convolution all;
  const long ins = w.channels / w.groups, plane = w.height * w.width, pixels = w.out_height * w.out_width;
  std::vector<int> image(at(in_size(w)));  // with all channels, less the zero point
  for (long n = 0; n < images; ++n) {
    for (long c = 0; c < w.channels; ++c) {
      const long from = ((n * w.groups + c / ins) * there + c % ins % there) * plane;
      for (long i = 0; i < plane; ++i) image[at(c * plane + i)] = in[at(from + i)] - p.x_zero_point;
    }
    std::vector<long> sums(at(out_size(w)));
    each_product(w, [&](long r, long i, long k) { sums[at(r)] += image[at(i)] * weight[at(k)]; });
    for (long r = 0; r < out_size(w); ++r) {
      all.results.push_back(p.result(sums[at(r)], r / pixels));
      all.sums.push_back(static_cast<std::int32_t>(sums[at(r)]));
    }
  }
  return all;
}

}  // namespace quantized_reference
