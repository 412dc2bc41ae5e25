// Values that need not be tensors: what programs take and give that run partly on the host.
export module lamina:any_value;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// A tensor, a sequence of tensors, or an optional: one of both or nothing. Copies share memory.
export class any_value {
 public:
  /// A tensor without memory, as `any_tensor()`.
  any_value() = default;
  any_value(any_tensor t) noexcept : tensor_(std::move(t)) {}
  template <Element T, class E> any_value(const tensor<T, E>& t) : tensor_(t) {}
  static any_value sequence(std::vector<any_tensor> elements);
  /// An optional that holds a tensor or a sequence. Errors: value_error for an optional.
  static any_value optional(any_value held);
  /// An optional without a value: of a tensor, or of a sequence.
  static any_value none(value_kind kind = value_kind::optional);

  value_kind kind() const { return kind_; }
  /// Errors of these: type_error for a value of another kind.
  const any_tensor& as_tensor() const;
  any_tensor& as_tensor();
  const std::vector<any_tensor>& elements() const;
  bool has_value() const;
  /// What an optional holds. Errors: also value_error where it holds nothing.
  any_value held() const;
  /// Whether it is more than a tensor without memory.
  explicit operator bool() const { return kind_ != value_kind::tensor || static_cast<bool>(tensor_); }
  std::string print() const;

 private:
  void check(bool is, std::string_view wanted) const;
  value_kind kind_ = value_kind::tensor;
  bool empty_ = false;  // of an optional
  any_tensor tensor_;
  std::shared_ptr<const std::vector<any_tensor>> elements_;
};

/// A value and its name.
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
/// The same with names.
export template <class R>
concept NamedValueList = requires(const R& r) {
  { r.data() } -> std::convertible_to<const named_value*>;
  r.size();
};

/// Why a value is not of a type; empty where it is.
text mismatch_of(const any_value& v, const tensor_type& wanted);

}  // namespace lamina
