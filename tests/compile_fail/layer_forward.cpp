// expect: sublayer `scale` (scaled): its member `forward` does not take a scope and one operand for each input port: `x`, `by`
import lamina;
using namespace lamina;

struct scaled {
  static constexpr view<const label> inputs() { return port_names<"x", "by">; }
#ifdef BAD
  constexpr auto forward(auto&, const auto& x) const { return x; }
#else
  constexpr auto forward(auto&, const auto& x, const auto& by) const { return x * by; }
#endif
};
inline constexpr auto net = topology(sublayer<"scale">(scaled{}), connect<"a", "scale.x">, connect<"b", "scale.by">,
                                     connect<"scale.output", "c">);
model<net, port_input<"a", float, 2>, port_input<"b", float, 2>> m;
