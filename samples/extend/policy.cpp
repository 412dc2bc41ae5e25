// A new policy: a struct with a default value. Layers read it; a model sets it for all layers or for one sublayer.
#include <iostream>
import lamina;
using namespace lamina;

// ---- the extension
struct gain {
  double value = 1;
};
struct amplifier {
  constexpr auto forward(auto& s, const auto& x) const { return x * policy_of<gain>(s).value; }
};
// ---- its use

inline constexpr auto net = sequential(sublayer<"first">(amplifier{}), sublayer<"second">(amplifier{}));
using loud = policies<gain(10), sub<"second">(gain(0.5))>;
static_assert(loud::get<gain>().value == 10 && loud::for_sublayer<"second">::get<gain>().value == 0.5);
static_assert(policies<>::get<gain>().value == 1);
// policies<gain(1), gain(2)> does not compile: "policy `gain` is given two different values: ..."

int main() {
  matrix<float> x{{1, 2, 3}};
  model<net, input<"N", 3>> plain;
  model<net, input<"N", 3>, loud> loud_net;
  std::cout << plain(x) << " " << loud_net(x) << "\n";
}
