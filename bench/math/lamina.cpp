// lamina's functions, called as by the steps of a chain.
#include "every_map.h"
#include "math.h"

namespace bench::math {

library lamina() {
  const auto find = [](const std::string& name) -> function {
    namespace k = ::lamina::kernels;
    const auto op = name == "exp" ? k::map_op::exp : k::map_op::tanh;
    const k::map_function run = k::map_of(program_isa, op, k::element::f32);
    return [run](const float* in, float* out, long n) { run(in, nullptr, nullptr, out, n, 1); };
  };
  return {"lamina", "", program_isa_name, find};
}

}  // namespace bench::math
