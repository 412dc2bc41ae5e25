// Convolution and pooling over images [N, C, H, W].
export module lamina:op.nn;
import :core;
import :dtype;
import :emission;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// One number for height and width, or one for each.
export struct extent2d {
  std::int64_t h = 0, w = 0;
  constexpr extent2d() = default;
  constexpr extent2d(std::integral auto n) : h(static_cast<std::int64_t>(n)), w(h) {}
  constexpr extent2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  constexpr bool operator==(const extent2d&) const = default;
};

/// `padding_more`: extra rows below and columns to the right, relative to the padding above and to the left; may be
/// negative. `compute`: type that float32 operands are rounded to before multiplying, as in `matmul_attributes`.
export struct conv2d_attributes {
  extent2d stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  extent2d padding_more = 0;
  product_type compute{};
  static constexpr std::string_view later = "compute";
  static constexpr void members(auto& a, auto&& f) {
    f("stride_h", a.stride.h), f("stride_w", a.stride.w), f("padding_h", a.padding.h), f("padding_w", a.padding.w);
    f("dilation_h", a.dilation.h), f("dilation_w", a.dilation.w), f("groups", a.groups);
    f("padding_more_h", a.padding_more.h), f("padding_more_w", a.padding_more.w);
    f("compute", a.compute);
  }
  bool operator==(const conv2d_attributes&) const = default;
};
/// `padding_more`: as in `conv2d_attributes`.
export struct pool2d_attributes {
  extent2d kernel_size = 2, stride = 0, padding = 0;  // stride 0: kernel size
  bool count_padding = true;                          // average pooling: padding counts in the divisor
  extent2d padding_more = 0;
  static constexpr void members(auto& a, auto&& f) {
    f("kernel_h", a.kernel_size.h), f("kernel_w", a.kernel_size.w), f("stride_h", a.stride.h),
        f("stride_w", a.stride.w);
    f("padding_h", a.padding.h), f("padding_w", a.padding.w), f("count_padding", a.count_padding);
    f("padding_more_h", a.padding_more.h), f("padding_more_w", a.padding_more.w);
  }
  constexpr extent2d step() const { return {stride.h ? stride.h : kernel_size.h, stride.w ? stride.w : kernel_size.w}; }
  bool operator==(const pool2d_attributes&) const = default;
};

/// `output_padding`: extra rows and columns at the end, where strides leave the size open. `compute`: as for conv2d.
export struct conv_transpose2d_attributes {
  extent2d stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  product_type compute{};
  static constexpr std::string_view later = "compute";
  static constexpr void members(auto& a, auto&& f) {
    f("stride_h", a.stride.h), f("stride_w", a.stride.w), f("padding_h", a.padding.h), f("padding_w", a.padding.w);
    f("output_padding_h", a.output_padding.h), f("output_padding_w", a.output_padding.w);
    f("dilation_h", a.dilation.h), f("dilation_w", a.dilation.w), f("groups", a.groups), f("compute", a.compute);
  }
  constexpr conv2d_attributes forward() const {
    return {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups, .compute = compute};
  }
  bool operator==(const conv_transpose2d_attributes&) const = default;
};
/// `causal`: pads only before the first position, so that no position sees a later one; `padding` is not used then.
export struct conv1d_options {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool causal = false;
};

namespace detail {
constexpr bool image_operand(const tensor_type& x, inference& out) {
  if (!takes(domain::real, x.element, out)) return false;
  if (x.dims.rank != 4) {
    out.why << "images [N, C, H, W] are expected";
    return false;
  }
  return true;
}
/// Whether window parameters are small enough that their products fit in 64 bits.
constexpr bool window_numbers_fit(std::initializer_list<extent2d> all, inference& out) {
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
  for (const auto& e : all)
    if (e.h > max || e.w > max) {
      out.why << (e.h > max ? e.h : e.w)
              << " is too large for a window, stride, padding, dilation or groups; the limit is " << max;
      return false;
    }
  return true;
}
/// Whether the padding at the end is non-negative.
constexpr bool ends_with_padding(const auto& a) {
  return a.padding_more.h >= -a.padding.h && a.padding_more.w >= -a.padding.w;
}
/// Whether these window parameters are valid for a convolution.
constexpr bool convolution_numbers_fit(const conv2d_attributes& a, extent2d output_padding, inference& out) {
  if (a.stride.h < 1 || a.stride.w < 1 || a.dilation.h < 1 || a.dilation.w < 1 || a.groups < 1 || a.padding.h < 0 ||
      a.padding.w < 0 || output_padding.h < 0 || output_padding.w < 0 || !ends_with_padding(a)) {
    out.why << "stride, dilation and groups must be positive, padding not negative";
    return false;
  }
  return window_numbers_fit({a.stride, a.padding, a.padding_more, output_padding, a.dilation, a.groups}, out);
}
/// Infers a result of images, unless it is too large.
constexpr void infer_images(dtype element, const shape& s, inference& out) {
  constexpr std::int64_t max = std::int64_t(1) << 59;  // their size in bytes fits in 64 bits
  std::int64_t elements = 1;
  for (int i = 0; i < s.rank; ++i)
    if (s[i].is_number() &&
        (__builtin_mul_overflow(elements, std::max<std::int64_t>(s.at(i), 1), &elements) || elements > max)) {
      out.why << "the result " << s << " is too large";
      return;
    }
  out.result(element, s);
}
constexpr void infer_pool(const pool2d_attributes& a, view<const tensor_type> in, inference& out, bool index) {
  // Quantization is monotonic, so the maximum of int8 is that of the real numbers.
  if (!image_operand(index && in[0].element == dtype::int8 ? tensor_type{dtype::float32, in[0].dims} : in[0], out))
    return;
  const shape& x = in[0].dims;
  extent2d step = a.step();
  if (a.kernel_size.h < 1 || a.kernel_size.w < 1 || step.h < 1 || step.w < 1 || a.padding.h < 0 || a.padding.w < 0 ||
      !ends_with_padding(a)) {
    out.why << "kernel_size and stride must be positive, padding not negative";
    return;
  }
  if (!window_numbers_fit({a.kernel_size, step, a.padding, a.padding_more}, out)) return;
  if (a.padding.h > a.kernel_size.h / 2 || a.padding.w > a.kernel_size.w / 2) {
    out.why << "padding is more than half of the window";
    return;
  }
  if (a.padding.h + a.padding_more.h >= a.kernel_size.h + step.h ||
      a.padding.w + a.padding_more.w >= a.kernel_size.w + step.w) {
    out.why << "padding at the end is as large as a window and its stride";
    return;
  }
  shape s{x[0], x[1], window_positions(x[2], a.kernel_size.h, step.h, a.padding.h, 1, a.padding_more.h),
          window_positions(x[3], a.kernel_size.w, step.w, a.padding.w, 1, a.padding_more.w)};
  if (x[2] == dim(0) || x[3] == dim(0) || s[2] == dim(0) || s[3] == dim(0)) {
    out.why << "the window " << a.kernel_size.h << "x" << a.kernel_size.w << " is larger than the map";
    return;
  }
  out.result(in[0].element, s);
  if (index) out.result(dtype::int32, s);
}
constexpr shape any_image(view<const tensor_type>) { return {dyn, dyn, dyn, dyn}; }
/// Pools accept images in any layout.
inline image_layouts pooled_images(const image_call& c) {
  return c.blocked && c.first_only ? image_layouts{true, true} : image_layouts{};
}
}  // namespace detail

namespace op {
export struct conv2d {
  static constexpr std::string_view name = "conv2d";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 2;
  static constexpr bool rounds_operands = true;
  static channel_axes channels(const conv2d_attributes&, const shape&, const shape&) { return {1, 0}; }
  static image_layouts images(const image_call&);
  static window_rule windows(const image_call&);
  static bool joins_windows(const image_call&, window_rule, const image_call& windows);
  using attributes = conv2d_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out) || !detail::image_operand(in[0], out)) return;
    const shape &x = in[0].dims, &w = in[1].dims;
    if (w.rank != 4) {
      out.why << "weights [O, C / groups, H, W] are expected";
      return;
    }
    if (!detail::convolution_numbers_fit(a, 0, out) || !detail::may_compute_in(a.compute, in[0].element, out)) return;
    if (w[1] == dim(0)) {
      out.why << "the weights have no input channels";
      return;
    }
    if (w[2] == dim(0) || w[3] == dim(0)) {
      out.why << "the kernel has no extent";
      return;
    }
    if (x[1].is_number() && w[1].is_number() && (x.at(1) % a.groups || x.at(1) / a.groups != w.at(1))) {
      out.why << "the weights expect " << w[1] << (a.groups > 1 ? " input channels in each group" : " input channels");
      return;
    }
    if (w[0].is_number() && w.at(0) % a.groups) {
      out.why << w.at(0) << " output channels do not divide into " << a.groups << " groups";
      return;
    }
    const auto positions = [&](int axis, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                               std::int64_t more) {
      return w[axis].is_number() ? window_positions(x[axis], w.at(axis), stride, padding, dilation, more) : dim(dyn);
    };
    const dim h = positions(2, a.stride.h, a.padding.h, a.dilation.h, a.padding_more.h);
    const dim wide = positions(3, a.stride.w, a.padding.w, a.dilation.w, a.padding_more.w);
    if (h == dim(0) || wide == dim(0)) {
      out.why << "the kernel is larger than the padded map";
      return;
    }
    detail::infer_images(in[0].element, {x[0], w[0], h, wide}, out);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return {in[0].dims[0], in[1].dims[0], dyn, dyn}; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[1].dims.size(1, 4));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Gradient of conv2d with respect to its input: operands are the result's gradient, the weights, and the input's shape.
struct conv2d_input_grad {
  static constexpr std::string_view name = "conv2d_input_grad";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 3;
  static constexpr bool plain_images = true;
  static constexpr unsigned shape_only = 4;
  using attributes = conv2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 2.0 * static_cast<double>(in[0].dims.size()) * static_cast<double>(in[1].dims.size(1, 4));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Gradient of conv2d with respect to its weights: operands are the result's gradient, the input, and the weights' shape.
struct conv2d_weight_grad {
  static constexpr std::string_view name = "conv2d_weight_grad";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 3;
  static constexpr bool plain_images = true;
  static constexpr unsigned shape_only = 4;
  using attributes = conv2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(in[0].dims.size()) * static_cast<double>(out[0].dims.size(1, 4));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of conv2d as a separate operation: the transposed convolution.
struct conv_transpose2d {
  static constexpr std::string_view name = "conv_transpose2d";
  static constexpr int operands = 2;
  static constexpr bool rounds_operands = true;
  using attributes = conv_transpose2d_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out) || !detail::image_operand(in[0], out)) return;
    const shape &x = in[0].dims, &w = in[1].dims;
    if (w.rank != 4) {
      out.why << "weights [C, O / groups, H, W] are expected";
      return;
    }
    if (!detail::convolution_numbers_fit(a.forward(), a.output_padding, out) ||
        !detail::may_compute_in(a.compute, in[0].element, out))
      return;
    if (a.output_padding.h >= a.stride.h || a.output_padding.w >= a.stride.w) {
      out.why << "output padding must be smaller than the stride";
      return;
    }
    if (!may_equal(x[1], w[0])) {
      out.why << "the weights expect " << w[0] << " input channels";
      return;
    }
    if (w[0].is_number() && w.at(0) % a.groups) {
      out.why << w.at(0) << " input channels do not divide into " << a.groups << " groups";
      return;
    }
    if (w[1] == dim(0) || w[2] == dim(0) || w[3] == dim(0)) {
      out.why << "the kernel has no extent";
      return;
    }
    const auto size = [&](dim n, dim kernel, std::int64_t stride, std::int64_t padding, std::int64_t more,
                          std::int64_t dilation) {
      if (!n.is_number() || !kernel.is_number() || n.code > max || kernel.code > max) return dim(dyn);
      const std::int64_t left = (n.code - 1) * stride - 2 * padding + dilation * (kernel.code - 1) + more + 1;
      return dim(std::max<std::int64_t>(left, 0));  // below 0 it would encode a name
    };
    const dim h = size(x[2], w[2], a.stride.h, a.padding.h, a.output_padding.h, a.dilation.h);
    const dim wide = size(x[3], w[3], a.stride.w, a.padding.w, a.output_padding.w, a.dilation.w);
    if (x[2] == dim(0) || x[3] == dim(0) || h == dim(0) || wide == dim(0)) {
      out.why << "the padding leaves an empty result";
      return;
    }
    const dim channels = w[1].is_number() ? dim(w.at(1) * a.groups) : dim(dyn);
    detail::infer_images(in[0].element, {x[0], channels, h, wide}, out);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return {in[0].dims[0], dyn, dyn, dyn}; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 2.0 * static_cast<double>(in[0].dims.size()) * static_cast<double>(in[1].dims.size(1, 4));
  }
  /// As a convolution without strides whose channels are the phases of the strides.
  static value with_known_weights(const attributes&, const value& x, const value& weights, const value& term);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);

 private:
  static constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
};
/// Result 0: the maxima; result 1: their positions in their maps, int32.
export struct max_pool2d {
  static constexpr std::string_view name = "max_pool2d";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 1, results = 2;
  static constexpr bool keeps_elements = true;
  static image_layouts images(const image_call& c) { return detail::pooled_images(c); }
  static window_rule windows(const image_call&) { return window_rule::maximum; }
  using attributes = pool2d_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_pool(a, in, out, true);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return {in[0].dims[0], in[0].dims[1], dyn, dyn}; }
  static double flops(const attributes& a, view<const tensor_type>, view<const tensor_type> out) {
    return static_cast<double>(out[0].dims.size()) * static_cast<double>(a.kernel_size.h) *
           static_cast<double>(a.kernel_size.w);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Zeros of the third operand's shape, with the elements of the first added at the positions of the maxima in their
/// maps, the second operand.
struct max_pool2d_grad {
  static constexpr std::string_view name = "max_pool2d_grad";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 3;
  static constexpr bool may_fail = true;
  static constexpr unsigned shape_only = 4;
  using attributes = pool2d_attributes;
  /// Positions from `max_pool2d` itself, for maps of the same size, are valid.
  static bool node_may_fail(const program&, const node&);
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static void emit(emission&);
};
struct avg_pool2d {
  static constexpr std::string_view name = "avg_pool2d";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 1;
  static image_layouts images(const image_call& c) { return detail::pooled_images(c); }
  static window_rule windows(const image_call&) { return window_rule::mean; }
  using attributes = pool2d_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_pool(a, in, out, false);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return {in[0].dims[0], in[0].dims[1], dyn, dyn}; }
  static double flops(const attributes& a, view<const tensor_type>, view<const tensor_type> out) {
    return static_cast<double>(out[0].dims.size()) * static_cast<double>(a.kernel_size.h) *
           static_cast<double>(a.kernel_size.w);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
struct avg_pool2d_grad {
  static constexpr std::string_view name = "avg_pool2d_grad";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = pool2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using nn_operations = operation_list<op::avg_pool2d, op::avg_pool2d_grad, op::conv2d, op::conv2d_input_grad,
                                     op::conv2d_weight_grad, op::conv_transpose2d, op::max_pool2d, op::max_pool2d_grad>;
template <Operation Op> requires nn_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace detail {
/// Reshapes a sequence [N, C, L] to images of one row, or filters [O, C, K] to filters of one row.
constexpr shape one_row(const shape& s) { return {s[0], s[1], 1, s[2]}; }
constexpr bool shapes_into_row(const shape& s) { return s[0] != dim(dyn) || (s[1].is_number() && s[2].is_number()); }
/// Extent of the dilated kernel, minus one.
constexpr std::int64_t reach(const conv1d_options& a, const shape& w) { return (w.at(2) - 1) * a.dilation; }
}  // namespace detail

namespace rule {
struct conv1d {
  static constexpr std::string_view name = "conv1d";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out) || !detail::takes(domain::real, in[0].element, out)) return;
    if (in[0].dims.rank != 3) out.why << "sequences [N, C, L] are expected";
    else if (in[1].dims.rank != 3) out.why << "weights [O, C / groups, K] are expected";
    else if (!in[1].dims.is_static()) out.why << "the extents of the weights must be known";
    else if (!detail::shapes_into_row(in[0].dims)) out.why << "the number of sequences must be a number or a name";
  }
};
struct global_avg_pool2d {
  static constexpr std::string_view name = "global_avg_pool2d";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::image_operand(in[0], out);
  }
};
}  // namespace rule

/// Cross-correlation of images with filters.
/// Shapes:  x [N, C, H, W], w [O, C / groups, KH, KW] -> [N, O, OH, OW] with OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1.
/// Errors:  shape_error where channels do not fit or the kernel is larger than the padded map.
export template <Symbolic X, Symbolic W> requires accepted<diagnostic<applying<op::conv2d, X, W>>()>
constexpr auto conv2d(const X& x, const W& w, conv2d_attributes a = {}, origin_of<X, W> = {}) {
  return apply<op::conv2d>(a, x, w);
}
/// The adjoint of `conv2d`, also called deconvolution.
/// Shapes:  x [N, C, H, W], w [C, O / groups, KH, KW] -> [N, O, OH, OW] with
///          OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
/// Errors:  shape_error where channels do not fit or the result is empty after removing the padding.
export template <Symbolic X, Symbolic W> requires accepted<diagnostic<applying<op::conv_transpose2d, X, W>>()>
constexpr auto conv_transpose2d(const X& x, const W& w, conv_transpose2d_attributes a = {}, origin_of<X, W> = {}) {
  return apply<op::conv_transpose2d>(a, x, w);
}
/// Cross-correlation along a sequence, as a `conv2d` of one row.
/// Shapes:  x [N, C, L], w [O, C / groups, K] -> [N, O, OL] with OL = (L + 2 padding - dilation (K - 1) - 1) / stride + 1,
///          or (L - 1) / stride + 1 where it is causal.
export template <Symbolic X, Symbolic W> requires accepted<diagnostic<applying<rule::conv1d, X, W>>()>
constexpr auto conv1d(const X& x, const W& w, conv1d_options a = {}, origin_of<X, W> = {}) {
  const auto rows = [](const auto& v) {
    using V = bare<decltype(v)>;
    if constexpr (std::same_as<evaluation_mode_of<V>, lazy>)
      return apply_fixed<op::reshape, reshape_attributes{detail::one_row(V::pattern)}>(v);
    else return reshape(v, detail::one_row(v.shape()));
  };
  const std::int64_t before = a.causal && w.shape().rank == 3 ? detail::reach(a, w.shape()) : a.padding;
  // conv2d pads both sides; a causal convolution pads only before the sequence, so the last positions are cut off.
  const bool cut = a.causal && before > 0;
  const auto y = flatten<2>(conv2d(
      rows(x), rows(w),
      {.stride = {1, cut ? 1 : a.stride}, .padding = {0, before}, .dilation = {1, a.dilation}, .groups = a.groups}));
  if constexpr (std::same_as<evaluation_mode_of<X>, lazy>)
    return slice(
        y, {.stop = cut ? -before : std::numeric_limits<std::int64_t>::max(), .axis = 2, .step = cut ? a.stride : 1});
  else return cut ? slice(y, {.stop = -before, .axis = 2, .step = a.stride}) : y;
}
/// Largest element of each window; int8 is allowed.   Shapes: [N, C, H, W] -> [N, C, OH, OW].   Numerics: padding is
/// never the maximum; NaN propagates.
export template <Symbolic X> requires accepted<diagnostic<applying<op::max_pool2d, X>>()>
constexpr auto max_pool2d(const X& x, pool2d_attributes a = {}, origin_of<X> = {}) {
  if constexpr (std::same_as<evaluation_mode_of<X>, lazy>) return apply<op::max_pool2d>(a, x);
  else return apply<op::max_pool2d>(a, x)[0];
}
/// Mean of each window.   Shapes: [N, C, H, W] -> [N, C, OH, OW].
export template <Symbolic X> requires accepted<diagnostic<applying<op::avg_pool2d, X>>()>
constexpr auto avg_pool2d(const X& x, pool2d_attributes a = {}, origin_of<X> = {}) {
  return apply<op::avg_pool2d>(a, x);
}
/// Mean of each map.   Shapes: [N, C, H, W] -> [N, C, 1, 1].
export template <Symbolic X> requires accepted<diagnostic<applying<rule::global_avg_pool2d, X>>()>
constexpr auto global_avg_pool2d(const X& x, origin_of<X> = {}) {
  return reduce_mean<axes(2, 3), true>(x);
}

}  // namespace lamina
