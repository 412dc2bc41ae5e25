// Transposed convolutions with strides, as convolutions without strides whose channels are the phases of the strides:
// they run on the kernels of convolutions, and no product is added to a result in memory.
module lamina:op.conv_transpose.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.nn;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :shape;
import lamina.std;

namespace lamina::op {

namespace {

/// One axis of a transposed convolution with stride s: its result at s i + phase - padding is the sum over t of position
/// i - t times the filter's element s t + phase. All phases of one i are channels of a convolution.
struct axis_phases {
  std::int64_t stride, taps, first, before, after, end;  // `first`, `end`: results to cut off on both sides

  axis_phases(std::int64_t s, std::int64_t filter, std::int64_t padding, std::int64_t more)
      : stride(s), taps(filter / s) {
    const std::int64_t skipped = std::min(padding / s, taps - 1);      // whole positions before the result
    const std::int64_t beyond = std::max(filter - padding + more, s);  // results of the last position of x
    first = padding - skipped * s, before = taps - 1 - skipped;
    after = (beyond + s - 1) / s - 1, end = (after + 1) * s - (filter - padding + more);
  }
  /// Extent of the convolution's result.
  dim positions(dim of) const { return of.is_number() ? dim(of.code + before + after - taps + 1) : dim(dyn); }
};

// Whether the stride divides the filter, and the padding leaves results of any open extent, for which a convolution has
// no error.
bool splits(dim from, std::int64_t filter, std::int64_t stride, std::int64_t padding, std::int64_t more) {
  const std::int64_t max_taps = 16;
  return filter % stride == 0 && filter / stride <= max_taps &&
         (from.is_number() ? from.code > 0 : filter - 2 * padding + more > 0);
}
bool splits(const conv_transpose2d_attributes& a, const shape& x, const shape& w) {
  const std::int64_t strides = a.stride.h * a.stride.w, max_strides = 64;  // more are mostly a copy
  return a.groups == 1 && a.dilation == extent2d(1) && strides > 1 && strides <= max_strides && w.is_static() &&
         w.size() > 0 && (x[2].is_number() || x[3].is_number()) &&  // a reshape infers one extent
         splits(x[2], w.at(2), a.stride.h, a.padding.h, a.output_padding.h) &&
         splits(x[3], w.at(3), a.stride.w, a.padding.w, a.output_padding.w);
}

value reversed(const value& x, int axis) {
  std::vector<value> parts;
  for (std::int64_t i = x.shape().at(axis); i-- > 0;)
    parts.push_back(lamina::slice(x, {.start = i, .stop = i + 1, .axis = axis}));
  return parts.size() == 1 ? x : lamina::concat(view<const value>(parts), axis);
}
// Filters [C, O, H, W] to [O phases, C, H / stride, W / stride], each in the opposite order.
value phase_filters(value w, const axis_phases& h, const axis_phases& v) {
  const dim in = w.shape()[0], out = w.shape()[1];
  w = lamina::reshape(w, {in, out, h.taps, h.stride, v.taps, v.stride});
  w = lamina::permute(reversed(reversed(w, 2), 4), axes(1, 3, 5, 0, 2, 4));
  return lamina::reshape(w, {out.code * h.stride * v.stride, in, h.taps, v.taps});
}

}  // namespace

value conv_transpose2d::with_known_weights(const attributes& a, const value& x, const value& weights,
                                           const value& term) {
  const shape from = x.shape(), w = weights.shape();  // copies: nodes are added
  if (x.type().element != dtype::float32 || !splits(a, from, w)) return {};
  const axis_phases h(a.stride.h, w.at(2), a.padding.h, a.output_padding.h),
      v(a.stride.w, w.at(3), a.padding.w, a.output_padding.w);
  value y = lamina::conv2d(x, phase_filters(weights, h, v),
                           {.padding = {h.before, v.before},
                            .padding_more = {h.after - h.before, v.after - v.before},
                            .compute = a.compute});
  const std::int64_t channels = w.at(1), phases = h.stride * v.stride;
  if (!term.empty())
    y = y + lamina::reshape(apply<repeat>(repeat_attributes{.count = phases}, term), {channels * phases, 1, 1});
  const dim high = h.positions(from[2]), wide = v.positions(from[3]);
  const bool open = high == dim(dyn) || wide == dim(dyn);
  const dim images = open ? dim(dyn) : from[0];  // a leading extent is copied, also 0
  const auto longer = [](dim d, std::int64_t by) { return d.is_number() ? dim(d.code * by) : d; };
  y = lamina::permute(lamina::reshape(y, {images, channels, h.stride, v.stride, high, wide}), axes(0, 1, 4, 2, 5, 3));
  y = lamina::reshape(y, {images, channels, longer(high, h.stride), longer(wide, v.stride)});
  return detail::trimmed(detail::trimmed(y, 2, h.first, h.end), 3, v.first, v.end);
}

}  // namespace lamina::op
