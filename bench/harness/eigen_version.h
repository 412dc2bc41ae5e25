// Version of Eigen; include after Eigen's headers.
#pragma once
#include <string>

namespace bench {

#if LAMINA_BENCH_EIGEN
inline std::string eigen_version() {
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION);
}
#endif

}  // namespace bench
