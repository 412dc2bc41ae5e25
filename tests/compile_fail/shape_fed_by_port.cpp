// expect: sublayer `join`: add: the shapes do not broadcast: [Nx3] [Nx2] (`lhs` is [Nx3], fed by `cut.high`; `rhs` is [Nx2], fed by `cut.low`)
#include <array>
import lamina;

using namespace lamina;
struct halves {
  static constexpr view<const label> outputs() { return port_names<"low", "high">; }
  template <class V> constexpr auto forward(auto&, const V& x) const {
    return std::array<V, 2>{slice(x, {.start = 0, .stop = 2, .axis = 1}), slice(x, {.start = 2, .axis = 1})};
  }
};
constexpr auto net =
    topology(sublayer<"cut">(halves{}), sublayer<"join">(nn::add{}), connect<"input", "cut.input">,
             connect<"cut.high", "join.lhs">, connect<"cut.low", "join.rhs">, connect<"join.output", "output">);
#ifdef BAD
using trained = model<net, input<"N", 5>>;
#else
using trained = model<net, input<"N", 4>>;
#endif
