// Sequences of layers.
import lamina;
using namespace lamina;

// case: sequential_empty
// expect: sequential(...) needs at least one layer
namespace sequential_empty {
#ifdef BAD
constexpr auto net = sequential();
#else
constexpr auto net = sequential(nn::relu{});
#endif
}  // namespace sequential_empty

// case: sequential_no_forward
// expect: argument 2 of sequential(...) is `shift`, which has no member `forward`; a layer has `constexpr auto forward(auto& scope, const auto& x) const`
namespace sequential_no_forward {
struct shift {
#ifdef BAD
  constexpr auto apply(auto&, const auto& x) const { return x + 1; }
#else
  constexpr auto forward(auto&, const auto& x) const { return x + 1; }
#endif
};

inline constexpr auto net = sequential(nn::relu{}, shift{});
}  // namespace sequential_no_forward

// case: sequential_odd_argument
// expect: argument 2 of sequential(...) is `lamina::connection`; it takes layers and sublayers only and connects each to the next
namespace sequential_odd_argument {
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, connect<"0.output", "1.input">, nn::tanh{});
#else
constexpr auto net = sequential(nn::relu{}, nn::tanh{});
#endif
}  // namespace sequential_odd_argument

// case: sequential_two_inputs
// expect: sublayer `1` (dot) has 2 inputs: `lhs`, `rhs`; in sequential(...) each sublayer has one input and one output; otherwise use topology(...)
namespace sequential_two_inputs {
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, nn::dot{});
#else
constexpr auto net = sequential(nn::relu{}, nn::tanh{});
#endif
static_assert(ValidTopology<net>);
}  // namespace sequential_two_inputs
