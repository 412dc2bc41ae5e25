module;
#include <locale.h>
#include <stdlib.h>
#include <charconv>
module lamina:core.impl;
import :core;
import :unicode;
import lamina.std;

namespace lamina {

void label::too_long() { detail::raise(error_kind::value, "a sublayer or port name has at most 24 characters"); }

std::string decimals_of(double x, int decimals) {
  char digits[512];
  return {digits,
          std::to_chars(digits, digits + sizeof digits, x, std::chars_format::fixed, std::clamp(decimals, 0, 100)).ptr};
}

std::vector<std::size_t> detail::stable_order(std::size_t count,
                                              const std::function<bool(std::size_t, std::size_t)>& before) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return before(x, y); });
  return order;
}

bool is_utf8(std::string_view s) { return detail::valid_utf8(s) == s.size(); }

std::optional<double> number_in(std::string_view s) {
#ifdef __cpp_lib_to_chars
  double x = 0;
  const auto [end, why] = std::from_chars(s.data(), s.data() + s.size(), x);
  if (why == std::errc() && end == s.data() + s.size()) return x;
#else  // libc++ 19 reads no real numbers
  const std::string chars(s);
  static const ::locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  const double x = ::strtod_l(chars.c_str(), &end, plain);
  const bool begins = !s.empty() && std::string_view("-.0123456789inIN").find(s[0]) != std::string_view::npos;
  const bool holds = !std::isinf(x) || s.find_first_of("iI") != s.npos;
  if (begins && holds && end == chars.c_str() + chars.size() && s.find_first_of("xX") == s.npos) return x;
#endif
  return {};
}

error::error(const std::string& what) : std::runtime_error(what) {}
error::~error() = default;
shape_error::~shape_error() = default;
type_error::~type_error() = default;
value_error::~value_error() = default;
file_error::~file_error() = default;
state_error::~state_error() = default;
out_of_memory::out_of_memory(const std::string& what, std::size_t requested, std::int64_t used, std::int64_t limit,
                             std::size_t planned)
    : error(what), requested_(requested), planned_(planned), used_(used), limit_(limit) {}
out_of_memory::~out_of_memory() = default;
deadline_error::~deadline_error() = default;
stopped_error::~stopped_error() = default;
unsupported_error::~unsupported_error() = default;
resource_error::~resource_error() = default;

namespace detail {
void raise(error_kind kind, std::string_view what) {
  std::string message(what);
  switch (kind) {
    case error_kind::shape: throw shape_error(message);
    case error_kind::type: throw type_error(message);
    case error_kind::value: throw value_error(message);
    case error_kind::file: throw file_error(message);
    case error_kind::state: throw state_error(message);
    case error_kind::memory: throw out_of_memory(message);
    case error_kind::deadline: throw deadline_error(message);
    case error_kind::stopped: throw stopped_error(message);
    case error_kind::unsupported: throw unsupported_error(message);
    case error_kind::resource: throw resource_error(message);
  }
  throw error(message);
}
}  // namespace detail

}  // namespace lamina
