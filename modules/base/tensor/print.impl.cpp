module;
#include <charconv>
// Prints tensors like NumPy.
module lamina:tensor.print.impl;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

namespace {

// NumPy's print options.
constexpr int max_decimals = 8, edge_items = 3;
constexpr std::int64_t threshold = 1000;
constexpr std::size_t line_width = 75;

// ---- one number -----------------------------------------------------------------------------------------------------

/// A finite number with the fewest digits that distinguish it from its neighbors: 0.d1d2d3... * 10^point.
struct decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

// Reads "d.ddde+xx".
decimal parse(std::string_view s) {
  decimal d;
  if (s.front() == '-') {
    d.negative = true;
    s.remove_prefix(1);
  }
  auto e = s.find('e');
  for (char c : s.substr(0, e))
    if (c != '.') d.digits += c;
  d.point = std::atoi(std::string(s.substr(e + 1)).c_str()) + 1;
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  if (d.digits == "0") d.point = 1;
  return d;
}

std::string with_exponent(double v, int decimals) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific, decimals).ptr};
}

template <class T> decimal shortest(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    char buffer[64];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
    return parse({buffer, static_cast<std::size_t>(end - buffer)});
  } else {
    double exact = static_cast<double>(static_cast<float>(v));
    for (int precision = 0;; ++precision)
      for (double near : {exact, exact * (1 + 0x1p-50)}) {  // the second rounds ties away from zero
        const auto s = with_exponent(near, precision);
        if (precision == 8 || T(static_cast<float>(number_in(s).value_or(0))).bits == v.bits) return parse(s);
      }
  }
}

template <class T> double wide(T v) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<double>(v);
  else return static_cast<double>(static_cast<float>(v));
}

/// Digits before and after the point, and an optional exponent.
struct parts {
  std::string whole, fraction, exponent;
};

template <class T> parts positional(T v, int decimals) {
  decimal d = shortest(v);
  parts p;
  if (static_cast<int>(d.digits.size()) - d.point > decimals) {
    const std::string number = decimals_of(wide(v), decimals);
    const std::string_view s = number;
    auto point = s.find('.');
    p.whole = s.substr(0, point);
    if (point != s.npos) p.fraction = s.substr(point + 1);
    while (p.fraction.ends_with('0')) p.fraction.pop_back();
    return p;
  }
  std::string digits(static_cast<std::size_t>(std::max(0, 1 - d.point)), '0');
  digits += d.digits;
  auto before = static_cast<std::size_t>(std::max(1, d.point));
  if (digits.size() < before) digits.append(before - digits.size(), '0');
  p.whole = (d.negative ? "-" : "") + digits.substr(0, before);
  p.fraction = digits.substr(before);
  if (p.fraction == "0") p.fraction.clear();
  return p;
}

// With at least `least` decimals; digits beyond the shortest form are those of the exact number.
template <class T> parts scientific(T v, int decimals, int least = 0) {
  decimal d = shortest(v);
  auto short_decimals = static_cast<int>(d.digits.size()) - 1;
  if (short_decimals > decimals || short_decimals < least) {
    d = parse(with_exponent(wide(v), short_decimals > decimals ? decimals : least));
  }
  int exponent = d.digits == "0" ? 0 : d.point - 1;
  parts p{(d.negative ? "-" : "") + d.digits.substr(0, 1), d.digits.substr(1), std::to_string(std::abs(exponent))};
  if (p.exponent.size() < 2) p.exponent.insert(0, 1, '0');
  p.exponent.insert(0, 1, exponent < 0 ? '-' : '+');
  return p;
}

// Threshold for exponents, lower for types with fewer digits.
template <class T> constexpr double cutoff = std::same_as<T, double>    ? 1e16
                                             : std::same_as<T, float>   ? 1e6
                                             : std::same_as<T, float16> ? 1e3
                                                                        : 1e2;

std::string_view not_finite(double v) { return v != v ? "nan" : v < 0 ? "-inf" : "inf"; }

/// A single number, formatted like Python.
template <class T> std::string alone(T v) {
  double w = wide(v), size = std::abs(w);
  if (!std::isfinite(w)) return std::string(not_finite(w));
  if (size == 0 || (size >= 1e-4 && size < cutoff<T>)) {
    auto p = positional(v, 1000);
    return p.whole + '.' + (p.fraction.empty() ? "0" : p.fraction);
  }
  auto p = scientific(v, 1000);
  return p.whole + (p.fraction.empty() ? "" : "." + p.fraction) + 'e' + p.exponent;
}

// ---- columns --------------------------------------------------------------------------------------------------------

/// Common format of all printed numbers, aligned at the point.
template <class T> class column {
 public:
  void see(T v) {
    double w = wide(v);
    if (!std::isfinite(w)) {
      others_ = std::max(others_, not_finite(w).size());
      return;
    }
    values_.push_back(v);
    if (w == 0) return;
    largest_ = std::max(largest_, std::abs(w));
    smallest_ = std::min(smallest_, std::abs(w));
  }
  void choose_format() {
    // NumPy compares in the element type.
    constexpr bool is_double = std::same_as<T, double>;
    double small = is_double ? 1e-4 : wide(T(1e-4f)), ratio = largest_ / smallest_;
    if constexpr (!is_double) ratio = wide(T(static_cast<float>(largest_) / static_cast<float>(smallest_)));
    exponents_ = largest_ >= std::min(cutoff<T>, 1e8) || (largest_ > 0 && (smallest_ < small || ratio > 1000));
    for (T v : values_) {
      auto p = exponents_ ? scientific(v, max_decimals) : positional(v, max_decimals);
      left_ = std::max(left_, p.whole.size());
      right_ = std::max(right_, p.fraction.size());
      exponent_ = std::max(exponent_, p.exponent.size());
    }
    fraction_ = right_;
    if (exponents_) right_ += exponent_ + 1;
    if (others_ > right_ + 1) left_ = std::max(left_, others_ - right_ - 1);
  }
  std::string operator()(T v) const {
    double w = wide(v);
    if (!std::isfinite(w)) {
      auto s = not_finite(w);
      return std::string(left_ + right_ + 1 - s.size(), ' ') + std::string(s);
    }
    auto p = exponents_ ? scientific(v, max_decimals, static_cast<int>(fraction_)) : positional(v, max_decimals);
    std::string s(left_ - p.whole.size(), ' ');
    s += p.whole + '.' + p.fraction;
    s.append(fraction_ - p.fraction.size(), exponents_ ? '0' : ' ');
    if (exponents_) {
      s += 'e';
      s += p.exponent[0];
      s.append(exponent_ - p.exponent.size(), '0');
      s += p.exponent.substr(1);
    }
    return s;
  }

 private:
  std::vector<T> values_;
  double largest_ = 0, smallest_ = std::numeric_limits<double>::infinity();
  std::size_t left_ = 0, right_ = 0, fraction_ = 0, exponent_ = 0, others_ = 0;
  bool exponents_ = false;
};

template <std::integral T> class column<T> {
 public:
  void see(T v) { width_ = std::max(width_, std::to_string(v).size()); }
  void choose_format() {}
  std::string operator()(T v) const {
    auto s = std::to_string(v);
    return std::string(width_ - s.size(), ' ') + s;
  }

 private:
  std::size_t width_ = 0;
};

/// Quotes a string like Python and escapes everything but printable ASCII.
std::string in_quotes(std::string_view s) {
  std::string out = "'";
  for (const char c : s) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') (out += '\\') += c;
    else if (code >= 0x80 || (code >= 0x20 && code < 0x7f)) out += c;
    else {
      constexpr std::string_view digits = "0123456789abcdef";
      ((out += "\\x") += digits[code >> 4]) += digits[code & 15];
    }
  }
  return out += '\'';
}
template <> class column<std::string_view> {
 public:
  void see(std::string_view) {}
  void choose_format() {}
  std::string operator()(std::string_view v) const { return in_quotes(v); }
};

template <> class column<bool> {
 public:
  void see(bool) {}
  void choose_format() {}
  std::string operator()(bool v) const { return v ? " True" : "False"; }
};

// ---- layout ---------------------------------------------------------------------------------------------------------

/// Element `at` of `data`.
template <class T> T element_of(const std::byte* data, std::int64_t at) {
  T v;
  std::memcpy(&v, data + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
  return v;
}
/// Same, converted to a type that represents every number of T.
template <class Wide, class T> Wide wide_element_of(const std::byte* data, std::int64_t at) {
  return static_cast<Wide>(element_of<T>(data, at));
}

template <class T> class printer {
 public:
  using reader = T (*)(const std::byte*, std::int64_t);
  printer(const void* data, const shape& s, reader read)
      : data_(static_cast<const std::byte*>(data)), shape_(s), read_(read), shortened_(s.size() > threshold) {}

  std::string run() {
    if (shape_.size() == 0) return "[]";
    if (shape_.rank == 0) {
      T v = element(0);
      if constexpr (std::same_as<T, bool>) return v ? "True" : "False";
      else if constexpr (std::same_as<T, std::string_view>) return std::string(v);
      else if constexpr (std::integral<T>) return std::to_string(v);
      else return alone(v);
    }
    measure(0, 0);
    column_.choose_format();
    return axis(0, 0, " ", line_width);
  }

 private:
  T element(std::int64_t at) const { return read_(data_, at); }
  bool cut(int a) const { return shortened_ && shape_.at(a) > 2 * edge_items; }
  // Calls f for each printed index of an axis, and f(-1) in place of omitted ones.
  template <class F> void indices(int a, F f) const {
    for (std::int64_t i = 0; i < shape_.at(a); ++i) {
      if (cut(a) && i == edge_items) {
        f(-1);
        i = shape_.at(a) - edge_items;
      }
      f(i);
    }
  }
  void measure(int a, std::int64_t at) {
    if (a == shape_.rank) return column_.see(element(at));
    indices(a, [&](std::int64_t i) {
      if (i >= 0) measure(a + 1, at * shape_.at(a) + i);
    });
  }
  std::string axis(int a, std::int64_t at, const std::string& indent, std::size_t width) const {
    bool innermost = a + 1 == shape_.rank;
    std::string out, line = indent,
                     separator = innermost ? " " : std::string(static_cast<std::size_t>(shape_.rank - a - 1), '\n');
    bool first = true;
    indices(a, [&](std::int64_t i) {
      if (!innermost) {
        if (!first) out += separator;
        out += indent + (i < 0 ? "..." : axis(a + 1, at * shape_.at(a) + i, indent + " ", width - 1));
      } else {
        if (!first) line += separator;
        auto word = i < 0 ? std::string("...") : column_(element(at * shape_.at(a) + i));
        if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
          while (line.ends_with(' ')) line.pop_back();
          out += line + "\n";
          line = indent;
        }
        line += word;
      }
      first = false;
    });
    if (innermost) out += line;
    return "[" + out.substr(indent.size()) + "]";
  }

  const std::byte* data_;
  const shape& shape_;
  reader read_;
  bool shortened_;
  column<T> column_;
};

}  // namespace

std::string print(const void* data, dtype type, const shape& s) {
  if (!data) return s.size() == 0 ? "[]" : "none";
  if (type == dtype::string) return printer<std::string_view>(data, s, &element_of<std::string_view>).run();
  return with_type(type, [&]<class T>() {
    if constexpr (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, std::uint64_t>)
      return printer<std::int64_t>(data, s, &wide_element_of<std::int64_t, T>).run();
    else if constexpr (is_small_integer<T>)
      return printer<std::int64_t>(data, s, &wide_element_of<std::int64_t, T>).run();
    else if constexpr (std::is_class_v<T> && sizeof(T) == 1)
      return printer<float>(data, s, &wide_element_of<float, T>).run();
    else return printer<T>(data, s, &element_of<T>).run();
  });
}

}  // namespace lamina::detail
