// The elementwise family of one instruction set: tables of micro-operations and conversions, and the drivers.
#include "elementwise.h"

#include "chain.h"
#include "map.h"
#include "register_chain.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

struct maps_holder {
  map_table table;
};
struct casts_holder {
  cast_table table;
};

constexpr int index(map_op op) { return static_cast<int>(op); }
constexpr int index(element e) { return static_cast<int>(e); }

/// Storage only: copies and choices, by size.
template <element E> constexpr void add_moves(maps_holder& m) {
  using bits = word<sizeof(storage<E>)>;
  m.table[index(map_op::copy)][index(E)] = map_copy<bits>;
  m.table[index(map_op::where)][index(E)] = map_where<bits>;
}
template <element E, class T> constexpr void add_comparisons(maps_holder& m) {
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(E)] = f; };
  set(map_op::equal, map_binary<micro::equal, T>);
  set(map_op::not_equal, map_binary<micro::not_equal, T>);
  if constexpr (E != element::boolean) {
    set(map_op::less, map_binary<micro::less, T>);
    set(map_op::less_equal, map_binary<micro::less_equal, T>);
    set(map_op::greater, map_binary<micro::greater, T>);
    set(map_op::greater_equal, map_binary<micro::greater_equal, T>);
  }
}
template <element E> constexpr void add_numbers(maps_holder& m) {
  using T = storage<E>;
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(E)] = f; };
  add_moves<E>(m);
  add_comparisons<E, T>(m);
  set(map_op::negate, map_unary<micro::negate, T>);
  set(map_op::absolute, map_unary<micro::absolute, T>);
  set(map_op::sign, map_unary<micro::sign, T>);
  set(map_op::square, map_unary<micro::square, T>);
  set(map_op::add, map_binary<micro::add, T>);
  set(map_op::subtract, map_binary<micro::subtract, T>);
  set(map_op::multiply, map_binary<micro::multiply, T>);
  set(map_op::divide, map_binary<micro::divide, T>);
  set(map_op::minimum, map_binary<micro::minimum, T>);
  set(map_op::maximum, map_binary<micro::maximum, T>);
  set(map_op::clamp, map_clamp<T>);
}
template <element E> constexpr void add_floats(maps_holder& m) {
  using T = storage<E>;
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(E)] = f; };
  add_numbers<E>(m);
  set(map_op::square_root, map_unary<micro::square_root, T>);
  set(map_op::reciprocal, map_unary<micro::reciprocal, T>);
  set(map_op::relu, map_unary<micro::relu, T>);
  set(map_op::floor, map_unary<micro::floor, T>);
  set(map_op::ceil, map_unary<micro::ceil, T>);
  set(map_op::round, map_unary<micro::round, T>);
}
constexpr void add_single_functions(maps_holder& m) {
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(element::f32)] = f; };
#if defined(__AVX512F__)
  set(map_op::square_root, map_register<micro::square_root_f32>);
#endif
  set(map_op::exponential, map_register<micro::exponential_f32>);
  set(map_op::logarithm, map_register<micro::logarithm_f32>);
  set(map_op::hyperbolic_tangent, map_register<micro::tanh_f32>);
  set(map_op::sigmoid, map_register<micro::sigmoid_f32>);
  set(map_op::error_function, map_register<micro::erf_f32>);
  set(map_op::exponential_minus_one, map_register<micro::expm1_f32>);
  set(map_op::logarithm_of_one_plus, map_register<micro::log1p_f32>);
  set(map_op::softplus, map_register<micro::softplus_f32>);
#if defined(__AVX2__)
  set(map_op::gelu, map_register<micro::gelu_f32>);
#else
  set(map_op::gelu, map_unary<micro::gelu_f32, float>);
#endif
#if defined(LAMINA_FUSED)
  set(map_op::gelu_tanh, map_register<micro::gelu_tanh_f32>);
#else
  set(map_op::gelu_tanh, map_unary<micro::gelu_tanh_f32, float>);
#endif
  set(map_op::silu, map_register<micro::silu_f32>);
  set(map_op::mish, map_register<micro::mish_f32>);
  set(map_op::hyperbolic_sine, map_unary<micro::sinh_f32, float>);
  set(map_op::hyperbolic_cosine, map_unary<micro::cosh_f32, float>);
  set(map_op::inverse_hyperbolic_tangent, map_unary<micro::artanh_f32, float>);
  set(map_op::sine, map_guarded<micro::sine_f32>);
  set(map_op::cosine, map_guarded<micro::cosine_f32>);
  set(map_op::tangent, map_guarded<micro::tangent_f32>);
  set(map_op::arcsine, map_unary<micro::arcsine_f32, float>);
  set(map_op::arccosine, map_unary<micro::arccosine_f32, float>);
  set(map_op::arctangent, map_unary<micro::arctangent_f32, float>);
  set(map_op::inverse_hyperbolic_sine, map_unary<micro::arsinh_f32, float>);
  set(map_op::inverse_hyperbolic_cosine, map_unary<micro::arcosh_f32, float>);
  set(map_op::power, map_guarded_binary<micro::power_f32>);
}
constexpr void add_double_functions(maps_holder& m) {
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(element::f64)] = f; };
  set(map_op::exponential, map_unary<micro::exponential_f64, double>);
  set(map_op::logarithm, map_unary<micro::logarithm_f64, double>);
  set(map_op::hyperbolic_tangent, map_unary<micro::tanh_f64, double>);
  set(map_op::sigmoid, map_unary<micro::sigmoid_f64, double>);
  set(map_op::error_function, map_unary<micro::erf_f64, double>);
  set(map_op::sine, map_unary<micro::sine_f64, double>);
  set(map_op::cosine, map_unary<micro::cosine_f64, double>);
  set(map_op::tangent, map_unary<micro::tangent_f64, double>);
  set(map_op::arcsine, map_unary<micro::arcsine_f64, double>);
  set(map_op::arccosine, map_unary<micro::arccosine_f64, double>);
  set(map_op::arctangent, map_unary<micro::arctangent_f64, double>);
  set(map_op::inverse_hyperbolic_sine, map_unary<micro::arsinh_f64, double>);
  set(map_op::inverse_hyperbolic_cosine, map_unary<micro::arcosh_f64, double>);
  set(map_op::exponential_minus_one, map_unary<micro::expm1_f64, double>);
  set(map_op::logarithm_of_one_plus, map_unary<micro::log1p_f64, double>);
  set(map_op::softplus, map_unary<micro::softplus_f64, double>);
  set(map_op::gelu, map_unary<micro::gelu_f64, double>);
  set(map_op::gelu_tanh, map_unary<micro::gelu_tanh_f64, double>);
  set(map_op::silu, map_unary<micro::silu_f64, double>);
  set(map_op::mish, map_unary<micro::mish_f64, double>);
  set(map_op::hyperbolic_sine, map_unary<micro::sinh_f64, double>);
  set(map_op::hyperbolic_cosine, map_unary<micro::cosh_f64, double>);
  set(map_op::inverse_hyperbolic_tangent, map_unary<micro::artanh_f64, double>);
  set(map_op::power, map_binary<micro::power_f64, double>);
}
constexpr maps_holder make_maps() {
  maps_holder m{};
  add_floats<element::f32>(m);
  add_floats<element::f64>(m);
  add_single_functions(m);
  add_double_functions(m);
  add_moves<element::f16>(m);
  add_moves<element::bf16>(m);
  add_numbers<element::i8>(m);
  add_numbers<element::i16>(m);
  add_numbers<element::i32>(m);
  add_numbers<element::i64>(m);
  add_numbers<element::u8>(m);
  add_moves<element::boolean>(m);
  add_comparisons<element::boolean, std::uint8_t>(m);
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][index(element::boolean)] = f; };
  set(map_op::logical_not, map_unary<micro::logical_not, std::uint8_t>);
  set(map_op::logical_and, map_binary<micro::logical_and, std::uint8_t>);
  set(map_op::logical_or, map_binary<micro::logical_or, std::uint8_t>);
  set(map_op::logical_xor, map_binary<micro::logical_xor, std::uint8_t>);
  return m;
}

template <int... Pair> constexpr casts_holder make_casts(std::integer_sequence<int, Pair...>) {
  casts_holder c{};
  ((c.table[Pair / element_count][Pair % element_count] =
        map_cast<storage<static_cast<element>(Pair % element_count)>,
                 storage<static_cast<element>(Pair / element_count)>>),
   ...);
  return c;
}

template <class T> constexpr const register_chains::table<T>& register_chain = register_chains::steps_of<T>;
constexpr maps_holder maps = make_maps();
constexpr casts_holder casts = make_casts(std::make_integer_sequence<int, element_count * element_count>{});

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(chain)(const void* args, void* scratch) noexcept {
  chains::run(*static_cast<const chain_args*>(args), static_cast<char*>(scratch));
}

void LAMINA_KERNEL(map)(const void* args, void*) noexcept {
  const auto& m = *static_cast<const map_args*>(args);
  m.run(m.in[0], m.in[1], m.in[2], m.out, m.n, m.steps);
}

extern constinit const elementwise_functions LAMINA_KERNEL(elementwise) = {
    LAMINA_KERNEL(chain),
    LAMINA_KERNEL(map),
    &maps.table,
    &casts.table,
    {{map_op::hyperbolic_tangent, map_register<micro::tanh_of<latency::low>>},
     {map_op::sigmoid, map_register<micro::sigmoid_of<latency::low>>}},
    {{register_chains::supported<float>(register_chain<float>.unary),
      register_chains::supported<float>(register_chain<float>.binary)},
     {register_chains::supported<double>(register_chain<double>.unary),
      register_chains::supported<double>(register_chain<double>.binary)}}};

}  // extern "C"

}  // namespace lamina::kernels
