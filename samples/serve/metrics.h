// Writer of the Prometheus text format.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

class metrics_text {
 public:
  /// One line per label and count.
  void counter(const std::string& name, const std::string& help,
               const std::vector<std::pair<std::string, std::int64_t>>& values);
  void gauge(const std::string& name, const std::string& help, std::int64_t value);
  /// `counts`: one per bucket, then one beyond the last bound. Written as cumulative counts, as Prometheus expects.
  void histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                 const std::vector<std::int64_t>& counts, double sum);
  const std::string& text() const { return text_; }

 private:
  void head(const std::string& name, const std::string& help, const char* type);
  std::string text_;
};
