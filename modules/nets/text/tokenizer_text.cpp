// Text steps of normalizers, pre-tokenizers and decoders.
module lamina:tokenizer.text;
import :core;
import :tokenizer.model;
import :unicode;
import lamina.std;

namespace lamina::detail {

// ---- normalizers ----------------------------------------------------------------------------------------------------

enum class normalizer_kind { lowercase, nfc, nfd, nfkc, nfkd, strip_accents, strip, bert, replace, prepend };
struct normalizer_step {
  normalizer_kind kind = normalizer_kind::lowercase;
  bool left = true, right = true;                                   // strip
  bool clean = true, chinese = true, accents = true, lower = true;  // bert
  bool accents_as_lower = false;                                    // `strip_accents` is null in the file
  std::string from, to;                                             // replace; prepend uses `to`
};

/// Maximum bytes of a text after a replacement.
inline constexpr std::size_t max_normalized = std::size_t(1) << 28;

inline void replace_all(std::string& s, std::string_view from, std::string_view to, std::size_t max = ~std::size_t(0)) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t found; max > 0 && (found = s.find(from, at)) != s.npos; at = found + from.size(), --max) {
    made.append(s, at, found - at).append(to);
    if (made.size() > max_normalized)
      raise(error_kind::value,
            text() << "tokenizer: a replacement makes more than " << max_normalized << " bytes of a text");
  }
  if (at == 0) return;
  s = made.append(s, at);
}
inline std::string_view without_space(std::string_view s, bool left, bool right) {
  while (left && !s.empty()) {
    std::string_view rest = s;
    if (!is_space(next_code(rest))) break;
    s = rest;
  }
  while (right && !s.empty() && is_space(last_code(s))) {
    std::size_t end = s.size() - 1;
    while ((static_cast<unsigned char>(s[end]) & 0xC0) == 0x80) --end;
    s.remove_suffix(s.size() - end);
  }
  return s;
}

/// Ideographs that BERT's tokenizer treats as words: CJK blocks, except later ones and U+2B820 to U+2B91F.
inline bool is_ideograph(std::uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}
template <class F> std::string without(std::string_view s, const F& left_out) {
  std::string made;
  made.reserve(s.size());
  while (!s.empty()) {
    const std::uint32_t code = next_code(s);
    if (!left_out(code)) append_utf8(made, code);
  }
  return made;
}
// An ASCII character as normalized by BERT's tokenizer; 0 if removed.
inline char bert_ascii(const normalizer_step& n, unsigned char c) {
  const bool white = c == ' ' || (c >= 9 && c <= 13);
  if (n.clean && (c < 32 || c == 127) && (!white || c == 11 || c == 12)) return 0;
  if (n.clean && white) return ' ';
  return static_cast<char>(n.lower && c - unsigned('A') < 26u ? c | 32 : c);
}
inline std::string bert_normalized(const normalizer_step& n, std::string_view s) {
  std::string made;
  made.reserve(s.size() + 16);
  bool plain = true;
  while (!s.empty()) {
    if (const auto first = static_cast<unsigned char>(s[0]); first < 0x80) {
      s.remove_prefix(1);
      if (const char c = bert_ascii(n, first); c != 0 || !n.clean) made.push_back(c);
      continue;
    }
    plain = false;
    const std::uint32_t code = next_code(s);
    // U+0085 is white space, but is removed as a control character.
    if (n.clean && (code == replacement_code || code == 0x85 || class_of(code) == character_class::control)) continue;
    if (n.clean && is_space(code)) made.push_back(' ');
    else if (n.chinese && is_ideograph(code)) {
      made.push_back(' ');
      append_utf8(made, code);
      made.push_back(' ');
    } else append_utf8(made, code);
  }
  if (plain) return made;
  if (n.accents)
    made = without(normalized(made, {}),
                   [](std::uint32_t c) { return c >= 0x80 && class_of(c) == character_class::nonspacing_mark; });
  return n.lower ? changed_case(made, true) : made;
}

inline void apply(const normalizer_step& n, std::string& s) {
  switch (n.kind) {
    case normalizer_kind::lowercase: s = changed_case(s, true); return;
    case normalizer_kind::nfc: s = normalized(s, {false, true}); return;
    case normalizer_kind::nfd: s = normalized(s, {false, false}); return;
    case normalizer_kind::nfkc: s = normalized(s, {true, true}); return;
    case normalizer_kind::nfkd: s = normalized(s, {true, false}); return;
    case normalizer_kind::strip_accents:
      s = without(s, [](std::uint32_t c) { return c >= 0x80 && is_mark(class_of(c)); });
      return;
    case normalizer_kind::strip: s = std::string(without_space(s, n.left, n.right)); return;
    case normalizer_kind::bert: s = bert_normalized(n, s); return;
    case normalizer_kind::replace: replace_all(s, n.from, n.to); return;
    case normalizer_kind::prepend:
      if (!s.empty()) s.insert(0, n.to);
      return;
  }
}

// ---- pre-tokenizers -------------------------------------------------------------------------------------------------

enum class split_kind {
  byte_level,
  whitespace,
  whitespace_only,
  bert,
  punctuation,
  digits,
  delimiter,
  metaspace,
  literal
};
/// Handling of a delimiter match when splitting a text.
enum class delimiter_rule { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class prepend_rule { always, never, first };
struct split_step {
  split_kind kind = split_kind::whitespace;
  bool prefix_space = true, trim_offsets = true, use_pattern = true;  // byte_level
  bool individual = false;                                            // digits
  delimiter_rule rule = delimiter_rule::isolated;                     // punctuation, literal
  bool invert = false;                          // literal: the pieces between matches count as matches
  std::string text;                             // delimiter, literal, metaspace
  prepend_rule prepend = prepend_rule::always;  // metaspace
  bool split = true;                            // metaspace
};

/// Owns strings that pieces refer to.
using text_arena = std::deque<std::string>;

/// Splits a text by a delimiter rule and emits the pieces. `next(rest)` returns whether rest begins with a match, and
/// the length of that match, or of the text before the next one.
struct stretch {
  bool match = false;
  std::size_t length = 0;
};
template <class Next, class Emit>
void split_by(std::string_view s, delimiter_rule rule, const Next& next, const Emit& emit) {
  std::size_t begin = 0, end = 0;  // of the pending piece
  bool held_match = false, any = false;
  const auto flush = [&] {
    if (end > begin) emit(s.substr(begin, end - begin));
    begin = end;
  };
  while (end < s.size()) {
    const stretch m = next(s.substr(end));
    switch (rule) {
      case delimiter_rule::removed:
        if (!m.match) emit(s.substr(end, m.length));
        end += m.length;
        begin = end;
        continue;
      case delimiter_rule::isolated: flush(); break;
      case delimiter_rule::contiguous:
        if (any && held_match != m.match) flush();
        break;
      case delimiter_rule::merged_with_previous:
        if (!m.match || held_match) flush();
        break;
      case delimiter_rule::merged_with_next:
        if (any && (m.match || !held_match)) flush();
        break;
    }
    end += m.length;
    held_match = m.match;
    any = true;
  }
  flush();
}

/// Character classes of GPT-2's pattern.
enum class pattern_class : std::uint8_t { other, letter, number, space };
inline pattern_class pattern_class_of(std::uint32_t code) {
  const character_class c = class_of(code);
  return c == character_class::letter  ? pattern_class::letter
         : is_number(c)                ? pattern_class::number
         : c == character_class::space ? pattern_class::space
                                       : pattern_class::other;
}
struct ascii_pattern_classes {
  std::array<pattern_class, 128> of{};
  constexpr ascii_pattern_classes() {
    for (std::size_t c = 0; c < 128; ++c) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      of[c] = letter                            ? pattern_class::letter
              : c >= '0' && c <= '9'            ? pattern_class::number
              : c == ' ' || (c >= 9 && c <= 13) ? pattern_class::space
                                                : pattern_class::other;
    }
  }
};
inline constexpr ascii_pattern_classes ascii_classes;
inline pattern_class pattern_class_at(std::string_view s, std::size_t i, std::size_t& length) {
  const auto first = static_cast<unsigned char>(s[i]);
  if (first < 0x80) return length = 1, ascii_classes.of[first];
  const decoded d = decode_utf8(s.data() + i, s.size() - i);
  length = d.length;
  return pattern_class_of(d.code);
}
/// Emits the pieces of GPT-2's pattern `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
template <class Emit> void split_byte_level(std::string_view s, const Emit& emit) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < s.size();) {
    if (s[i] == '\'' && i + 1 < s.size()) {
      const std::string_view rest = s.substr(i + 1, 2);
      const std::size_t n = rest == "re" || rest == "ve" || rest == "ll"                           ? 3
                            : rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd' ? 2
                                                                                                   : 0;
      if (n) {
        emit(s.substr(i, n));
        i += n;
        continue;
      }
    }
    std::size_t end = i;
    if (s[i] == ' ' && i + 1 < s.size()) end = i + 1;
    pattern_class c = pattern_class_at(s, end, length);
    if (c == pattern_class::space && end > i) c = pattern_class_at(s, end = i, length);
    if (c != pattern_class::space) {
      do end += length;
      while (end < s.size() && pattern_class_at(s, end, length) == c);
    } else {
      std::size_t last = end;  // offset of the last space
      do last = end, end += length;
      while (end < s.size() && pattern_class_at(s, end, length) == pattern_class::space);
      if (end < s.size() && last > i) end = last;
    }
    emit(s.substr(i, end - i));
    i = end;
  }
}
template <class Emit> void split_whitespace(std::string_view s, const Emit& emit) {
  const auto kind_at = [&](std::size_t i, std::size_t& length) {
    const decoded d = decode_utf8(s.data() + i, s.size() - i);
    length = d.length;
    return is_space(d.code) ? 0 : is_word(d.code) ? 1 : 2;
  };
  std::size_t length = 0;
  for (std::size_t i = 0; i < s.size();) {
    const int kind = kind_at(i, length);
    std::size_t end = i + length;
    while (end < s.size() && kind_at(end, length) == kind) end += length;
    if (kind != 0) emit(s.substr(i, end - i));
    i = end;
  }
}
template <class Emit> void split_bert(std::string_view s, const Emit& emit) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < s.size();) {
    const decoded d = decode_utf8(s.data() + i, s.size() - i);
    const bool space = is_space(d.code), alone = !space && is_punctuation(d.code);
    if (space || alone) {
      if (i > begin) emit(s.substr(begin, i - begin));
      if (alone) emit(s.substr(i, d.length));
      begin = i + d.length;
    }
    i += d.length;
  }
  if (begin < s.size()) emit(s.substr(begin));
}
/// Matcher for runs of characters that satisfy `is`, and of those that do not.
template <class Is> auto stretches_of(const Is& is) {
  return [&is](std::string_view s) {
    stretch m;
    for (bool first = true; m.length < s.size(); first = false) {
      const decoded d = decode_utf8(s.data() + m.length, s.size() - m.length);
      const bool now = is(d.code);
      if (first) m.match = now;
      else if (now || m.match) break;
      m.length += d.length;
      if (m.match) break;
    }
    return m;
  };
}
inline auto stretches_of_text(std::string_view text, bool invert) {
  return [text, invert](std::string_view s) {
    const std::size_t found = s.find(text);
    if (found == 0) return stretch{!invert, text.size()};
    return stretch{invert, std::min(found, s.size())};
  };
}

/// Calls emit(piece) for the pieces into which a step splits s. `at_beginning`: whether s begins the text.
template <class Emit>
void split_piece(const split_step& step, std::string_view s, bool at_beginning, text_arena& arena, const Emit& emit) {
  switch (step.kind) {
    case split_kind::byte_level:
      if (step.prefix_space && !s.starts_with(' ')) s = arena.emplace_back(" ").append(s);
      return step.use_pattern ? split_byte_level(s, emit) : emit(s);
    case split_kind::whitespace: return split_whitespace(s, emit);
    case split_kind::whitespace_only:
      return split_by(s, delimiter_rule::removed, stretches_of([](std::uint32_t c) { return is_space(c); }), emit);
    case split_kind::bert: return split_bert(s, emit);
    case split_kind::punctuation:
      return split_by(s, step.rule, stretches_of([](std::uint32_t c) { return is_punctuation(c); }), emit);
    case split_kind::digits:
      return split_by(s, step.individual ? delimiter_rule::isolated : delimiter_rule::contiguous,
                      stretches_of([](std::uint32_t c) { return is_number(class_of(c)); }), emit);
    case split_kind::delimiter: return split_by(s, delimiter_rule::removed, stretches_of_text(step.text, false), emit);
    case split_kind::literal: return split_by(s, step.rule, stretches_of_text(step.text, step.invert), emit);
    case split_kind::metaspace: {
      std::string& made = arena.emplace_back(s);
      replace_all(made, " ", step.text);
      const bool prepend =
          step.prepend == prepend_rule::always || (step.prepend == prepend_rule::first && at_beginning);
      if (prepend && !made.starts_with(step.text)) made.insert(0, step.text);
      return step.split ? split_by(made, delimiter_rule::merged_with_next, stretches_of_text(step.text, false), emit)
                        : emit(made);
    }
  }
}

// ---- decoders -------------------------------------------------------------------------------------------------------

enum class decoder_kind { byte_level, wordpiece, bpe, metaspace, byte_fallback, fuse, strip, replace };
struct decoder_step {
  decoder_kind kind = decoder_kind::fuse;
  std::string text, to;  // prefix, suffix, or content to strip or replace; its replacement
  bool cleanup = true;   // wordpiece
  prepend_rule prepend = prepend_rule::always;
  std::size_t start = 0, stop = 0;  // strip
};

inline void decode_wordpiece(const decoder_step& d, std::vector<std::string>& tokens) {
  static constexpr std::pair<std::string_view, std::string_view> changes[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& t = tokens[i];
    if (i > 0) {
      if (t.starts_with(d.text)) t.erase(0, d.text.size());
      else t.insert(0, " ");
    }
    if (d.cleanup)
      for (const auto& [from, to] : changes) replace_all(t, from, to);
  }
}
inline void decode_byte_level(std::vector<std::string>& tokens) {
  std::string bytes, one;
  for (const std::string& t : tokens) {
    one.clear();
    bool all = true;
    for (std::string_view rest = t; all && !rest.empty();) {
      const int byte = byte_alphabet.byte_of(next_code(rest));
      if (byte < 0) all = false;
      else one.push_back(static_cast<char>(byte));
    }
    bytes += all ? one : t;
  }
  tokens.assign(1, replace_invalid_utf8(bytes));
}
inline void decode_fallback(std::vector<std::string>& tokens) {
  const auto byte_of = [](std::string_view t) {
    if (t.size() != 6 || !t.starts_with("<0x") || t[5] != '>') return -1;
    int value = 0;
    for (const char c : t.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = 16 * value + digit;
    }
    return value;
  };
  std::vector<std::string> made;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (valid_utf8(bytes) == bytes.size()) made.push_back(bytes);
    else made.insert(made.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (std::string& t : tokens)
    if (const int b = byte_of(t); b >= 0) bytes.push_back(static_cast<char>(b));
    else {
      flush();
      made.push_back(std::move(t));
    }
  flush();
  tokens = std::move(made);
}
inline void decode_strip(const decoder_step& d, std::vector<std::string>& tokens) {
  for (std::string& t : tokens) {
    std::string_view s = t;
    for (std::size_t i = 0; i < d.start && s.starts_with(d.text); ++i) s.remove_prefix(d.text.size());
    for (std::size_t i = 0; i < d.stop && s.ends_with(d.text); ++i) s.remove_suffix(d.text.size());
    t = std::string(s);
  }
}
inline void apply(const decoder_step& d, std::vector<std::string>& tokens) {
  switch (d.kind) {
    case decoder_kind::byte_level: return decode_byte_level(tokens);
    case decoder_kind::wordpiece: return decode_wordpiece(d, tokens);
    case decoder_kind::byte_fallback: return decode_fallback(tokens);
    case decoder_kind::strip: return decode_strip(d, tokens);
    case decoder_kind::fuse: {
      std::string all;
      for (const std::string& t : tokens) all += t;
      return tokens.assign(1, std::move(all));
    }
    case decoder_kind::bpe:
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], d.text, i + 1 == tokens.size() ? "" : " ");
      return;
    case decoder_kind::metaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i)
        replace_all(tokens[i], d.text, i == 0 && d.prepend != prepend_rule::never ? "" : " ");
      return;
    case decoder_kind::replace:
      for (std::string& t : tokens) replace_all(t, d.text, d.to);
      return;
  }
}

}  // namespace lamina::detail
