// expect: slice: axis 0 is outside the rank: []
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = slice(reduce_sum(vector<float, 3>()), {.stop = 1});
#else
  auto y = slice(vector<float, 3>(), {.stop = 1});
#endif
}
