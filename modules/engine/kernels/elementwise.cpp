// The elementwise family of one instruction set: micro-operations and conversions, and the drivers.
#include "elementwise.h"

#include "chain.h"
#include "map.h"
#include "register_chain.h"
#include "stored.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

struct casts_holder {
  cast_table table;
};

/// The function that applies an operation to arrays of T, or null if unsupported.
template <class Op, class T> constexpr map_function function_of() {
  if constexpr (same<T, float> && requires { Op::slow(T()); }) return map_guarded<Op>;
  else if constexpr (same<T, float> && requires { Op::slow(T(), T()); }) return map_guarded_binary<Op>;
  else if constexpr (same<T, float> && Runs<Op, vf, vf>) return map_register<Op>;
  else if constexpr (Runs<Op, T, T> || Runs<Op, bool, T>) return map_unary<Op, T>;
  else if constexpr (Runs<Op, T, T, T> || Runs<Op, bool, T, T>) return map_binary<Op, T>;
  else if constexpr (Runs<Op, T, T, T, T>) return map_ternary<Op, T>;
  else return nullptr;
}
template <class Op, class T> constexpr register_function registers_of() {
  using R = many<T>;
  if constexpr (Runs<Op, vec<T>, vec<T>> || Runs<Op, R, R>)
    return register_chains::erased<T, register_chains::unary<Op>>();
  else if constexpr (Runs<Op, R, R, R>) return register_chains::erased<T, register_chains::binary<Op>>();
  else return nullptr;
}
template <class Op, class T> constexpr register_function reversed_of() {
  constexpr bool commutes = same<Op, micro::add> || same<Op, micro::multiply>;
  if constexpr (Runs<Op, many<T>, many<T>, many<T>> && !commutes)
    return register_chains::erased<T, register_chains::reversed<Op>>();
  else return nullptr;
}
template <class Op, int... E> constexpr map_functions make_map(map_op op, std::integer_sequence<int, E...>) {
  map_functions m{};
  m.op = op;
  ((m.of[E] = function_of<Op, storage<static_cast<element>(E)>>()), ...);
  m.registers[0] = registers_of<Op, float>(), m.registers[1] = registers_of<Op, double>();
  m.reversed[0] = reversed_of<Op, float>(), m.reversed[1] = reversed_of<Op, double>();
  if constexpr (same<Op, micro::tanh>) m.low_latency = map_register<micro::tanh_of<latency::low>>;
  if constexpr (same<Op, micro::sigmoid>) m.low_latency = map_register<micro::sigmoid_of<latency::low>>;
  return m;
}
// Operations that move elements depend only on the element size.
template <int... E> constexpr map_functions make_where(std::integer_sequence<int, E...>) {
  return {.op = map_op::where, .of = {map_where<word<sizeof(storage<static_cast<element>(E)>)>>...}};
}
template <int... E> constexpr map_functions make_copy(std::integer_sequence<int, E...>) {
  return {.op = map_op::copy, .of = {map_copy<word<sizeof(storage<static_cast<element>(E)>)>>...}};
}
using each_element = std::make_integer_sequence<int, element_count>;

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

constexpr casts_holder casts = make_casts(std::make_integer_sequence<int, stored_element_count>{});

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(chain)(const void* args, void* scratch) noexcept {
  chains::run(*static_cast<const chain_args*>(args), static_cast<char*>(scratch));
}

void LAMINA_KERNEL(chain_sum)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const chain_sum_args*>(args);
  if (a.type == element::f32) chains::run_and_sum<float>(a, static_cast<char*>(scratch));
  else chains::run_and_sum<double>(a, static_cast<char*>(scratch));
}

void LAMINA_KERNEL(map)(const void* args, void*) noexcept {
  const auto& m = *static_cast<const map_args*>(args);
  m.run(m.in[0], m.in[1], m.in[2], m.out, m.n, m.steps);
}

extern constinit const elementwise_functions LAMINA_KERNEL(elementwise) = {LAMINA_KERNEL(chain), LAMINA_KERNEL(map),
                                                                           LAMINA_KERNEL(chain_sum)};

#define LAMINA_MAP(name) \
  extern const map_functions LAMINA_KERNEL(map_##name) = make_map<micro::name>(map_op::name, each_element{});
LAMINA_MICRO_OPERATIONS(LAMINA_MAP)
#undef LAMINA_MAP
extern constinit const map_functions LAMINA_KERNEL(map_where) = make_where(each_element{});
extern constinit const map_functions LAMINA_KERNEL(map_copy) = make_copy(each_element{});
extern constinit const map_functions LAMINA_KERNEL(map_cast) = {.op = map_op::copy, .casts = &casts.table};

}  // extern "C"

}  // namespace lamina::kernels
