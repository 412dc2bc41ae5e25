// Eigen's array functions, compiled for the instruction set of this program.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "eigen_version.h"
#include "math.h"

namespace bench::math {

library eigen() {
#if LAMINA_BENCH_EIGEN
  using in_array = Eigen::Map<const Eigen::ArrayXf>;
  using out_array = Eigen::Map<Eigen::ArrayXf>;
  const auto find = [](const std::string& name) -> function {
    if (name == "exp") return [](const float* in, float* out, long n) { out_array(out, n) = in_array(in, n).exp(); };
    return [](const float* in, float* out, long n) { out_array(out, n) = in_array(in, n).tanh(); };
  };
  return {"Eigen", eigen_version(), program_isa_name, find};
#else
  return {"Eigen", "", "", {}};
#endif
}

}  // namespace bench::math
