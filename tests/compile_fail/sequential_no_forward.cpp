// expect: argument 2 of sequential(...) is `shift`, which has no member `forward`; a layer has `constexpr auto forward(auto& scope, const auto& x) const`
import lamina;
using namespace lamina;

struct shift {
#ifdef BAD
  constexpr auto apply(auto&, const auto& x) const { return x + 1; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + 1; }
#endif
};

inline constexpr auto net = sequential(nn::relu{}, shift{});
