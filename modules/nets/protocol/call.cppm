// Lazy calls of a layer's program on expressions. Results are typed operands of evaluation mode `lazy`, one per port;
// nothing is computed until they are evaluated.
export module lamina:protocol.call;
import :context;
import :core;
import :dtype;
import :expression;
import :expression.dynamic;
import :expression.key;
import :expression.same;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {

/// A program that is called repeatedly, with its cached id.
struct callee {
  callee() = default;
  callee(std::shared_ptr<const program> p) : what(std::move(p)), id(what->id()) {}
  std::shared_ptr<const program> what;
  program_id id;
};

/// A call of a program: expressions for its first inputs, tensors for the others.
class layer_call {
 public:
  layer_call(const callee& what, std::vector<dynamic_pointer> operands, std::vector<any_tensor> leaves);
  layer_call(const layer_call&) = delete;
  layer_call& operator=(const layer_call&) = delete;
  ~layer_call();
  /// Lowers result i into a program; the call is inlined once per program.
  value lower(lowering& l, std::size_t i) const;
  void key(evaluation_key& to) const;
  const std::vector<dynamic_pointer>& operands() const { return operands_; }
  const std::vector<any_tensor>& leaves() const { return leaves_; }
  std::uint64_t structure_hash() const;
  /// Whether two calls are equal except for their operands, whose pairs are appended to `later`.
  bool same(const layer_call& other, node_pairs& later) const;

 private:
  callee callee_;
  std::vector<dynamic_pointer> operands_;
  std::vector<any_tensor> leaves_;
  std::vector<char> marks_;  // the address of element i is the key of result i in a lowering
};

/// Result i of a call, with a concrete shape.
dynamic_pointer result_of(std::shared_ptr<const layer_call> call, std::size_t i, const shape& extents);
/// The sum of several expressions of one type.
dynamic_pointer sum_of(std::vector<dynamic_pointer> parts);
/// Evaluates expressions together.
std::vector<any_tensor> evaluate_all(view<const dynamic_pointer> all, context& where);

}  // namespace detail

/// Value of an output port: a lazy operand. Its type carries the static extents of its shape.
/// Errors: state_error if an empty value is used.
template <Element T, class Extents> class port_value {
 public:
  using evaluation_mode = lazy;
  using element_type = T;
  using run_time_structure = void;
  static constexpr lamina::shape pattern = Extents::pattern;

  port_value() = default;
  explicit port_value(detail::dynamic_pointer node) : node_(std::move(node)) {}
  port_value(const port_value&) = default;
  port_value(port_value&&) noexcept = default;
  port_value& operator=(port_value other) noexcept {
    node_.swap(other.node_);
    return *this;
  }
  ~port_value() { detail::release(std::move(node_)); }

  const lamina::shape& shape() const { return held().shape(); }
  /// The element or sub-tensor at a position of the first axis. Errors: shape_error for a position outside of it.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }
  value lower(lowering& l) const { return detail::lower_dynamic(held(), l); }
  const detail::dynamic_node* node() const { return node_.get(); }
  const detail::dynamic_pointer& pointer() const { return node_; }
  /// See `structure_hash(e)`.
  std::uint64_t structure_hash() const { return node_ ? node_->structure_hash() : 0; }

 private:
  const detail::dynamic_node& held() const {
    if (!node_) detail::raise(error_kind::state, "port_value: this one is empty");
    return *node_;
  }
  detail::dynamic_pointer node_;
};

/// Placeholder for a gradient that does not exist or is not needed.
struct no_gradient_type {};
export inline constexpr no_gradient_type no_gradient{};

namespace detail {
/// Converts an expression to a shared node. Errors: state_error for an empty one.
template <class E> dynamic_pointer node_of(const E& e) {
  if constexpr (requires { e.pointer(); }) {
    if (!e.pointer()) raise(error_kind::state, "an operand of a layer is empty; it was moved, or nothing was put in");
    return e.pointer();
  } else return make_dynamic(e).pointer();
}
}  // namespace detail

}  // namespace lamina
