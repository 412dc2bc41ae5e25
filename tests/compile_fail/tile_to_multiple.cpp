// expect: tile_to: extent 4 of [4x4] is no multiple of 3: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = tile_to<extents<4, 4>>(matrix<float, 3, 4>());
#else
  auto y = tile_to<extents<6, 4>>(matrix<float, 3, 4>());
#endif
}
