// The reduction family of one instruction set: reductions, softmax, picks, copies and fills; random fills are in
// random.cpp.
#include "reduce.h"

// only always-inlined functions pass vectors wider than a register
#pragma clang diagnostic ignored "-Wpsabi"

#include "box_copy.h"
#include "counted.h"
#include "fold_axis.h"
#include "softmax.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

template <element E> using element_type = std::conditional_t<E == element::boolean, std::uint8_t, storage<E>>;
/// Table of a reduction with Make::of<E>() for each type.
template <class Make> constexpr reduction_functions reduction(bool positions = false) {
  reduction_functions r{};
  r.positions = positions;
  const auto add = [&r]<element... E>() { ((r.of[static_cast<int>(E)] = Make::template of<E>()), ...); };
  add.template operator()<element::f32, element::f64, element::i8, element::i16, element::i32, element::i64,
                          element::u8, element::boolean>();
  return r;
}
template <class Fold> struct extreme {
  template <element E> static constexpr kernel of() { return folds::reduce<Fold, element_type<E>, false>; }
};
// Integers add and multiply as unsigned, so that they wrap.
template <class Fold> struct arithmetic {
  template <element E> static constexpr kernel of() {
    using T = element_type<E>;
    if constexpr (E == element::boolean) return nullptr;
    else if constexpr (is_float<T>) return folds::reduce<Fold, T, false>;
    else return folds::reduce<Fold, typename word_of<sizeof(T)>::type, false>;
  }
};
struct mean {
  template <element E> static constexpr kernel of() {
    if constexpr (is_float<element_type<E>>) return folds::reduce<folds::sum, element_type<E>, true>;
    else return nullptr;
  }
};
template <class Fold> struct position {
  template <element E> static constexpr kernel of() {
    if constexpr (E == element::boolean) return nullptr;
    else return folds::arg<Fold, element_type<E>>;
  }
};

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

// Tests the bits: all bits of the exponent are set.
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
    {LAMINA_KERNEL(pick_f32), LAMINA_KERNEL(pick_f64)},
    {LAMINA_KERNEL(spread_8), LAMINA_KERNEL(spread_16), LAMINA_KERNEL(spread_32), LAMINA_KERNEL(spread_64)},
    {LAMINA_KERNEL(count_not_finite_f32), LAMINA_KERNEL(count_not_finite_f64)}};

extern constinit const reduction_functions LAMINA_KERNEL(reduce_sum) = reduction<arithmetic<folds::sum>>();
extern constinit const reduction_functions LAMINA_KERNEL(reduce_mean) = reduction<mean>();
extern constinit const reduction_functions LAMINA_KERNEL(reduce_maximum) = reduction<extreme<folds::maximum>>();
extern constinit const reduction_functions LAMINA_KERNEL(reduce_minimum) = reduction<extreme<folds::minimum>>();
extern constinit const reduction_functions LAMINA_KERNEL(reduce_product) = reduction<arithmetic<folds::product>>();
extern constinit const reduction_functions LAMINA_KERNEL(reduce_argmax) = reduction<position<folds::maximum>>(true);
extern constinit const reduction_functions LAMINA_KERNEL(reduce_argmin) = reduction<position<folds::minimum>>(true);

extern constinit const softmax_functions LAMINA_KERNEL(softmax) = {
    {LAMINA_KERNEL(softmax_f32), LAMINA_KERNEL(softmax_f64)},
    {LAMINA_KERNEL(log_softmax_f32), LAMINA_KERNEL(log_softmax_f64)}};

extern constinit const copy_functions LAMINA_KERNEL(copies) = {LAMINA_KERNEL(copy), LAMINA_KERNEL(fill),
                                                               LAMINA_KERNEL(copy_bytes)};

extern constinit const random_functions LAMINA_KERNEL(random) = {
    {LAMINA_KERNEL(uniform_f32), LAMINA_KERNEL(uniform_f64)}, {LAMINA_KERNEL(normal_f32), LAMINA_KERNEL(normal_f64)}};

}  // extern "C"

}  // namespace lamina::kernels
