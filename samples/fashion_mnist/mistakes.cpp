#include "mistakes.h"

#include <algorithm>
#include <tuple>

#include "../plot/svg.h"

std::vector<mistake> worst(std::vector<mistake> all, std::size_t most) {
  std::sort(all.begin(), all.end(), [](const mistake& a, const mistake& b) {
    return std::tie(b.probability, a.index) < std::tie(a.probability, b.index);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

namespace {

// Sixteen shades, one path each: a run of equal pixels is one stroke.
std::string picture(std::span<const std::uint8_t> pixels, std::int64_t side) {
  constexpr int shades = 16;
  std::string paths[shades];
  auto shade = [&](std::int64_t y, std::int64_t x) {
    return pixels[static_cast<std::size_t>(y * side + x)] * shades / 256;
  };
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0, end = 0; x < side; x = end) {
      const int level = shade(y, x);
      for (end = x + 1; end < side && shade(y, end) == level; ++end) {}
      if (level) paths[level] += "M" + std::to_string(x) + " " + std::to_string(y) + ".5h" + std::to_string(end - x);
    }
  std::string s;
  for (int level = 1; level < shades; ++level) {
    if (paths[level].empty()) continue;
    const int gray = 255 - level * 235 / (shades - 1);
    char color[8];
    std::snprintf(color, sizeof color, "#%02x%02x%02x", gray, gray, gray);
    s += "<path stroke=\"" + std::string(color) + "\" d=\"" + paths[level] + "\"/>\n";
  }
  return s;
}

}  // namespace

std::string mistake_sheet(const std::vector<mistake>& shown, std::size_t all, std::int64_t side,
                          const std::vector<std::string>& class_names) {
  constexpr int columns = 8, cell_width = 138, cell_height = 156, margin = 40, head = 92;
  constexpr double picture_size = 96;
  constexpr std::string_view red = "#b91c1c";
  const int rows = (static_cast<int>(shown.size()) + columns - 1) / columns;
  auto name = [&](std::int64_t c) { return class_names[static_cast<std::size_t>(c)]; };

  std::string s = svg::begin(2 * margin + columns * cell_width, head + rows * cell_height + 16, "Worst mistakes");
  s += svg::text(margin, 38, "The worst mistakes on Fashion-MNIST", {.size = 20, .bold = true});
  s += svg::text(margin, 60,
                 std::to_string(shown.size()) + " of " + std::to_string(all) +
                     " mistakes on the test images, the most confident first. Red: what LeNet took the image for, and "
                     "with what probability.",
                 {.fill = svg::faint, .size = 13});
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto& m = shown[i];
    const int x = margin + static_cast<int>(i % columns) * cell_width;
    const int y = head + static_cast<int>(i / columns) * cell_height;
    s += "<g transform=\"translate(" + std::to_string(x) + " " + std::to_string(y) + ")\">\n";
    s += "<rect x=\"-0.5\" y=\"-0.5\" width=\"97\" height=\"97\" fill=\"#ffffff\" stroke=\"" + std::string(svg::rule) +
         "\"/>\n";
    s += "<g transform=\"scale(" + svg::number(picture_size / static_cast<double>(side), 6) +
         ")\" fill=\"none\" shape-rendering=\"crispEdges\">\n" + picture(m.pixels, side) + "</g>\n";
    s += svg::text(0, 113, name(m.predicted) + " " + svg::fixed(100 * m.probability, 1) + " %",
                   {.fill = red, .bold = true});
    s += svg::text(0, 129, "is: " + name(m.label));
    s += "</g>\n";
  }
  return s + "</svg>\n";
}
