// A new layer: a class with `forward`, which requests parameters and policies from its scope.
#include <iostream>
import lamina;
using namespace lamina;

// ---- the extension
/// Scales each feature by a learned factor, then applies x sigmoid(x).
struct gate {
  std::int64_t features = 0;
  constexpr void check(view<const tensor_type> x, message_text& why) const {
    if (x[0].dims.rank < 1 || !may_equal(x[0].dims.back(), features))
      why << "gate expects " << features << " features but is given " << x[0].dims;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    auto scaled = x * s.parameter("weight", shape{features}, initializer::constant(2));
    return scaled * sigmoid(scaled);
  }
};
// ---- its use

inline constexpr auto net = sequential(sublayer<"gate">(gate{3}), sublayer<"twice">(gate{3}));
static_assert(no_error<shape_check<net, input<"N", 3>>>);
static_assert(!no_error<shape_check<net, input<"N", 4>>>);  // "gate expects 3 features but is given [Nx4]"

int main() {
  model<net, input<"N", 3>> m;
  std::cout << m(matrix<float>{{-1.25, 0, 1.25}}) << "\n";
  for (std::size_t i = 0; i < m.parameters().size(); ++i)
    std::cout << m.parameters()[i].name() << " " << m.parameters()[i].value().print() << "\n";
}
