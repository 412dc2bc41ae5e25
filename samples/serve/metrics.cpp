#include "metrics.h"

#include <charconv>

namespace {
std::string number(double x) {
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof digits, x, std::chars_format::general, 9).ptr};
}
}  // namespace

void metrics_text::head(const std::string& name, const std::string& help, const char* type) {
  text_ += "# HELP " + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
}
void metrics_text::counter(const std::string& name, const std::string& help,
                           const std::vector<std::pair<std::string, std::int64_t>>& values) {
  head(name, help, "counter");
  for (const auto& [label, value] : values) text_ += name + '{' + label + "} " + std::to_string(value) + '\n';
}
void metrics_text::gauge(const std::string& name, const std::string& help, std::int64_t value) {
  head(name, help, "gauge");
  text_ += name + ' ' + std::to_string(value) + '\n';
}
void metrics_text::histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                             const std::vector<std::int64_t>& counts, double sum) {
  head(name, help, "histogram");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    text_ += name + "_bucket{le=\"" + (i < bounds.size() ? number(bounds[i]) : "+Inf") + "\"} " +
             std::to_string(total) + '\n';
  }
  text_ += name + "_sum " + number(sum) + '\n' + name + "_count " + std::to_string(total) + '\n';
}
