// Normalization of rows, of groups of channels, and of single channels.
export module lamina:op.normalize;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// `axes`: number of trailing axes that form one row; 0: the rank of the weight or bias, or 1 without them.
struct normalize_attributes {
  std::int64_t axes = 0;
  double epsilon = 1e-5;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes), f("epsilon", a.epsilon); }
  bool operator==(const normalize_attributes&) const = default;
};
/// Options of `group_norm` and `instance_norm`.
struct group_norm_options {
  std::int64_t num_groups = 1;
  double epsilon = 1e-5;
};
struct instance_norm_options {
  double epsilon = 1e-5;
};

namespace detail {
/// Number of trailing axes that are normalized.
constexpr int normalized_axes(const normalize_attributes& a, view<const tensor_type> in) {
  return a.axes ? static_cast<int>(a.axes) : in.size() > 1 ? in[1].dims.rank : 1;
}
constexpr void infer_normalize(const normalize_attributes& a, view<const tensor_type> in, inference& out,
                               bool centered) {
  const shape& x = in[0].dims;
  if (!same_elements(in, out) || !takes(domain::real, in[0].element, out)) return;
  const int axes = normalized_axes(a, in);
  if (axes < 1 || axes > x.rank) {
    if (in.size() > 1 && !a.axes) out.why << "the weight must have the shape of the last axes";
    else out.why << "cannot normalize " << axes << " axes of this rank";
    return;
  }
  if (!(a.epsilon >= 0)) {
    out.why << "epsilon must not be negative";
    return;
  }
  for (std::size_t i = 1; i < in.size(); ++i) {
    bool same = in[i].dims.rank == axes;
    for (int k = 0; same && k < axes; ++k) same = may_equal(in[i].dims[k], x[x.rank - axes + k]);
    if (!same) {
      out.why << "the weight and bias must have the shape of the last axes";
      return;
    }
  }
  shape rows = x;
  for (int k = x.rank - axes; k < x.rank; ++k) rows[k] = 1;
  out.result(in[0].element, x);
  out.result(in[0].element, rows);
  if (centered) out.result(in[0].element, rows);
}
void map_normalized_axis(const normalize_attributes&, axis_map&);
}  // namespace detail

template <fixed_string Name, bool Centered> struct normalize_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = -1, results = Centered ? 3 : 2;
  using attributes = normalize_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_normalize(a, in, out, Centered);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return in[0].dims; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return (Centered ? 8.0 : 5.0) * static_cast<double>(in[0].dims.size());
  }
  static void map_axis(const attributes& a, axis_map& m) { detail::map_normalized_axis(a, m); }
};
namespace op {
/// Operands: x, optionally weight, optionally bias.  Result 0: the rows; 1: their scale factors; 2: their means.
export struct layer_norm : normalize_definition<"layer_norm", true> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Operands: x, optionally weight.  Result 0: the rows; 1: their scale factors.
export struct rms_norm : normalize_definition<"rms_norm", false> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using normalize_operations = operation_list<op::layer_norm, op::rms_norm>;
template <Operation Op> requires normalize_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace detail {
/// Result 0 of an operation with several results.
template <class Op, class... X> constexpr auto first_result(const typename Op::attributes& a, const X&... x) {
  if constexpr (std::same_as<evaluation_mode_of<X...>, lazy>) return apply<Op>(a, x...);
  else return apply<Op>(a, x...)[0];
}
/// Shape of x [N, C, ...] with each group of channels as one row, with all extents that are known.
constexpr shape grouped(const shape& x, std::int64_t groups) {
  bool rest = true;  // all but the first axis are numbers
  std::int64_t n = 1;
  for (int i = 1; i < x.rank; ++i) {
    rest = rest && x[i].is_number();
    if (rest) n *= x.at(i);
  }
  if (rest && groups > 0) return x[0] == dim(dyn) ? shape{dyn, n / groups} : shape{x[0], groups, n / groups};
  return {x[0], groups, dyn};
}
constexpr shape per_channel(const shape& v, int rank) {
  shape s{v[0]};
  for (int i = 2; i < rank; ++i) s.push_back(1);
  return s;
}
/// y [N, C, ...] with each channel scaled and shifted.
template <class Y, class W, class B> constexpr auto scaled_channels(const Y& y, const W& weight, const B& bias) {
  if constexpr (std::same_as<evaluation_mode_of<Y, W, B>, lazy>) {
    constexpr int rank = bare<Y>::pattern.rank;
    return y * apply_fixed<op::reshape, reshape_attributes{per_channel(bare<W>::pattern, rank)}>(weight) +
           apply_fixed<op::reshape, reshape_attributes{per_channel(bare<B>::pattern, rank)}>(bias);
  } else {
    const int rank = y.shape().rank;
    return y * reshape(weight, per_channel(weight.shape(), rank)) + reshape(bias, per_channel(bias.shape(), rank));
  }
}
constexpr void infer_groups(std::int64_t groups, view<const tensor_type> in, inference& out) {
  const shape& x = in[0].dims;
  if (!same_elements(in, out) || !takes(domain::real, in[0].element, out)) return;
  if (x.rank < 2) {
    out.why << "[N, C, ...] is expected";
    return;
  }
  if (groups < 1 || (x[1].is_number() && x.at(1) % groups)) {
    out.why << x[1] << " channels do not divide into " << groups << " groups";
    return;
  }
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].dims.rank != 1 || !may_equal(in[i].dims[0], x[1])) {
      out.why << "the weight and bias must have one element for each channel";
      return;
    }
}
}  // namespace detail

namespace rule {
struct group_count {
  std::int64_t groups = 1;
};
struct counted_groups {
  static constexpr std::string_view name = "group_norm";
  static constexpr int operands = -1;
  using attributes = group_count;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_groups(a.groups, in, out);
    if (out.why.empty()) out.result(in[0].element, in[0].dims);
  }
};
template <std::int64_t Groups> struct group_norm {
  static constexpr std::string_view name = "group_norm";
  static constexpr int operands = -1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_groups(Groups, in, out);
  }
};
struct instance_norm {
  static constexpr std::string_view name = "instance_norm";
  static constexpr int operands = -1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_groups(1, in, out);
    if (out.why.empty() && in[0].dims.rank < 3)
      out.why << "[N, C, ...] with at least one axis after the channels is expected";
  }
};
}  // namespace rule

/// Normalizes each row of x to mean 0 and variance 1, then multiplies by the weight and adds the bias, where given. A row
/// spans the last axes, as many as the weight has, or `axes` of them.
/// Shapes:  x [..., features], weight [features], bias [features] -> [..., features].
/// Numerics: two passes; the variance is the biased one, summed in double over blocks of 4096; `epsilon` >= 0.
/// Errors:  shape_error where the shape of weight or bias is not that of the last axes.
/// Source:  Ba, Kiros, Hinton, "Layer Normalization" (2016), arXiv:1607.06450.
export template <Symbolic X, Symbolic W, Symbolic B, std::same_as<normalize_attributes> A = normalize_attributes>
requires accepted<diagnostic<applying<op::layer_norm, X, W, B>>()>
constexpr auto layer_norm(const X& x, const W& weight, const B& bias, A a = {}, origin_of<X, W, B> = {}) {
  return detail::first_result<op::layer_norm>(a, x, weight, bias);
}
export template <Symbolic X, Symbolic W, std::same_as<normalize_attributes> A = normalize_attributes>
requires accepted<diagnostic<applying<op::layer_norm, X, W>>()>
constexpr auto layer_norm(const X& x, const W& weight, A a = {}, origin_of<X, W> = {}) {
  return detail::first_result<op::layer_norm>(a, x, weight);
}
export template <Symbolic X, std::same_as<normalize_attributes> A = normalize_attributes>
requires accepted<diagnostic<applying<op::layer_norm, X>>()>
constexpr auto layer_norm(const X& x, A a = {}, origin_of<X> = {}) {
  return detail::first_result<op::layer_norm>(a, x);
}

/// Divides each row of x by its root mean square, then multiplies by the weight, where given.
/// Shapes:  x [..., features], weight [features] -> [..., features].   Numerics: x / sqrt(mean(x^2) + epsilon).
/// Source:  Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019), arXiv:1910.07467.
export template <Symbolic X, Symbolic W, std::same_as<normalize_attributes> A = normalize_attributes>
requires accepted<diagnostic<applying<op::rms_norm, X, W>>()>
constexpr auto rms_norm(const X& x, const W& weight, A a = {}, origin_of<X, W> = {}) {
  return detail::first_result<op::rms_norm>(a, x, weight);
}
export template <Symbolic X, std::same_as<normalize_attributes> A = normalize_attributes>
requires accepted<diagnostic<applying<op::rms_norm, X>>()>
constexpr auto rms_norm(const X& x, A a = {}, origin_of<X> = {}) {
  return detail::first_result<op::rms_norm>(a, x);
}

/// Normalizes groups of channels of each sample, then scales and shifts each channel. The number of groups is a
/// template parameter (`group_norm<2>(x, weight, bias)`) or option (`group_norm(x, weight, bias, {.num_groups = 2})`).
/// Shapes:  x [N, C, ...], weight [C], bias [C] -> shape of x.   Errors: shape_error where the groups do not divide C.
/// Source:  Wu, He, "Group Normalization" (2018), arXiv:1803.08494.
export template <std::int64_t Groups, Symbolic X> requires accepted<diagnostic<applying<rule::group_norm<Groups>, X>>()>
constexpr auto group_norm(const X& x,
                          instance_norm_options a = {}) {  // no origin: with one, this would accept three arguments
  if constexpr (std::same_as<evaluation_mode_of<X>, lazy>) {
    constexpr shape rows = detail::grouped(bare<X>::pattern, Groups);
    return reshape_like(
        layer_norm(apply_fixed<op::reshape, reshape_attributes{rows}>(x), {.axes = 1, .epsilon = a.epsilon}), x);
  } else
    return reshape_like(layer_norm(reshape(x, detail::grouped(x.shape(), Groups)), {.axes = 1, .epsilon = a.epsilon}),
                        x);
}
export template <std::int64_t Groups, Symbolic X, Symbolic W, Symbolic B>
requires accepted<diagnostic<applying<rule::group_norm<Groups>, X, W, B>>()>
constexpr auto group_norm(const X& x, const W& weight, const B& bias, instance_norm_options a = {},
                          origin_of<X, W, B> = {}) {
  return detail::scaled_channels(group_norm<Groups>(x, a), weight, bias);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<rule::counted_groups, same_rank, X>>()>
constexpr auto group_norm(const X& x, group_norm_options a, origin_of<X> = {}) {
  if constexpr (Typed<X>) {
    detail::obey<rule::counted_groups>({a.num_groups}, x);
    auto rows = apply_of_rank<op::reshape, fixed_rank<3>>({detail::grouped(x.shape(), a.num_groups)}, x);
    return reshape_like(layer_norm(rows, {.axes = 1, .epsilon = a.epsilon}), x);
  } else
    return reshape_like(
        layer_norm(reshape(x, detail::grouped(x.shape(), a.num_groups)), {.axes = 1, .epsilon = a.epsilon}), x);
}
export template <Symbolic X, Symbolic W, Symbolic B>
requires accepted<diagnostic<applying_of_rank<rule::counted_groups, same_rank, X, W, B>>()>
constexpr auto group_norm(const X& x, const W& weight, const B& bias, group_norm_options a, origin_of<X, W, B> = {}) {
  return detail::scaled_channels(group_norm(x, a), weight, bias);
}

/// Normalizes each channel of each sample, then scales and shifts it.
/// Shapes:  x [N, C, ...] of rank 3 or more, weight [C], bias [C] -> shape of x.
/// Source:  Ulyanov, Vedaldi, Lempitsky, "Instance Normalization" (2016), arXiv:1607.08022.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::instance_norm, X>>()>
constexpr auto instance_norm(const X& x, instance_norm_options a = {}, origin_of<X> = {}) {
  return reshape_like(layer_norm(flatten<2>(x), {.axes = 1, .epsilon = a.epsilon}), x);
}
export template <Symbolic X, Symbolic W, Symbolic B>
requires accepted<diagnostic<applying<rule::instance_norm, X, W, B>>()>
constexpr auto instance_norm(const X& x, const W& weight, const B& bias, instance_norm_options a = {},
                             origin_of<X, W, B> = {}) {
  return detail::scaled_channels(instance_norm(x, a), weight, bias);
}

}  // namespace lamina
