// Reductions under their usual names; `sum` is `reduce_sum`, and so on.
export module lamina:op.sum;
import :core;
import :op;
import :op.reduce;
import :shape;
import lamina.std;

namespace lamina {

/// `reduce_sum`.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto sum(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_sum, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto sum(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_sum, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_sum, rank_less<N>, X>>()>
constexpr auto sum(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_sum, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"sum(x, {0, 2})", X>>()>
constexpr auto sum(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_sum>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_sum, rank_less<1>, X>>()>
auto sum(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_sum, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_sum, same_rank, X>>()>
auto sum(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_sum, same_rank>({a.axes, true}, x);
}
/// `reduce_mean`.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto mean(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_mean, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto mean(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_mean, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_mean, rank_less<N>, X>>()>
constexpr auto mean(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_mean, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"mean(x, {0, 2})", X>>()>
constexpr auto mean(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_mean>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_mean, rank_less<1>, X>>()>
auto mean(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_mean, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_mean, same_rank, X>>()>
auto mean(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_mean, same_rank>({a.axes, true}, x);
}
/// `reduce_prod`.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_prod, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto prod(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_prod, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_prod, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto prod(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_prod, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_prod, rank_less<N>, X>>()>
constexpr auto prod(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_prod, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"prod(x, {0, 2})", X>>()>
constexpr auto prod(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_prod>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_prod, rank_less<1>, X>>()>
auto prod(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_prod, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_prod, same_rank, X>>()>
auto prod(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_prod, same_rank>({a.axes, true}, x);
}
/// `reduce_max`.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_max, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto max(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_max, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_max, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto max(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_max, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_max, rank_less<N>, X>>()>
constexpr auto max(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_max, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"max(x, {0, 2})", X>>()>
constexpr auto max(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_max>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_max, rank_less<1>, X>>()>
auto max(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_max, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_max, same_rank, X>>()>
auto max(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_max, same_rank>({a.axes, true}, x);
}
/// `reduce_min`.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_min, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto min(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_min, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_min, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto min(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_min, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_min, rank_less<N>, X>>()>
constexpr auto min(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_min, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"min(x, {0, 2})", X>>()>
constexpr auto min(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_min>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_min, rank_less<1>, X>>()>
auto min(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_min, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_min, same_rank, X>>()>
auto min(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_min, same_rank>({a.axes, true}, x);
}

}  // namespace lamina
