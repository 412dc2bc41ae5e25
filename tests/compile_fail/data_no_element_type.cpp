// expect: the data type samples is no operand yet: it needs `using element_type`, a type that tensors can hold, such as float
import lamina;
using namespace lamina;

struct samples {
  using evaluation_mode = lazy;
#ifndef BAD
  using element_type = float;
#endif
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
  void read(view<float> out) const { out[0] = 1; }
};
void use() { auto y = samples() + vector<float>(3); }
