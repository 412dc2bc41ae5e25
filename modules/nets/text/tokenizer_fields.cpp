// Typed access to fields of a tokenizer's JSON document; messages contain their paths.
module lamina:tokenizer.fields;
import :core;
import :io;
import :io.document.impl;
import lamina.std;

namespace lamina::detail {

/// A value of a document with its path, such as `model.merges[3]`. Must not outlive the document or its parent field.
class json_field {
 public:
  json_field(std::string_view file, json_value v) : file_(file), value_(v) {}

  template <class... T> [[noreturn]] void fail(const T&... parts) const { raise(error_kind::file, message(parts...)); }
  template <class... T> [[noreturn]] void unsupported(const T&... parts) const {
    raise(error_kind::unsupported, message(parts...));
  }

  explicit operator bool() const { return value_ && !value_.is(json_kind::null); }
  bool is(json_kind k) const { return value_ && value_.is(k); }
  std::size_t size() const { return need(json_kind::array).size(); }
  /// A member, which may be missing.
  json_field operator[](std::string_view name) const {
    if (!is(json_kind::object)) need(json_kind::object);
    return {this, name, 0, value_[name]};
  }
  std::string_view string() const { return need(json_kind::string).string(); }
  std::int64_t integer(std::int64_t first, std::int64_t last) const {
    const std::int64_t n = need(json_kind::integer).integer();
    if (n < first || n > last) fail("is ", n, "; expected ", first, " to ", last);
    return n;
  }
  double real() const {
    if (is(json_kind::integer)) return value_.real();
    return need(json_kind::real).real();
  }
  bool boolean() const { return need(json_kind::boolean).boolean(); }
  // The same with a default for a missing or null field.
  std::string_view string(std::string_view otherwise) const { return *this ? string() : otherwise; }
  std::int64_t integer(std::int64_t first, std::int64_t last, std::int64_t otherwise) const {
    return *this ? integer(first, last) : otherwise;
  }
  bool boolean(bool otherwise) const { return *this ? boolean() : otherwise; }
  /// A non-empty string.
  std::string_view content() const {
    const std::string_view s = string();
    if (s.empty()) fail("is empty; expected at least one character");
    return s;
  }
  /// Index of the string among the allowed names.
  std::size_t one_of(std::initializer_list<std::string_view> names) const {
    const std::string_view name = string();
    const auto at = std::find(names.begin(), names.end(), name);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    text t;
    suggest_names(t, printable(name), names);
    unsupported("is `", printable(name), "`, which is not known", t);
  }
  /// Calls f(field) for each element of an array.
  template <class F> void each(const F& f) const {
    std::size_t i = 0;
    need(json_kind::array).each([&](json_value v) { f(json_field(this, {}, i++, v)); });
  }
  /// Calls f(name, field) for each member of an object.
  template <class F> void each_member(const F& f) const {
    need(json_kind::object).each_member([&](std::string_view name, json_value v) {
      f(name, json_field(this, name, 0, v));
    });
  }

 private:
  json_field(const json_field* parent, std::string_view name, std::size_t index, json_value v)
      : file_(parent->file_), parent_(parent), name_(name), index_(index), value_(v) {}
  json_value need(json_kind k) const {
    if (!value_) fail("is missing; expected ", name_of(k));
    if (!value_.is(k)) fail("is ", name_of(value_.kind()), "; expected ", name_of(k));
    return value_;
  }
  void path(text& t) const {
    if (!parent_) return;
    parent_->path(t);
    if (name_.empty()) t << "[" << index_ << "]";
    else t << (parent_->parent_ ? "." : "") << printable(name_);
  }
  template <class... T> text message(const T&... parts) const {
    text t, where;
    path(where);
    t << file_ << ": ";
    if (where.empty()) t << "the document ";
    else t << "`" << where << "` ";
    ((t << parts), ...);
    return t;
  }
  std::string_view file_;
  const json_field* parent_ = nullptr;
  std::string_view name_;
  std::size_t index_ = 0;
  json_value value_;
};

}  // namespace lamina::detail
