// expect: rnn needs a dropout of at least 0 and below 1 but has 1
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::rnn{.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 1});
#else
constexpr auto net = sequential(nn::rnn{.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.5});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
