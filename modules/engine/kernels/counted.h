// Counts invalid user input, such as positions out of range. Free of SIMD code, because modules include it, too.
#pragma once
#include <cstdint>

namespace lamina::kernels {

/// Increments invalid[0]; the first call records the element in invalid[1] and its position in invalid[2].
__attribute__((always_inline)) inline void count_wrong(std::int64_t* invalid, std::int64_t element,
                                                       std::int64_t position) {
  if (++invalid[0] != 1) return;
  invalid[1] = element;
  invalid[2] = position;
}

}  // namespace lamina::kernels
