// expect: the data type samples is no operand yet: it needs `using extents_type`, such as lamina::extents<lamina::dyn, lamina::dyn>
import lamina;
using namespace lamina;

struct samples {
  using evaluation_mode = lazy;
  using element_type = float;
#ifndef BAD
  using extents_type = extents<dyn>;
#endif
  lamina::shape shape() const { return {3}; }
  void read(view<float> out) const { out[0] = 1; }
};
void use() { auto y = tanh(samples()); }
