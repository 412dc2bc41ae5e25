// Writes elementwise operations.
module lamina.onnx:write_elementwise.impl;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

constexpr plain_operation plain[] = {{"abs", "Abs"},
                                     {"acos", "Acos"},
                                     {"acosh", "Acosh"},
                                     {"add", "Add"},
                                     {"asin", "Asin"},
                                     {"asinh", "Asinh"},
                                     {"atan", "Atan"},
                                     {"atanh", "Atanh"},
                                     {"bit_and", "BitwiseAnd"},
                                     {"bit_not", "BitwiseNot"},
                                     {"bit_or", "BitwiseOr"},
                                     {"bit_xor", "BitwiseXor"},
                                     {"ceil", "Ceil"},
                                     {"cos", "Cos"},
                                     {"cosh", "Cosh"},
                                     {"divide", "Div"},
                                     {"equal", "Equal"},
                                     {"erf", "Erf"},
                                     {"exp", "Exp"},
                                     {"expand_to", "Expand"},
                                     {"floor", "Floor"},
                                     {"greater", "Greater"},
                                     {"greater_equal", "GreaterOrEqual"},
                                     {"hard_swish", "HardSwish"},
                                     {"less", "Less"},
                                     {"less_equal", "LessOrEqual"},
                                     {"log", "Log"},
                                     {"logical_and", "And"},
                                     {"logical_not", "Not"},
                                     {"logical_or", "Or"},
                                     {"logical_xor", "Xor"},
                                     {"maximum", "Max"},
                                     {"minimum", "Min"},
                                     {"mish", "Mish"},
                                     {"multiply", "Mul"},
                                     {"negate", "Neg"},
                                     {"pow", "Pow"},
                                     {"reciprocal", "Reciprocal"},
                                     {"relu", "Relu"},
                                     {"round", "Round"},
                                     {"sigmoid", "Sigmoid"},
                                     {"sign", "Sign"},
                                     {"sin", "Sin"},
                                     {"sinh", "Sinh"},
                                     {"softplus", "Softplus"},
                                     {"softsign", "Softsign"},
                                     {"sqrt", "Sqrt"},
                                     {"stop_gradient", "Identity"},
                                     {"sum_over_shards", "Identity"},
                                     {"subtract", "Sub"},
                                     {"tan", "Tan"},
                                     {"tanh", "Tanh"},
                                     {"where", "Where"}};

std::string real(written_call& c, double v) { return c.number(v, c.type(0).element); }

void cast(written_call& c) {
  const dtype to = c.element("to"), from = c.type(0).element;
  attribute_list a{{"to", written_element(to)}};
  const bool saturates = to >= dtype::float8_e4m3fn && to <= dtype::float8_e5m2fnuz;
  if (saturates && c.w.names().opset() >= 19) a.push_back({"saturate", std::int64_t(c.flag("saturate"))});
  if (to == dtype::float8_e8m0fnu && from != to) c.unsupported("float8_e8m0fnu needs opset 24");
  c.give(c.add("Cast", {c[0]}, std::move(a)));
}
void clamp(written_call& c) {
  const bool numbers = c.dims(1).rank == 0 && c.dims(2).rank == 0;
  if (numbers) c.give(c.add("Clip", c.all()));
  else c.give(c.add("Min", {c.add("Max", {c[0], c[1]}), c[2]}));
}
void not_equal(written_call& c) { c.give(c.add("Not", {c.add("Equal", c.all())})); }
// ONNX's PRelu does not broadcast the operand to the slope.
void prelu(written_call& c) {
  shape whole;
  if (broadcast(c.dims(0), c.dims(1), whole) && whole == c.dims(0)) return c.give(c.add("PRelu", c.all()));
  const auto below = c.add("Less", {c[0], real(c, 0)});
  c.give(c.add("Where", {below, c.add("Mul", c.all()), c[0]}));
}
void square(written_call& c) { c.give(c.add("Mul", {c[0], c[0]})); }
void silu(written_call& c) { c.give(c.add("Mul", {c[0], c.add("Sigmoid", {c[0]})})); }
// x (1 + erf(x / sqrt 2)) / 2
void gelu(written_call& c) {
  if (c.w.names().opset() >= 20) return c.give(c.add("Gelu", {c[0]}));
  const auto y = c.add("Erf", {c.add("Mul", {c[0], real(c, std::sqrt(0.5))})});
  c.give(c.add("Mul", {c.add("Mul", {c[0], real(c, 0.5)}), c.add("Add", {y, real(c, 1)})}));
}
void gelu_tanh(written_call& c) {
  if (c.w.names().opset() >= 20) return c.give(c.add("Gelu", {c[0]}, {{"approximate", std::string("tanh")}}));
  const auto cube = c.add("Mul", {c.add("Mul", {c[0], c[0]}), c[0]});
  const auto inner = c.add("Add", {c[0], c.add("Mul", {cube, real(c, 0.044715)})});
  const auto y = c.add("Tanh", {c.add("Mul", {inner, real(c, std::sqrt(2 / 3.14159265358979323846))})});
  c.give(c.add("Mul", {c.add("Mul", {c[0], real(c, 0.5)}), c.add("Add", {y, real(c, 1)})}));
}
// 2 e^(x/2) sinh(x/2), which is accurate near 0; below -100 the result is -1.
void expm1(written_call& c) {
  const auto half = c.add("Mul", {c.add("Max", {c[0], real(c, -100)}), real(c, 0.5)});
  c.give(c.add("Mul", {c.add("Mul", {c.add("Exp", {half}), real(c, 2)}), c.add("Sinh", {half})}));
}
// 2 atanh(x / (2 + x)) near 0
void log1p(written_call& c) {
  const auto near = c.add("Less", {c.add("Abs", {c[0]}), real(c, 0.5)});
  const auto part = c.add("Atanh", {c.add("Div", {c[0], c.add("Add", {c[0], real(c, 2)})})});
  c.give(c.add("Where", {near, c.add("Mul", {part, real(c, 2)}), c.add("Log", {c.add("Add", {c[0], real(c, 1)})})}));
}
// The result has the sign of b; ONNX provides that for integers only.
void mod(written_call& c) {
  if (is_integer(c.type(0).element)) return c.give(c.add("Mod", c.all()));
  const attribute_list of_c{{"fmod", std::int64_t(1)}};
  const auto rest = c.add("Mod", c.all(), of_c);
  c.give(c.add("Mod", {c.add("Add", {rest, c[1]}), c[1]}, of_c));
}
void fmod(written_call& c) { c.give(c.add("Mod", c.all(), {{"fmod", std::int64_t(1)}})); }
void shift(written_call& c, const char* direction) {
  const dtype t = c.type(0).element;
  if (t != dtype::uint8 && t != dtype::uint16 && t != dtype::uint32 && t != dtype::uint64)
    c.unsupported("ONNX shifts only unsigned integers");
  c.give(c.add("BitShift", c.all(), {{"direction", std::string(direction)}}));
}
void shift_left(written_call& c) { shift(c, "LEFT"); }
void shift_right(written_call& c) { shift(c, "RIGHT"); }

constexpr operation_writer writers[] = {
    {"cast", cast},           {"clamp", clamp},         {"expm1", expm1},           {"fmod", fmod},
    {"gelu", gelu},           {"gelu_tanh", gelu_tanh}, {"log1p", log1p},           {"mod", mod},
    {"not_equal", not_equal}, {"prelu", prelu},         {"shift_left", shift_left}, {"shift_right", shift_right},
    {"silu", silu},           {"square", square}};

}  // namespace

view<const plain_operation> plain_operations() { return plain; }
view<const operation_writer> elementwise_writers() { return writers; }

}  // namespace lamina::onnx
