// Elementwise operations of operands that do not fit.
#include <cstdint>
import lamina;
using namespace lamina;

// case: add_element_types
// expect: add: the element types differ; cast one of them: float32[3x4] float64[3x4]
void add_element_types() {
#ifdef BAD
  auto y = matrix<float, 3, 4>() + matrix<double, 3, 4>();
#else
  auto y = matrix<float, 3, 4>() + cast<float>(matrix<double, 3, 4>());
#endif
}

// case: add_shapes
// expect: add: the shapes do not broadcast: [3x4] [3x5]
void add_shapes() {
#ifdef BAD
  auto y = matrix<float, 3, 4>() + matrix<float, 3, 5>();
#else
  auto y = matrix<float, 3, 4>() + matrix<float, 1, 4>();
#endif
}

// case: add_shapes_square
// expect: add: the shapes do not broadcast: [2x3] [2x2]
void add_shapes_square() {
#ifdef BAD
  auto y = matrix<float, 2, 3>() + matrix<float, 2, 2>();
#else
  auto y = matrix<float, 2, 3>() + matrix<float, 2, 1>();
#endif
}

// case: gelu_of_integers
// expect: gelu: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
void gelu_of_integers() {
#ifdef BAD
  auto y = gelu(matrix<int, 3, 4>());
#else
  auto y = gelu(matrix<float, 3, 4>());
#endif
}

// case: bits_of_floats
// expect: bit_and: takes an integer type, not float32; cast first, as in cast<std::int32_t>(x): float32[3x4] float32[3x4]
void bits_of_floats() {
#ifdef BAD
  auto y = bit_and(matrix<float, 3, 4>(), matrix<float, 3, 4>());
#else
  auto y = bit_and(matrix<int, 3, 4>(), matrix<int, 3, 4>());
#endif
}

// case: silu_of_integers
// expect: silu: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
void silu_of_integers() {
#ifdef BAD
  auto y = silu(matrix<int, 3, 4>());
#else
  auto y = silu(matrix<float, 3, 4>());
#endif
}

// case: tanh_of_integers
// expect: tanh: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
void tanh_of_integers() {
#ifdef BAD
  auto y = tanh(matrix<int, 3, 4>());
#else
  auto y = tanh(cast<float>(matrix<int, 3, 4>()));
#endif
}

// case: dropout_of_integers
// expect: dropout: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4] int64[2]
void dropout_of_integers() {
#ifdef BAD
  auto y = dropout(matrix<int, 3, 4>(), vector<std::int64_t, 2>(), {.probability = 0.5});
#else
  auto y = dropout(matrix<float, 3, 4>(), vector<std::int64_t, 2>(), {.probability = 0.5});
#endif
}

// case: prelu_shapes
// expect: prelu: the shapes do not broadcast: [3x4] [3]
void prelu_shapes() {
#ifdef BAD
  auto y = prelu(matrix<float, 3, 4>(), vector<float, 3>());
#else
  auto y = prelu(matrix<float, 3, 4>(), vector<float, 4>());
#endif
}

// case: interpolate_shapes
// expect: interpolate: the shapes do not broadcast: [3x4] [3x5] []
void interpolate_shapes() {
#ifdef BAD
  auto y = interpolate(matrix<float, 3, 4>(), matrix<float, 3, 5>(), 0.5);
#else
  auto y = interpolate(matrix<float, 3, 4>(), vector<float, 4>(), 0.5);
#endif
}

// case: equal_of_stored
// expect: equal: takes float32, float64, an integer type up to int64 or bool, not float8_e5m2; cast first, as in cast<float>(x): float8_e5m2[3] float8_e5m2[3]
void equal_of_stored() {
  vector<float8_e5m2, 3> x;
#ifdef BAD
  auto y = x == x;
#else
  auto y = cast<float>(x) == cast<float>(x);
#endif
}

// case: bit_cast_sizes
// expect: bit_cast: float32 has 32 bits and int64 has 64: float32[3]
void bit_cast_sizes() {
#ifdef BAD
  auto y = bit_cast<std::int64_t>(vector<float, 3>());
#else
  auto y = bit_cast<std::int32_t>(vector<float, 3>());
#endif
}

// case: bit_cast_to_bool
// expect: bit_cast: cannot reinterpret as bool; compare with 0, or cast: uint8[3]
void bit_cast_to_bool() {
#ifdef BAD
  auto y = bit_cast<bool>(vector<std::uint8_t, 3>());
#else
  auto y = cast<bool>(vector<std::uint8_t, 3>());
#endif
}

// case: cast_rounding
// expect: cast: round_mode is 3; expected up (0), down (1) or nearest (2): [3]
void cast_rounding() {
#ifdef BAD
  auto y = cast<cast_attributes{dtype::float8_e8m0fnu, true, static_cast<power_rounding>(3)}>(vector<float, 3>());
#else
  auto y = cast<cast_attributes{dtype::float8_e8m0fnu, true, power_rounding::nearest}>(vector<float, 3>());
#endif
}
