module lamina:op.reduce_by.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.reduce;
import :op.reduce_by;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
// log(sum(exp(x))), relative to the largest element if that is finite.
value log_sum_exp(const value& x, reduce_attributes a) {
  const value max = reduce_max(x, reduce_attributes{a.axes, true});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const value from = stop_gradient(where((max == infinity) || (max == -infinity), 0, max));
  const value sum = log(reduce_sum(exp(x - from), reduce_attributes{a.axes, true})) + from;
  return a.keepdim ? sum : value(reshape_like(sum, reduce_sum(x, a)));
}
[[noreturn]] void refuse_kind(reduction_kind kind) {
  text t;
  detail::raise(error_kind::value, t << "reduce: the kind " << static_cast<int>(kind) << " is unknown");
}
}  // namespace

value reduce(reduction_kind kind, const value& x, reduce_attributes a, const origin&) {
  const bool is_boolean = x.type().element == dtype::boolean;
  switch (kind) {
    case reduction_kind::sum: return reduce_sum(x, a);
    case reduction_kind::mean: return reduce_mean(x, a);
    case reduction_kind::product: return reduce_prod(x, a);
    case reduction_kind::maximum: return is_boolean ? value(reduce_any(x, a)) : value(reduce_max(x, a));
    case reduction_kind::minimum: return is_boolean ? value(reduce_all(x, a)) : value(reduce_min(x, a));
    case reduction_kind::l1: return reduce_sum(abs(x), a);
    case reduction_kind::l2: return sqrt(reduce_sum(square(x), a));
    case reduction_kind::log_sum: return log(reduce_sum(x, a));
    case reduction_kind::log_sum_exp: return log_sum_exp(x, a);
    case reduction_kind::sum_square: return reduce_sum(square(x), a);
  }
  refuse_kind(kind);
}
value reduce_by(const value& x, const value& over, reduce_by_attributes a, const origin&) {
  return apply<op::reduce_by>(a, x, over);
}
value running_along(const value& x, const value& axis, running_attributes a, const origin&) {
  return apply<op::running_along>(a, x, axis);
}
value reduce_l1(const value& x, reduce_attributes a, const origin&) { return reduce(reduction_kind::l1, x, a); }
value reduce_l2(const value& x, reduce_attributes a, const origin&) { return reduce(reduction_kind::l2, x, a); }
value reduce_log_sum(const value& x, reduce_attributes a, const origin&) {
  return reduce(reduction_kind::log_sum, x, a);
}
value reduce_log_sum_exp(const value& x, reduce_attributes a, const origin&) {
  return reduce(reduction_kind::log_sum_exp, x, a);
}
value reduce_sum_square(const value& x, reduce_attributes a, const origin&) {
  return reduce(reduction_kind::sum_square, x, a);
}

}  // namespace lamina

namespace lamina::op {

namespace {
bool takes_element(reduction_kind kind, dtype element, inference& out) {
  if (kind < reduction_kind::sum || kind > reduction_kind::sum_square) {
    out.why << "the kind " << static_cast<int>(kind) << " of reduction is unknown";
    return false;
  }
  if (kind == reduction_kind::maximum || kind == reduction_kind::minimum)
    return element == dtype::boolean || detail::takes(domain::numbers, element, out);
  const bool real = kind == reduction_kind::mean || kind == reduction_kind::l2 || kind == reduction_kind::log_sum ||
                    kind == reduction_kind::log_sum_exp;
  return detail::takes(real ? domain::real : domain::numbers, element, out);
}
// Converts a list to axes; false if an element is not a valid axis.
bool axes_of(const any_tensor& t, int rank, axes& a) {
  unsigned bits = 0;
  for (std::int64_t at : t.elements<std::int64_t>()) {
    const int axis = detail::normal_axis(at, rank);
    if (axis < 0 || bits >> axis & 1u) return false;
    bits |= 1u << axis;
    a.values[a.count++] = axis;
  }
  return true;
}
}  // namespace

void reduce_by::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const shape &x = in[0].dims, &over = in[1].dims;
  if (!takes_element(a.kind, in[0].element, out)) return;
  if (in[1].element != dtype::int64) return out.refuse(in[1].element, "int64 axes", "std::int64_t");
  if (over.rank != 1 || (!over[0].is_number() && !a.keepdim)) {
    out.why << "the axes must be a vector, of known length without keepdim";
    return;
  }
  if (!over[0].is_number()) {
    shape kept;
    for (int i = 0; i < x.rank; ++i) kept.push_back(dyn);
    return out.result(in[0].element, kept);
  }
  const std::int64_t n = over.at(0);
  if (n > x.rank) {
    out.why << n << " axes are not distinct axes of the operand";
    return;
  }
  if (n == 0 && a.none_if_empty) return out.result(in[0].element, x);
  axes named;
  unsigned bits = 0;
  if (const any_tensor* known = out.elements_of(1)) {
    if (!axes_of(*known, x.rank, named)) {
      out.why << "the axes are not distinct axes of the operand";
      return;
    }
    detail::reduced_axes({named, a.keepdim}, x.rank, bits);
    return out.result(in[0].element, detail::reduced_shape(x, bits, a.keepdim));
  }
  shape s;
  const int rank = a.keepdim ? x.rank : n == 0 ? 0 : x.rank - static_cast<int>(n);
  for (int i = 0; i < rank; ++i) s.push_back(n == 0 ? dim(1) : dim(dyn));
  out.result(in[0].element, s);
}
value reduce_by::bind(const attributes& a, view<const value> in) {
  axes named;
  axes_of(in[1].owner().at(in[1].id()).constant, in[0].shape().rank, named);
  if (named.count > 0 || !a.none_if_empty) return lamina::reduce(a.kind, in[0], {named, a.keepdim});
  switch (a.kind) {  // each element is reduced by itself
    case reduction_kind::l1:
    case reduction_kind::l2: return lamina::abs(in[0]);
    case reduction_kind::log_sum: return lamina::log(in[0]);
    case reduction_kind::sum_square: return lamina::square(in[0]);
    default: return in[0];
  }
}

void running_along::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (!detail::takes(domain::numbers, in[0].element, out)) return;
  if (in[1].element != dtype::int64) return out.refuse(in[1].element, "an int64 axis", "std::int64_t");
  if (in[1].dims.rank > 1 || (in[1].dims.rank == 1 && !may_equal(in[1].dims[0], 1))) {
    out.why << "the axis is not one number";
    return;
  }
  const any_tensor* known = out.elements_of(1);
  const std::int64_t axis = known ? known->elements<std::int64_t>()[0] : 0;
  if (known && detail::normal_axis(axis, in[0].dims.rank) < 0) {
    out.why << "axis " << axis << " is outside the rank";
    return;
  }
  out.result(in[0].element, in[0].dims);
}
value running_along::bind(const attributes& a, view<const value> in) {
  const cumsum_attributes at{in[1].owner().at(in[1].id()).constant.elements<std::int64_t>()[0], a.exclusive, a.reverse};
  return a.product ? value(lamina::cumprod(in[0], at)) : value(lamina::cumsum(in[0], at));
}

}  // namespace lamina::op
