// Recurrent layers whose options or inputs do not fit.
import lamina;
using namespace lamina;

// case: shape_gru_features
// expect: gru expects 3 input features but is given 5, shape [TxNx5]
namespace shape_gru_features {
#ifdef BAD
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
#else
constexpr auto net = sequential(nn::gru{.input_size = 5, .hidden_size = 4});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 5>>>);
}  // namespace shape_gru_features

// case: shape_lstm_projection
// expect: lstm needs a `proj_size` from 0 to below `hidden_size`, 4, but has 4
namespace shape_lstm_projection {
#ifdef BAD
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .proj_size = 4});
#else
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .proj_size = 3});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
}  // namespace shape_lstm_projection

// case: shape_lstm_both_ways
// expect: lstm has both `reverse` and `bidirectional`; expected one
namespace shape_lstm_both_ways {
#ifdef BAD
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .bidirectional = true, .reverse = true});
#else
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .bidirectional = true});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
}  // namespace shape_lstm_both_ways

// case: shape_lstm_rank
// expect: lstm expects sequences [T, N, 3] but is given [Nx3]
namespace shape_lstm_rank {
#ifdef BAD
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4});
#else
constexpr auto net = sequential(nn::linear{3, 4});
#endif
static_assert(no_error<shape_check<net, input<"N", 3>>>);
}  // namespace shape_lstm_rank

// case: shape_recurrent_axis
// expect: port `input` of shape [TxNx3] has no axis 3 to iterate over
namespace shape_recurrent_axis {
#ifdef BAD
constexpr auto walked = nn::recurrent<nn::rnn_cell>{.step = {3, 4}, .sequences = {{{"input", 3}}}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_axis

// case: shape_recurrent_features
// expect: rnn_cell expects rows of 2 features, shape [N, 2], but is given [Nx3]
namespace shape_recurrent_features {
#ifdef BAD
constexpr auto walked = nn::recurrent{nn::rnn_cell{2, 4}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_features

// case: shape_recurrent_no_output
// expect: input `previous_state` of the step needs an output `state`
namespace shape_recurrent_no_output {
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
}  // namespace shape_recurrent_no_output

// case: shape_recurrent_no_port
// expect: there is no port `inptu` to iterate over; the inputs of the step are `input`, `previous_output`
namespace shape_recurrent_no_port {
#ifdef BAD
constexpr auto walked = nn::recurrent<nn::rnn_cell>{.step = {3, 4}, .sequences = {{{"inptu"}}}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_no_port

// case: shape_recurrent_no_sequence
// expect: recurrent needs at least one sequence
namespace shape_recurrent_no_sequence {
#ifdef BAD
constexpr auto walked = nn::recurrent<nn::rnn_cell>{.step = {3, 4}, .sequences = {{{""}, {""}, {""}, {""}}}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_no_sequence

// case: shape_recurrent_previous
// expect: `previous_output` is carried between iterations, not a sequence
namespace shape_recurrent_previous {
#ifdef BAD
constexpr auto walked = nn::recurrent<nn::rnn_cell>{.step = {3, 4}, .sequences = {{{"previous_output"}}}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_previous

// case: shape_recurrent_state
// expect: rnn_cell expects a state of shape [N, 5] for its input [N, 3], but is given [Nx4] for [Nx3]
namespace shape_recurrent_state {
#ifdef BAD
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 5}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
}  // namespace shape_recurrent_state

// case: shape_rnn_dropout
// expect: rnn needs a dropout of at least 0 and below 1 but has 1
namespace shape_rnn_dropout {
#ifdef BAD
constexpr auto net = sequential(nn::rnn{.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 1});
#else
constexpr auto net = sequential(nn::rnn{.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.5});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
}  // namespace shape_rnn_dropout

// case: shape_rnn_sizes
// expect: rnn needs positive `input_size`, `hidden_size` and `num_layers` but has 3, 0 and 1
namespace shape_rnn_sizes {
#ifdef BAD
constexpr auto net = sequential(nn::rnn{3, 0});
#else
constexpr auto net = sequential(nn::rnn{3, 4});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
}  // namespace shape_rnn_sizes
