// Without `using namespace lamina`: argument-dependent lookup finds operators and functions, also in inner namespaces.
import lamina;

int use_no_using() {
  lamina::ir::program p;
  const lamina::ir::value x = p.input("x", {lamina::dtype::float32, {2, 3}});
  const auto y = reduce_sum(tanh(-x * 2 + 1) / x);
  p.output("y", y);
  if (y.shape().rank != 0) return 1;
  if (!(x == x).same(x == x)) return 2;
  if (!counted_when_run_in(p).empty()) return 4;

  using namespace lamina::literals;
  const auto sides = lamina::dict("lhs"_key = 2, "rhs"_key = 0.5);
  return sides["lhs"_key] == 2 && sides["rhs"_key] == 0.5 ? 0 : 3;
}
