// expect: gru expects 3 input features but is given 5, shape [TxNx5]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
#else
constexpr auto net = sequential(nn::gru{.input_size = 5, .hidden_size = 4});
#endif
static_assert(no_error<shape_check<net, input<"T", "N", 5>>>);
