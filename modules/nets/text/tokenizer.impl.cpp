// Encoding and decoding.
module lamina:tokenizer.impl;
import :core;
import :tokenizer;
import :tokenizer.model;
import :tokenizer.parts;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :tensor;
import :unicode;
import lamina.std;

namespace lamina {

namespace {

using detail::no_token;
using detail::post_template;
using detail::template_piece;
using detail::tokenizer_parts;
using part = template_piece::part;

constexpr std::size_t max_text = std::size_t(1) << 30;

// Returns valid UTF-8: the text itself, or a copy in `made` with invalid parts replaced.
std::string_view checked(std::string_view s, invalid_utf8 rule, std::string& made) {
  text t;
  if (s.size() > max_text) {
    t << "tokenizer: the text has " << s.size() << " bytes; expected at most " << max_text;
    detail::raise(error_kind::value, t);
  }
  const std::size_t bad = detail::valid_utf8(s);
  if (bad == s.size()) return s;
  if (rule == invalid_utf8::replace) return made = detail::replace_invalid_utf8(s);
  t << "tokenizer: byte " << bad << " of the text is " << int(static_cast<unsigned char>(s[bad]))
    << "; expected UTF-8, or on_invalid = invalid_utf8::replace, which decodes it to U+FFFD";
  detail::raise(error_kind::value, t);
}
using detail::model_scratch;
std::vector<std::uint32_t> words_of(const tokenizer_parts& p, std::string_view s, invalid_utf8 rule, model_scratch& m) {
  std::string made;
  std::vector<std::uint32_t> ids;
  p.encode(checked(s, rule, made), m, ids);
  return ids;
}
// Number of special tokens in a template.
std::size_t special_count(const post_template& form) {
  std::size_t n = 0;
  for (const template_piece& piece : form) n += piece.is == part::special ? piece.ids.size() : 0;
  return n;
}
// Calls add(id, type) for the tokens of a filled template.
template <class Add> void fill_form(const post_template& form, const std::vector<std::uint32_t>& first,
                                    const std::vector<std::uint32_t>& second, bool special, const Add& add) {
  for (const template_piece& piece : form) {
    if (piece.is == part::special && !special) continue;
    for (const std::uint32_t id : piece.is == part::special ? piece.ids : piece.is == part::first ? first : second)
      add(id, piece.type);
  }
}

void cut(std::vector<std::uint32_t>& ids, std::size_t to, text_side side) {
  if (ids.size() <= to) return;
  if (side == text_side::left) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(to));
  ids.resize(to);
}
[[noreturn]] void wrong_batch(const text& what) {
  text t;
  detail::raise(error_kind::value, t << "encode_batch: " << what);
}
// Truncates the texts of one row to at most `max_tokens` tokens in total.
void cut_texts(std::vector<std::uint32_t>& a, std::vector<std::uint32_t>& b, std::size_t max_tokens,
               const token_batch_options& o, std::size_t row) {
  if (a.size() + b.size() <= max_tokens) return;
  if (o.cut == cut_rule::longest_first) {
    const bool swapped = a.size() > b.size();
    std::size_t low = std::min(a.size(), b.size()), high = low > max_tokens ? low : std::max(low, max_tokens - low);
    if (low + high > max_tokens) low = max_tokens / 2, high = low + max_tokens % 2;
    cut(a, swapped ? high : low, o.cut_side);
    cut(b, swapped ? low : high, o.cut_side);
    return;
  }
  std::vector<std::uint32_t>& target = o.cut == cut_rule::only_first ? a : b;
  const std::size_t excess = a.size() + b.size() - max_tokens;
  if (target.size() <= excess) {
    text t;
    wrong_batch(t << "row " << row << " has " << excess
                  << " tokens more than max_length; the text to truncate has only " << target.size());
  }
  cut(target, target.size() - excess, o.cut_side);
}
constexpr std::int64_t max_length_limit = std::int64_t(1) << 31;
void check_batch(const token_batch_options& o, std::size_t texts, std::size_t seconds) {
  text t;
  if (o.max_length < 0 || o.max_length > max_length_limit)
    wrong_batch(t << "max_length is " << o.max_length << "; expected 0 to 2^31");
  if (o.length < 0 || o.length > max_length_limit) wrong_batch(t << "length is " << o.length << "; expected 0 to 2^31");
  if (o.multiple < 1 || o.multiple > max_length_limit)
    wrong_batch(t << "multiple is " << o.multiple << "; expected 1 to 2^31");
  if (seconds != 0 && seconds != texts)
    wrong_batch(t << texts << " texts and " << seconds << " second texts; expected equally many");
}

}  // namespace

tokenizer::tokenizer(std::shared_ptr<const detail::tokenizer_parts> parts) : parts_(std::move(parts)) {}

std::vector<std::uint32_t> tokenizer::encoded(std::string_view s, const std::string_view* second,
                                              encode_options o) const {
  const tokenizer_parts& p = *parts_;
  model_scratch scratch;
  std::vector<std::uint32_t> a = words_of(p, s, o.on_invalid, scratch), b, ids;
  if (!second && p.single.size() == 1 && p.single[0].is == part::first) return a;
  if (second) b = words_of(p, *second, o.on_invalid, scratch);
  fill_form(second ? p.pair : p.single, a, b, o.special, [&](std::uint32_t id, std::int64_t) { ids.push_back(id); });
  return ids;
}

token_batch tokenizer::encode_batch(view<const std::string> texts, const token_batch_options& o,
                                    view<const std::string> seconds) const {
  check_batch(o, texts.size(), seconds.size());
  const tokenizer_parts& p = *parts_;
  const post_template& form = seconds.size() ? p.pair : p.single;
  const std::size_t special = o.special ? special_count(form) : 0;
  if (o.max_length > 0 && special > static_cast<std::size_t>(o.max_length)) {
    text t;
    wrong_batch(t << "max_length is " << o.max_length << "; expected at least " << special
                  << ", the number of special tokens");
  }
  struct row {
    std::vector<std::int64_t> ids, types;
  };
  std::vector<row> rows(texts.size());
  model_scratch scratch;
  token_batch made;
  std::size_t length = static_cast<std::size_t>(o.length);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::uint32_t> a = words_of(p, texts[i], o.on_invalid, scratch), b;
    if (seconds.size()) b = words_of(p, seconds[i], o.on_invalid, scratch);
    if (o.max_length > 0) cut_texts(a, b, static_cast<std::size_t>(o.max_length) - special, o, i);
    fill_form(form, a, b, o.special, [&](std::uint32_t id, std::int64_t type) {
      rows[i].ids.push_back(id);
      rows[i].types.push_back(type);
    });
    made.lengths.push_back(static_cast<std::int64_t>(rows[i].ids.size()));
    if (o.length > 0 && made.lengths.back() > o.length) {
      text t;
      wrong_batch(t << "text " << i << " has " << made.lengths.back() << " tokens, but length is " << o.length
                    << "; max_length truncates longer texts");
    }
    length = std::max(length, rows[i].ids.size());
  }
  const auto multiple = static_cast<std::size_t>(o.multiple);
  length = (length + multiple - 1) / multiple * multiple;
  const shape s{static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(length)};
  made.ids = matrix<std::int64_t>::uninitialized(s);
  made.mask = matrix<std::int64_t>::uninitialized(s);
  made.types = matrix<std::int64_t>::uninitialized(s);
  auto ids = made.ids.writable(), mask = made.mask.writable(), types = made.types.writable();
  std::fill(ids.begin(), ids.end(), o.pad_id);
  std::fill(mask.begin(), mask.end(), 0);
  std::fill(types.begin(), types.end(), o.pad_type);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t n = rows[i].ids.size(), first = i * length + (o.pad_side == text_side::left ? length - n : 0);
    std::copy(rows[i].ids.begin(), rows[i].ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(first));
    std::copy(rows[i].types.begin(), rows[i].types.end(), types.begin() + static_cast<std::ptrdiff_t>(first));
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(first), n, 1);
  }
  return made;
}

namespace {

template <class T> std::string decoded_text(const tokenizer_parts& p, view<const T> ids, bool skip_special) {
  std::vector<std::string> tokens;
  for (const T id : ids) {
    if (id < 0 || static_cast<std::int64_t>(id) >= std::int64_t(no_token)) continue;
    const auto known = static_cast<std::uint32_t>(id);
    const auto token = p.token(known);
    if (!token) continue;
    if (const added_token* a = p.added_of(known); skip_special && a && a->special) continue;
    tokens.emplace_back(*token);
  }
  for (const detail::decoder_step& d : p.decoders) apply(d, tokens);
  std::string all;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && p.decoders.empty()) all += ' ';
    all += tokens[i];
  }
  return all;
}

}  // namespace

std::string tokenizer::decode(view<const std::int64_t> ids, bool skip_special) const {
  return decoded_text(*parts_, ids, skip_special);
}
std::string tokenizer::decode(view<const std::int32_t> ids, bool skip_special) const {
  return decoded_text(*parts_, ids, skip_special);
}

std::int64_t tokenizer::size() const {
  auto n = static_cast<std::int64_t>(parts_->model.words.size());
  for (const added_token& a : parts_->added) n += parts_->model.words.find(a.content) == no_token;
  return n;
}
std::optional<std::int64_t> tokenizer::id_of(std::string_view token) const { return parts_->id(token); }
std::optional<std::string> tokenizer::token_of(std::int64_t id) const {
  if (id < 0 || id >= std::int64_t(no_token)) return std::nullopt;
  const auto found = parts_->token(static_cast<std::uint32_t>(id));
  return found ? std::optional<std::string>(*found) : std::nullopt;
}
const std::vector<added_token>& tokenizer::added() const { return parts_->added; }
const token_batch_options& tokenizer::batching() const { return parts_->batching; }

std::string tokenizer::normalize(std::string_view s) const {
  std::string made;
  return parts_->normalize(checked(s, invalid_utf8::refuse, made));
}
std::vector<std::string> tokenizer::split(std::string_view s) const {
  std::string made;
  std::vector<std::string> pieces;
  detail::text_arena arena;
  parts_->each_part(
      checked(s, invalid_utf8::refuse, made), [&](std::uint32_t i) { pieces.push_back(parts_->added[i].content); },
      [&](std::string_view words, bool begins) {
        parts_->split(words, begins, false, arena, [&](std::string_view piece) { pieces.emplace_back(piece); });
      });
  return pieces;
}

}  // namespace lamina
