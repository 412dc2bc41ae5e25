// expect: the expression has no variable named `v`
import lamina;
using namespace lamina;

matrix<float, 3, 4> w;

void use() {
#ifdef BAD
  auto y = gradient<"v">(reduce_sum(var<"w">(w)));
#else
  auto y = gradient<"w">(reduce_sum(var<"w">(w)));
#endif
}
