// Elementwise operations: each result element depends on the operand elements at the same (broadcast) position.
export module lamina:op.elementwise;
import :core;
import :dtype;
import :emission;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

extern "C++" {
namespace kernels {
struct map_functions;
}
}

/// Which element types an elementwise operation accepts.
enum class domain { real, numbers, integers, logic, any };

namespace detail {
constexpr bool in_domain(dtype t, domain d) {
  switch (d) {
    case domain::real: return is_real(t);
    case domain::numbers: return is_real(t) || is_integer(t);
    case domain::integers: return is_integer(t);
    case domain::logic: return t == dtype::boolean;
    default: return is_real(t) || is_integer(t) || t == dtype::boolean;
  }
}
/// Whether domain `d` accepts an element type; if not, `out` gives the reason.
constexpr bool takes(domain d, dtype given, inference& out) {
  if (in_domain(given, d)) return true;
  if (d == domain::real) out.refuse(given, "float32 or float64", "float");
  else if (d == domain::logic) out.refuse(given, "bool", "bool");
  else if (d == domain::integers) out.refuse(given, "an integer type", "std::int32_t");
  else if (d == domain::any) out.refuse(given, "float32, float64, an integer type up to int64 or bool", "float");
  else out.refuse(given, "float32, float64 or an integer type", "float");
  return false;
}
}  // namespace detail

/// Properties of an elementwise operation that passes rely on. A predicate gives bool.
struct elementwise_traits {
  zero_rule zeros = zero_rule::none;
  neutral_number neutral{};
  bool involution = false, adds = false, predicate = false;
};
/// Common base of the definitions of elementwise operations.
template <fixed_string Name, int Operands, domain Domain, elementwise_traits Traits = {}> struct elementwise {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = Operands;
  using attributes = no_attributes;
  static constexpr bool broadcasts = true;  // operands of one shape give that shape
  static constexpr zero_rule zeros = Traits.zeros;
  static constexpr neutral_number neutral = Traits.neutral;
  static constexpr bool involution = Traits.involution, adds = Traits.adds;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out)) return;
    if (!detail::takes(Domain, in[0].element, out)) return;
    detail::infer_broadcast(in, Traits.predicate ? dtype::boolean : in[0].element, out);
  }
  static double flops(const no_attributes&, view<const tensor_type>, view<const tensor_type> out) {
    return static_cast<double>(out[0].dims.size());
  }
};

/// `saturate`: how numbers beyond the largest one of an 8-bit float format are converted; `round_mode`: how numbers
/// round to powers of two. Other types ignore both.
export struct cast_attributes {
  dtype to = dtype::float32;
  bool saturate = true;
  power_rounding round_mode = power_rounding::up;
  static constexpr void members(auto& a, auto&& f) {
    f("to", a.to), f("saturate", a.saturate), f("round_mode", a.round_mode);
  }
  bool operator==(const cast_attributes&) const = default;
};
struct bit_cast_attributes {
  dtype to = dtype::int32;
  static constexpr void members(auto& a, auto&& f) { f("to", a.to); }
  bool operator==(const bit_cast_attributes&) const = default;
};
namespace detail {
/// Number of bits that encode an element's value.
constexpr std::size_t bits_of(dtype t) {
  if (t == dtype::int2 || t == dtype::uint2) return 2;
  if (t == dtype::int4 || t == dtype::uint4 || t == dtype::float4_e2m1) return 4;
  return 8 * size_of(t);
}
constexpr bool casts(dtype from, dtype to, inference& out) {
  if (from != dtype::string && to != dtype::string) return true;
  out.why << "cannot cast to or from strings";
  out.of_elements = true;
  return false;
}
}  // namespace detail

namespace op {
using traits = elementwise_traits;
using micro_operation = const kernels::map_functions&;
inline constexpr traits keeps_zero{.zeros = zero_rule::all}, gives_bool{.predicate = true};

// clang-format off
// Unary.
export struct negate : elementwise<"negate", 1, domain::numbers, traits{.zeros = zero_rule::all, .involution = true}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct abs : elementwise<"abs", 1, domain::numbers, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct sign : elementwise<"sign", 1, domain::numbers, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct square : elementwise<"square", 1, domain::numbers, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct sqrt : elementwise<"sqrt", 1, domain::real, keeps_zero>,
                     in_patterns<rewriting::layer_norm_pattern, rewriting::rms_norm_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct reciprocal : elementwise<"reciprocal", 1, domain::real, traits{.involution = true}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct exp : elementwise<"exp", 1, domain::real>,
                    in_patterns<rewriting::softmax_pattern, rewriting::sigmoid_pattern, rewriting::silu_pattern, rewriting::mish_pattern> {
  static value logarithm(const attributes&, const value& x) { return x; }
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct log : elementwise<"log", 1, domain::real>,
                    in_patterns<rewriting::softplus_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct sin : elementwise<"sin", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct cos : elementwise<"cos", 1, domain::real> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct tan : elementwise<"tan", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct asin : elementwise<"asin", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct acos : elementwise<"acos", 1, domain::real> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct atan : elementwise<"atan", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct tanh : elementwise<"tanh", 1, domain::real, keeps_zero>,
                     in_patterns<rewriting::gelu_tanh_pattern, rewriting::mish_pattern, rewriting::silu_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct asinh : elementwise<"asinh", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct acosh : elementwise<"acosh", 1, domain::real> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct sigmoid : elementwise<"sigmoid", 1, domain::real>,
                        in_patterns<rewriting::gelu_tanh_pattern, rewriting::silu_pattern, rewriting::quick_gelu_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct relu : elementwise<"relu", 1, domain::real, keeps_zero> {
  static std::optional<value_bounds> bounds(view<const std::optional<double>>) { return value_bounds{0, std::numeric_limits<double>::infinity()}; }
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct erf : elementwise<"erf", 1, domain::real, keeps_zero>,
                    in_patterns<rewriting::gelu_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct expm1 : elementwise<"expm1", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct log1p : elementwise<"log1p", 1, domain::real, keeps_zero>,
                      in_patterns<rewriting::softplus_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct sinh : elementwise<"sinh", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct cosh : elementwise<"cosh", 1, domain::real> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct atanh : elementwise<"atanh", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct softplus : elementwise<"softplus", 1, domain::real>,
                         in_patterns<rewriting::softplus_pattern, rewriting::mish_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct gelu : elementwise<"gelu", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct gelu_tanh : elementwise<"gelu_tanh", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct silu : elementwise<"silu", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct mish : elementwise<"mish", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct softsign : elementwise<"softsign", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct hard_swish : elementwise<"hard_swish", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct floor : elementwise<"floor", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct ceil : elementwise<"ceil", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct round : elementwise<"round", 1, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct logical_not : elementwise<"logical_not", 1, domain::logic, traits{.involution = true}> { static micro_operation map(isa); };
// Binary.
export struct add : elementwise<"add", 2, domain::numbers, traits{.zeros = zero_rule::all, .neutral = {0, true, true}, .adds = true}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct subtract : elementwise<"subtract", 2, domain::numbers, traits{.zeros = zero_rule::all, .neutral = {0, false, true}}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct multiply : elementwise<"multiply", 2, domain::numbers, traits{.zeros = zero_rule::any, .neutral = {1, true, true}}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct divide : elementwise<"divide", 2, domain::numbers, traits{.neutral = {1, false, true}}> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct minimum : elementwise<"minimum", 2, domain::numbers, keeps_zero>,
                        in_patterns<rewriting::hard_swish_pattern, rewriting::hard_sigmoid_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct maximum : elementwise<"maximum", 2, domain::numbers, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct pow : elementwise<"pow", 2, domain::numbers, traits{.neutral = {1, false, true}}>,
                    in_patterns<rewriting::layer_norm_pattern, rewriting::rms_norm_pattern> {
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
struct prelu : elementwise<"prelu", 2, domain::real, keeps_zero> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct mod : elementwise<"mod", 2, domain::numbers> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct fmod : elementwise<"fmod", 2, domain::numbers> { static micro_operation map(isa); [[gnu::weak]] static void gradient(gradient_call&); };
export struct bit_and : elementwise<"bit_and", 2, domain::integers, traits{.zeros = zero_rule::any}> { static micro_operation map(isa); };
export struct bit_or : elementwise<"bit_or", 2, domain::integers, traits{.zeros = zero_rule::all, .neutral = {0, true, true}}> { static micro_operation map(isa); };
export struct bit_xor : elementwise<"bit_xor", 2, domain::integers, traits{.zeros = zero_rule::all, .neutral = {0, true, true}}> { static micro_operation map(isa); };
export struct shift_left : elementwise<"shift_left", 2, domain::integers, traits{.neutral = {0, false, true}}> { static micro_operation map(isa); };
export struct shift_right : elementwise<"shift_right", 2, domain::integers, traits{.neutral = {0, false, true}}> { static micro_operation map(isa); };
export struct equal : elementwise<"equal", 2, domain::any, gives_bool> { static micro_operation map(isa); };
export struct not_equal : elementwise<"not_equal", 2, domain::any, gives_bool> { static micro_operation map(isa); };
export struct less : elementwise<"less", 2, domain::numbers, gives_bool> { static micro_operation map(isa); };
export struct less_equal : elementwise<"less_equal", 2, domain::numbers, gives_bool> { static micro_operation map(isa); };
export struct greater : elementwise<"greater", 2, domain::numbers, gives_bool> { static micro_operation map(isa); };
export struct greater_equal : elementwise<"greater_equal", 2, domain::numbers, gives_bool> { static micro_operation map(isa); };
export struct logical_and : elementwise<"logical_and", 2, domain::logic> { static micro_operation map(isa); };
export struct logical_or : elementwise<"logical_or", 2, domain::logic> { static micro_operation map(isa); };
export struct logical_xor : elementwise<"logical_xor", 2, domain::logic> { static micro_operation map(isa); };
// clang-format on
// Ternary.
export struct clamp : elementwise<"clamp", 3, domain::numbers>,
                      in_patterns<rewriting::hard_swish_pattern, rewriting::hard_sigmoid_pattern> {
  static std::optional<value_bounds> bounds(view<const std::optional<double>> of) {
    return of[1] && of[2] ? std::optional(value_bounds{*of[1], *of[2]}) : std::nullopt;
  }
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
export struct where {
  static constexpr std::string_view name = "where";
  static constexpr int operands = 3;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    if (in[0].element != dtype::boolean) {
      out.refuse(in[0].element, "a bool condition", "bool");
      return;
    }
    if (!detail::same_elements({in.first + 1, 2}, out)) return;
    detail::infer_broadcast(in, in[1].element, out);
  }
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};

export struct cast {
  static constexpr std::string_view name = "cast";
  static constexpr int operands = 1;
  static constexpr auto identity = identity_rule::if_types_agree;
  using attributes = cast_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (a.round_mode < power_rounding::up || a.round_mode > power_rounding::nearest) {
      out.why << "round_mode is " << static_cast<std::int64_t>(a.round_mode)
              << "; expected up (0), down (1) or nearest (2)";
      return;
    }
    if (detail::casts(in[0].element, a.to, out)) out.result(a.to, in[0].dims);
  }
  /// Intermediate element type of the conversion; `to` where none is needed.
  static dtype between(dtype from, dtype to);
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Reinterprets the operand's bits as another element type with the same number of bits.
export struct bit_cast {
  static constexpr std::string_view name = "bit_cast";
  static constexpr int operands = 1;
  static constexpr auto identity = identity_rule::if_types_agree;
  static constexpr bool any_element = true;
  using attributes = bit_cast_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const dtype from = in[0].element;
    if (!detail::casts(from, a.to, out)) return;
    if (a.to == dtype::boolean && from != dtype::boolean)
      out.why << "cannot reinterpret as bool; compare with 0, or cast";
    else if (detail::bits_of(from) != detail::bits_of(a.to))
      out.why << from << " has " << detail::bits_of(from) << " bits and " << a.to << " has " << detail::bits_of(a.to);
    else return out.result(a.to, in[0].dims);
    out.of_elements = true;
  }
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// The operand, treated as a constant by the gradient.
struct stop_gradient {
  static constexpr std::string_view name = "stop_gradient";
  static constexpr int operands = 1, alias = 0;
  static constexpr auto identity = identity_rule::always;
  static constexpr bool stops_gradient = true;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static micro_operation map(isa);
};
/// Sum of the operand over all shards of an update, the same value in each shard; the operand itself with one shard.
struct sum_over_shards {
  static constexpr std::string_view name = "sum_over_shards";
  static constexpr int operands = 1, alias = 0;
  static constexpr auto identity = identity_rule::always;  // with one shard, and in inference
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    if (detail::takes(domain::real, in[0].element, out)) out.result(in[0].element, in[0].dims);
  }
  static micro_operation map(isa);
  [[gnu::weak]] static void gradient(gradient_call&);
};
}  // namespace op

using elementwise_operations =
    operation_list<op::abs, op::acos, op::acosh, op::add, op::asin, op::asinh, op::atan, op::atanh, op::bit_and,
                   op::bit_cast, op::bit_or, op::bit_xor, op::cast, op::ceil, op::clamp, op::cos, op::cosh, op::divide,
                   op::equal, op::erf, op::exp, op::expm1, op::floor, op::fmod, op::gelu, op::gelu_tanh, op::greater,
                   op::greater_equal, op::hard_swish, op::less, op::less_equal, op::log, op::log1p, op::logical_and,
                   op::logical_not, op::logical_or, op::logical_xor, op::maximum, op::minimum, op::mish, op::mod,
                   op::multiply, op::negate, op::not_equal, op::pow, op::prelu, op::reciprocal, op::relu, op::round,
                   op::shift_left, op::shift_right, op::sigmoid, op::sign, op::silu, op::sin, op::sinh, op::softplus,
                   op::softsign, op::sqrt, op::square, op::stop_gradient, op::subtract, op::sum_over_shards, op::tan,
                   op::tanh, op::where>;
template <Operation Op> requires elementwise_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct interpolate : elementwise<"interpolate", 3, domain::numbers> {};
struct bit_not : elementwise<"bit_not", 1, domain::integers> {};
}  // namespace rule

// ---- functions ------------------------------------------------------------------------------------------------------

/// -x.   Shapes: any.   Types: float and integer.
export template <TypedOperand X> requires accepted<diagnostic<applying<op::negate, X>>()>
constexpr auto operator-(X&& x) {
  return apply<op::negate>({}, std::forward<X>(x));
}
/// |x|.   Shapes: any.   Types: float and integer.
export template <Symbolic X> requires accepted<diagnostic<applying<op::abs, X>>()>
constexpr auto abs(X&& x, origin_of<X> = {}) {
  return apply<op::abs>({}, std::forward<X>(x));
}
/// -1, 0 or 1.   Shapes: any.   Numerics: NaN stays NaN.
export template <Symbolic X> requires accepted<diagnostic<applying<op::sign, X>>()>
constexpr auto sign(X&& x, origin_of<X> = {}) {
  return apply<op::sign>({}, std::forward<X>(x));
}
/// x * x.
export template <Symbolic X> requires accepted<diagnostic<applying<op::square, X>>()>
constexpr auto square(X&& x, origin_of<X> = {}) {
  return apply<op::square>({}, std::forward<X>(x));
}
/// Square root; NaN below zero.
export template <Symbolic X> requires accepted<diagnostic<applying<op::sqrt, X>>()>
constexpr auto sqrt(X&& x, origin_of<X> = {}) {
  return apply<op::sqrt>({}, std::forward<X>(x));
}
/// 1 / x.
export template <Symbolic X> requires accepted<diagnostic<applying<op::reciprocal, X>>()>
constexpr auto reciprocal(X&& x, origin_of<X> = {}) {
  return apply<op::reciprocal>({}, std::forward<X>(x));
}
/// e to the power of x.   Numerics: float32 within 1.14 ULP; docs/accuracy.md has the errors on each instruction set.
export template <Symbolic X> requires accepted<diagnostic<applying<op::exp, X>>()>
constexpr auto exp(X&& x, origin_of<X> = {}) {
  return apply<op::exp>({}, std::forward<X>(x));
}
/// Natural logarithm; -inf at zero, NaN below.   Numerics: float32 within 1 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::log, X>>()>
constexpr auto log(X&& x, origin_of<X> = {}) {
  return apply<op::log>({}, std::forward<X>(x));
}
/// Sine; x in radians.
export template <Symbolic X> requires accepted<diagnostic<applying<op::sin, X>>()>
constexpr auto sin(X&& x, origin_of<X> = {}) {
  return apply<op::sin>({}, std::forward<X>(x));
}
/// Cosine; x in radians.
export template <Symbolic X> requires accepted<diagnostic<applying<op::cos, X>>()>
constexpr auto cos(X&& x, origin_of<X> = {}) {
  return apply<op::cos>({}, std::forward<X>(x));
}
/// Tangent; x in radians.
export template <Symbolic X> requires accepted<diagnostic<applying<op::tan, X>>()>
constexpr auto tan(X&& x, origin_of<X> = {}) {
  return apply<op::tan>({}, std::forward<X>(x));
}
/// Arc sine in radians; NaN outside [-1, 1].
export template <Symbolic X> requires accepted<diagnostic<applying<op::asin, X>>()>
constexpr auto asin(X&& x, origin_of<X> = {}) {
  return apply<op::asin>({}, std::forward<X>(x));
}
/// Arc cosine in radians; NaN outside [-1, 1].
export template <Symbolic X> requires accepted<diagnostic<applying<op::acos, X>>()>
constexpr auto acos(X&& x, origin_of<X> = {}) {
  return apply<op::acos>({}, std::forward<X>(x));
}
/// Arc tangent in radians.
export template <Symbolic X> requires accepted<diagnostic<applying<op::atan, X>>()>
constexpr auto atan(X&& x, origin_of<X> = {}) {
  return apply<op::atan>({}, std::forward<X>(x));
}
/// Hyperbolic tangent.   Numerics: float32 within 1.27 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::tanh, X>>()>
constexpr auto tanh(X&& x, origin_of<X> = {}) {
  return apply<op::tanh>({}, std::forward<X>(x));
}
/// Inverse hyperbolic sine.
export template <Symbolic X> requires accepted<diagnostic<applying<op::asinh, X>>()>
constexpr auto asinh(X&& x, origin_of<X> = {}) {
  return apply<op::asinh>({}, std::forward<X>(x));
}
/// Inverse hyperbolic cosine; NaN below 1.
export template <Symbolic X> requires accepted<diagnostic<applying<op::acosh, X>>()>
constexpr auto acosh(X&& x, origin_of<X> = {}) {
  return apply<op::acosh>({}, std::forward<X>(x));
}
/// 1 / (1 + e^-x), accurate in both tails.   Numerics: float32 within 2 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::sigmoid, X>>()>
constexpr auto sigmoid(X&& x, origin_of<X> = {}) {
  return apply<op::sigmoid>({}, std::forward<X>(x));
}
/// max(x, 0); NaN stays NaN.
export template <Symbolic X> requires accepted<diagnostic<applying<op::relu, X>>()>
constexpr auto relu(X&& x, origin_of<X> = {}) {
  return apply<op::relu>({}, std::forward<X>(x));
}
/// Error function.   Numerics: float32 within 2.11 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::erf, X>>()>
constexpr auto erf(X&& x, origin_of<X> = {}) {
  return apply<op::erf>({}, std::forward<X>(x));
}
/// e^x - 1, without cancellation for small x.   Numerics: float32 within 1.48 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::expm1, X>>()>
constexpr auto expm1(X&& x, origin_of<X> = {}) {
  return apply<op::expm1>({}, std::forward<X>(x));
}
/// log(1 + x), without cancellation for small x; -inf at -1, NaN below.   Numerics: float32 within 1.49 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::log1p, X>>()>
constexpr auto log1p(X&& x, origin_of<X> = {}) {
  return apply<op::log1p>({}, std::forward<X>(x));
}
/// Hyperbolic sine.
export template <Symbolic X> requires accepted<diagnostic<applying<op::sinh, X>>()>
constexpr auto sinh(X&& x, origin_of<X> = {}) {
  return apply<op::sinh>({}, std::forward<X>(x));
}
/// Hyperbolic cosine.
export template <Symbolic X> requires accepted<diagnostic<applying<op::cosh, X>>()>
constexpr auto cosh(X&& x, origin_of<X> = {}) {
  return apply<op::cosh>({}, std::forward<X>(x));
}
/// Inverse hyperbolic tangent; infinite at -1 and 1, NaN outside.
export template <Symbolic X> requires accepted<diagnostic<applying<op::atanh, X>>()>
constexpr auto atanh(X&& x, origin_of<X> = {}) {
  return apply<op::atanh>({}, std::forward<X>(x));
}
/// log(1 + e^x), accurate in both tails.   Numerics: float32 within 2.87 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::softplus, X>>()>
constexpr auto softplus(X&& x, origin_of<X> = {}) {
  return apply<op::softplus>({}, std::forward<X>(x));
}
/// x Phi(x), with the normal cumulative distribution function Phi: x (1 + erf(x / sqrt(2))) / 2.
/// Numerics: float32 within 3.27 ULP, float64 within 8, negative tail included; -0 at -inf.   `gelu_tanh` is the
/// approximation by tanh.
/// Source: Hendrycks, Gimpel, "Gaussian Error Linear Units" (2016), arXiv:1606.08415.
export template <Symbolic X> requires accepted<diagnostic<applying<op::gelu, X>>()>
constexpr auto gelu(X&& x, origin_of<X> = {}) {
  return apply<op::gelu>({}, std::forward<X>(x));
}
/// The approximation of `gelu` by tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
/// Numerics: float32 within 3.79 ULP, float64 within 4, negative tail included; -0 at -inf.
export template <Symbolic X> requires accepted<diagnostic<applying<op::gelu_tanh, X>>()>
constexpr auto gelu_tanh(X&& x, origin_of<X> = {}) {
  return apply<op::gelu_tanh>({}, std::forward<X>(x));
}
/// x sigmoid(x), also called swish.   Numerics: float32 within 3.91 ULP, float64 within 4, negative tail included; -0 at -inf.
/// Source: Elfwing, Uchibe, Doya (2017), arXiv:1702.03118.
export template <Symbolic X> requires accepted<diagnostic<applying<op::silu, X>>()>
constexpr auto silu(X&& x, origin_of<X> = {}) {
  return apply<op::silu>({}, std::forward<X>(x));
}
/// x tanh(softplus(x)).   Numerics: float32 within 4.95 ULP, float64 within 4, negative tail included; -0 at -inf.
/// Source: Misra (2019), arXiv:1908.08681.
export template <Symbolic X> requires accepted<diagnostic<applying<op::mish, X>>()>
constexpr auto mish(X&& x, origin_of<X> = {}) {
  return apply<op::mish>({}, std::forward<X>(x));
}
/// x / (1 + |x|), between -1 and 1.   Numerics: within 1.5 ULP.
export template <Symbolic X> requires accepted<diagnostic<applying<op::softsign, X>>()>
constexpr auto softsign(X&& x, origin_of<X> = {}) {
  return apply<op::softsign>({}, std::forward<X>(x));
}
/// x hard_sigmoid(x): x clamp(x + 3, 0, 6) / 6.   Numerics: within 2.5 ULP; -0 at -inf.
/// Source: Howard et al., "Searching for MobileNetV3" (2019), arXiv:1905.02244.
export template <Symbolic X> requires accepted<diagnostic<applying<op::hard_swish, X>>()>
constexpr auto hard_swish(X&& x, origin_of<X> = {}) {
  return apply<op::hard_swish>({}, std::forward<X>(x));
}
/// Largest integer not above x.
export template <Symbolic X> requires accepted<diagnostic<applying<op::floor, X>>()>
constexpr auto floor(X&& x, origin_of<X> = {}) {
  return apply<op::floor>({}, std::forward<X>(x));
}
/// Smallest integer not below x.
export template <Symbolic X> requires accepted<diagnostic<applying<op::ceil, X>>()>
constexpr auto ceil(X&& x, origin_of<X> = {}) {
  return apply<op::ceil>({}, std::forward<X>(x));
}
/// Nearest integer, halves to even.
export template <Symbolic X> requires accepted<diagnostic<applying<op::round, X>>()>
constexpr auto round(X&& x, origin_of<X> = {}) {
  return apply<op::round>({}, std::forward<X>(x));
}
/// Logical negation of a bool.
export template <TypedSymbolic X> requires accepted<diagnostic<applying<op::logical_not, X>>()>
constexpr auto operator!(X&& x) {
  return apply<op::logical_not>({}, std::forward<X>(x));
}

/// Sum with broadcasting; a number takes the tensor's element type.   Errors: shape_error, type_error; value_error for a
/// number that an integer type cannot represent.
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::add, A, B>>()>
constexpr auto operator+(A&& a, B&& b) {
  return apply<op::add>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Difference with broadcasting.
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::subtract, A, B>>()>
constexpr auto operator-(A&& a, B&& b) {
  return apply<op::subtract>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Elementwise product with broadcasting.
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::multiply, A, B>>()>
constexpr auto operator*(A&& a, B&& b) {
  return apply<op::multiply>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Quotient with broadcasting; integer division by zero gives 0.
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::divide, A, B>>()>
constexpr auto operator/(A&& a, B&& b) {
  return apply<op::divide>({}, std::forward<A>(a), std::forward<B>(b));
}
/// The smaller of two; NaN if either is NaN.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::minimum, A, B>>()>
constexpr auto min(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::minimum>({}, std::forward<A>(a), std::forward<B>(b));
}
/// The larger of two; NaN if either is NaN.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::maximum, A, B>>()>
constexpr auto max(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::maximum>({}, std::forward<A>(a), std::forward<B>(b));
}
/// a to the power of b.   Types: float and integer.   Numerics: both derivatives of 0^0 are 0, as in PyTorch. Integers
/// wrap; a negative power of an integer is 0, except for bases 1 and -1.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::pow, A, B>>()>
constexpr auto pow(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::pow>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Remainder of a divided by b, with the sign of b (numpy.mod, Python's %).   Types: float and integer.
/// Numerics: exact but for the one addition that fixes the sign of floats; an integer modulo 0 is 0.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::mod, A, B>>()>
constexpr auto mod(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::mod>({}, std::forward<A>(a), std::forward<B>(b));
}
/// The same with the sign of a (C's fmod and %).   Types: float and integer.   Numerics: exact; an integer modulo 0 is 0.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::fmod, A, B>>()>
constexpr auto fmod(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::fmod>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Bits that are set in both, in either, in exactly one.   Types: integer.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::bit_and, A, B>>()>
constexpr auto bit_and(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::bit_and>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::bit_or, A, B>>()>
constexpr auto bit_or(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::bit_or>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::bit_xor, A, B>>()>
constexpr auto bit_xor(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::bit_xor>({}, std::forward<A>(a), std::forward<B>(b));
}
/// All bits inverted.   Types: integer.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::bit_not, X>>()>
constexpr auto bit_not(const X& x, origin_of<X> = {}) {
  return -x - 1;
}
/// a with its bits shifted by b positions; shifts in 0, or for a right shift of signed integers copies of the sign bit.
/// Types: integer.   Numerics: a negative shift, or one of at least the bit width, shifts every bit out.
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::shift_left, A, B>>()>
constexpr auto shift_left(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::shift_left>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <Operand A, Operand B> requires accepted<diagnostic<applying<op::shift_right, A, B>>()>
constexpr auto shift_right(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply<op::shift_right>({}, std::forward<A>(a), std::forward<B>(b));
}
/// Elementwise comparisons give bool tensors.
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::equal, A, B>>()>
constexpr auto operator==(A&& a, B&& b) {
  return apply<op::equal>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::not_equal, A, B>>()>
constexpr auto operator!=(A&& a, B&& b) {
  return apply<op::not_equal>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::less, A, B>>()>
constexpr auto operator<(A&& a, B&& b) {
  return apply<op::less>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B>
requires TypedOperands<A, B> && accepted<diagnostic<applying<op::less_equal, A, B>>()>
constexpr auto operator<=(A&& a, B&& b) {
  return apply<op::less_equal>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B> requires TypedOperands<A, B> && accepted<diagnostic<applying<op::greater, A, B>>()>
constexpr auto operator>(A&& a, B&& b) {
  return apply<op::greater>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B>
requires TypedOperands<A, B> && accepted<diagnostic<applying<op::greater_equal, A, B>>()>
constexpr auto operator>=(A&& a, B&& b) {
  return apply<op::greater_equal>({}, std::forward<A>(a), std::forward<B>(b));
}
/// And, or, exclusive or of two bools.
export template <TypedSymbolic A, TypedSymbolic B> requires accepted<diagnostic<applying<op::logical_and, A, B>>()>
constexpr auto operator&&(A&& a, B&& b) {
  return apply<op::logical_and>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <TypedSymbolic A, TypedSymbolic B> requires accepted<diagnostic<applying<op::logical_or, A, B>>()>
constexpr auto operator||(A&& a, B&& b) {
  return apply<op::logical_or>({}, std::forward<A>(a), std::forward<B>(b));
}
export template <class A, class B>
requires TypedOperands<A, B> && accepted<diagnostic<applying<op::logical_xor, A, B>>()>
constexpr auto operator^(A&& a, B&& b) {
  return apply<op::logical_xor>({}, std::forward<A>(a), std::forward<B>(b));
}

/// x where the condition is true, else y; all three broadcast.
export template <Symbolic C, Operand X, Operand Y> requires accepted<diagnostic<applying<op::where, C, X, Y>>()>
constexpr auto where(C&& condition, X&& x, Y&& y, origin_of<C, X, Y> = {}) {
  return apply<op::where>({}, std::forward<C>(condition), std::forward<X>(x), std::forward<Y>(y));
}
/// x clamped to low..high; NaN stays NaN.
export template <Symbolic X, Operand L, Operand H> requires accepted<diagnostic<applying<op::clamp, X, L, H>>()>
constexpr auto clamp(X&& x, L&& low, H&& high, origin_of<X, L, H> = {}) {
  return apply<op::clamp>({}, std::forward<X>(x), std::forward<L>(low), std::forward<H>(high));
}
/// Linear interpolation, a where l is 1 and b where l is 0: a l + b (1 - l); all three broadcast.
export template <Operand A, Operand B, Operand L> requires accepted<diagnostic<applying<rule::interpolate, A, B, L>>()>
constexpr auto interpolate(const A& a, const B& b, const L& l, origin_of<A, B, L> = {}) {
  return a * l + b * (1 - l);
}
/// Converts numbers to another element type.   Types: any but strings.
/// Numerics: integers wrap; float to integer truncates toward zero and saturates, or wraps below 8 bits; NaN gives 0.
///           Floating types round to nearest, ties to even. Numbers beyond the largest one become infinity, or that
///           largest one in formats of 8 bits and fewer; conversion to float8_e8m0fnu rounds up.
/// Gradient: for floating types of 16 bits and more.
export template <Element T, Symbolic X> constexpr auto cast(X&& x, origin_of<X> = {}) {
  return apply_fixed<op::cast, cast_attributes{dtype_of<T>}>(std::forward<X>(x));
}
/// The same with the operation's attributes: `cast<cast_attributes{dtype::float8_e5m2, false}>(x)` gives infinity or
/// NaN for numbers beyond the largest one.
export template <cast_attributes A, Symbolic X> requires accepted<diagnostic<applying_fixed<op::cast, A, X>>()>
constexpr auto cast(X&& x, origin_of<X> = {}) {
  return apply_fixed<op::cast, A>(std::forward<X>(x));
}
/// Reinterprets bits as an element type with the same number of bits: `bit_cast<std::int32_t>(x)` of floats.
/// Types: any but strings; to bool from bool alone.   Errors: type_error where the bit counts differ.   Gradient: none.
export template <Element T, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::bit_cast, bit_cast_attributes{dtype_of<T>}, X>>()>
constexpr auto bit_cast(X&& x, origin_of<X> = {}) {
  return apply_fixed<op::bit_cast, bit_cast_attributes{dtype_of<T>}>(std::forward<X>(x));
}
/// The operand, through which no gradient flows.
export template <Symbolic X> constexpr auto stop_gradient(X&& x, origin_of<X> = {}) {
  return apply<op::stop_gradient>({}, std::forward<X>(x));
}
/// Sum of x over all shards of an update, where `fit` splits batches into shards; x itself elsewhere.
/// Shapes:   any, known where a batch has shards. Types: float.
export template <Symbolic X> constexpr auto sum_over_shards(X&& x, origin_of<X> = {}) {
  return apply<op::sum_over_shards>({}, std::forward<X>(x));
}

}  // namespace lamina
