// Eigen's product, compiled for the instruction set of this program.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "eigen_version.h"
#include "sgemm.h"

namespace bench::sgemm {

library eigen() {
#if LAMINA_BENCH_EIGEN
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto bind = [](const product& p) -> call {
    return [p] {
      const Eigen::Map<const matrix, Eigen::Aligned64> a(p.a, p.m, p.k), b(p.b, p.k, p.n);
      Eigen::Map<matrix, Eigen::Aligned64> c(p.c, p.m, p.n);
      c.noalias() = a * b;
    };
  };
  return {"Eigen", eigen_version(), program_isa_name, bind};
#else
  return {"Eigen", "", "", {}};
#endif
}

}  // namespace bench::sgemm
