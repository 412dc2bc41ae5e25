// Bitwise integer operators, and remainders.
module lamina.onnx:bits.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Converts storage-only integers to a type with arithmetic: a wider one, or for uint64 the same bits.
value widened(const value& v) {
  switch (v.type().element) {
    case dtype::uint16: return node_call::cast_to(v, dtype::int32);
    case dtype::uint32: return node_call::cast_to(v, dtype::int64);
    case dtype::uint64: return lamina::bit_cast<std::int64_t>(v);
    default: return v;
  }
}
// Undoes `widened`: keeps the low bits.
value narrowed(const value& v, dtype to) {
  switch (to) {
    case dtype::uint16: return node_call::cast_to(lamina::bit_and(v, 0xffff), to);
    case dtype::uint32: return node_call::cast_to(lamina::bit_and(v, std::int64_t(0xffffffff)), to);
    case dtype::uint64: return lamina::bit_cast<std::uint64_t>(v);
    default: return node_call::cast_to(v, to);
  }
}

template <auto F> void bits(node_call& c) { c.give(0, narrowed(F(widened(c[0]), widened(c[1])), c.type(0).element)); }
value and_of(const value& a, const value& b) { return lamina::bit_and(a, b); }
value or_of(const value& a, const value& b) { return lamina::bit_or(a, b); }
value xor_of(const value& a, const value& b) { return lamina::bit_xor(a, b); }
void not_of(node_call& c) { c.give(0, narrowed(lamina::bit_not(widened(c[0])), c.type(0).element)); }

void shift(node_call& c) {
  const std::string direction = c.string("direction", "");
  const dtype e = c.type(0).element;
  const value x = widened(c[0]), by = widened(c[1]);
  if (direction == "LEFT") return c.give(0, narrowed(lamina::shift_left(x, by), e));
  if (direction != "RIGHT") c.fail("attribute `direction` is `", printable(direction), "`; expected LEFT or RIGHT");
  if (e != dtype::uint64) return c.give(0, narrowed(lamina::shift_right(x, by), e));
  // Logical shift: shifting by one place first makes the number non-negative.
  const value halved = lamina::bit_and(lamina::shift_right(x, 1), std::numeric_limits<std::int64_t>::max());
  c.give(0, narrowed(lamina::where(by == 0, x, lamina::shift_right(halved, by - 1)), e));
}

void remainder(node_call& c) {
  const dtype e = c.type(0).element;
  const bool small = e == dtype::uint16 || e == dtype::uint32;
  const value x = small ? widened(c[0]) : c.number(0), y = small ? widened(c[1]) : c.number(1);
  if (e == dtype::uint64) return c.give_like(0, lamina::where(y == 0, 0, x - unsigned_quotient(x, y) * y));
  const value rest = c.flag("fmod") ? value(lamina::fmod(x, y)) : value(lamina::mod(x, y));
  c.give(0, narrowed(rest, e));
}

constexpr converter_entry entries[] = {
    {"BitShift", 11, shift},        {"BitwiseAnd", 18, bits<and_of>}, {"BitwiseNot", 18, not_of},
    {"BitwiseOr", 18, bits<or_of>}, {"BitwiseXor", 18, bits<xor_of>}, {"Mod", 10, remainder},
};

}  // namespace

converter_list bit_converters() { return entries; }

// Half of x is not negative: its quotient is that of int64, and doubled it is at most one too small. A divisor from 2^63 on
// is negative as int64: the quotient is 0 or 1. As for other integers, a division by 0 gives 0.
value unsigned_quotient(const value& x, const value& y) {
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max(), top = std::numeric_limits<std::int64_t>::min();
  const auto fits = [&](const value& into, const value& of) {
    return lamina::cast<std::int64_t>(lamina::bit_xor(of, top) <= lamina::bit_xor(into, top));
  };
  const value half = lamina::bit_and(x, max) / 2 + lamina::cast<std::int64_t>(x < 0) * (std::int64_t(1) << 62),
              near = half / y * 2;
  const value quotient = lamina::where(y < 0, fits(x, y), near + fits(x - near * y, y));
  return lamina::where(y == 0, 0, quotient);
}

}  // namespace lamina::onnx
