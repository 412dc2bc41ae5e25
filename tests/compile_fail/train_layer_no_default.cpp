// expect: `scaled` cannot be made without arguments; give a constant of it, as in constant_layer<name>
import lamina;
using namespace lamina;

struct scaled {
  double factor;
  constexpr explicit scaled(double f) : factor(f) {}
  constexpr auto forward(auto&, const auto& x) const { return x * factor; }
};
inline constexpr scaled half{0.5};
#ifdef BAD
train_layer<scaled, inputs<port<"input", matrix<float>>>> layer("half");
#else
train_layer<constant_layer<half>, inputs<port<"input", matrix<float>>>> layer("half");
#endif
