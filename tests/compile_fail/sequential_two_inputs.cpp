// expect: sublayer `1` (dot) has 2 inputs: `lhs`, `rhs`; in sequential(...) each sublayer has one input and one output, anything else is a topology(...)
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, nn::dot{});
#else
constexpr auto net = sequential(nn::relu{}, nn::tanh{});
#endif
static_assert(ValidTopology<net>);
