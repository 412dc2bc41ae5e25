// Makes names from files printable: no line breaks and no terminal escape sequences.
module lamina:io.printable.impl;
import :core;
import :io;
import lamina.std;

namespace lamina {

std::string printable(std::string_view name, std::size_t max) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(name[i]); };
  std::size_t kept = std::min(name.size(), max);
  // Does not cut inside a UTF-8 character.
  if (kept < name.size())
    while (kept > 0 && (byte(kept) & 0xc0) == 0x80) --kept;
  std::string s;
  auto escape = [&](unsigned char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    s += "\\x";
    s += digits[c >> 4];
    s += digits[c & 15];
  };
  for (std::size_t i = 0; i < kept; ++i) {
    const auto c = byte(i);
    if (c == '\n') s += "\\n";
    else if (c == '\r') s += "\\r";
    else if (c == '\t') s += "\\t";
    else if (c < 0x20 || c == 0x7f) escape(c);
    else if (c == 0xc2 && i + 1 < kept && byte(i + 1) >= 0x80 &&
             byte(i + 1) <= 0x9f) {  // U+0080..9F are control characters, too
      escape(c);
      escape(byte(++i));
    } else s += name[i];
  }
  if (kept < name.size()) {
    text t;
    t << "... (" << name.size() << " bytes)";
    s += t.string();
  }
  return s;
}

}  // namespace lamina
