// Values that need not be tensors: arguments and results of programs that run partly on the host.
export module lamina:any_value;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// A tensor, a sequence of tensors, or an optional of either. Copies share memory.
export class any_value {
 public:
  /// A tensor without memory, like `any_tensor()`.
  any_value() = default;
  any_value(any_tensor t) noexcept : tensor_(std::move(t)) {}
  template <Element T, class E> any_value(const tensor<T, E>& t) : tensor_(t) {}
  static any_value sequence(std::vector<any_tensor> elements);
  /// An optional with a tensor or a sequence. Errors: value_error if `held` is itself an optional.
  static any_value optional(any_value held);
  /// An empty optional of a tensor or of a sequence.
  static any_value none(value_kind kind = value_kind::optional);

  value_kind kind() const { return kind_; }
  /// Errors of these accessors: type_error for a value of another kind.
  const any_tensor& as_tensor() const;
  any_tensor& as_tensor();
  const std::vector<any_tensor>& elements() const;
  bool has_value() const;
  /// The value of an optional. Errors: also value_error if it is empty.
  any_value held() const;
  /// False only for a tensor without memory.
  explicit operator bool() const { return kind_ != value_kind::tensor || static_cast<bool>(tensor_); }
  std::string print() const;

 private:
  void check(bool is, std::string_view expected) const;
  value_kind kind_ = value_kind::tensor;
  bool empty_ = false;  // an optional without a value
  any_tensor tensor_;
  std::shared_ptr<const std::vector<any_tensor>> elements_;
};

/// A value with its name.
export struct named_value {
  std::string name;
  any_value value;
};

/// Lists of values, as parameters: a vector, an array, a view.
export template <class R>
concept ValueList = requires(const R& r) {
  { r.data() } -> std::convertible_to<const any_value*>;
  r.size();
};
/// Same, with names.
export template <class R>
concept NamedValueList = requires(const R& r) {
  { r.data() } -> std::convertible_to<const named_value*>;
  r.size();
};

/// Message about why a value does not match a type; empty if it does.
text mismatch_of(const any_value& v, const tensor_type& expected);

}  // namespace lamina
