// The operations of MetaNN's benchmark, in lamina.
#include <cstdint>

#include "calls.h"

import lamina;

namespace {

using namespace lamina;

matrix<float> numbers(std::int64_t rows, std::int64_t columns, int seed) {
  matrix<float> m(rows, columns);
  auto d = m.writable();
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = static_cast<float>((i + static_cast<std::size_t>(seed)) % 97u) / 97.f - 0.5f;
  return m;
}
void use(const auto& m) { __asm__ volatile("" ::"r"(m.data().data()) : "memory"); }

}  // namespace

namespace bench::metann {

void dot_512() {
  static const auto a = numbers(512, 512, 1), b = numbers(512, 512, 2);
  use(evaluate(dot<1>(a, b)));
}
void add_million() {
  static const auto a = numbers(1000, 1000, 1), b = numbers(1000, 1000, 2);
  use(evaluate(a + b));
}
void transpose_million() {
  static const auto a = numbers(1000, 1000, 1);
  use(evaluate(transpose(a)));
}
void evaluate_tiny() {
  static const auto a = numbers(2, 2, 1), b = numbers(2, 2, 2);
  use(evaluate(a + b));
}

}  // namespace bench::metann
