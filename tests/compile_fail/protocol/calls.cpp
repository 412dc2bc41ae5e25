// Train layers by hand: the operands of their calls.
import lamina;
using namespace lamina;

// case: backward_port_unknown
// expect: add has no output port `result`; its output port is `output`
namespace backward_port_unknown {
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto dx = layer.backward(dict("result"_key = matrix<float>(1, 1)));
#else
auto dx = layer.backward(dict("output"_key = matrix<float>(1, 1)));
#endif
}  // namespace backward_port_unknown

// case: backward_rank
// expect: add: port `output` is float32[?x?]; got float32[?]
namespace backward_rank {
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto dx = layer.backward(dict("output"_key = vector<float>(1)));
#else
auto dx = layer.backward(dict("output"_key = matrix<float>(1, 1)));
#endif
}  // namespace backward_rank

// case: forward_element
// expect: add: port `rhs` is float32[?x?]; got float64[?x?]
namespace forward_element {
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<double>(1, 1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<float>(1, 1)));
#endif
}  // namespace forward_element

// case: forward_names
// expect: add: dimension `T` of the ports is both 128 and 64
namespace forward_names {
train_layer<nn::add, inputs<port<"lhs", matrix<float, "T", 4>>, port<"rhs", matrix<float, "T", 4>>>> layer("add");
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float, 128, 4>(), "rhs"_key = matrix<float, 64, 4>()));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float, 128, 4>(), "rhs"_key = matrix<float, 128, 4>()));
#endif
}  // namespace forward_names

// case: forward_no_operand
// expect: add: port `rhs` is given `int`, not an operand
namespace forward_no_operand {
infer_layer<nn::add> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = 1));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = scalar<float>(1)));
#endif
}  // namespace forward_no_operand

// case: forward_port_missing
// expect: add: input port `rhs` is given nothing; its input ports are `lhs`, `rhs`
namespace forward_port_missing {
infer_layer<nn::add> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<float>(1, 1)));
#endif
}  // namespace forward_port_missing

// case: forward_shapes
// expect: matmul: the inner sizes differ: [?x3] [4x?]
namespace forward_shapes {
infer_layer<nn::dot> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float, dyn, 3>(1), "rhs"_key = matrix<float, 4>(1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float, dyn, 4>(1), "rhs"_key = matrix<float, 4>(1)));
#endif
}  // namespace forward_shapes
