// The pipeline of a tokenizer.
module lamina:tokenizer.parts;
import :core;
import :tokenizer;
import :tokenizer.model;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :io;
import :unicode;
import lamina.std;

namespace lamina::detail {

/// Finds added tokens: leftmost match, then longest.
class token_finder {
 public:
  struct pattern {
    std::string content;
    std::uint32_t added = 0;  // index among the added tokens
  };
  token_finder() = default;
  /// The first of patterns with equal content is used; empty patterns never match.
  explicit token_finder(std::vector<pattern> all) : sorted_(std::move(all)) {
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [](const pattern& a, const pattern& b) { return a.content < b.content; });
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end(),
                              [](const pattern& a, const pattern& b) { return a.content == b.content; }),
                  sorted_.end());
    if (!sorted_.empty() && sorted_.front().content.empty()) sorted_.erase(sorted_.begin());
    for (const pattern& p : sorted_) begins_[static_cast<unsigned char>(p.content[0])] = true;
  }
  /// Calls piece(begin, end, index of the added token or `no_token`) for all parts of a text, in order.
  template <class Piece>
  void each(std::string_view s, const std::vector<added_token>& added, const Piece& piece) const {
    std::size_t done = 0;
    for (std::size_t i = 0; !sorted_.empty() && i < s.size();) {
      if (!begins_[static_cast<unsigned char>(s[i])]) {
        ++i;
        continue;
      }
      const pattern* const p = longest(s.substr(i));
      if (!p) {
        ++i;
        continue;
      }
      std::size_t begin = i, end = i + p->content.size();
      i = end;
      const added_token& a = added[p->added];
      if (a.single_word &&
          ((begin > 0 && is_word(last_code(s.substr(0, begin)))) || (end < s.size() && is_word(code_at(s, end)))))
        continue;
      if (a.lstrip) begin = without_space(s.substr(0, begin), false, true).size();
      if (a.rstrip) end = s.size() - without_space(s.substr(end), true, false).size();
      begin = std::max(begin, done);
      end = std::max(begin, end);
      if (begin > done) piece(done, begin, no_token);
      piece(begin, end, p->added);
      done = end;
    }
    if (done < s.size()) piece(done, s.size(), no_token);
  }

 private:
  static std::uint32_t code_at(std::string_view s, std::size_t i) {
    return decode_utf8(s.data() + i, s.size() - i).code;
  }
  // Longest pattern that is a prefix of s. Narrows the sorted range byte by byte; a complete pattern is first in its
  // range.
  const pattern* longest(std::string_view s) const {
    const pattern* found = nullptr;
    auto first = sorted_.begin(), last = sorted_.end();
    for (std::size_t k = 0; first != last; ++k) {
      if (first->content.size() == k) {
        found = &*first;
        ++first;
      }
      if (k == s.size()) break;
      const int c = static_cast<unsigned char>(s[k]);
      const auto byte_of = [k](const pattern& p) { return static_cast<int>(static_cast<unsigned char>(p.content[k])); };
      first = std::lower_bound(first, last, c, [&](const pattern& p, int b) { return byte_of(p) < b; });
      last = std::upper_bound(first, last, c, [&](int b, const pattern& p) { return b < byte_of(p); });
    }
    return found;
  }
  std::vector<pattern> sorted_;
  std::array<bool, 256> begins_{};
};

/// A piece of a post-processor's template for one text or a pair.
struct template_piece {
  enum class part { first, second, special } is = part::first;
  std::int64_t type = 0;
  std::string name;                // of special tokens
  std::vector<std::uint32_t> ids;  // of special tokens
};
using post_template = std::vector<template_piece>;

struct tokenizer_parts {
  std::vector<normalizer_step> normalizers;
  std::vector<split_step> splits;
  token_model model;
  std::vector<decoder_step> decoders;  // if empty, tokens are joined by spaces
  std::vector<added_token> added;
  post_template single{{template_piece::part::first, 0, {}, {}}};
  post_template pair{{template_piece::part::first, 0, {}, {}}, {template_piece::part::second, 1, {}, {}}};
  token_batch_options batching;
  std::string pad_token;
  bool pads = false;  // the file has a field `padding`

  /// Builds finders and indices; call after setting all fields.
  void prepare() {
    model.prepare();
    std::vector<token_finder::pattern> raw, normal;
    for (const added_token& a : added) contents_.push_back(a.normalized ? normalize(a.content) : a.content);
    // Special tokens last, so that a token that is not special wins over one with equal content.
    for (const bool special : {false, true})
      for (std::uint32_t i = 0; i < added.size(); ++i) {
        const added_token& a = added[i];
        if (a.special != special) continue;
        if (a.normalized) normal.push_back({contents_[i], i});
        else raw.push_back({a.content, i});
      }
    raw_ = token_finder(std::move(raw));
    normal_ = token_finder(std::move(normal));
    for (std::uint32_t i = 0; i < added.size(); ++i) by_id_.try_emplace(static_cast<std::uint32_t>(added[i].id), i);
    by_bytes_ = !splits.empty() && splits.back().kind == split_kind::byte_level && model.takes_bytes();
  }
  const added_token* added_of(std::uint32_t id) const {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &added[at->second];
  }
  std::optional<std::string_view> token(std::uint32_t id) const {
    if (const auto at = by_id_.find(id); at != by_id_.end()) return contents_[at->second];
    return model.words.token(id);
  }
  std::optional<std::uint32_t> id(std::string_view token) const {
    for (const added_token& a : added)
      if (a.content == token) return static_cast<std::uint32_t>(a.id);
    const std::uint32_t found = model.words.find(token);
    return found == no_token ? std::nullopt : std::optional(found);
  }
  std::string normalize(std::string_view s) const {
    std::string made(s);
    for (const normalizer_step& n : normalizers) apply(n, made);
    return made;
  }

  /// Calls token(index of an added token) and words(piece, whether it begins the text) for the parts of a valid UTF-8
  /// text.
  template <class Token, class Words> void each_part(std::string_view s, const Token& token, const Words& words) const {
    raw_.each(s, added, [&](std::size_t begin, std::size_t end, std::uint32_t found) {
      if (found != no_token) return token(found);
      const std::string_view part = s.substr(begin, end - begin);
      std::string made;
      if (!normalizers.empty()) made = normalize(part);
      const std::string_view whole = normalizers.empty() ? part : std::string_view(made);
      normal_.each(whole, added, [&](std::size_t from, std::size_t to, std::uint32_t inner) {
        if (inner != no_token) token(inner);
        else words(whole.substr(from, to - from), begin == 0 && from == 0);
      });
    });
  }
  /// Calls emit(piece) for the pieces of a part. With `as_bytes`, a final byte_level step emits raw bytes.
  template <class Emit> void split(std::string_view s, bool at_beginning, bool as_bytes, text_arena& arena,
                                   const Emit& emit, std::size_t step = 0) const {
    if (s.empty()) return;
    if (step == splits.size()) return emit(s);
    const bool spells = splits[step].kind == split_kind::byte_level && !(as_bytes && step + 1 == splits.size());
    bool first = true;
    split_piece(splits[step], s, at_beginning, arena, [&](std::string_view piece) {
      if (piece.empty()) return;
      const bool begins = at_beginning && std::exchange(first, false) &&
                          (piece.data() == s.data() || piece.data() < s.data() || piece.data() >= s.data() + s.size());
      if (!spells) return split(piece, begins, as_bytes, arena, emit, step + 1);
      std::string characters;
      append_byte_characters(characters, piece);
      split(characters, begins, as_bytes, arena, emit, step + 1);
    });
  }
  /// Appends the ids of a valid UTF-8 text, without the post-processor's special tokens.
  void encode(std::string_view s, model_scratch& scratch, std::vector<std::uint32_t>& ids) const {
    text_arena arena;
    each_part(
        s, [&](std::uint32_t i) { ids.push_back(static_cast<std::uint32_t>(added[i].id)); },
        [&](std::string_view part, bool begins) {
          if (by_bytes_)
            split(part, begins, true, arena, [&](std::string_view p) { model.encode_bytes(p, scratch, ids); });
          else split(part, begins, false, arena, [&](std::string_view p) { model.encode(p, scratch, ids); });
          arena.clear();
        });
    // Without an unknown token, unknown words are omitted.
    std::erase(ids, no_token);
  }

 private:
  token_finder raw_, normal_;
  std::vector<std::string> contents_;                       // added tokens, normalized where they match normalized text
  std::unordered_map<std::uint32_t, std::uint32_t> by_id_;  // indices of added tokens by id
  bool by_bytes_ = false;
};

}  // namespace lamina::detail
