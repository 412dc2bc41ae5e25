// Reads a tokenizer's JSON document.
module lamina:tokenizer.read;
import :core;
import :tokenizer;
import :tokenizer.fields;
import :tokenizer.model;
import :tokenizer.parts;
import :tokenizer.steps;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :io;
import :io.document.impl;
import :io.file.impl;
import lamina.std;

namespace lamina {

namespace {

using namespace detail;

void read_vocabulary(const json_field& f, token_model& m) {
  if (f.is(json_kind::array)) f.unsupported("is an array, as in type Unigram; expected BPE, WordPiece or WordLevel");
  f.each_member([&](std::string_view token, const json_field& id) {
    m.words.add(token, static_cast<std::uint32_t>(id.integer(0, max_id)));
  });
  std::uint32_t twice = 0;
  if (!m.words.finish(twice)) f.fail("has two tokens with the id ", twice);
}

// Reads the merge of two tokens from a field `merges[i]`.
void read_merge(const json_field& f, std::uint32_t rank, token_model& m) {
  std::string_view sides[2];
  if (f.is(json_kind::string)) {
    const std::string_view both = f.string();
    const std::size_t space = both.find(' ');
    if (space == both.npos || both.find(' ', space + 1) != both.npos)
      f.fail("is `", printable(both), "`; expected two tokens and one space between them");
    sides[0] = both.substr(0, space);
    sides[1] = both.substr(space + 1);
  } else {
    if (!f.is(json_kind::array) || f.size() != 2) f.fail("is not a pair of tokens");
    std::size_t i = 0;
    f.each([&](const json_field& side) { sides[i++] = side.string(); });
  }
  std::uint32_t ids[2];
  for (int i = 0; i < 2; ++i)
    if ((ids[i] = m.words.find(sides[i])) == no_token)
      f.fail("names `", printable(sides[i]), "`; expected a token of `vocab`");
  if (sides[1].size() < m.prefix.size())
    f.fail("names `", printable(sides[1]), "`; expected a token no shorter than `continuing_subword_prefix`");
  const std::string made = std::string(sides[0]) + std::string(sides[1].substr(m.prefix.size()));
  const std::uint32_t id = m.words.find(made);
  if (id == no_token) f.fail("makes `", printable(made), "`; expected a token of `vocab`");
  m.merges.set(ids[0], ids[1], {rank, id});
}

model_kind kind_of(const json_field& f) {
  if (const json_field type = f["type"]; type) {
    if (type.string() == "Unigram") type.unsupported("is Unigram; expected BPE, WordPiece or WordLevel");
    constexpr model_kind kinds[] = {model_kind::bpe, model_kind::wordpiece, model_kind::word_level};
    return kinds[type.one_of({"BPE", "WordPiece", "WordLevel"})];
  }
  // Older files omit the type.
  return f["merges"] ? model_kind::bpe : f["max_input_chars_per_word"] ? model_kind::wordpiece : model_kind::word_level;
}
void read_model(const json_field& f, token_model& m) {
  m.kind = kind_of(f);
  read_vocabulary(f["vocab"], m);
  m.unknown = f["unk_token"].string("");
  if (m.kind == model_kind::bpe) {
    m.prefix = f["continuing_subword_prefix"].string("");
    m.suffix = f["end_of_word_suffix"].string("");
    m.fuse_unknown = f["fuse_unk"].boolean(false);
    m.byte_fallback = f["byte_fallback"].boolean(false);
    m.ignore_merges = f["ignore_merges"].boolean(false);
    if (const json_field dropout = f["dropout"]; dropout && dropout.real() != 0)
      dropout.unsupported("is ", dropout.real(), "; expected null: BPE dropout is not supported");
    std::uint32_t rank = 0;
    f["merges"].each([&](const json_field& pair) { read_merge(pair, rank++, m); });
  } else if (m.kind == model_kind::wordpiece) {
    m.prefix = f["continuing_subword_prefix"].string("##");
    m.max_characters = static_cast<std::size_t>(f["max_input_chars_per_word"].integer(0, 1 << 30, 100));
  }
}

void read_added(const json_field& f, tokenizer_parts& p) {
  if (!f) return;
  std::set<std::string, std::less<>> contents;
  std::set<std::int64_t> ids;
  f.each([&](const json_field& e) {
    added_token a;
    a.content = e["content"].content();
    a.id = e["id"].integer(0, max_id);
    a.single_word = e["single_word"].boolean(false);
    a.lstrip = e["lstrip"].boolean(false);
    a.rstrip = e["rstrip"].boolean(false);
    a.special = e["special"].boolean(false);
    a.normalized = e["normalized"].boolean(!a.special);
    const auto id = static_cast<std::uint32_t>(a.id);
    if (!contents.insert(a.content).second)
      e["content"].fail("is `", printable(a.content), "`; an earlier token has this content");
    if (!ids.insert(a.id).second) e["id"].fail("is ", a.id, "; an earlier token has this id");
    if (const std::uint32_t in_model = p.model.words.find(a.content); in_model != no_token && in_model != id)
      e["id"].fail("is ", a.id, "; expected ", in_model, ", the id of `", printable(a.content), "` in `model.vocab`");
    if (const auto other = p.model.words.token(id); other && *other != a.content)
      e["id"].fail("is ", a.id, ", the id of `", printable(*other), "` in `model.vocab`");
    p.added.push_back(std::move(a));
  });
}

constexpr std::int64_t max_batch_length = std::int64_t(1) << 31;
void read_batching(const json_field& top, tokenizer_parts& p) {
  token_batch_options& o = p.batching;
  if (const json_field f = top["truncation"]; f) {
    constexpr cut_rule rules[] = {cut_rule::longest_first, cut_rule::only_first, cut_rule::only_second};
    if (const json_field strategy = f["strategy"]; strategy)
      o.cut = rules[strategy.one_of({"LongestFirst", "OnlyFirst", "OnlySecond"})];
    o.max_length = f["max_length"].integer(1, max_batch_length);
    if (const json_field side = f["direction"]; side)
      o.cut_side = side.one_of({"Left", "Right"}) ? text_side::right : text_side::left;
    if (const json_field stride = f["stride"]; stride && stride.integer(0, max_batch_length) != 0)
      stride.unsupported("is ", stride.integer(0, max_batch_length),
                         "; expected 0: overlapping windows are not supported");
  }
  const json_field f = top["padding"];
  if (!f) return;
  p.pads = true;
  const json_field strategy = f["strategy"];
  if (strategy.is(json_kind::object)) o.length = strategy["Fixed"].integer(0, max_batch_length);
  else strategy.one_of({"BatchLongest"});
  if (const json_field side = f["direction"]; side)
    o.pad_side = side.one_of({"Left", "Right"}) ? text_side::right : text_side::left;
  o.multiple = std::max<std::int64_t>(1, f["pad_to_multiple_of"].integer(0, max_batch_length, 1));
  o.pad_id = f["pad_id"].integer(0, max_id, 0);
  o.pad_type = f["pad_type_id"].integer(0, max_id, 0);
  p.pad_token = f["pad_token"].string("[PAD]");
}

tokenizer read_document(std::string_view json, std::string_view name) {
  const json_document document(json);
  if (!document.reason.empty()) file_failure(name, document.reason);
  auto parts = std::make_shared<tokenizer_parts>();
  const json_field top(name, document.root());
  if (const json_field version = top["version"]; version && version.string() != "1.0")
    version.unsupported("is `", printable(version.string()), "`; lamina reads 1.0");
  std::size_t count = 0;
  each_step(top["normalizer"], "normalizers", count,
            [&](const json_field& f) { parts->normalizers.push_back(read_normalizer(f)); });
  count = 0;
  each_step(top["pre_tokenizer"], "pretokenizers", count,
            [&](const json_field& f) { parts->splits.push_back(read_split(f)); });
  count = 0;
  each_step(top["decoder"], "decoders", count,
            [&](const json_field& f) { parts->decoders.push_back(read_decoder(f)); });
  read_model(top["model"], parts->model);
  read_added(top["added_tokens"], *parts);
  read_post(top["post_processor"], *parts);
  read_batching(top, *parts);
  try {
    parts->prepare();
  } catch (const value_error& e) { top["normalizer"].fail("cannot take an added token: ", e.what()); }
  return tokenizer(std::move(parts));
}

}  // namespace

tokenizer load_tokenizer(const std::string& path) {
  const mapped_file file(path);
  return read_document({reinterpret_cast<const char*>(file.data), file.size}, path);
}
tokenizer read_tokenizer(std::string_view json, std::string_view name) { return read_document(json, name); }

}  // namespace lamina
