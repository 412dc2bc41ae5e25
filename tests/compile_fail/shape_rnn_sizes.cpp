// expect: rnn needs positive `input_size`, `hidden_size` and `num_layers` but has 3, 0 and 1
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::rnn{3, 0});
#else
constexpr auto net = sequential(nn::rnn{3, 4});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 3>>>);
