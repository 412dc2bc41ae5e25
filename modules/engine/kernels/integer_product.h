// Matrix products of integers; overflow wraps.
#pragma once
#include "quantized.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
// No unnamed namespace: bundles call the kernels below by their link names.
namespace integer_products {

/// Sums modulo a power of two have the same bits in any order.
template <class T> void product(const void* args, void*) noexcept {
  const auto& p = *static_cast<const integer_product_args*>(args);
  const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
  T* c = static_cast<T*>(p.c);
  const auto added = [](T sum, T x, T y) {
    return static_cast<T>(static_cast<wrapping<T>>(sum) + static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(y));
  };
  for (long i = 0; i < p.m; ++i, a += p.a_row, c += p.n) {
    __builtin_memset(c, 0, static_cast<std::size_t>(p.n) * sizeof(T));
    if (p.b_column == 1) {
      for (long l = 0; l < p.k; ++l) {
        const T x = a[l * p.a_column], *row = b + l * p.b_row;
        LAMINA_NO_UNROLL for (long j = 0; j < p.n; ++j) c[j] = added(c[j], x, row[j]);
      }
    } else {
      for (long j = 0; j < p.n; ++j) {
        T sum = 0;
        LAMINA_NO_UNROLL for (long l = 0; l < p.k; ++l) sum =
            added(sum, a[l * p.a_column], b[l * p.b_row + j * p.b_column]);
        c[j] = sum;
      }
    }
  }
}
template <int... E> constexpr void add_all(kernel* table, std::integer_sequence<int, E...>) {
  const auto add = [&]<element Of>() {
    if constexpr (is_integer<storage<Of>>) table[static_cast<int>(Of)] = product<storage<Of>>;
  };
  (add.template operator()<static_cast<element>(E)>(), ...);
}

}  // namespace integer_products
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
