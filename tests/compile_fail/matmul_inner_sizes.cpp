// expect: matmul: the inner sizes differ: [?x784] [100x10]
import lamina;
using namespace lamina;

using rows = tensor<float, extents<dyn, 784>>;

void use() {
#ifdef BAD
  auto y = matmul(rows(3), matrix<float, 100, 10>());
#else
  auto y = matmul(rows(3), matrix<float, 784, 10>());
#endif
}
