// Transposed convolutions with strides, as convolutions without strides whose channels are the phases of the strides:
// they run on the kernels of convolutions, and no product is added to a result in memory.
module lamina:passes.transposed_conv;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.nn;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

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

/// Copies a program and replaces the transposed convolutions whose weights are precomputed.
class transposed_convolutions {
 public:
  explicit transposed_convolutions(const program& from) : copy_(from, to_), reads_(from.nodes().size()) {
    to_.common_subexpressions = from.common_subexpressions;
    for (const auto& n : from.nodes())
      for (auto v : n.inputs) ++reads_[static_cast<std::size_t>(v.node)];
    for (const auto& o : from.outputs()) ++reads_[static_cast<std::size_t>(o.value.node)];
    for (const auto& a : from.assignments()) ++reads_[static_cast<std::size_t>(a.value.node)];
  }

  /// The new program; empty if there is nothing to replace. `is_precomputed(value_id)`: of the given program.
  template <class F> std::optional<program> run(F is_precomputed) {
    bool any = false;
    copy_.run([&](std::int32_t i, const node& n) {
      to_.path = n.path;
      value made;
      if (replaces(n, is_precomputed)) made = by_phases(n, {});
      else if (n.op && n.op->adds && n.inputs.size() == 2)
        for (std::size_t k : {0u, 1u})
          if (made.empty()) made = with_bias(n, n.inputs[k], n.inputs[1 - k], is_precomputed);
      if (made.empty() || made.type() != n.results[0]) return false;
      any = true;
      copy_.set({i, 0}, made);
      return true;
    });
    return any ? std::optional<program>(std::move(to_)) : std::nullopt;
  }

 private:
  static axis_phases rows(const conv_transpose2d_attributes& a, const shape& w) {
    return {a.stride.h, w.at(2), a.padding.h, a.output_padding.h};
  }
  static axis_phases columns(const conv_transpose2d_attributes& a, const shape& w) {
    return {a.stride.w, w.at(3), a.padding.w, a.output_padding.w};
  }

  template <class F> bool replaces(const node& n, F is_precomputed) const {
    if (!is_call_of<op::conv_transpose2d>(n) || n.results[0].element != dtype::float32 || !is_precomputed(n.inputs[1]))
      return false;
    const auto& a = n.attributes_as<conv_transpose2d_attributes>();
    const shape &x = copy_.from.type(n.inputs[0]).dims, &w = copy_.from.type(n.inputs[1]).dims;
    const std::int64_t strides = a.stride.h * a.stride.w;
    if (a.groups != 1 || a.dilation != extent2d(1) || strides == 1 || !w.is_static() || w.size() == 0) return false;
    // A reshape infers one extent; and phases of very long strides are mostly a copy.
    if ((!x[2].is_number() && !x[3].is_number()) || strides > 64) return false;
    // The padding must leave results of any open extent, for which the convolution has no error.
    const auto fits = [](dim from, std::int64_t filter, std::int64_t stride, std::int64_t padding, std::int64_t more) {
      const std::int64_t max_taps = 16;
      return filter % stride == 0 && filter / stride <= max_taps &&
             (from.is_number() ? from.code > 0 : filter - 2 * padding + more > 0);
    };
    return fits(x[2], w.at(2), a.stride.h, a.padding.h, a.output_padding.h) &&
           fits(x[3], w.at(3), a.stride.w, a.padding.w, a.output_padding.w);
  }

  bool is_read_once(value_id v) const { return reads_[static_cast<std::size_t>(v.node)] == 1; }

  // The sum of a transposed convolution that nothing else reads, or of a view of it, and a number for each of its
  // channels; empty if it is not one.
  template <class F> value with_bias(const node& n, value_id product, value_id term, F is_precomputed) {
    const auto& from = copy_.from;
    const node& around = from.at(product);
    const bool viewed = around.op && around.op->alias == 0;  // as the image of one row of a sequence
    const value_id inner = viewed ? around.inputs[0] : product;
    const node& made = from.at(inner);
    const shape &s = from.type(term).dims, &y = n.results[0].dims, &images = from.type(inner).dims;
    if (from.type(product) != n.results[0] || !is_read_once(product) || !is_read_once(inner) || !is_precomputed(term) ||
        !replaces(made, is_precomputed) || y.rank < 2)
      return {};
    if (viewed && (y[0] == dim(dyn) || y[0] != images[0] || y[1] != images[1])) return {};
    const int axis = s.rank - y.rank + 1;  // of the channels
    if (axis < 0 || s[axis] != y[1] || s.size() != y.at(1)) return {};
    const value sum = by_phases(made, reshape(copy_.at(term), {y[1]}));
    if (!viewed) return sum;
    std::vector<value> in = copy_.operands(around);
    in[0] = sum;
    return {&to_, to_.add(*around.op, around.attributes, in, around.subprograms)};
  }

  // Filters [C, O, H, W] to [O phases, C, H / stride, W / stride], each in the opposite order.
  static value phase_filters(value w, const axis_phases& h, const axis_phases& v) {
    const dim in = w.shape()[0], out = w.shape()[1];
    w = reshape(w, {in, out, h.taps, h.stride, v.taps, v.stride});
    w = permute(reversed(reversed(w, 2), 4), axes(1, 3, 5, 0, 2, 4));
    return reshape(w, {out.code * h.stride * v.stride, in, h.taps, v.taps});
  }
  static value reversed(const value& x, int axis) {
    std::vector<value> parts;
    for (std::int64_t i = x.shape().at(axis); i-- > 0;)
      parts.push_back(slice(x, {.start = i, .stop = i + 1, .axis = axis}));
    return parts.size() == 1 ? x : concat(view<const value>(parts), axis);
  }
  // Without the results that the padding cuts off.
  static value cut(const value& y, int axis, const axis_phases& p) {
    if (p.first == 0 && p.end == 0) return y;
    constexpr auto to_the_end = std::numeric_limits<std::int64_t>::max();
    return slice(y, {.start = p.first, .stop = p.end ? -p.end : to_the_end, .axis = axis});
  }

  // `bias`: one number for each channel, or empty.
  value by_phases(const node& n, const value& bias) {
    const auto a = n.attributes_as<conv_transpose2d_attributes>();
    const value x = copy_.at(n.inputs[0]), filters = copy_.at(n.inputs[1]);
    const auto h = rows(a, filters.shape()), v = columns(a, filters.shape());
    value y = conv2d(x, phase_filters(filters, h, v),
                     {.padding = {h.before, v.before},
                      .padding_more = {h.after - h.before, v.after - v.before},
                      .compute = a.compute});
    const std::int64_t channels = filters.shape().at(1), phases = h.stride * v.stride;
    if (!bias.empty())
      y = y + reshape(apply<op::repeat>(repeat_attributes{.count = phases}, bias), {channels * phases, 1, 1});
    const dim high = h.positions(x.shape()[2]), wide = v.positions(x.shape()[3]);
    const bool open = high == dim(dyn) || wide == dim(dyn);
    const dim images = open ? dim(dyn) : x.shape()[0];  // a leading extent is copied, also 0
    const auto longer = [](dim d, std::int64_t by) { return d.is_number() ? dim(d.code * by) : d; };
    y = permute(reshape(y, {images, channels, h.stride, v.stride, high, wide}), axes(0, 1, 4, 2, 5, 3));
    y = reshape(y, {images, channels, longer(high, h.stride), longer(wide, v.stride)});
    return cut(cut(y, 2, h), 3, v);
  }

  program to_;
  rewriter copy_;
  std::vector<std::int64_t> reads_;  // of each node of the given program
};

}  // namespace lamina::rewriting
