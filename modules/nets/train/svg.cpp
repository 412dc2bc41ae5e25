// SVG elements.
module lamina:train.svg;
import :core;
import lamina.std;

namespace lamina::svg {

inline constexpr std::string_view ink = "#1f2937", faint = "#6b7280", rule = "#e5e7eb", blue = "#2563eb",
                                  orange = "#d9480f", red = "#b91c1c";

/// Formats a number without trailing zeros.
inline std::string number(double x, int digits = 1) {
  std::string s = decimals_of(x, digits);
  if (s.find('.') != s.npos) {
    while (s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
  }
  return s == "-0" ? "0" : s;
}

/// Escapes text between tags. Control characters, which SVG forbids, become spaces.
inline std::string escaped(std::string_view content) {
  std::string s;
  for (char c : content) {
    if (c == '&') s += "&amp;";
    else if (c == '<') s += "&lt;";
    else if (c == '>') s += "&gt;";
    else if (c == '"') s += "&quot;";
    else s += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return s;
}

/// The opening tag, the title and a white background.
inline std::string begin(std::int64_t width, std::int64_t height, std::string_view title) {
  const std::string size = "\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=" + size + " viewBox=\"0 0 " + std::to_string(width) + " " +
         std::to_string(height) + "\" font-family=\"'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n<title>" +
         escaped(title) + "</title>\n<rect width=" + size + " fill=\"#ffffff\"/>\n";
}
inline constexpr std::string_view end = "</svg>\n";

struct text_style {
  std::string_view fill = ink, anchor = "start";
  int size = 12;
  bool bold = false;
};
inline std::string text(double x, double y, std::string_view content, const text_style& s = {}) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + std::to_string(s.size) + "\" fill=\"" +
         std::string(s.fill) + "\" text-anchor=\"" + std::string(s.anchor) + "\"" +
         (s.bold ? " font-weight=\"bold\">" : ">") + escaped(content) + "</text>\n";
}
/// The title of an image, and a line of text below it.
inline std::string head(std::string_view title, std::string_view subtitle) {
  std::string s = text(40, 38, title, {.size = 20, .bold = true});
  if (!subtitle.empty()) s += text(40, 60, subtitle, {.fill = faint, .size = 13});
  return s;
}

inline std::string line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  return "<path d=\"M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " + number(y2) + "\" stroke=\"" +
         std::string(stroke) + "\"/>\n";
}

}  // namespace lamina::svg
