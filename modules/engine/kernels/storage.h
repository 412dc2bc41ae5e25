// C++ storage types of the element types, for kernel code that is generic in the element type.
#pragma once
#include <limits>
#include <type_traits>

#include "simd.h"

/// For loops with independent iterations, even if the output aliases an input.
#define LAMINA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")

/// The same, two registers at a time: remainders shorter than an iteration run as scalars, and rows of 16 are frequent.
#define LAMINA_IN_PAIRS _Pragma("clang loop vectorize(assume_safety) interleave_count(2)")
/// The same, one register at a time, for loops that are rarely hot.
#define LAMINA_VECTORS _Pragma("clang loop vectorize(assume_safety) interleave(disable) unroll(disable)")
/// For loops that need not be fast: favors small code.
#define LAMINA_SMALL _Pragma("clang loop vectorize(disable) interleave(disable) unroll(disable)")
/// For functions shared by several callers: out of line, one copy per instance.
#define LAMINA_APART __attribute__((noinline)) inline
/// The same, optimized for size, for functions that rarely run or spend their time in callees; bundles link them.
#define LAMINA_COMPACT __attribute__((noinline, minsize)) inline

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Types without arithmetic, only converted and copied.
struct half {
  std::uint16_t bits;
};
struct bfloat {
  std::uint16_t bits;
};
struct boolean {
  std::uint8_t bits;
};  // 0 or 1

template <element E> struct storage_of;
template <> struct storage_of<element::f32> {
  using type = float;
};
template <> struct storage_of<element::f64> {
  using type = double;
};
template <> struct storage_of<element::f16> {
  using type = half;
};
template <> struct storage_of<element::bf16> {
  using type = bfloat;
};
template <> struct storage_of<element::i8> {
  using type = std::int8_t;
};
template <> struct storage_of<element::i16> {
  using type = std::int16_t;
};
template <> struct storage_of<element::i32> {
  using type = std::int32_t;
};
template <> struct storage_of<element::i64> {
  using type = std::int64_t;
};
template <> struct storage_of<element::u8> {
  using type = std::uint8_t;
};
template <> struct storage_of<element::boolean> {
  using type = boolean;
};
template <element E> using storage = typename storage_of<E>::type;

template <class T, class U> inline constexpr bool same = false;
template <class T> inline constexpr bool same<T, T> = true;
template <class T> inline constexpr bool is_float = same<T, float> || same<T, double>;
template <class T> inline constexpr bool is_integer = same<T, std::int8_t> || same<T, std::int16_t> ||
                                                      same<T, std::int32_t> || same<T, std::int64_t> ||
                                                      same<T, std::uint8_t>;

/// The unsigned type of `Bytes` bytes.
template <int Bytes> struct word_of;
template <> struct word_of<1> {
  using type = std::uint8_t;
};
template <> struct word_of<2> {
  using type = std::uint16_t;
};
template <> struct word_of<4> {
  using type = std::uint32_t;
};
template <> struct word_of<8> {
  using type = std::uint64_t;
};
template <int Bytes> using word = typename word_of<Bytes>::type;

/// Type for adding and multiplying integers of T: unsigned, so that they wrap, and not subject to promotion to int.
template <class T> using wrapping = word<sizeof(T) == 8 ? 8 : 4>;

template <class T> LAMINA_INLINE constexpr T smallest() {
  if constexpr (is_float<T>) return -std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::min();
}
template <class T> LAMINA_INLINE constexpr T largest() {
  if constexpr (is_float<T>) return std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::max();
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
