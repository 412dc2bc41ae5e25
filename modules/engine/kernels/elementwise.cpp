// The elementwise family of one instruction set: tables of micro-operations and conversions, and the drivers.
#include "elementwise.h"

#include "chain.h"
#include "map.h"
#include "register_chain.h"
#include "stored.h"

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

/// What runs an operation over arrays of T, or null where it does not take them.
template <class Op, class T> constexpr map_function function_of() {
  if constexpr (same<T, float> && requires { Op::slow(T()); }) return map_guarded<Op>;
  else if constexpr (same<T, float> && requires { Op::slow(T(), T()); }) return map_guarded_binary<Op>;
  else if constexpr (same<T, float> && Runs<Op, vf, vf>) return map_register<Op>;
  else if constexpr (Runs<Op, T, T> || Runs<Op, bool, T>) return map_unary<Op, T>;
  else if constexpr (Runs<Op, T, T, T> || Runs<Op, bool, T, T>) return map_binary<Op, T>;
  else if constexpr (Runs<Op, T, T, T, T>) return map_ternary<Op, T>;
  else return nullptr;
}
template <element E> constexpr void add(maps_holder& m) {
  using bits = word<sizeof(storage<E>)>;
  const auto set = [&m](map_op op, map_function f) { m.table[index(op)][static_cast<int>(E)] = f; };
  set(map_op::copy, map_copy<bits>);
  set(map_op::where, map_where<bits>);
#define LAMINA_SET(name) set(map_op::name, function_of<micro::name, storage<E>>());
  LAMINA_MICRO_OPERATIONS(LAMINA_SET)
#undef LAMINA_SET
}
template <int... E> constexpr maps_holder make_maps(std::integer_sequence<int, E...>) {
  maps_holder m{};
  (add<static_cast<element>(E)>(m), ...);
  return m;
}

template <element From, element To, class Rule = cast_rule<>> constexpr map_function cast_of() {
  constexpr bool computed = static_cast<int>(From) < element_count && static_cast<int>(To) < element_count;
  if constexpr (computed) return map_cast<storage<To>, storage<From>>;
  else return stored_casts::function_of<storage<From>, storage<To>, Rule>();
}
template <element From, int... To> constexpr void add_casts(casts_holder& c, std::integer_sequence<int, To...>) {
  auto& row = c.table[static_cast<int>(From)];
  ((row[To] = cast_of<From, static_cast<element>(To)>()), ...);
  const auto rule = [&row]<element E, bool Saturate, power_rounding R = power_rounding::up>() {
    row[cast_column(E, Saturate, R)] = cast_of<From, E, cast_rule<Saturate, R>>();
  };
  rule.template operator()<element::e4m3fn, false>();
  rule.template operator()<element::e4m3fnuz, false>();
  rule.template operator()<element::e5m2, false>();
  rule.template operator()<element::e5m2fnuz, false>();
  rule.template operator()<element::e8m0, false>();
  rule.template operator()<element::e8m0, true, power_rounding::down>();
  rule.template operator()<element::e8m0, false, power_rounding::down>();
  rule.template operator()<element::e8m0, true, power_rounding::nearest>();
  rule.template operator()<element::e8m0, false, power_rounding::nearest>();
}
template <int... From> constexpr casts_holder make_casts(std::integer_sequence<int, From...> all) {
  casts_holder c{};
  (add_casts<static_cast<element>(From)>(c, all), ...);
  return c;
}

template <class T> constexpr const register_chains::table<T>& register_chain = register_chains::steps_of<T>;
constexpr maps_holder maps = make_maps(std::make_integer_sequence<int, element_count>{});
constexpr casts_holder casts = make_casts(std::make_integer_sequence<int, stored_element_count>{});

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
    {{map_op::tanh, map_register<micro::tanh_of<latency::low>>},
     {map_op::sigmoid, map_register<micro::sigmoid_of<latency::low>>}},
    {{register_chains::supported<float>(register_chain<float>.unary),
      register_chains::supported<float>(register_chain<float>.binary)},
     {register_chains::supported<double>(register_chain<double>.unary),
      register_chains::supported<double>(register_chain<double>.binary)}}};

}  // extern "C"

}  // namespace lamina::kernels
