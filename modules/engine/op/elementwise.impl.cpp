module;
#include "../kernels/families.h"
module lamina:op.elementwise.impl;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- operators of values --------------------------------------------------------------------------------------------

namespace {
template <class Op, std::same_as<placed_value>... X> value operate(const placed_value& first, const X&... others) {
  const origin here(first.at());
  const value inputs[] = {first.held(), others.held()...};
  return program_mode::add<Op>({}, view<const value>(inputs));
}
template <class Op> value operate(const value_or_number& first, const value_or_number& second) {
  const origin here(first.at());
  program* owner = nullptr;
  dtype element = dtype::float32;
  auto note_operand = [&](const value& v) {
    if (v.empty()) return;
    if (!owner || element == dtype::boolean) element = v.type().element;
    if (!owner) owner = &v.owner();
  };
  note_operand(first.held());
  note_operand(second.held());
  const value inputs[] = {first.in(*owner, element, Op::name), second.in(*owner, element, Op::name)};
  return program_mode::add<Op>({}, view<const value>(inputs));
}
}  // namespace

// Friends of the class must be in its namespace.
namespace ir {
value operator-(const placed_value& x) { return operate<op::negate>(x); }
value operator!(const placed_value& x) { return operate<op::logical_not>(x); }
value operator&&(const placed_value& a, const placed_value& b) { return operate<op::logical_and>(a, b); }
value operator||(const placed_value& a, const placed_value& b) { return operate<op::logical_or>(a, b); }
value operator+(const value_or_number& a, const value_or_number& b) { return operate<op::add>(a, b); }
value operator-(const value_or_number& a, const value_or_number& b) { return operate<op::subtract>(a, b); }
value operator*(const value_or_number& a, const value_or_number& b) { return operate<op::multiply>(a, b); }
value operator/(const value_or_number& a, const value_or_number& b) { return operate<op::divide>(a, b); }
value operator==(const value_or_number& a, const value_or_number& b) { return operate<op::equal>(a, b); }
value operator!=(const value_or_number& a, const value_or_number& b) { return operate<op::not_equal>(a, b); }
value operator<(const value_or_number& a, const value_or_number& b) { return operate<op::less>(a, b); }
value operator<=(const value_or_number& a, const value_or_number& b) { return operate<op::less_equal>(a, b); }
value operator>(const value_or_number& a, const value_or_number& b) { return operate<op::greater>(a, b); }
value operator>=(const value_or_number& a, const value_or_number& b) { return operate<op::greater_equal>(a, b); }
value operator^(const value_or_number& a, const value_or_number& b) { return operate<op::logical_xor>(a, b); }
}  // namespace ir

}  // namespace lamina

namespace lamina::op {

// A micro-operation has the same name as its operation.
#define LAMINA_MAP(name) \
  const kernels::map_functions& name::map(isa set) { return kernels::map_##name##_of(set); }
LAMINA_MICRO_OPERATIONS(LAMINA_MAP)
LAMINA_MAP(where)
LAMINA_MAP(cast)
#undef LAMINA_MAP
const kernels::map_functions& stop_gradient::map(isa set) { return kernels::map_copy_of(set); }
const kernels::map_functions& sum_over_shards::map(isa set) { return kernels::map_copy_of(set); }

dtype cast::between(dtype from, dtype to) {
  const auto a = static_cast<kernels::element>(from), b = static_cast<kernels::element>(to);
  return kernels::casts_at_once(a, b) ? to : static_cast<dtype>(kernels::cast_between(a, b));
}

// Types of a few bits are sign-extended to a byte, so casts convert between signed and unsigned ones.
void bit_cast::emit(emission& e) {
  const auto as_integer = [](dtype t) { return t == dtype::float4_e2m1 ? dtype::uint4 : t; };
  const dtype from = as_integer(e.in_type(0).element), to = as_integer(e.out_type(0).element);
  const auto size = static_cast<std::int64_t>(size_of(to));
  kernels::map_args a{};
  a.steps = 1;
  const bool cast = from != to && detail::bits_of(to) < 8;
  a.run = cast ? (*kernels::map_cast_of(e.isa()).casts)[static_cast<int>(from)][static_cast<int>(to)]
               : kernels::map_copy_of(e.isa()).of[static_cast<int>(detail::moved_as(to))];
  emission::cut(
      e.out_type(0).dims.size(), 8,
      [&](std::int64_t first, std::int64_t count) {
        a.n = count;
        e.step(kernels::elementwise_of(e.isa()).map, a,
               {{&a.in[0], e.in(0).at(first * size)}, {&a.out, e.out(0).at(first * size)}});
      },
      emission::usual_grain, 64);
}
void bit_cast::map_axis(const attributes&, axis_map& m) { m.elementwise(); }

// Gradients: y is the result, x the operand, g the gradient of the result. Broadcast operands are summed back.

// a - b n, where `mod` and `fmod` differ in the integer n.
}  // namespace lamina::op
