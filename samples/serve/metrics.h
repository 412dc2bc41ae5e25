// The text form of Prometheus.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

class metrics_text {
 public:
  /// One line for each label and its count.
  void counter(const std::string& name, const std::string& help,
               const std::vector<std::pair<std::string, std::int64_t>>& values);
  void gauge(const std::string& name, const std::string& help, std::int64_t value);
  /// Counts between the bounds, and of those beyond the last; they are added up as Prometheus wants it.
  void histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                 const std::vector<std::int64_t>& counts, double sum);
  const std::string& text() const { return text_; }

 private:
  void head(const std::string& name, const std::string& help, const char* type);
  std::string text_;
};
