// expect: the member `forward` of a layer is not constexpr, or calls what is not, so the compiler cannot work out the shapes
import lamina;
using namespace lamina;

struct twice {
#ifdef BAD
  auto forward(auto&, const auto& x) const { return x + x; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + x; }
#endif
};
inline constexpr auto inner = sequential(twice{});
inline constexpr auto net = sequential(nn::relu{}, sublayer<"inner">(inner));

model<net, input<"N", 4>> m;
