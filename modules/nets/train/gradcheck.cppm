// Gradient checks against central differences, for authors of operations, losses and layers.
export module lamina:gradcheck;
import :context;
import :core;
import :dtype;
import :layer;
import :model;
import :op;
import :parameter;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Derivatives of one number, the only output of a program, in float64, with respect to input elements: five-point
/// central differences with a fourth-order error.
export class central_differences {
 public:
  /// Errors: type_error, shape_error, value_error unless the program returns exactly one float64 number.
  central_differences(std::shared_ptr<const program> p, std::vector<any_tensor> inputs, double step = 2e-4);
  /// Derivative with respect to one element of a float64 or float32 input, in row-major order. Errors: as a run.
  double at(std::size_t input, std::size_t element);

 private:
  template <class T> double slope(T* x);
  std::shared_ptr<const program> program_;
  std::vector<any_tensor> inputs_;
  std::vector<shape> extents_;
  std::vector<const void*> data_;
  session run_;
  double step_, result_ = 0;
};

/// Options of `gradcheck`.
export struct gradcheck_options {
  double tolerance = 0;       ///< for `gradcheck_report::error`; 0: 1e-6, or 2e-3 if an operand is float32
  double step = 0;            ///< distance of the difference points; 0: 2e-4, or 1e-2 if an operand is float32
  std::int64_t seed = 0;      ///< seed of layer parameters and of the factors of results
  bool training = true;       ///< whether a layer runs as in training
  bool second_order = false;  ///< whether gradients of gradients are checked too
};
/// The derivative with the largest error.
export struct gradcheck_report {
  double error = 0;  ///< relative to the larger of the two, or to 0.01 if both are smaller
  double analytic = 0, numeric = 0;
  std::string where{};    ///< "input 0 at [2, 1]", "parameter `weight` at [0, 3]"
  std::string message{};  ///< empty if all derivatives are within the tolerance
  explicit operator bool() const { return message.empty(); }
};

namespace detail {
using gradcheck_function = std::function<std::vector<value>(view<const value> inputs)>;
using gradcheck_layer = std::function<std::vector<value>(const trace_scope& scope, view<const value> inputs)>;
gradcheck_report check_gradients(const gradcheck_function& f, std::vector<any_tensor> inputs,
                                 const gradcheck_options& o);
gradcheck_report check_layer_gradients(const gradcheck_layer& f, std::vector<any_tensor> inputs,
                                       const gradcheck_options& o);
/// One value or several, as a vector.
template <class R> std::vector<value> values_of(const R& r) {
  if constexpr (std::convertible_to<R, value>) return {value(r)};
  else return std::vector<value>(std::begin(r), std::end(r));
}
template <class... X, class F> auto unpacked(const F& f, view<const value> in) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return values_of(f(in[I]...));
  }(std::make_index_sequence<sizeof...(X)>{});
}
}  // namespace detail

/// Checks the gradients of a function of values:
/// `gradcheck([](const auto& x, const auto& w) { return my_operation(x, w); }, x, w)`.
/// The result elements, each times its own factor, are summed in float64, and the derivatives of the sum by each
/// element of each float64 or float32 operand are compared with central differences. float64 detects smaller errors;
/// float32 is for operations that have no other kernel. The function returns a value, or an array or vector of them.
/// Operands of other element types are passed unchanged. Elements must be 5 `step` away from kinks; a function that
/// draws random numbers must draw the same ones in each run.
/// Errors: value_error if no operand or no result is float64 or float32, for options that are not finite and >= 0, and
/// for an operation without a gradient; errors of the operations.
export template <class F, detail::InMemory... X> requires(!Layer<F> && !std::same_as<F, gradcheck_options>)
gradcheck_report gradcheck(const gradcheck_options& o, const F& f, const X&... x) {
  return detail::check_gradients([&](view<const value> in) { return detail::unpacked<X...>(f, in); },
                                 {any_tensor(x)...}, o);
}
/// The same for a layer and all of its trainable parameters, which are initialized as the layer specifies, in float32
/// if an operand is.
export template <Layer L, detail::InMemory... X>
gradcheck_report gradcheck(const gradcheck_options& o, const L& layer, const X&... x) {
  static_assert(sizeof...(X) == detail::input_count<L>(),
                "gradcheck: a layer takes one operand for each of its input ports");
  return detail::check_layer_gradients(
      [&](const trace_scope& scope, view<const value> in) {
        std::vector<value> out(detail::output_count<L>());
        trace_scope own = scope;
        detail::run_layer(own, layer, in, view<value>(out));
        return out;
      },
      {any_tensor(x)...}, o);
}
/// With default options.
export template <class F, detail::InMemory... X> requires(!std::same_as<F, gradcheck_options>)
gradcheck_report gradcheck(const F& f, const X&... x) {
  return gradcheck(gradcheck_options{}, f, x...);
}

}  // namespace lamina
