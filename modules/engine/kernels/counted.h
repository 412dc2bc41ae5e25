// Counts elements from outside that are wrong, as positions out of range. No vectors: modules include it, too.
#pragma once
#include <cstdint>

namespace lamina::kernels {

/// Counts an element into invalid[0]; the first one is noted behind it, and its position.
__attribute__((always_inline)) inline void count_wrong(std::int64_t* invalid, std::int64_t element,
                                                       std::int64_t position) {
  if (++invalid[0] != 1) return;
  invalid[1] = element;
  invalid[2] = position;
}

}  // namespace lamina::kernels
