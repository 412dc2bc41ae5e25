// expect: two variables are named `w`: float32[3] and float32[4]; give each a name of its own
import lamina;
using namespace lamina;

void use() {
  tensor<float, extents<3>> a;
  tensor<float, extents<4>> b;
#ifdef BAD
  auto g = gradient<"w">(reduce_sum(var<"w">(a)) * reduce_sum(var<"w">(b)));
#else
  auto g = gradient<"w">(reduce_sum(var<"w">(a)) * reduce_sum(var<"v">(b)));
#endif
}
