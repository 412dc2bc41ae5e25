// Incomplete topologies.
import lamina;
using namespace lamina;

// case: topology_composite_port_not_fed
// expect: input port `body.bias` is not fed
namespace topology_composite_port_not_fed {
constexpr auto body = topology(sublayer<"sum">(nn::add{}), connect<"input", "sum.lhs">, connect<"bias", "sum.rhs">,
                               connect<"sum.output", "output">);
#ifdef BAD
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"body.output", "output">);
using trained = model<net, input<"N", 4>>;
#else
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"input", "body.bias">,
                              connect<"body.output", "output">);
using trained = model<net, input<"N", 4>>;
#endif
}  // namespace topology_composite_port_not_fed

// case: topology_empty
// expect: topology(...) needs at least one sublayer
namespace topology_empty {
#ifdef BAD
constexpr auto net = topology(connect<"input", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
}  // namespace topology_empty

// case: topology_forgotten_port
// expect: connection `input` -> `act`: `act` is a sublayer; name its input port: `act.input`
namespace topology_forgotten_port {
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), connect<"input", "act">, connect<"act.output", "output">);
#else
constexpr auto net =
    topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">, connect<"act.output", "output">);
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_forgotten_port

// case: topology_in_function
// expect: is not a constant expression
// expect: add 'static' to give it a constant address
namespace topology_in_function {
#ifdef BAD
bool valid() {
  constexpr auto net = sequential(nn::relu{});
  return ValidTopology<net>;
}
#else
bool valid() {
  static constexpr auto net = sequential(nn::relu{});
  return ValidTopology<net>;
}
#endif
}  // namespace topology_in_function

// case: topology_nested_fault
// expect: sublayer `body`: two sublayers are named `0`
namespace topology_nested_fault {
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(sequential(nn::relu{}, sublayer<"0">(nn::tanh{}))));
#else
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(sequential(nn::relu{}, sublayer<"last">(nn::tanh{}))));
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_nested_fault

// case: topology_no_output
// expect: the topology has no output; connect a port to a name without a dot, as in `act.output` -> `output`
namespace topology_no_output {
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">);
#else
constexpr auto net =
    topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">, connect<"act.output", "output">);
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_no_output

// case: topology_odd_argument
// expect: argument 2 of topology(...) is `int`, not a layer: a layer is a class with a member `forward`; topology(...) takes sublayers and connections
namespace topology_odd_argument {
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), 3);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
}  // namespace topology_odd_argument

// case: topology_output_fed_twice
// expect: connection `a` -> `output`: output `output` is fed twice
namespace topology_output_fed_twice {
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">, connect<"a", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_output_fed_twice

// case: topology_sublayer_unused
// expect: sublayer `act` (relu) is not connected
namespace topology_sublayer_unused {
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), sublayer<"act">(nn::relu{}), connect<"a", "dot.lhs">,
                              connect<"b", "dot.rhs">, connect<"dot.output", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_sublayer_unused

// case: topology_temporary
// expect: reference to temporary object is not allowed in a template argument
namespace topology_temporary {
#ifdef BAD
constexpr bool valid = ValidTopology<sequential(nn::relu{})>;
#else
constexpr auto net = sequential(nn::relu{});
constexpr bool valid = ValidTopology<net>;
#endif
}  // namespace topology_temporary

// case: topology_unnamed_layer
// expect: argument 2 of topology(...) is `lamina::nn::relu`, a layer without a name; write it as a sublayer with its name
namespace topology_unnamed_layer {
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), nn::relu{});
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
}  // namespace topology_unnamed_layer

// case: topology_variable
// expect: the topology is a variable; declare it `inline constexpr`, or `static constexpr` in a function
namespace topology_variable {
#ifdef BAD
auto net = sequential(nn::relu{});
#else
constexpr auto net = sequential(nn::relu{});
#endif
static_assert(ValidTopology<net>);
}  // namespace topology_variable
