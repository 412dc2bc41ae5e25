// The reduction family of one instruction set: reductions, softmax, picks, copies and fills; random fills are next
// door.
#include "reduce.h"

// vectors wider than a register only pass through functions that are always inlined
#pragma clang diagnostic ignored "-Wpsabi"

#include "box_copy.h"
#include "counted.h"
#include "fold_axis.h"
#include "softmax.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

struct reduce_holder {
  reduce_table table;
};

template <element E> constexpr void add_extremes(reduce_holder& h) {
  using T = std::conditional_t<E == element::boolean, std::uint8_t, storage<E>>;
  const auto set = [&h](reduce_op op, kernel k) { h.table[static_cast<int>(op)][static_cast<int>(E)] = k; };
  set(reduce_op::maximum, folds::reduce<folds::maximum, T, false>);
  set(reduce_op::minimum, folds::reduce<folds::minimum, T, false>);
  if constexpr (E != element::boolean) {
    // integers add and multiply as unsigned: they wrap
    using U = typename std::conditional_t<is_float<T>, storage_of<E>, word_of<sizeof(T)>>::type;
    set(reduce_op::sum, folds::reduce<folds::sum, U, false>);
    set(reduce_op::product, folds::reduce<folds::product, U, false>);
    set(reduce_op::argmax, folds::arg<folds::maximum, T>);
    set(reduce_op::argmin, folds::arg<folds::minimum, T>);
  }
  if constexpr (is_float<T>) set(reduce_op::mean, folds::reduce<folds::sum, T, true>);
}
constexpr reduce_holder make_reductions() {
  reduce_holder h{};
  add_extremes<element::f32>(h);
  add_extremes<element::f64>(h);
  add_extremes<element::i8>(h);
  add_extremes<element::i16>(h);
  add_extremes<element::i32>(h);
  add_extremes<element::i64>(h);
  add_extremes<element::u8>(h);
  add_extremes<element::boolean>(h);
  return h;
}
constexpr reduce_holder reductions = make_reductions();

LAMINA_INLINE bool inside(const pick_args& a, long row) {
  const bool valid = a.index[row] >= 0 && a.index[row] < a.length;
  if (!valid && a.invalid != nullptr) count_wrong(a.invalid, a.index[row], row);
  return valid;
}
template <class T> LAMINA_INLINE void pick(const pick_args& a) {
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  for (long r = 0; r < a.rows; ++r) out[r] = inside(a, r) ? in[r * a.length + a.index[r]] : T(0);
}
template <class T> LAMINA_INLINE void spread(const pick_args& a) {
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  __builtin_memset(out, 0, static_cast<std::size_t>(a.rows * a.length) * sizeof(T));
  for (long r = 0; r < a.rows; ++r)
    if (inside(a, r)) out[r * a.length + a.index[r]] = in[r];
}

// By bits: an exponent of ones.
template <class Word, Word Exponent> LAMINA_INLINE void count_not_finite(const finite_args& a) {
  const auto* in = static_cast<const Word*>(a.in);
  long count = 0;
  for (long i = 0; i < a.n; ++i) count += (in[i] & Exponent) == Exponent;
  a.invalid[0] += count;
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(uniform_f32)(const void* args, void* scratch) noexcept;
void LAMINA_KERNEL(uniform_f64)(const void* args, void* scratch) noexcept;
void LAMINA_KERNEL(normal_f32)(const void* args, void* scratch) noexcept;
void LAMINA_KERNEL(normal_f64)(const void* args, void* scratch) noexcept;

void LAMINA_KERNEL(softmax_f32)(const void* args, void*) noexcept {
  soft::run<float>(*static_cast<const softmax_args*>(args), false);
}
void LAMINA_KERNEL(softmax_f64)(const void* args, void*) noexcept {
  soft::run<double>(*static_cast<const softmax_args*>(args), false);
}
void LAMINA_KERNEL(log_softmax_f32)(const void* args, void*) noexcept {
  soft::run<float>(*static_cast<const softmax_args*>(args), true);
}
void LAMINA_KERNEL(log_softmax_f64)(const void* args, void*) noexcept {
  soft::run<double>(*static_cast<const softmax_args*>(args), true);
}
void LAMINA_KERNEL(pick_f32)(const void* args, void*) noexcept { pick<float>(*static_cast<const pick_args*>(args)); }
void LAMINA_KERNEL(pick_f64)(const void* args, void*) noexcept { pick<double>(*static_cast<const pick_args*>(args)); }
void LAMINA_KERNEL(spread_8)(const void* args, void*) noexcept {
  spread<std::uint8_t>(*static_cast<const pick_args*>(args));
}
void LAMINA_KERNEL(spread_16)(const void* args, void*) noexcept {
  spread<std::uint16_t>(*static_cast<const pick_args*>(args));
}
void LAMINA_KERNEL(spread_32)(const void* args, void*) noexcept {
  spread<std::uint32_t>(*static_cast<const pick_args*>(args));
}
void LAMINA_KERNEL(spread_64)(const void* args, void*) noexcept {
  spread<std::uint64_t>(*static_cast<const pick_args*>(args));
}
void LAMINA_KERNEL(copy)(const void* args, void*) noexcept { boxes::run(*static_cast<const copy_args*>(args)); }
void LAMINA_KERNEL(copy_bytes)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const copy_bytes_args*>(args);
  __builtin_memcpy(a.out, a.in, static_cast<std::size_t>(a.bytes));
}
void LAMINA_KERNEL(fill)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const fill_args*>(args);
  switch (a.size) {
    case 1: return boxes::fill<std::uint8_t>(a);
    case 2: return boxes::fill<std::uint16_t>(a);
    case 4: return boxes::fill<std::uint32_t>(a);
    default: return boxes::fill<std::uint64_t>(a);
  }
}

void LAMINA_KERNEL(count_not_finite_f32)(const void* args, void*) noexcept {
  count_not_finite<std::uint32_t, 0x7f800000u>(*static_cast<const finite_args*>(args));
}
void LAMINA_KERNEL(count_not_finite_f64)(const void* args, void*) noexcept {
  count_not_finite<std::uint64_t, 0x7ff0000000000000u>(*static_cast<const finite_args*>(args));
}

extern constinit const reduce_functions LAMINA_KERNEL(reduce) = {
    &reductions.table,
    {LAMINA_KERNEL(softmax_f32), LAMINA_KERNEL(softmax_f64)},
    {LAMINA_KERNEL(log_softmax_f32), LAMINA_KERNEL(log_softmax_f64)},
    {LAMINA_KERNEL(pick_f32), LAMINA_KERNEL(pick_f64)},
    {LAMINA_KERNEL(spread_8), LAMINA_KERNEL(spread_16), LAMINA_KERNEL(spread_32), LAMINA_KERNEL(spread_64)},
    LAMINA_KERNEL(copy),
    LAMINA_KERNEL(fill),
    LAMINA_KERNEL(copy_bytes),
    {LAMINA_KERNEL(uniform_f32), LAMINA_KERNEL(uniform_f64)},
    {LAMINA_KERNEL(normal_f32), LAMINA_KERNEL(normal_f64)},
    {LAMINA_KERNEL(count_not_finite_f32), LAMINA_KERNEL(count_not_finite_f64)}};

}  // extern "C"

}  // namespace lamina::kernels
