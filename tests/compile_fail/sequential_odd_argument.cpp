// expect: argument 2 of sequential(...) is `lamina::connection`; it takes layers and sublayers only and connects each to the next
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, connect<"0.output", "1.input">, nn::tanh{});
#else
constexpr auto net = sequential(nn::relu{}, nn::tanh{});
#endif
