// A micro-operation by its number, for tests and benchmarks: who includes this links all of them.
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
/// Its function of an element type; null where it has none.
inline map_function map_of(isa set, map_op op, element e) { return map_of(set, op).of[static_cast<int>(e)]; }

}  // namespace lamina::kernels
