// Options of operations, which the compiler reads where a layer calls them.
// within: 22 lines
#include <cstdint>
import lamina;
using namespace lamina;

template <auto Calls> struct layer_of_calls {
  constexpr auto forward(auto& s, const auto& x) const { return Calls(s, x); }
};
template <auto Calls> constexpr layer_of_calls<Calls> layer{};
// A type instead of a concept: Clang 22 crashes on a generic lambda as an argument of an unsatisfied concept.
template <auto Calls, dim... Extents> using runs = shape_check<layer<Calls>, input<Extents...>>;

#ifdef BAD
// expect below: rope: the base must be positive: float32[2x4] int64[2]
static_assert(no_error<runs<[](auto&, const auto& x) { return rope(x, shape_of(x), {.base = 0}); }, 2, 4>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return rope(x, shape_of(x), {.base = 100}); }, 2, 4>>);
#endif
#ifdef BAD
// expect below: slice: a step of 0 is not positive: [3x4]
static_assert(no_error<runs<[](auto&, const auto& x) { return slice(x, {.step = 0}); }, 3, 4>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return slice(x, {.step = 2}); }, 3, 4>>);
#endif
#ifdef BAD
// expect below: tile: the repeats [?x2] must be known: [3x4]
static_assert(no_error<runs<[](auto&, const auto& x) { return tile(x, {dyn, 2}); }, 3, 4>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return tile(x, {1, 2}); }, 3, 4>>);
#endif
#ifdef BAD
// expect below: layer_norm: cannot normalize 5 axes of this rank: [3x4]
static_assert(no_error<runs<[](auto&, const auto& x) { return layer_norm(x, {.axes = 5}); }, 3, 4>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return layer_norm(x, {.axes = 1}); }, 3, 4>>);
#endif
#ifdef BAD
// expect below: layer_norm: epsilon must not be negative: [3x4]
static_assert(no_error<runs<[](auto&, const auto& x) { return layer_norm(x, {.epsilon = -1}); }, 3, 4>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return layer_norm(x, {.epsilon = 1}); }, 3, 4>>);
#endif
#ifdef BAD
// expect below: max_pool2d: kernel_size and stride must be positive, padding not negative: [Nx3x8x8]
static_assert(no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 0}); }, "N", 3, 8, 8>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 2}); }, "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: avg_pool2d: padding is more than half of the window: [Nx3x8x8]
static_assert(
    no_error<runs<[](auto&, const auto& x) { return avg_pool2d(x, {.kernel_size = 2, .padding = 2}); }, "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto&, const auto& x) { return avg_pool2d(x, {.kernel_size = 2, .padding = 1}); }, "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: max_pool2d: 1099511627776 is too large for a window, stride, padding, dilation or groups; the limit is 2147483647: [Nx3x8x8]
static_assert(no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 2, .stride = 1L << 40}); },
                            "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 2, .stride = 1}); }, "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: max_pool2d: the window 9x9 is larger than the map: [Nx3x8x8]
static_assert(no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 9}); }, "N", 3, 8, 8>>);
#else
static_assert(no_error<runs<[](auto&, const auto& x) { return max_pool2d(x, {.kernel_size = 8}); }, "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: stride, dilation and groups must be positive, padding not negative: [Nx3x8x8] [4x3x3x3]
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.stride = 0}); },
                  "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.stride = 2}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: the kernel has no extent: [Nx3x8x8] [4x3x0x3]
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 0, 3}, {})); }, "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {})); }, "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: 4 output channels do not divide into 3 groups: [Nx3x8x8] [4x1x3x3]
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 1, 3, 3}, {}), {.groups = 3}); },
                  "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {6, 1, 3, 3}, {}), {.groups = 3}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: the weights expect 2 input channels in each group: [Nx3x8x8] [6x2x3x3]
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {6, 2, 3, 3}, {}), {.groups = 3}); },
                  "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {6, 1, 3, 3}, {}), {.groups = 3}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: the kernel is larger than the padded map: [Nx3x8x8] [4x3x9x9]
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 9, 9}, {})); }, "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 9, 9}, {}), {.padding = 1}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: is too large for a window, stride, padding, dilation or groups; the limit is 2147483647: [Nx3x8x8] [4x3x3x3]
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1L << 31});
},
                            "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv2d: the result [Nx4x2147483654x2147483654] is too large: [Nx3x8x8] [4x3x3x3]
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1L << 30});
},
                            "N", 3, 8, 8>>);
#else
static_assert(
    no_error<runs<[](auto& s, const auto& x) { return conv2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1}); },
                  "N", 3, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv_transpose2d: 4 input channels do not divide into 3 groups: [Nx4x8x8] [4x3x3x3]
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.groups = 3});
},
                            "N", 4, 8, 8>>);
#else
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.groups = 2});
},
                            "N", 4, 8, 8>>);
#endif
#ifdef BAD
// expect below: conv_transpose2d: the padding leaves an empty result: [Nx4x8x8] [4x3x3x3]
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 9});
},
                            "N", 4, 8, 8>>);
#else
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1});
},
                            "N", 4, 8, 8>>);
#endif
#ifdef BAD
// expect below: is too large for a window, stride, padding, dilation or groups; the limit is 2147483647: [Nx4x8x8] [4x3x3x3]
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1L << 31});
},
                            "N", 4, 8, 8>>);
#else
static_assert(no_error<runs<[](auto& s, const auto& x) {
  return conv_transpose2d(x, s.parameter("w", {4, 3, 3, 3}, {}), {.padding = 1});
},
                            "N", 4, 8, 8>>);
#endif
