// expect: rnn_cell expects rows of 2 features, shape [N, 2], but is given [Nx3]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto walked = nn::recurrent{nn::rnn_cell{2, 4}};
#else
constexpr auto walked = nn::recurrent{nn::rnn_cell{3, 4}};
#endif
constexpr auto net = topology(sublayer<"r">(walked), connect<"x", "r.input">, connect<"h", "r.previous_output">,
                              connect<"r.output", "y">);
static_assert(no_error<shape_check<net, port_input<"x", float, "T", "N", 3>, port_input<"h", float, "N", 4>>>);
