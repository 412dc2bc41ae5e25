// expect: select: axis 0 is outside the rank: []
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = select(reduce_sum(vector<float, 3>()), 0, 1);
#else
  auto y = select(vector<float, 3>(), 0, 1);
#endif
}
