// expect: input `previous_state` of the step has no output `state` that it could be
import lamina;

using namespace lamina;
template <fixed_string Output> struct step {
  static constexpr view<const label> inputs() { return port_names<"input", "previous_state">; }
  static constexpr view<const label> outputs() { return port_names<Output>; }
  constexpr auto forward(auto& s, const auto& x, const auto& h) const { return nn::rnn_cell{3, 4}.forward(s, x, h); }
};
#ifdef BAD
constexpr auto net = topology(sublayer<"r">(nn::recurrent<step<"output">>{}), connect<"x", "r.input">,
                              connect<"h", "r.previous_state">, connect<"r.output", "y">);
#else
constexpr auto net = topology(sublayer<"r">(nn::recurrent<step<"state">>{}), connect<"x", "r.input">,
                              connect<"h", "r.previous_state">, connect<"r.state", "y">);
#endif
static_assert(ValidTopology<net>);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
