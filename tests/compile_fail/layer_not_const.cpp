// expect: sublayer `twice` (doubled): its member `forward` is not const; declare it `constexpr auto forward(...) const`
import lamina;
using namespace lamina;

struct doubled {
#ifdef BAD
  constexpr auto forward(auto&, const auto& x) { return x + x; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + x; }
#endif
};

inline constexpr auto net = sequential(nn::relu{}, sublayer<"twice">(doubled{}));

model<net, input<"N", 4>> m;
