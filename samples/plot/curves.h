// Curves over epochs, as parts of an SVG picture.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace svg {

struct curve {
  std::string_view name, color;
  std::vector<double> values;
};

struct panel {
  double left, top, width, height;
  std::string_view title, unit;
  int label_digits;
};

/// Two curves with round ticks. Their names and last values stand at their ends.
std::string draw(const panel& p, const std::vector<std::int64_t>& epochs, const std::vector<curve>& curves);

}  // namespace svg
