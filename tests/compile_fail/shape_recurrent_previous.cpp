// expect: `previous_output` is what an iteration leaves to the next, not a sequence
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto walked = nn::recurrent<nn::rnn_cell>{.step = {3, 4}, .sequences = {{{"previous_output"}}}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
