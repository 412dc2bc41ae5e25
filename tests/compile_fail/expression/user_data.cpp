// Types of a user that are operands and lack a member.
import lamina;
using namespace lamina;

// case: data_no_element_type
// expect: the data type samples is not an operand: it needs `using element_type`, a type that tensors can hold, such as float
namespace data_no_element_type {
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
}  // namespace data_no_element_type

// case: data_no_extents
// expect: the data type samples is not an operand: it needs `using extents_type`, such as lamina::extents<lamina::dyn, lamina::dyn>
namespace data_no_extents {
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
}  // namespace data_no_extents

// case: data_no_shape
// expect: the data type samples is not an operand: it needs `lamina::shape shape() const`
namespace data_no_shape {
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
}  // namespace data_no_shape
