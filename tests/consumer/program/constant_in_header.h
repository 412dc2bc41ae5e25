// A constant as a template argument, in a header that two units include: one entity in both.
#pragma once

import lamina;

inline constexpr lamina::shape input_shape{"N", 1, 28, 28};

template <const lamina::shape& Shape>
struct sized {
  static constexpr int rank = Shape.rank;
  static int* counter() {
    static int count = 0;
    return &count;
  }
};

int* counter_elsewhere(sized<input_shape>);
