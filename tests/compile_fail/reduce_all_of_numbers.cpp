// expect: reduce_all: takes bool, not float32; cast first, as in cast<bool>(x): float32[3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = reduce_all(vector<float, 3>());
#else
  auto y = reduce_all(vector<float, 3>() > 0);
#endif
}
