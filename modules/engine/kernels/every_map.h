// Lookup of a micro-operation by enumerator, for tests and benchmarks: including this links all operations.
#pragma once
#include "elementwise.h"

namespace lamina::kernels {

inline const map_functions& map_of(isa set, map_op op) {
  switch (op) {
#define LAMINA_CASE(name) \
  case map_op::name: return map_##name##_of(set);
    LAMINA_MICRO_OPERATIONS(LAMINA_CASE)
    LAMINA_CASE(where)
    LAMINA_CASE(copy)
#undef LAMINA_CASE
  }
  __builtin_unreachable();
}
/// The function for an element type; null if unsupported.
inline map_function map_of(isa set, map_op op, element e) { return map_of(set, op).of[static_cast<int>(e)]; }

}  // namespace lamina::kernels
