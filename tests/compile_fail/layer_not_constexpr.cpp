// expect: sublayer `double` (twice): its member `forward` is not constexpr, or calls what is not, so the compiler cannot work out the shapes
import lamina;
using namespace lamina;

struct twice {
#ifdef BAD
  auto forward(auto&, const auto& x) const { return x + x; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + x; }
#endif
};
inline constexpr auto net =
    sequential(nn::linear{.in_features = 4, .out_features = 2}, nn::relu{}, sublayer<"double">(twice{}));

model<net, input<"N", 4>> m;
