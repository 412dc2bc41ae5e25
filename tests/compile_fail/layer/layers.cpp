// Invalid layers and sublayers.
import lamina;
using namespace lamina;

// case: layer_forward
// expect: sublayer `scale` (scaled): its member `forward` does not take a scope and one operand for each input port: `x`, `by`
namespace layer_forward {
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
}  // namespace layer_forward

// case: layer_not_const
// expect: sublayer `twice` (doubled): its member `forward` is not const; declare it `constexpr auto forward(...) const`
namespace layer_not_const {
struct doubled {
#ifdef BAD
  constexpr auto forward(auto&, const auto& x) { return x + x; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + x; }
#endif
};

inline constexpr auto net = sequential(nn::relu{}, sublayer<"twice">(doubled{}));

model<net, input<"N", 4>> m;
}  // namespace layer_not_const

// case: layer_not_constexpr
// expect: sublayer `double` (twice): its member `forward` is not constexpr or calls non-constexpr code, so the compiler cannot compute shapes
namespace layer_not_constexpr {
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
}  // namespace layer_not_constexpr

// case: layer_not_constexpr_alone
// expect: the member `forward` of a layer is not constexpr or calls non-constexpr code, so the compiler cannot compute shapes
namespace layer_not_constexpr_alone {
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
}  // namespace layer_not_constexpr_alone

// case: sublayer_long_name
// expect: the sublayer name `a_name_that_is_longer_than_24` has 29 characters; the limit is 24
namespace sublayer_long_name {
#ifdef BAD
constexpr auto net = sequential(sublayer<"a_name_that_is_longer_than_24">(nn::relu{}));
#else
constexpr auto net = sequential(sublayer<"a_short_name">(nn::relu{}));
#endif
}  // namespace sublayer_long_name

// case: sublayer_no_layer
// expect: sublayer `number` is given `int`, not a layer: a layer is a class with a member `forward`
namespace sublayer_no_layer {
#ifdef BAD
constexpr auto part = sublayer<"number">(3);
#else
constexpr auto part = sublayer<"act">(nn::relu{});
#endif
}  // namespace sublayer_no_layer

// case: sublayer_no_name
// expect: the name of a sublayer is empty
namespace sublayer_no_name {
#ifdef BAD
constexpr auto act = sublayer<"">(nn::relu{});
#else
constexpr auto act = sublayer<"act">(nn::relu{});
#endif
}  // namespace sublayer_no_name
