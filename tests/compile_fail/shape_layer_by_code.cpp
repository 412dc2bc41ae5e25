// expect: sublayer `block.a`: linear expects 4 input features but is given 5, shape [Nx5] (`input` is [Nx5])
import lamina;

using namespace lamina;
struct block {
  nn::linear a;
  constexpr auto forward(auto& s, const auto& x) const { return s("a", a, x); }
};
constexpr auto net = sequential(nn::relu{}, sublayer<"block">(block{{.in_features = 4, .out_features = 4}}));
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 5>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 4>>>);
#endif
