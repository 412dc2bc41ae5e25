// Writes a tokenizer as a `tokenizer.json` document.
module lamina:tokenizer.write;
import :core;
import :tokenizer;
import :tokenizer.model;
import :tokenizer.parts;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :io;
import :io.json_writer.impl;
import lamina.std;

namespace lamina {

namespace {

using namespace detail;

// Writes the members of a JSON object, separated by commas.
class json_members {
 public:
  explicit json_members(text& to) : to_(to) { to_ << "{"; }
  json_members& name(std::string_view n) {
    to_ << (std::exchange(first_, false) ? "" : ",");
    quoted(to_, n, "tokenizer");
    to_ << ":";
    return *this;
  }
  json_members& add(std::string_view n, std::string_view s) { return name(n), quoted(to_, s, "tokenizer"), *this; }
  json_members& add(std::string_view n, const char* s) { return add(n, std::string_view(s)); }
  json_members& add(std::string_view n, bool b) { return name(n), to_ << b, *this; }
  json_members& add(std::string_view n, std::int64_t i) { return name(n), to_ << i, *this; }
  json_members& add_or_null(std::string_view n, std::string_view s) {
    return s.empty() ? (name(n), to_ << "null", *this) : add(n, s);
  }
  json_members& pattern(std::string_view s) {
    name("pattern");
    json_members(to_).add("String", s).end();
    return *this;
  }
  void end() { to_ << "}"; }

 private:
  text& to_;
  bool first_ = true;
};
template <class All, class One> void list(text& t, const All& all, const One& one) {
  t << "[";
  bool first = true;
  for (const auto& x : all) {
    t << (std::exchange(first, false) ? "" : ",");
    one(x);
  }
  t << "]";
}
// Writes steps: null if empty, a single step as itself, several as a sequence.
template <class Step, class One>
void steps(text& t, std::string_view name, const std::vector<Step>& all, const One& one) {
  if (all.empty()) t << "null";
  else if (all.size() == 1) one(all[0]);
  else {
    json_members m(t);
    m.add("type", "Sequence").name(name);
    list(t, all, one);
    m.end();
  }
}

constexpr std::string_view prepends[] = {"always", "never", "first"};
void write(text& t, const normalizer_step& n) {
  constexpr std::string_view names[] = {"Lowercase",      "NFC",     "NFD",    "NFKC", "NFKD", "StripAccents", "Strip",
                                        "BertNormalizer", "Replace", "Prepend"};
  json_members m(t);
  m.add("type", names[static_cast<std::size_t>(n.kind)]);
  if (n.kind == normalizer_kind::strip) m.add("strip_left", n.left).add("strip_right", n.right);
  if (n.kind == normalizer_kind::bert) {
    m.add("clean_text", n.clean).add("handle_chinese_chars", n.chinese);
    if (n.accents_as_lower) m.add_or_null("strip_accents", "");
    else m.add("strip_accents", n.accents);
    m.add("lowercase", n.lower);
  }
  if (n.kind == normalizer_kind::replace) m.pattern(n.from).add("content", n.to);
  if (n.kind == normalizer_kind::prepend) m.add("prepend", n.to);
  m.end();
}
void write(text& t, const split_step& s) {
  constexpr std::string_view names[] = {"ByteLevel",          "Whitespace",  "WhitespaceSplit",
                                        "BertPreTokenizer",   "Punctuation", "Digits",
                                        "CharDelimiterSplit", "Metaspace",   "Split"};
  constexpr std::string_view behaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
  json_members m(t);
  m.add("type", names[static_cast<std::size_t>(s.kind)]);
  const std::string_view behavior = behaviors[static_cast<std::size_t>(s.rule)];
  if (s.kind == split_kind::byte_level)
    m.add("add_prefix_space", s.prefix_space).add("trim_offsets", s.trim_offsets).add("use_regex", s.use_pattern);
  if (s.kind == split_kind::punctuation) m.add("behavior", behavior);
  if (s.kind == split_kind::digits) m.add("individual_digits", s.individual);
  if (s.kind == split_kind::delimiter) m.add("delimiter", s.text);
  if (s.kind == split_kind::metaspace)
    m.add("replacement", s.text)
        .add("prepend_scheme", prepends[static_cast<std::size_t>(s.prepend)])
        .add("split", s.split);
  if (s.kind == split_kind::literal) m.pattern(s.text).add("behavior", behavior).add("invert", s.invert);
  m.end();
}
void write(text& t, const decoder_step& d) {
  constexpr std::string_view names[] = {"ByteLevel",    "WordPiece", "BPEDecoder", "Metaspace",
                                        "ByteFallback", "Fuse",      "Strip",      "Replace"};
  json_members m(t);
  m.add("type", names[static_cast<std::size_t>(d.kind)]);
  switch (d.kind) {
    case decoder_kind::byte_level:
      m.add("add_prefix_space", true).add("trim_offsets", true).add("use_regex", true);
      break;
    case decoder_kind::wordpiece: m.add("prefix", d.text).add("cleanup", d.cleanup); break;
    case decoder_kind::bpe: m.add("suffix", d.text); break;
    case decoder_kind::metaspace:
      m.add("replacement", d.text)
          .add("prepend_scheme", prepends[static_cast<std::size_t>(d.prepend)])
          .add("split", true);
      break;
    case decoder_kind::strip:
      m.add("content", d.text)
          .add("start", static_cast<std::int64_t>(d.start))
          .add("stop", static_cast<std::int64_t>(d.stop));
      break;
    case decoder_kind::replace: m.pattern(d.text).add("content", d.to); break;
    case decoder_kind::byte_fallback:
    case decoder_kind::fuse: break;
  }
  m.end();
}

void write(text& t, const post_template& form) {
  list(t, form, [&](const template_piece& p) {
    const bool special = p.is == template_piece::part::special;
    json_members outer(t);
    outer.name(special ? "SpecialToken" : "Sequence");
    json_members(t)
        .add("id", special                               ? std::string_view(p.name)
                   : p.is == template_piece::part::first ? "A"
                                                         : "B")
        .add("type_id", p.type)
        .end();
    outer.end();
  });
}
void write_post(text& t, const tokenizer_parts& p) {
  std::map<std::string_view, const template_piece*> special;
  for (const post_template* form : {&p.single, &p.pair})
    for (const template_piece& piece : *form)
      if (piece.is == template_piece::part::special) special.try_emplace(piece.name, &piece);
  const post_template plain[] = {tokenizer_parts().single, tokenizer_parts().pair};
  const auto same = [](const post_template& a, const post_template& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const template_piece& x, const template_piece& y) {
      return x.is == y.is && x.type == y.type && x.name == y.name;
    });
  };
  if (same(p.single, plain[0]) && same(p.pair, plain[1])) {
    t << "null";
    return;
  }
  json_members m(t);
  m.add("type", "TemplateProcessing").name("single");
  write(t, p.single);
  m.name("pair");
  write(t, p.pair);
  m.name("special_tokens");
  json_members all(t);
  for (const auto& [name, piece] : special) {
    all.name(name);
    json_members one(t);
    one.add("id", name).name("ids");
    list(t, piece->ids, [&](std::uint32_t id) { t << id; });
    one.name("tokens");
    list(t, piece->ids, [&](std::uint32_t id) { quoted(t, p.token(id).value_or(""), "tokenizer"); });
    one.end();
  }
  all.end();
  m.end();
}

void write_model(text& t, const token_model& model) {
  constexpr std::string_view names[] = {"BPE", "WordPiece", "WordLevel"};
  json_members m(t);
  m.add("type", names[static_cast<std::size_t>(model.kind)]);
  if (model.kind == model_kind::bpe) {
    m.add_or_null("dropout", "").add_or_null("unk_token", model.unknown);
    m.add_or_null("continuing_subword_prefix", model.prefix).add_or_null("end_of_word_suffix", model.suffix);
    m.add("fuse_unk", model.fuse_unknown)
        .add("byte_fallback", model.byte_fallback)
        .add("ignore_merges", model.ignore_merges);
  } else {
    m.add("unk_token", model.unknown);
    if (model.kind == model_kind::wordpiece)
      m.add("continuing_subword_prefix", model.prefix)
          .add("max_input_chars_per_word", static_cast<std::int64_t>(model.max_characters));
  }
  m.name("vocab");
  json_members vocab(t);
  model.words.each([&](std::string_view token, std::uint32_t id) { vocab.add(token, static_cast<std::int64_t>(id)); });
  vocab.end();
  if (model.kind == model_kind::bpe) {
    m.name("merges");
    list(t, model.merges.in_order(), [&](const merge_table::ranked& r) {
      t << "[";
      quoted(t, *model.words.token(r.a), "tokenizer") << ",";
      quoted(t, *model.words.token(r.b), "tokenizer") << "]";
    });
  }
  m.end();
}
void write_batching(json_members& m, text& t, const tokenizer_parts& p) {
  const token_batch_options& o = p.batching;
  const auto name_of_side = [](text_side s) { return s == text_side::left ? "Left" : "Right"; };
  constexpr std::string_view cut_rules[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
  m.name("truncation");
  if (o.max_length == 0) t << "null";
  else
    json_members(t)
        .add("direction", name_of_side(o.cut_side))
        .add("max_length", o.max_length)
        .add("strategy", cut_rules[static_cast<std::size_t>(o.cut)])
        .add("stride", std::int64_t(0))
        .end();
  m.name("padding");
  if (!p.pads) {
    t << "null";
    return;
  }
  json_members padding(t);
  padding.name("strategy");
  if (o.length > 0) json_members(t).add("Fixed", o.length).end();
  else t << "\"BatchLongest\"";
  padding.add("direction", name_of_side(o.pad_side));
  if (o.multiple > 1) padding.add("pad_to_multiple_of", o.multiple);
  else padding.add_or_null("pad_to_multiple_of", "");
  padding.add("pad_id", o.pad_id).add("pad_type_id", o.pad_type).add("pad_token", p.pad_token).end();
}

}  // namespace

std::string tokenizer::to_json() const {
  const tokenizer_parts& p = *parts_;
  text t;
  json_members m(t);
  m.add("version", "1.0");
  write_batching(m, t, p);
  m.name("added_tokens");
  list(t, p.added, [&](const added_token& a) {
    json_members(t)
        .add("id", a.id)
        .add("content", a.content)
        .add("single_word", a.single_word)
        .add("lstrip", a.lstrip)
        .add("rstrip", a.rstrip)
        .add("normalized", a.normalized)
        .add("special", a.special)
        .end();
  });
  const auto one = [&](const auto& step) { write(t, step); };
  m.name("normalizer");
  steps(t, "normalizers", p.normalizers, one);
  m.name("pre_tokenizer");
  steps(t, "pretokenizers", p.splits, one);
  m.name("post_processor");
  write_post(t, p);
  m.name("decoder");
  steps(t, "decoders", p.decoders, one);
  m.name("model");
  write_model(t, p.model);
  m.end();
  t << "\n";
  return t.string();
}

void tokenizer::save(const std::string& path) const {
  const std::string json = to_json();
  write_file_atomically(path, [&](writer& w) { w.write(json); });
}

}  // namespace lamina
