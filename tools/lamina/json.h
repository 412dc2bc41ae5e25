// JSON output of commands with --json: one line on standard output. Include it after <nlohmann/json.hpp>, <string>,
// <vector> and `import lamina;`.
#pragma once

#include "tool.h"

namespace tool {

using json = nlohmann::ordered_json;

// One line of ASCII; invalid UTF-8 is replaced. Values without a JSON representation, such as NaN, become null.
inline std::string line_of(const json& j) { return j.dump(-1, ' ', true, json::error_handler_t::replace); }
inline void print_line(const json& j) { std::printf("%s\n", line_of(j).c_str()); }

// Extents as numbers; symbolic or unknown ones as strings.
inline json json_of(const lamina::shape& s) {
  json all = json::array();
  for (int k = 0; k < s.rank; ++k)
    if (s[k].is_number()) all.push_back(s[k].code);
    else all.push_back(text_of(s[k]));
  return all;
}
inline json json_of(const std::vector<lamina::shape>& shapes) {
  json all = json::array();
  for (const auto& s : shapes) all.push_back(json_of(s));
  return all;
}
inline json json_of(const lamina::tensor_type& t) {
  json all{{"dtype", text_of(t.element)}, {"shape", json_of(t.dims)}};
  if (!t.is_tensor()) all["kind"] = text_of(t);
  return all;
}

inline std::string layout_of(const lamina::plan_line& l) { return std::string(lamina::name_of(l.form)); }
// One line of a plan: an operation.
inline json json_of(const lamina::plan_line& l) {
  return {{"operation", l.what},    {"where", l.where},   {"result", text_of(l.result)},
          {"layout", layout_of(l)}, {"kernel", l.kernel}, {"flops", l.flops},
          {"bytes", l.bytes}};
}

// The elements of a tensor in row-major order.
inline json values_of(const lamina::any_tensor& t) {
  json all = json::array();
  lamina::with_type(t.element(), [&]<class T>() {
    for (const T v : t.elements<T>()) {
      if constexpr (std::is_integral_v<T>) all.push_back(v);
      else if constexpr (std::is_same_v<T, double>) all.push_back(v);
      else all.push_back(static_cast<double>(static_cast<float>(v)));
    }
  });
  return all;
}

}  // namespace tool
