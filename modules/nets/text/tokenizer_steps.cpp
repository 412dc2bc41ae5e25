// Reads normalizers, pre-tokenizers, decoders and post-processors of a tokenizer's JSON document.
module lamina:tokenizer.steps;
import :core;
import :tokenizer.fields;
import :tokenizer.model;
import :tokenizer.parts;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :io;
import :io.document.impl;
import :unicode;
import lamina.std;

namespace lamina::detail {

inline constexpr std::size_t max_steps = 64;

/// Calls one(field) for a step, or for each step of a sequence, recursively.
template <class One> void each_step(const json_field& f, std::string_view steps, std::size_t& count, const One& one) {
  if (!f) return;
  if (f["type"].string() == "Sequence")
    return f[steps].each([&](const json_field& inner) { each_step(inner, steps, count, one); });
  if (++count > max_steps) f.fail("is the ", count, "th step; expected at most ", max_steps);
  one(f);
}

// The literal string of a pattern.
inline std::string_view literal_pattern(const json_field& f) {
  if (const json_field regex = f["Regex"]; regex)
    regex.unsupported("is the regular expression `", printable(regex.string()),
                      "`; expected a pattern of type String, or the pre-tokenizer ByteLevel for the one of GPT-2");
  const json_field s = f["String"];
  const std::string_view found = s.string();
  if (found.empty()) s.fail("is empty; expected at least one character");
  return found;
}
inline std::string one_character(const json_field& f) {
  const std::string_view s = f.content();
  if (decode_utf8(s.data(), s.size()).length != s.size()) f.fail("is `", printable(s), "`; expected one character");
  return std::string(s);
}
inline prepend_rule prepend_of(const json_field& f) {
  if (const json_field scheme = f["prepend_scheme"]; scheme) {
    constexpr prepend_rule rules[] = {prepend_rule::always, prepend_rule::never, prepend_rule::first};
    return rules[scheme.one_of({"always", "never", "first"})];
  }
  return f["add_prefix_space"].boolean(true) ? prepend_rule::always : prepend_rule::never;
}
inline delimiter_rule behavior_of(const json_field& f) {
  constexpr delimiter_rule rules[] = {delimiter_rule::removed, delimiter_rule::isolated,
                                      delimiter_rule::merged_with_previous, delimiter_rule::merged_with_next,
                                      delimiter_rule::contiguous};
  return rules[f.one_of({"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"})];
}

inline normalizer_step read_normalizer(const json_field& f) {
  constexpr normalizer_kind kinds[] = {
      normalizer_kind::lowercase, normalizer_kind::nfc,           normalizer_kind::nfd,   normalizer_kind::nfkc,
      normalizer_kind::nfkd,      normalizer_kind::strip_accents, normalizer_kind::strip, normalizer_kind::bert,
      normalizer_kind::replace,   normalizer_kind::prepend};
  normalizer_step n;
  n.kind = kinds[f["type"].one_of(
      {"Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip", "BertNormalizer", "Replace", "Prepend"})];
  if (n.kind == normalizer_kind::strip) {
    n.left = f["strip_left"].boolean(true);
    n.right = f["strip_right"].boolean(true);
  } else if (n.kind == normalizer_kind::bert) {
    n.clean = f["clean_text"].boolean(true);
    n.chinese = f["handle_chinese_chars"].boolean(true);
    n.lower = f["lowercase"].boolean(true);
    n.accents_as_lower = !f["strip_accents"];
    n.accents = f["strip_accents"].boolean(n.lower);
  } else if (n.kind == normalizer_kind::replace) {
    n.from = literal_pattern(f["pattern"]);
    n.to = f["content"].string();
  } else if (n.kind == normalizer_kind::prepend) {
    n.to = f["prepend"].string();
  }
  return n;
}

inline split_step read_split(const json_field& f) {
  constexpr split_kind kinds[] = {split_kind::byte_level, split_kind::whitespace,  split_kind::whitespace_only,
                                  split_kind::bert,       split_kind::punctuation, split_kind::digits,
                                  split_kind::delimiter,  split_kind::metaspace,   split_kind::literal};
  split_step s;
  s.kind = kinds[f["type"].one_of({"ByteLevel", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Punctuation",
                                   "Digits", "CharDelimiterSplit", "Metaspace", "Split"})];
  switch (s.kind) {
    case split_kind::byte_level:
      s.prefix_space = f["add_prefix_space"].boolean(true);
      s.trim_offsets = f["trim_offsets"].boolean(true);
      s.use_pattern = f["use_regex"].boolean(true);
      break;
    case split_kind::punctuation:
      if (const json_field behavior = f["behavior"]; behavior) s.rule = behavior_of(behavior);
      break;
    case split_kind::digits: s.individual = f["individual_digits"].boolean(false); break;
    case split_kind::delimiter: s.text = one_character(f["delimiter"]); break;
    case split_kind::metaspace:
      s.text = one_character(f["replacement"]);
      s.prepend = prepend_of(f);
      s.split = f["split"].boolean(true);
      break;
    case split_kind::literal:
      s.text = literal_pattern(f["pattern"]);
      s.rule = behavior_of(f["behavior"]);
      s.invert = f["invert"].boolean(false);
      break;
    case split_kind::whitespace:
    case split_kind::whitespace_only:
    case split_kind::bert: break;
  }
  return s;
}

inline decoder_step read_decoder(const json_field& f) {
  constexpr decoder_kind kinds[] = {decoder_kind::byte_level, decoder_kind::wordpiece,     decoder_kind::bpe,
                                    decoder_kind::metaspace,  decoder_kind::byte_fallback, decoder_kind::fuse,
                                    decoder_kind::strip,      decoder_kind::replace};
  decoder_step d;
  d.kind = kinds[f["type"].one_of(
      {"ByteLevel", "WordPiece", "BPEDecoder", "Metaspace", "ByteFallback", "Fuse", "Strip", "Replace"})];
  switch (d.kind) {
    case decoder_kind::wordpiece:
      d.text = f["prefix"].string("##");
      d.cleanup = f["cleanup"].boolean(true);
      break;
    case decoder_kind::bpe: d.text = f["suffix"] ? f["suffix"].content() : "</w>"; break;
    case decoder_kind::metaspace:
      d.text = one_character(f["replacement"]);
      d.prepend = prepend_of(f);
      break;
    case decoder_kind::strip:
      d.text = one_character(f["content"]);
      d.start = static_cast<std::size_t>(f["start"].integer(0, 1 << 20));
      d.stop = static_cast<std::size_t>(f["stop"].integer(0, 1 << 20));
      break;
    case decoder_kind::replace:
      d.text = literal_pattern(f["pattern"]);
      d.to = f["content"].string();
      break;
    case decoder_kind::byte_level:
    case decoder_kind::byte_fallback:
    case decoder_kind::fuse: break;
  }
  return d;
}

// ---- post-processors ------------------------------------------------------------------------------------------------

inline constexpr std::int64_t max_id = (std::int64_t(1) << 31) - 1;

/// An id that belongs to a token.
inline std::uint32_t known_id(const json_field& f, const tokenizer_parts& p) {
  const auto id = static_cast<std::uint32_t>(f.integer(0, max_id));
  if (!p.model.words.token(id) &&
      std::none_of(p.added.begin(), p.added.end(), [&](const added_token& a) { return a.id == std::int64_t(id); }))
    f.fail("is ", id, "; expected the id of a token");
  return id;
}
// A special token as `["[SEP]", 102]`.
inline template_piece read_pair_of(const json_field& f, const tokenizer_parts& p) {
  template_piece piece{template_piece::part::special, 0, {}, {}};
  if (!f.is(json_kind::array) || f.size() != 2) f.fail("is not an array of two; expected a token and its id");
  bool first = true;
  f.each([&](const json_field& e) {
    if (std::exchange(first, false)) {
      piece.name = e.string();
      return;
    }
    piece.ids.push_back(known_id(e, p));
    const auto named = [&](const added_token& a) {
      return a.id == std::int64_t(piece.ids[0]) && a.content == piece.name;
    };
    if (p.model.words.token(piece.ids[0]) != piece.name && std::none_of(p.added.begin(), p.added.end(), named))
      e.fail("is ", piece.ids[0], "; expected the id of `", printable(piece.name), "`");
  });
  return piece;
}
inline post_template read_template(const json_field& f, const json_field& special, const tokenizer_parts& p) {
  constexpr std::int64_t max_type = 1 << 20;
  post_template form;
  if (f.size() > max_steps) f.fail("has ", f.size(), " parts; expected at most ", max_steps);
  f.each([&](const json_field& e) {
    template_piece piece;
    if (const json_field s = e["Sequence"]; s) {
      piece.is = s["id"].one_of({"A", "B"}) ? template_piece::part::second : template_piece::part::first;
      piece.type = s["type_id"].integer(0, max_type, 0);
    } else {
      const json_field t = e["SpecialToken"];
      piece.is = template_piece::part::special;
      piece.name = t["id"].string();
      piece.type = t["type_id"].integer(0, max_type, 0);
      const json_field token = special[piece.name];
      if (!token) t["id"].fail("is `", printable(piece.name), "`; expected a name of `special_tokens`");
      const json_field ids = token["ids"];
      ids.each([&](const json_field& id) {
        if (piece.ids.size() == max_steps) ids.fail("has ", ids.size(), " ids; expected at most ", max_steps);
        piece.ids.push_back(known_id(id, p));
      });
    }
    form.push_back(std::move(piece));
  });
  return form;
}
/// Reads a post-processor into the templates for one text and a pair.
inline void read_post(const json_field& post, tokenizer_parts& p) {
  std::size_t count = 0, forms = 0;
  using part = template_piece::part;
  each_step(post, "processors", count, [&](const json_field& f) {
    const auto kind = f["type"].one_of({"ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing"});
    if (kind == 0) return;  // ByteLevel affects only offsets
    if (++forms > 1) f.unsupported("is the second post-processor with special tokens; expected at most one");
    if (kind == 1) {
      const json_field special = f["special_tokens"];
      p.single = read_template(f["single"], special, p);
      p.pair = read_template(f["pair"], special, p);
      return;
    }
    const template_piece cls = read_pair_of(f["cls"], p), sep = read_pair_of(f["sep"], p);
    const template_piece first{part::first, 0, {}, {}};
    template_piece second{part::second, kind == 2 ? 1 : 0, {}, {}}, last = sep;
    last.type = second.type;
    p.single = {cls, first, sep};
    if (kind == 2) p.pair = {cls, first, sep, second, last};
    else p.pair = {cls, first, sep, sep, second, last};
  });
}

}  // namespace lamina::detail
