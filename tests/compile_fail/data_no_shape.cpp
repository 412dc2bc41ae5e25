// expect: the data type samples is no operand yet: it needs `lamina::shape shape() const`
import lamina;
using namespace lamina;

struct samples {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
#ifndef BAD
  lamina::shape shape() const { return {3}; }
#endif
  void read(view<float> out) const { out[0] = 1; }
};
void use() { auto y = samples() + vector<float>(3); }
