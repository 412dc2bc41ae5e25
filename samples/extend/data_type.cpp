// A new data type: three aliases, a shape, and access to its elements. It can be used as an operand, like a tensor.
#include <iostream>
import lamina;

// ---- the extension
/// A square matrix with one value on its whole diagonal and zeros elsewhere; stores two numbers, whatever its size.
struct diagonal : lamina::operand_base {
  using evaluation_mode = lamina::lazy;
  using element_type = float;
  using extents_type = lamina::extents<lamina::dyn, lamina::dyn>;
  std::int64_t n = 0;
  float number = 1;
  lamina::shape shape() const { return {n, n}; }
  void read(lamina::view<float> out) const {
    for (std::int64_t i = 0; i < n * n; ++i) out[static_cast<std::size_t>(i)] = i % (n + 1) == 0 ? number : 0;
  }
  bool operator==(const diagonal& o) const { return n == o.n && number == o.number; }
};
// ---- its use

int main() {
  diagonal d{.n = 2, .number = 3};
  lamina::matrix<float> m{{1, 2}, {3, 4}};
  auto y = matmul(d, lamina::var<"m">(m)) + d;  // typed expressions
  std::cout << evaluate(y) << " " << evaluate(lamina::gradient<"m">(reduce_sum(y))) << "\n";
  lamina::dynamic<float, 2> any = d;
  std::cout << lamina::same(any, lamina::make_dynamic(diagonal{.n = 2, .number = 3})) << " " << evaluate(any - m)
            << "\n";

  lamina::ir::program p;  // values of a program
  lamina::ir::value x = p.input("x", {lamina::dtype::float32, {2, 2}});
  p.output("y", x * p.constant(evaluate(d)));
  std::cout << p.dump();
}
