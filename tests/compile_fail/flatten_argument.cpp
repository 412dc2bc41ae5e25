// expect: of a typed operand the rank of the result is to stand in the call: write `flatten<2>(x)`
// within: 13 lines
import lamina;
using namespace lamina;

using image = tensor<float, extents<2, 3, 4, 5>>;

void use() {
#ifdef BAD
  auto y = flatten(image(), {.from = 2});
#else
  auto y = flatten<2>(image());
#endif
}
