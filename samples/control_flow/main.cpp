// Control flow inside a net: square roots by Newton's iteration, which stops when the error is small enough, for
// numbers that have a real root. The gradients pass through the loop.
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>
import lamina;

using namespace lamina;

namespace {

const tensor_type real_number{dtype::float64, {}};

// Loop body: the continue condition and a better root. The root is carried from iteration to iteration; `a` is an
// input that stays the same.
std::shared_ptr<const ir::program> newton() {
  auto p = graph::subprogram();
  ir::value root = p->input("root", real_number), a = p->input("a", real_number);
  ir::value better = 0.5 * (root + a / root);
  p->output("go on", abs(better * better - a) > 1e-12 * a);
  p->output("root", better);
  return p;
}
std::shared_ptr<const ir::program> root_of_positive() {
  auto p = graph::subprogram();
  ir::value a = p->input("a", real_number), first = max(a, 1.0);
  p->output("root", loop(60, ir::value(a == a), newton(), {&first, 1}, {&a, 1})[0]);
  return p;
}
std::shared_ptr<const ir::program> no_root() {
  auto p = graph::subprogram();
  ir::value a = p->input("a", real_number);
  p->output("root", a - a);
  return p;
}

}  // namespace

int main() {
  graph::net roots("roots");
  ir::value a = roots.external("a", real_number);
  ir::value root = roots.output("root", cond(ir::value(a > 0.0), root_of_positive(), no_root(), {&a, 1})[0]);
  roots.output("slope", roots.add_gradient_operators({root})[a]);

  graph::workspace ws;
  bool right = true;
  std::printf("number       root        slope\n");
  for (double x : {2.0, 9.0, 1e6, 0.25, -4.0}) {
    ws.feed("a", evaluate(filled(x)));
    ws.run_once(roots);
    const double y = ws.fetch_numbers<double>("root")[0], slope = ws.fetch_numbers<double>("slope")[0];
    std::printf("%10.2f %11.6f %11.6f\n", x, y, slope);
    const double wanted = x > 0 ? std::sqrt(x) : 0;
    right = right && std::fabs(y - wanted) < 1e-6 && std::fabs(slope - (x > 0 ? 0.5 / wanted : 0)) < 1e-6;
  }
  return right ? 0 : 1;
}
