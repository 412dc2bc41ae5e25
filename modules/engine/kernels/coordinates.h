// Gathers elements and rows at coordinates, and puts or reduces them into a copy of an operand; running products.
#pragma once
#include "counted.h"
#include "index.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
// No unnamed namespace: bundles call the kernels below by their link names.
namespace coordinates {

/// Row of the coordinates that begin at index[number], or -1 if they are out of range.
LAMINA_INLINE long row_at(const coordinate_args& a, long number) {
  long row = 0;
  bool inside = true;
  for (int i = 0; i < a.parts; ++i) {
    const std::int64_t given = a.index[number + i], at = given < 0 ? given + a.extent[i] : given;
    if (at < 0 || at >= a.extent[i]) {
      count_wrong(a.invalid, given, number + i);
      inside = false;
    } else row = row * a.extent[i] + at;
  }
  return inside ? row : -1;
}

LAMINA_INLINE void gather(const coordinate_args& a) {
  const char* in = static_cast<const char*>(a.in);
  char* out = static_cast<char*>(a.out);
  for (long r = a.first; r < a.first + a.rows; ++r, out += a.row) {
    const long at = row_at(a, r * a.parts);
    if (at < 0) __builtin_memset(out, 0, static_cast<std::size_t>(a.row));
    else __builtin_memcpy(out, in + (r / a.count * a.whole + at) * a.row, static_cast<std::size_t>(a.row));
  }
}

struct put {
  template <class T> LAMINA_INLINE static T run(T, T y) { return y; }
};
struct add {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>) return x + y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) + static_cast<wrapping<T>>(y));
  }
};
struct multiply {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>) return x * y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(y));
  }
};
struct maximum {
  template <class T> LAMINA_INLINE static T run(T x, T y) { return x > y || x != x ? x : y; }
};
struct minimum {
  template <class T> LAMINA_INLINE static T run(T x, T y) { return x < y || x != x ? x : y; }
};
/// Calls f with the operation of a `scatter_reduction`.
template <bool Numbers, class F> LAMINA_INLINE void with_reduction(std::int32_t reduction, F f) {
  if constexpr (Numbers) {
    switch (static_cast<scatter_reduction>(reduction)) {
      case scatter_reduction::add: return f(add{});
      case scatter_reduction::multiply: return f(multiply{});
      case scatter_reduction::maximum: return f(maximum{});
      case scatter_reduction::minimum: return f(minimum{});
      default: return f(put{});
    }
  } else f(put{});
}

template <class T, bool Numbers> void scatter(const void* args, void*) noexcept {
  const auto& a = *static_cast<const coordinate_args*>(args);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long n = a.row;
  with_reduction<Numbers>(a.reduction, [&](auto reduce) {
    for (long r = a.first; r < a.first + a.rows; ++r, in += n) {
      const long at = row_at(a, r * a.parts);
      if (at < 0) continue;
      T* to = out + (r / a.count * a.whole + at) * n;
      LAMINA_VECTORS for (long i = 0; i < n; ++i) to[i] = reduce.run(to[i], in[i]);
    }
  });
}

template <class T, bool Numbers> void put_along_axis(const void* args, void*) noexcept {
  const auto& a = *static_cast<const put_along_axis_args*>(args);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  long at[axes_at_most] = {}, base = 0, n = 1;
  for (int k = 0; k < a.rank; ++k) n *= a.extent[k];
  with_reduction<Numbers>(a.reduction, [&](auto reduce) {
    for (long i = 0; i < n; ++i) {
      const std::int64_t given = a.index[i], place = given < 0 ? given + a.length : given;
      if (place < 0 || place >= a.length) count_wrong(a.invalid, given, i);
      else {
        T& to = out[base + place * a.axis_stride];
        to = reduce.run(to, in[i]);
      }
      for (int k = a.rank; k-- > 0;) {
        base += a.stride[k];
        if (++at[k] < a.extent[k]) break;
        base -= at[k] * a.stride[k];
        at[k] = 0;
      }
    }
  });
}

template <class T> void running_product(const void* args, void*) noexcept {
  using wide = std::conditional_t<is_float<T>, double, std::uint64_t>;
  const auto& a = *static_cast<const running_sum_args*>(args);
  const long step = a.reverse ? -a.inner : a.inner, begin = a.reverse ? (a.length - 1) * a.inner : 0;
  for (long o = 0; o < a.outer; ++o)
    for (long i = 0; i < a.inner; ++i) {
      const T* from = static_cast<const T*>(a.in) + o * a.length * a.inner + begin + i;
      T* to = static_cast<T*>(a.out) + o * a.length * a.inner + begin + i;
      wide product = 1;
      for (long l = 0; l < a.length; ++l, from += step, to += step) {
        const wide before = product;
        product *= static_cast<wide>(*from);
        *to = static_cast<T>(a.exclusive ? before : product);
      }
    }
}

/// Sets the entries of `tables` for an element type.
template <element E> constexpr void add_element(auto& tables) {
  using T = storage<E>;
  constexpr int at = static_cast<int>(E);
  if constexpr (is_float<T> || is_integer<T>) {
    tables.scatter_nd.of[at] = scatter<T, true>;
    tables.put_along_axis.of[at] = put_along_axis<T, true>;
    tables.running_product.of[at] = running_product<T>;
  } else {
    tables.scatter_nd.of[at] = scatter<word<sizeof(T)>, false>;
    tables.put_along_axis.of[at] = put_along_axis<word<sizeof(T)>, false>;
  }
}
template <int... E> constexpr void add_all(auto& tables, std::integer_sequence<int, E...>) {
  (add_element<static_cast<element>(E)>(tables), ...);
}

}  // namespace coordinates
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
