// Parts of SVG pictures.
#pragma once
#include <charconv>
#include <string>
#include <string_view>

namespace svg {

inline constexpr std::string_view ink = "#1f2937", faint = "#6b7280", rule = "#e5e7eb";

inline std::string fixed(double x, int digits) {
  char text[512];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::fixed, digits).ptr};
}
/// Without zeros at the end.
inline std::string number(double x, int digits = 1) {
  std::string s = fixed(x, digits);
  if (s.find('.') != s.npos) {
    while (s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
  }
  return s == "-0" ? "0" : s;
}

inline std::string escaped(std::string_view text) {
  std::string s;
  for (char c : text) {
    if (c == '&') s += "&amp;";
    else if (c == '<') s += "&lt;";
    else if (c == '>') s += "&gt;";
    else if (c == '"') s += "&quot;";
    else s += c;
  }
  return s;
}

/// The opening tag, the title and a white ground.
inline std::string begin(int width, int height, std::string_view title) {
  const std::string size = "\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=" + size + " viewBox=\"0 0 " + std::to_string(width) + " " +
         std::to_string(height) + "\" font-family=\"'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n<title>" +
         escaped(title) + "</title>\n<rect width=" + size + " fill=\"#ffffff\"/>\n";
}

struct text_style {
  std::string_view fill = ink, anchor = "start";
  int size = 12;
  bool bold = false;
};
inline std::string text(double x, double y, std::string_view words, const text_style& s = {}) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + std::to_string(s.size) + "\" fill=\"" +
         std::string(s.fill) + "\" text-anchor=\"" + std::string(s.anchor) + "\"" +
         (s.bold ? " font-weight=\"bold\">" : ">") + escaped(words) + "</text>\n";
}

inline std::string line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  return "<path d=\"M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " + number(y2) + "\" stroke=\"" +
         std::string(stroke) + "\"/>\n";
}

}  // namespace svg
