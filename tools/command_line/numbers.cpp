#include "numbers.h"

#include <charconv>
#include <cmath>

import lamina;

namespace command_line {

CLI::Option* add_number(CLI::App& app, const std::string& name, double& to, const std::string& text, range r) {
  auto read = [&to, name, r](const CLI::results_t& given) {
    const auto x = lamina::number_in(given.at(0));
    const bool good = x && std::isfinite(*x) && (r == range::finite || *x > 0);
    if (!good)
      throw CLI::ValidationError(name, given[0] + (r == range::positive ? "; expected a finite number above 0"
                                                                        : "; expected a finite number"));
    to = *x;
    return true;
  };
  auto shown = [&to] {
    char digits[64];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, to).ptr);
  };
  return app.add_option(name, read, text, false, shown)
      ->type_name("FLOAT")
      ->type_size(1)
      ->expected(1)
      ->capture_default_str();
}

}  // namespace command_line
