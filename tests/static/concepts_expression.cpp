// Truth tables of the concepts of engine/expression.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct samples {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
  void read(view<float> out) const { out[0] = 1; }
};
struct no_mode {
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
  void read(view<float> out) const { out[0] = 1; }
};
struct no_shape {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  void read(view<float> out) const { out[0] = 1; }
};
struct no_read {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
};
struct odd_elements {
  using evaluation_mode = lazy;
  using element_type = long double;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
  void read(view<long double> out) const { out[0] = 1; }
};

// UserData: a user's class that declares itself an operand.
static_assert(UserData<samples>);
static_assert(UserData<no_shape>);
static_assert(UserData<no_read>);
static_assert(UserData<odd_elements>);
static_assert(!UserData<no_mode>);
static_assert(!UserData<vector<float>>);
static_assert(!UserData<ir::value>);
static_assert(!UserData<float>);

// UserOperand: a UserData class with all members that an operand needs.
static_assert(UserOperand<samples>);
static_assert(!UserOperand<no_mode>);
static_assert(!UserOperand<no_shape>);
static_assert(!UserOperand<no_read>);
static_assert(!UserOperand<odd_elements>);
static_assert(!UserOperand<vector<float>>);

}  // namespace
