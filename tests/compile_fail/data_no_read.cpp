// expect: the data type samples is no operand yet: it needs `void read(lamina::view<element_type> out) const`, or data_traits
import lamina;
using namespace lamina;

struct samples {
  using world = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
#ifndef BAD
  void read(view<float> out) const { out[0] = 1; }
#endif
};
void use() { auto y = evaluate(samples()); }
