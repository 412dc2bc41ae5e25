module lamina:any_value.impl;
import :any_value;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
std::string_view kind_name(value_kind kind) {
  constexpr std::string_view names[] = {"a tensor", "a sequence", "an optional", "an optional sequence"};
  return names[static_cast<std::size_t>(kind)];
}
bool is_optional(value_kind kind) { return kind == value_kind::optional || kind == value_kind::optional_sequence; }
bool is_of(const any_tensor& t, const tensor_type& expected) {
  return t.element() == expected.element && fits(expected.dims, t.shape());
}
}  // namespace

any_value any_value::sequence(std::vector<any_tensor> elements) {
  any_value v;
  v.kind_ = value_kind::sequence;
  v.elements_ = std::make_shared<const std::vector<any_tensor>>(std::move(elements));
  return v;
}
any_value any_value::optional(any_value held) {
  if (is_optional(held.kind_))
    detail::raise(error_kind::value, "an optional holds a tensor or a sequence, not an optional");
  held.kind_ = held.kind_ == value_kind::sequence ? value_kind::optional_sequence : value_kind::optional;
  return held;
}
any_value any_value::none(value_kind kind) {
  any_value v;
  v.kind_ = kind == value_kind::sequence || kind == value_kind::optional_sequence ? value_kind::optional_sequence
                                                                                  : value_kind::optional;
  v.empty_ = true;
  return v;
}

void any_value::check(bool is, std::string_view expected) const {
  if (is) return;
  text t;
  detail::raise(error_kind::type, t << kind_name(kind_) << " is read as " << expected);
}
const any_tensor& any_value::as_tensor() const {
  check(kind_ == value_kind::tensor, "a tensor");
  return tensor_;
}
any_tensor& any_value::as_tensor() {
  check(kind_ == value_kind::tensor, "a tensor");
  return tensor_;
}
const std::vector<any_tensor>& any_value::elements() const {
  check(kind_ == value_kind::sequence, "a sequence");
  return *elements_;
}
bool any_value::has_value() const {
  check(is_optional(kind_), "an optional");
  return !empty_;
}
any_value any_value::held() const {
  if (!has_value()) detail::raise(error_kind::value, "the optional that is read has no value");
  any_value v = *this;
  v.kind_ = kind_ == value_kind::optional ? value_kind::tensor : value_kind::sequence;
  return v;
}

std::string any_value::print() const {
  if (kind_ == value_kind::tensor) return tensor_.print();
  if (is_optional(kind_)) return empty_ ? "none" : held().print();
  std::string printed = "[";
  for (const auto& t : *elements_) printed += (printed.size() > 1 ? ", " : "") + t.print();
  return printed + "]";
}

text mismatch_of(const any_value& v, const tensor_type& expected) {
  text t;
  if (v.kind() != expected.kind) return t << "is " << kind_name(v.kind()) << "; expected " << expected;
  if (is_optional(v.kind())) {
    if (!v.has_value()) return t;
    tensor_type inside = expected;
    inside.kind = v.kind() == value_kind::optional ? value_kind::tensor : value_kind::sequence;
    return mismatch_of(v.held(), inside);
  }
  if (v.kind() == value_kind::tensor) {
    if (!v.as_tensor()) t << "is a tensor without memory; expected " << expected;
    else if (!is_of(v.as_tensor(), expected)) t << "is " << v.as_tensor().type() << "; expected " << expected;
    return t;
  }
  const auto& all = v.elements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_of(all[i], expected)) continue;
    return t << "has " << all[i].type() << " at position " << i << "; expected " << expected;
  }
  return t;
}

}  // namespace lamina
