module;
#include "json.h"
// Writes the strings and numbers of JSON documents.
module lamina:io.json_writer.impl;
import :core;
import lamina.std;

namespace lamina::detail {

void append_chars(void* to, const char* chars, std::size_t count) {
  *static_cast<text*>(to) << std::string_view(chars, count);
}

/// Appends a quoted and escaped string. Errors: value_error, beginning with `where`, for invalid UTF-8.
text& quoted(text& t, std::string_view chars, std::string_view where) {
  if (json::quote(chars.data(), chars.size(), &append_chars, &t)) return t;
  text why;
  raise(error_kind::value, why << where << ": names and metadata must be UTF-8");
}

/// Appends the shortest spelling of a finite number that reads back to the same bits.
text& append_number(text& t, double finite) {
  json::write_number(finite, &append_chars, &t);
  return t;
}

/// Hexadecimal digits of 64-bit words, 16 for each, most significant first.
std::string digits_of(view<const std::uint64_t> words) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string s;
  for (auto word : words)
    for (int shift = 60; shift >= 0; shift -= 4) s += digits[word >> shift & 15];
  return s;
}

}  // namespace lamina::detail
