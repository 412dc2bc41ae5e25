// Eigen's expressions, compiled for the instruction set of this program.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "chain.h"
#include "eigen_version.h"

namespace bench::chain {

library eigen() {
#if LAMINA_BENCH_EIGEN
  const auto bind = [](int operations, const operands& o) -> call {
    using array = Eigen::Map<const Eigen::ArrayXf, Eigen::Aligned64>;
    const array a(o.a, o.n), b(o.b, o.n), c(o.c, o.n);
    Eigen::Map<Eigen::ArrayXf, Eigen::Aligned64> out(o.out, o.n);
    switch (operations) {
      case 3: return [=]() mutable { out = (a * b + c).max(0.f); };
      case 4: return [=]() mutable { out = (a + b) * (a - b) + c; };
      case 5: return [=]() mutable { out = (a.square() + b.square()).sqrt() * c; };
      default: return [=]() mutable { out = (a - b) * (-c.square()).exp() + a; };
    }
  };
  return {"Eigen", eigen_version(), program_isa_name, bind};
#else
  return {"Eigen", "", "", {}};
#endif
}

}  // namespace bench::chain
