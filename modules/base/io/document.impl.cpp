module;
#include "json.h"
// JSON documents as a flat list of values: untrusted input costs bounded memory per byte and no stack.
module lamina:io.document.impl;
import :core;
import :io;
import lamina.std;

namespace lamina::detail {

enum class json_kind : std::uint8_t { null, boolean, integer, real, string, array, object };
constexpr std::string_view name_of(json_kind k) {
  constexpr std::string_view names[] = {"null",     "true or false", "an integer", "a number",
                                        "a string", "an array",      "an object"};
  return names[static_cast<std::size_t>(k)];
}

class json_document;

/// A value of a document; must not outlive the document.
class json_value {
 public:
  json_value() = default;
  json_value(const json_document* of, std::uint32_t at) : of_(of), at_(at) {}
  explicit operator bool() const { return of_ != nullptr; }
  json_kind kind() const;
  bool is(json_kind k) const { return kind() == k; }
  bool boolean() const { return integer() != 0; }
  std::int64_t integer() const;
  double real() const;  // also for an integer
  std::string_view string() const;
  std::size_t size() const;  // elements of an array, members of an object
  /// The member with a name, or an empty value.
  json_value operator[](std::string_view name) const;
  /// Calls f(element) for each element of an array.
  template <class F> void each(F f) const;
  /// Calls f(name, value) for each member of an object.
  template <class F> void each_member(F f) const;

 private:
  const json_document* of_ = nullptr;
  std::uint32_t at_ = 0;
};

/// A parsed text. `reason` is the message of a failed parse, empty on success.
class json_document final : public json::events {
 public:
  explicit json_document(std::string_view json_text) {
    if (json_text.size() > max_bytes) reason << "expected at most " << max_bytes << " bytes; got " << json_text.size();
    else json::parse(json_text.data(), json_text.size(), *this);
  }
  json_document(const json_document&) = delete;
  json_document& operator=(const json_document&) = delete;
  json_value root() const { return {this, 0}; }
  text reason;

  bool start_object() override { return open(json_kind::object); }
  bool start_array() override { return open(json_kind::array); }
  bool end_array() override { return close(); }
  bool end_object() override {
    std::vector<std::string_view> names;
    for (auto at = open_.back() + 1; at < items_.size(); at = items_[at + 1].next) names.push_back(characters(at));
    std::sort(names.begin(), names.end());
    for (std::size_t i = 1; i < names.size(); ++i)
      if (names[i] == names[i - 1]) {
        reason << "an object has two members `" << printable(names[i]) << "`";
        return false;
      }
    return close();
  }
  bool key(const char* chars, std::size_t count) override {
    ++items_[open_.back()].count;
    add_text(chars, count);
    is_value_ = false;
    return true;
  }
  bool string(const char* chars, std::size_t count) override {
    begin_value();
    add_text(chars, count);
    return true;
  }
  bool unsigned_number(std::uint64_t v) override {
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return add(json_kind::real, static_cast<double>(v));
    return add(json_kind::integer, static_cast<std::int64_t>(v));
  }
  bool negative_number(std::int64_t v, const char*, std::size_t) override { return add(json_kind::integer, v); }
  bool real_number(double v, const char*, std::size_t) override { return add(json_kind::real, v); }
  bool other_number(const char*, std::size_t) override { return false; }
  bool other(const char* name) override {
    const std::string_view word = name;
    return add(word == "null" ? json_kind::null : json_kind::boolean, std::int64_t(word == "true"));
  }
  void error(std::size_t byte) override { reason << "not JSON: error at byte " << byte; }

 private:
  friend class json_value;
  static constexpr std::size_t max_bytes = std::size_t(1) << 30, max_open = 64;
  struct item {
    json_kind kind = json_kind::null;
    std::uint32_t count = 0, next = 0;  // number of elements, members or characters; index of the next sibling
    std::uint64_t bits = 0;             // bits of a number, or start of the characters
  };
  void begin_value() {
    if (is_value_ && !open_.empty()) ++items_[open_.back()].count;
    is_value_ = true;
  }
  void push(json_kind k, std::uint64_t bits = 0, std::size_t count = 0) {
    items_.push_back({k, static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(items_.size()) + 1, bits});
  }
  void add_text(const char* chars, std::size_t count) {
    push(json_kind::string, characters_.size(), count);
    characters_.append(chars, count);
  }
  bool add(json_kind k, auto v) {
    begin_value();
    push(k, std::bit_cast<std::uint64_t>(v));
    return true;
  }
  bool open(json_kind k) {
    begin_value();
    if (open_.size() == max_open) {
      reason << "nested deeper than " << max_open << " levels";
      return false;
    }
    open_.push_back(static_cast<std::uint32_t>(items_.size()));
    push(k);
    is_value_ = k == json_kind::array;
    return true;
  }
  bool close() {
    items_[open_.back()].next = static_cast<std::uint32_t>(items_.size());
    open_.pop_back();
    is_value_ = true;
    return true;
  }
  std::string_view characters(std::uint32_t at) const {
    return std::string_view(characters_).substr(items_[at].bits, items_[at].count);
  }

  std::vector<item> items_;
  std::vector<std::uint32_t> open_;
  std::string characters_;
  bool is_value_ = true;  // whether the next value is an element; values of members are counted at their keys
};

inline json_kind json_value::kind() const { return of_->items_[at_].kind; }
inline std::int64_t json_value::integer() const { return static_cast<std::int64_t>(of_->items_[at_].bits); }
inline double json_value::real() const {
  return is(json_kind::integer) ? static_cast<double>(integer()) : std::bit_cast<double>(of_->items_[at_].bits);
}
inline std::string_view json_value::string() const { return of_->characters(at_); }
inline std::size_t json_value::size() const { return of_->items_[at_].count; }
template <class F> void json_value::each(F f) const {
  for (auto at = at_ + 1; at < of_->items_[at_].next; at = of_->items_[at].next) f(json_value(of_, at));
}
template <class F> void json_value::each_member(F f) const {
  for (auto at = at_ + 1; at < of_->items_[at_].next; at = of_->items_[at + 1].next)
    f(of_->characters(at), json_value(of_, at + 1));
}
inline json_value json_value::operator[](std::string_view name) const {
  json_value found;
  if (is(json_kind::object))
    each_member([&](std::string_view n, const json_value& v) {
      if (n == name) found = v;
    });
  return found;
}

}  // namespace lamina::detail
