// Collector of parameter gradients, summed by name over backward passes and layers.
export module lamina:protocol.collector;
import :context;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.dynamic;
import :parameter;
import :protocol.call;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Collects gradients of parameters; sums those of one parameter over all layers. Lazy: nothing is computed
/// until the sums are evaluated.
export class gradient_collector {
 public:
  /// Adds a gradient of a parameter. Errors: shape_error, type_error if it differs from the parameter's type.
  template <class E> requires requires { pattern_of<E>; }
  void collect(std::shared_ptr<parameter> weight, const E& gradient) {
    add(std::move(weight), dtype_of<typename E::element_type>, detail::node_of(gradient));
  }
  void add(std::shared_ptr<parameter> weight, dtype element, detail::dynamic_pointer gradient);

  bool empty() const { return all_.empty(); }
  /// Number of parameters with gradients.
  std::size_t size() const { return all_.size(); }
  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;
  /// The sum of a parameter's gradients as an operand: `collector.gradient<matrix<float>>("fc.weight")`.
  /// Errors: state_error if nothing was collected; value_error for an unknown name; shape_error,
  /// type_error if the parameter has another type.
  template <class Tensor> auto gradient(std::string_view name) const {
    using extents = typename Tensor::extents_type;
    using T = typename Tensor::element_type;
    return port_value<T, extents>(sum(name, {dtype_of<T>, extents::pattern}));
  }
  /// The parameter with a name. Errors: as `gradient`.
  parameter& weight(std::string_view name) const { return *entry_of(name).weight; }
  /// Computes all sums in one plan and calls f with each parameter and its gradient. Errors: state_error if nothing
  /// was collected.
  void each(const std::function<void(parameter&, const any_tensor&)>& f, context& where = default_context()) const;
  void clear() { all_.clear(); }

 private:
  struct entry {
    std::shared_ptr<parameter> weight;
    std::vector<detail::dynamic_pointer> parts;
  };
  const entry& entry_of(std::string_view name) const;
  detail::dynamic_pointer sum(std::string_view name, const tensor_type& expected) const;
  std::vector<entry> all_;
};

}  // namespace lamina
