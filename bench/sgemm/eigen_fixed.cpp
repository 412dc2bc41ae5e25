// Eigen's product of matrices of fixed size, compiled for the instruction set of this program.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "eigen_version.h"
#include "sgemm.h"

namespace bench::sgemm {
#if LAMINA_BENCH_EIGEN
namespace {

template <int N> call of_size(const product& p) {
  return [p] {
    using matrix = Eigen::Matrix<float, N, N, Eigen::RowMajor>;
    const Eigen::Map<const matrix, Eigen::Aligned64> a(p.a), b(p.b);
    Eigen::Map<matrix, Eigen::Aligned64> c(p.c);
    c.noalias() = a * b;
  };
}

call bind(const product& p) {
  call made;
  const auto add = [&]<int... N>(std::integer_sequence<int, N...>) {
    ((p.n == N ? static_cast<void>(made = of_size<N>(p)) : void()), ...);
  };
  add(std::integer_sequence<int, 4, 8, 12, 16, 24, 32, 48, 64>());
  return made;
}

}  // namespace

library eigen_fixed() { return {"Eigen, fixed size", eigen_version(), program_isa_name, bind}; }
#else
library eigen_fixed() { return {"Eigen, fixed size", "", "", {}}; }
#endif

}  // namespace bench::sgemm
