// Eigen's expressions, row by row, compiled for the instruction set of this program.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "eigen_version.h"
#include "rows.h"

namespace bench::rows {
#if LAMINA_BENCH_EIGEN
namespace {

call bind(kind of, const operands& o) {
  using array = Eigen::Map<Eigen::ArrayXf>;
  using known = Eigen::Map<const Eigen::ArrayXf>;
  if (of == kind::softmax)
    return [o] {
      for (long i = 0; i < o.count; ++i) {
        const known x(o.in + i * o.length, o.length);
        array y(o.out + i * o.length, o.length);
        y = (x - x.maxCoeff()).exp();
        y *= 1 / y.sum();
      }
    };
  return [o] {
    const known gain(o.gain, o.length), bias(o.bias, o.length);
    for (long i = 0; i < o.count; ++i) {
      const known x(o.in + i * o.length, o.length);
      const float mean = x.mean(), variance = (x - mean).square().mean();
      array(o.out + i * o.length, o.length) =
          (x - mean) * (1 / std::sqrt(variance + static_cast<float>(epsilon))) * gain + bias;
    }
  };
}

}  // namespace

library eigen() { return {"Eigen", eigen_version(), program_isa_name, bind}; }
#else
library eigen() { return {"Eigen", "", "", {}}; }
#endif

}  // namespace bench::rows
