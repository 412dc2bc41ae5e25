module;
#include "unicode_tables.h"
// Unicode characters: UTF-8, classes, case, and normalization forms.
module lamina:unicode;
import lamina.std;

namespace lamina::detail {

// ---- UTF-8 ----------------------------------------------------------------------------------------------------------

/// Code of a byte that begins no character; beyond all code points.
inline constexpr std::uint32_t invalid_code = 0x80000000U;
inline constexpr std::uint32_t replacement_code = 0xFFFD;

/// The character at the start of a byte string. If invalid, `length` is the number of bytes that one replacement
/// character stands for: the longest valid prefix of a character, or one byte (The Unicode Standard, section 3.9,
/// "maximal subpart").
struct decoded {
  std::uint32_t code = 0;
  std::uint32_t length = 1;
  bool valid = true;
};
constexpr decoded decode_utf8(const char* s, std::size_t left) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(s[i])); };
  const std::uint32_t first = at(0);
  if (first < 0x80) return {first, 1, true};
  const std::uint32_t more = first >= 0xC2 && first <= 0xDF   ? 1
                             : first >> 4 == 14               ? 2
                             : first >= 0xF0 && first <= 0xF4 ? 3
                                                              : 0;
  if (more == 0) return {first, 1, false};
  // The second byte reveals overlong forms, surrogates, and codes beyond the last one.
  const std::uint32_t low = first == 0xE0   ? 0xA0
                            : first == 0xF0 ? 0x90
                                            : 0x80,
                      high = first == 0xED   ? 0x9F
                             : first == 0xF4 ? 0x8F
                                             : 0xBF;
  std::uint32_t code = first & (0x3FU >> more);
  for (std::uint32_t i = 1; i <= more; ++i) {
    if (i >= left || at(i) < (i == 1 ? low : 0x80) || at(i) > (i == 1 ? high : 0xBF)) return {first, i, false};
    code = code << 6 | (at(i) & 0x3F);
  }
  return {code, more + 1, true};
}
/// Removes and returns the first character of a string; an invalid byte gives itself and `invalid_code`.
inline std::uint32_t next_code(std::string_view& s) {
  const decoded d = decode_utf8(s.data(), s.size());
  s.remove_prefix(d.valid ? d.length : 1);
  return d.valid ? d.code : invalid_code | d.code;
}
/// The last character of a valid UTF-8 string.
inline std::uint32_t last_code(std::string_view s) {
  std::size_t begin = s.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(s[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(s.data() + begin, s.size() - begin).code;
}
inline void append_utf8(std::string& s, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { s.push_back(static_cast<char>(byte)); };
  if (code & invalid_code) return add(code & 0xFF);
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
  if (code < 0x10000) add(0xE0 | code >> 12);
  else add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F));
  add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
}
/// Position of the first byte that is not valid UTF-8, or the size.
inline std::size_t valid_utf8(std::string_view s) {
  std::size_t i = 0;
  while (i < s.size()) {
    std::uint64_t eight = 0;
    while (i + 8 <= s.size() && (std::memcpy(&eight, s.data() + i, 8), (eight & 0x8080808080808080U) == 0)) i += 8;
    if (i == s.size()) break;
    const decoded d = decode_utf8(s.data() + i, s.size() - i);
    if (!d.valid) return i;
    i += d.length;
  }
  return i;
}
/// Replaces each maximal invalid subpart by U+FFFD.
inline std::string replace_invalid_utf8(std::string_view s) {
  std::string made;
  made.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) {
    const decoded d = decode_utf8(s.data() + i, s.size() - i);
    if (d.valid) made.append(s, i, d.length);
    else append_utf8(made, replacement_code);
    i += d.length;
  }
  return made;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

/// In the order of tools/unicode_tables.py. Unassigned characters are `other`, like symbols.
enum class character_class : std::uint8_t {
  other,
  letter,
  number,
  number_no_word,
  nonspacing_mark,
  mark,
  punctuation,
  connector,
  control,
  alphabetic_symbol,
  space
};

/// Letters with the same case offset.
struct case_run {
  std::uint32_t first = 0, last = 0, step = 1;
  std::int32_t by = 0;
};
struct combining_run {
  std::uint32_t first = 0, last = 0, combining = 0;
};
struct decomposition {
  std::uint32_t code = 0, first = 0, count = 0;  // index of its codes in the table of all codes
  bool compatible = false;
};
struct composition {
  std::uint64_t pair = 0;
  std::uint32_t code = 0;
};

/// The unpacked tables.
class unicode_tables {
 public:
  static const unicode_tables& get() {
    static const unicode_tables all;
    return all;
  }
  character_class class_of(std::uint32_t code) const {
    return code < 0x110000 ? static_cast<character_class>(pages_[page_of_[code >> 8]][code & 255])
                           : character_class::other;
  }
  std::uint32_t combining(std::uint32_t code) const {
    const combining_run* r = run_of(combining_, code);
    return r ? r->combining : 0;
  }
  std::uint32_t changed(std::uint32_t code, bool lower) const {
    const case_run* r = run_of(lower ? lower_ : upper_, code);
    return r && (code - r->first) % r->step == 0 ? code + static_cast<std::uint32_t>(r->by) : code;
  }
  const decomposition* decomposed(std::uint32_t code) const {
    const auto at = std::lower_bound(decompositions_.begin(), decompositions_.end(), code,
                                     [](const decomposition& d, std::uint32_t c) { return d.code < c; });
    return at != decompositions_.end() && at->code == code ? &*at : nullptr;
  }
  const std::uint32_t* codes_of(const decomposition& d) const { return codes_.data() + d.first; }
  /// Composition of two characters, or 0.
  std::uint32_t composed(std::uint32_t a, std::uint32_t b) const {
    const std::uint64_t pair = std::uint64_t(a) << 32 | b;
    const auto at = std::lower_bound(compositions_.begin(), compositions_.end(), pair,
                                     [](const composition& c, std::uint64_t p) { return c.pair < p; });
    return at != compositions_.end() && at->pair == pair ? at->code : 0;
  }

 private:
  // Decodes the numbers of a table.
  struct numbers {
    const char* at;
    explicit operator bool() const { return *at != 0; }
    std::uint32_t next() {
      std::uint32_t value = 0;
      for (int shift = 0;; shift += 5) {
        const char c = *at++;
        const auto digit = static_cast<std::uint32_t>(c <= '9' && c >= '0'   ? c - '0'
                                                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                                      : c >= 'a'             ? c - 'a' + 36
                                                      : c == '#'             ? 62
                                                                             : 63);
        value |= (digit & 31) << shift;
        if (digit < 32) return value;
      }
    }
    std::int32_t next_signed() {
      const std::uint32_t n = next();
      return static_cast<std::int32_t>(n >> 1) ^ -static_cast<std::int32_t>(n & 1);
    }
  };

  unicode_tables() {
    read_classes();
    std::uint32_t end = 0;
    for (numbers n{unicode_data::combining}; n;) {
      const std::uint32_t first = end + n.next();
      end = first + n.next();
      combining_.push_back({first, end - 1, n.next()});
    }
    read_cases(unicode_data::lower, lower_);
    read_cases(unicode_data::upper, upper_);
    read_decompositions();
  }
  void read_classes() {
    std::array<std::uint8_t, 256> page{};
    std::map<std::array<std::uint8_t, 256>, std::uint16_t> known;
    std::uint32_t code = 0;
    for (numbers n{unicode_data::classes}; n;) {
      const std::uint32_t run = n.next();
      for (std::uint32_t end = code + (run >> 4); code < end;) {
        page[code & 255] = static_cast<std::uint8_t>(run & 15);
        if ((++code & 255) != 0) continue;
        const auto [at, is_new] = known.try_emplace(page, static_cast<std::uint16_t>(pages_.size()));
        if (is_new) pages_.push_back(page);
        page_of_[(code >> 8) - 1] = at->second;
      }
    }
  }
  static void read_cases(const char* from, std::vector<case_run>& to) {
    std::uint32_t end = 0;
    for (numbers n{from}; n;) {
      const std::uint32_t first = end + n.next(), length = n.next(), step = 1 + (length & 1);
      end = first + ((length >> 1) - 1) * step;
      to.push_back({first, end, step, n.next_signed()});
    }
  }
  void read_decompositions() {
    std::uint32_t code = 0, last = 0;
    for (numbers n{unicode_data::decompositions}; n;) {
      code += n.next();
      const std::uint32_t flags = n.next(), count = flags >> 2;
      decompositions_.push_back({code, static_cast<std::uint32_t>(codes_.size()), count, (flags & 2) != 0});
      for (std::uint32_t i = 0; i < count; ++i) codes_.push_back(last += static_cast<std::uint32_t>(n.next_signed()));
      if ((flags & 3) == 0 && count == 2)
        compositions_.push_back({std::uint64_t(codes_[codes_.size() - 2]) << 32 | codes_.back(), code});
    }
    std::sort(compositions_.begin(), compositions_.end(),
              [](const composition& a, const composition& b) { return a.pair < b.pair; });
  }
  template <class Run> static const Run* run_of(const std::vector<Run>& runs, std::uint32_t code) {
    const auto at =
        std::lower_bound(runs.begin(), runs.end(), code, [](const Run& r, std::uint32_t c) { return r.last < c; });
    return at != runs.end() && code >= at->first ? &*at : nullptr;
  }

  std::vector<std::array<std::uint8_t, 256>> pages_;
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<combining_run> combining_;
  std::vector<case_run> lower_, upper_;
  std::vector<decomposition> decompositions_;
  std::vector<std::uint32_t> codes_;
  std::vector<composition> compositions_;
};

// ---- classes and case -----------------------------------------------------------------------------------------------

inline character_class class_of(std::uint32_t code) { return unicode_tables::get().class_of(code); }
inline bool is_space(std::uint32_t code) {
  return code < 0x80 ? code == ' ' || (code >= 9 && code <= 13) : class_of(code) == character_class::space;
}
inline bool is_number(character_class c) {
  return c == character_class::number || c == character_class::number_no_word;
}
inline bool is_mark(character_class c) { return c == character_class::nonspacing_mark || c == character_class::mark; }
/// What `\w` matches: alphabetic characters, marks, decimal digits, connectors, joiners.
inline bool is_word(std::uint32_t code) {
  const character_class c = class_of(code);
  return c == character_class::letter || c == character_class::number || is_mark(c) ||
         c == character_class::connector || c == character_class::alphabetic_symbol || code == 0x200C || code == 0x200D;
}
inline bool is_ascii_punctuation(std::uint32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}
inline bool is_punctuation(std::uint32_t code) {
  if (code < 0x80) return is_ascii_punctuation(code);
  const character_class c = class_of(code);
  return c == character_class::punctuation || c == character_class::connector;
}
/// The letter in the other case if that is one letter; otherwise, and for invalid bytes, the code itself.
inline std::uint32_t changed_case(std::uint32_t code, bool lower) {
  if (code < 0x80) {
    const std::uint32_t first = lower ? U'A' : U'a';
    return code - first < 26 ? code ^ 32 : code;
  }
  return unicode_tables::get().changed(code, lower);
}
/// Context-free: a final sigma is treated like any other.
inline std::string changed_case(std::string_view s, bool lower) {
  std::string made;
  made.reserve(s.size());
  while (!s.empty()) {
    const std::uint32_t code = next_code(s);
    if (lower && code == 0x130) made += "i\xCC\x87";  // the only letter whose lowercase is two characters
    else append_utf8(made, changed_case(code, lower));
  }
  return made;
}

// ---- normalization forms --------------------------------------------------------------------------------------------

namespace hangul {
inline constexpr std::uint32_t syllable = 0xAC00, leading = 0x1100, vowel = 0x1161, trailing = 0x11A7, vowels = 21,
                               trailings = 28, leadings = 19, syllables = leadings * vowels * trailings;
}

inline void decompose(std::uint32_t code, bool compatible, std::vector<std::uint32_t>& to) {
  using namespace hangul;
  if (code < 0xA0) return to.push_back(code);
  if (code - syllable < syllables) {
    const std::uint32_t i = code - syllable, t = i % trailings;
    to.push_back(leading + i / (vowels * trailings));
    to.push_back(vowel + i / trailings % vowels);
    if (t) to.push_back(trailing + t);
    return;
  }
  const auto& tables = unicode_tables::get();
  const decomposition* d = tables.decomposed(code);
  if (!d || (d->compatible && !compatible)) return to.push_back(code);
  for (std::uint32_t i = 0; i < d->count; ++i) decompose(tables.codes_of(*d)[i], compatible, to);
}

/// Sorts marks between characters of class 0 by combining class, stably.
inline void order_marks(std::vector<std::uint32_t>& codes) {
  const auto& tables = unicode_tables::get();
  struct marked {
    std::uint32_t combining, code;
  };
  std::vector<marked> run;
  for (std::size_t i = 0; i < codes.size();) {
    run.clear();
    std::size_t end = i;
    for (std::uint32_t k = 0; end < codes.size() && (k = tables.combining(codes[end])) != 0; ++end)
      run.push_back({k, codes[end]});
    if (run.size() > 1) {
      std::stable_sort(run.begin(), run.end(),
                       [](const marked& a, const marked& b) { return a.combining < b.combining; });
      for (std::size_t j = 0; j < run.size(); ++j) codes[i + j] = run[j].code;
    }
    i = end + 1;
  }
}

inline std::uint32_t compose_pair(std::uint32_t a, std::uint32_t b) {
  using namespace hangul;
  if (a - leading < leadings && b - vowel < vowels)
    return syllable + ((a - leading) * vowels + (b - vowel)) * trailings;
  if (a - syllable < syllables && (a - syllable) % trailings == 0 && b > trailing && b < trailing + trailings)
    return a + (b - trailing);
  return unicode_tables::get().composed(a, b);
}

inline void compose(std::vector<std::uint32_t>& codes) {
  const auto& tables = unicode_tables::get();
  std::size_t kept = 0, starter = 0;
  bool has_starter = false;
  std::uint32_t before = 0;  // combining class of the last character kept after the starter
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t code = codes[i], k = tables.combining(code);
    const bool adjacent = has_starter && kept == starter + 1;
    if (has_starter && (adjacent || (before < k && before != 0)))
      if (const std::uint32_t made = compose_pair(codes[starter], code)) {
        codes[starter] = made;
        continue;
      }
    if (k == 0) {
      starter = kept;
      has_starter = true;
    }
    before = k;
    codes[kept++] = code;
  }
  codes.resize(kept);
}

struct normal_form {
  bool compatible = false, composed = false;
};
/// NFD, NFC, NFKD or NFKC of valid UTF-8.   Source: Unicode Standard Annex #15.
inline std::string normalized(std::string_view s, normal_form form) {
  std::string made;
  std::vector<std::uint32_t> codes;
  made.reserve(s.size());
  while (!s.empty()) {
    // ASCII characters are final, except one before a non-ASCII character, which may compose with it.
    std::size_t plain = 0;
    while (plain < s.size() && static_cast<unsigned char>(s[plain]) < 0x80) ++plain;
    if (plain == s.size()) return made.append(s);
    const std::size_t keep = plain ? plain - 1 : 0;
    made.append(s.substr(0, keep));
    s.remove_prefix(keep);
    codes.clear();
    // ASCII does not compose with a preceding character.
    do decompose(next_code(s), form.compatible, codes);
    while (!s.empty() && static_cast<unsigned char>(s[0]) >= 0x80);
    order_marks(codes);
    if (form.composed) compose(codes);
    for (const std::uint32_t code : codes) append_utf8(made, code);
  }
  return made;
}

}  // namespace lamina::detail
