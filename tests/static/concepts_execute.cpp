// Truth tables of the concepts of engine/execute.
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
struct no_read {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  lamina::shape shape() const { return {3}; }
};

// Evaluable: what `evaluate` computes.
static_assert(Evaluable<matrix<float>>);
static_assert(Evaluable<const matrix<float, 2, 3>&>);
static_assert(Evaluable<decltype(matrix<float>() + 1)>);
static_assert(Evaluable<decltype(sum(matrix<float>()))>);
static_assert(Evaluable<dynamic<float, 2>>);
static_assert(Evaluable<samples>);
static_assert(!Evaluable<no_read>);
static_assert(!Evaluable<ir::value>);
static_assert(!Evaluable<float>);
static_assert(!Evaluable<std::vector<float>>);

}  // namespace
