// expect: cached_attention: the memory must have the shape of keys and values but for the number of positions:
#include <cstdint>
import lamina;
using namespace lamina;
using block = tensor<float, extents<2, 3, 8>>;
using count = vector<std::int64_t, 1>;

void use() {
#ifdef BAD
  auto y = cached_attention(block(), block(), block(), tensor<float, extents<2, 64, 8>>(),
                            tensor<float, extents<2, 60, 8>>(), count());
#else
  auto y = cached_attention(block(), block(), block(), tensor<float, extents<2, 64, 8>>(),
                            tensor<float, extents<2, 64, 8>>(), count());
#endif
}
