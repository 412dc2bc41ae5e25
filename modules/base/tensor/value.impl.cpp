module lamina:any_value.impl;
import :any_value;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
std::string_view words_of(value_kind kind) {
  constexpr std::string_view names[] = {"a tensor", "a sequence", "an optional", "an optional sequence"};
  return names[static_cast<std::size_t>(kind)];
}
bool is_optional(value_kind kind) { return kind == value_kind::optional || kind == value_kind::optional_sequence; }
bool is_of(const any_tensor& t, const tensor_type& wanted) {
  return t.element() == wanted.element && fits(wanted.dims, t.shape());
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
    detail::raise(error_kind::value, "an optional holds a tensor or a sequence, no optional");
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

void any_value::check(bool is, std::string_view wanted) const {
  if (is) return;
  text t;
  detail::raise(error_kind::type, t << words_of(kind_) << " is read as " << wanted);
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
  if (!has_value()) detail::raise(error_kind::value, "an optional is read that holds no value");
  any_value v = *this;
  v.kind_ = kind_ == value_kind::optional ? value_kind::tensor : value_kind::sequence;
  return v;
}

std::string any_value::print() const {
  if (kind_ == value_kind::tensor) return tensor_.print();
  if (is_optional(kind_)) return empty_ ? "none" : held().print();
  std::string words = "[";
  for (const auto& t : *elements_) words += (words.size() > 1 ? ", " : "") + t.print();
  return words + "]";
}

text mismatch_of(const any_value& v, const tensor_type& wanted) {
  text t;
  if (v.kind() != wanted.kind) return t << "is " << words_of(v.kind()) << ", and " << wanted << " is expected";
  if (is_optional(v.kind())) {
    if (!v.has_value()) return t;
    tensor_type inside = wanted;
    inside.kind = v.kind() == value_kind::optional ? value_kind::tensor : value_kind::sequence;
    return mismatch_of(v.held(), inside);
  }
  if (v.kind() == value_kind::tensor) {
    if (!v.as_tensor()) t << "is a tensor without memory, and " << wanted << " is expected";
    else if (!is_of(v.as_tensor(), wanted)) t << "is " << v.as_tensor().type() << ", and " << wanted << " is expected";
    return t;
  }
  const auto& all = v.elements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_of(all[i], wanted)) continue;
    return t << "has " << all[i].type() << " at position " << i << ", and " << wanted << " is expected";
  }
  return t;
}

}  // namespace lamina
