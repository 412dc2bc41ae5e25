// mistake: the gradient of integers
// expect: the variable `n` is int64[3]; gradients need float elements
#include <cstdint>
import lamina;
using namespace lamina;

void use() {
  tensor<std::int64_t, extents<3>> n;
  tensor<float, extents<3>> x;
#ifdef BAD
  auto g = gradient<"n">(reduce_sum(var<"n">(n) * 2));
#else
  auto g = gradient<"n">(reduce_sum(var<"n">(x) * 2));
#endif
}
