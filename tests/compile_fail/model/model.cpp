// Models: their inputs, policies and calls.
import lamina;
using namespace lamina;

// case: input_count
// expect: the model has 2 inputs but 1 is given; its inputs are `a`, `b`
namespace input_count {
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#ifdef BAD
static_assert(no_error<shape_check<net, input<2, 3>>>);
#else
static_assert(no_error<shape_check<net, input<2, 3>, input<3, 4>>>);
#endif
}  // namespace input_count

// case: input_twice
// expect: input `a` is given twice
namespace input_twice {
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#ifdef BAD
static_assert(no_error<shape_check<net, port_input<"a", float, 2, 3>, port_input<"a", float, 3, 4>>>);
#else
static_assert(no_error<shape_check<net, port_input<"a", float, 2, 3>, port_input<"b", float, 3, 4>>>);
#endif
}  // namespace input_twice

// case: input_unknown
// expect: the model has no input `c`; its inputs are `a`, `b`
namespace input_unknown {
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#ifdef BAD
static_assert(no_error<shape_check<net, port_input<"c", float, 2, 3>, input<3, 4>>>);
#else
static_assert(no_error<shape_check<net, port_input<"a", float, 2, 3>, input<3, 4>>>);
#endif
}  // namespace input_unknown

// case: model_call_count
// expect: the model has 1 input; got 2
namespace model_call_count {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const matrix<float, dyn, 4>& x) {
#ifdef BAD
  auto y = m(x, x);
#else
  auto y = m(x);
#endif
}
}  // namespace model_call_count

// case: model_call_element
// expect: input 0 of the model is float32[Nx4]; got float64[?x4]
namespace model_call_element {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m) {
#ifdef BAD
  auto y = m(matrix<double, dyn, 4>(3));
#else
  auto y = m(matrix<float, dyn, 4>(3));
#endif
}
}  // namespace model_call_element

// case: model_call_names
// expect: dimension `T` of the inputs of the model is both 128 and 64
namespace model_call_names {
inline constexpr auto net = topology(sublayer<"sum">(nn::add{}), connect<"a", "sum.lhs">, connect<"b", "sum.rhs">,
                                     connect<"sum.output", "output">);

void use(model<net, input<"T", 4>, input<"T", 4>>& m) {
#ifdef BAD
  auto y = m(matrix<float, 128, 4>(), matrix<float, 64, 4>());
#else
  auto y = m(matrix<float, 128, 4>(), matrix<float, dyn, 4>(128));
#endif
}
}  // namespace model_call_names

// case: model_call_number
// expect: input 0 is `int`; a tensor is expected
namespace model_call_number {
inline constexpr auto net = sequential(nn::relu{});

auto use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x) {
#ifdef BAD
  return m(3);
#else
  return m(x);
#endif
}
}  // namespace model_call_number

// case: model_call_expression
// expect: input 0 is an expression, which is not computed yet: evaluate it first, as in net(evaluate(x))
namespace model_call_expression {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

auto use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x) {
#ifdef BAD
  return m(x * 2);
#else
  return m(evaluate(x * 2));
#endif
}
}  // namespace model_call_expression

// case: model_call_shape
// expect: input 0 of the model is [Nx4]; got [?x5]
namespace model_call_shape {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m) {
#ifdef BAD
  auto y = m(matrix<float, dyn, 5>(3));
#else
  auto y = m(matrix<float, dyn, 4>(3));
#endif
}
}  // namespace model_call_shape

// case: model_element_float16
// expect: policy `element`: a model computes in float or double, not in float16
namespace model_element_float16 {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<element<float16>>> m;
#else
model<net, input<"N", 4>, policies<element<float>>> m;
#endif
}  // namespace model_element_float16

// case: model_element_int
// expect: policy `element`: a model computes in float or double, not in int32
namespace model_element_int {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<element<int>>> m;
#else
model<net, input<"N", 4>, policies<element<double>>> m;
#endif
}  // namespace model_element_int

// case: model_no_input
// expect: the model has no input; write one for each input port after the topology, as in input<dyn, 4>; its input ports are `input`
namespace model_no_input {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net> m;
#else
model<net, input<"N", 4>, policies<>> m;
#endif
}  // namespace model_no_input

// case: model_odd_argument
// expect: argument 2 of model<...> is `int`; it takes inputs, then policies<...>
namespace model_odd_argument {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, int> m;
#else
model<net, input<"N", 4>, policies<>> m;
#endif
}  // namespace model_odd_argument

// case: model_policies_twice
// expect: the policies of the model are given twice; write them in one policies<...>
namespace model_policies_twice {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<trainable(true)>, policies<element<float>>> m;
#else
model<net, input<"N", 4>, policies<trainable(true), element<float>>> m;
#endif
}  // namespace model_policies_twice
