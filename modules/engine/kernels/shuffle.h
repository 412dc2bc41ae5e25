// Elements of a few registers, side by side: neighbors to registers of their own, and back.
#pragma once
#include "simd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace shuffles {

/// The elements of register `Part` after groups of `Count` neighbors were split into `Count` registers (`Split`) or
/// joined from them: lane i is element at(i) of the registers before.
template <class T, int Count, bool Split, int Part> struct source {
  static constexpr int at(int i) {
    const int element = Part * width<T> + i;
    return Split ? Count * i + Part : element % Count * width<T> + element / Count;
  }
};
template <class Source, class T, int... I> LAMINA_INLINE vec<T> from_two(vec<T> a, vec<T> b, fold::indices<I...>) {
  return from_raw<T>(__builtin_shufflevector(to_raw<T>(a), to_raw<T>(b), Source::at(I)...));
}
template <class Source, class T, int... I>
LAMINA_INLINE vec<T> from_three(vec<T> a, vec<T> b, vec<T> c, fold::indices<I...>) {
  constexpr int two = 2 * width<T>;
  const auto ab = __builtin_shufflevector(to_raw<T>(a), to_raw<T>(b), (Source::at(I) < two ? Source::at(I) : 0)...);
  return from_raw<T>(
      __builtin_shufflevector(ab, to_raw<T>(c), (Source::at(I) < two ? I : width<T> + Source::at(I) - two)...));
}

}  // namespace shuffles

/// Register `Part` of groups of two or three that are split or joined.
template <bool Split, int Part, class T> LAMINA_INLINE vec<T> regrouped(vec<T> a, vec<T> b) {
  return shuffles::from_two<shuffles::source<T, 2, Split, Part>, T>(a, b, fold::first_indices<width<T>>{});
}
template <bool Split, int Part, class T> LAMINA_INLINE vec<T> regrouped(vec<T> a, vec<T> b, vec<T> c) {
  return shuffles::from_three<shuffles::source<T, 3, Split, Part>, T>(a, b, c, fold::first_indices<width<T>>{});
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
