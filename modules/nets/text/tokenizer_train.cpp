// Training of vocabularies.
module lamina:tokenizer.train;
import :core;
import :tokenizer;
import :tokenizer.model;
import :tokenizer.parts;
import :tokenizer.text;
import :tokenizer.vocabulary;
import :io;
import :tensor;
import :unicode;
import lamina.std;

namespace lamina {

namespace {

using namespace detail;

[[noreturn]] void refuse(std::string_view caller, const text& what) {
  text t;
  raise(error_kind::value, t << caller << ": " << what);
}

// Words and their counts, in order of first appearance.
struct word_counts {
  std::vector<std::string> words;
  std::vector<std::int64_t> counts;
};
word_counts count_words(view<const std::string> texts, const tokenizer_parts& p, std::string_view caller) {
  word_counts all;
  vocabulary known;
  text_arena arena;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (const std::size_t bad = valid_utf8(texts[i]); bad != texts[i].size())
      refuse(caller, text() << "byte " << bad << " of text " << i << " is not UTF-8");
    const std::string s = p.normalize(texts[i]);
    arena.clear();
    p.split(s, true, false, arena, [&](std::string_view word) {
      std::uint32_t at = known.find(word);
      if (at == no_token) {
        at = static_cast<std::uint32_t>(all.words.size());
        known.add(word, at);
        all.words.emplace_back(word);
        all.counts.push_back(0);
      }
      ++all.counts[at];
    });
  }
  return all;
}

split_step step_of(word_split s, bool prefix_space) {
  constexpr split_kind kinds[] = {split_kind::byte_level, split_kind::whitespace, split_kind::whitespace_only,
                                  split_kind::bert};
  split_step step;
  step.kind = kinds[static_cast<std::size_t>(s)];
  step.prefix_space = prefix_space;
  return step;
}
normalizer_step lowercase_step() {
  normalizer_step n;
  n.kind = normalizer_kind::lowercase;
  return n;
}

// Adds a special token with the next id; false if it exists.
bool add_token(tokenizer_parts& p, const std::string& token) {
  const auto id = static_cast<std::uint32_t>(p.model.words.size());
  if (!p.model.words.add(token, id)) return false;
  p.added.push_back({.content = token, .id = id, .normalized = false, .special = true});
  return true;
}
// Adds the special tokens first, so that they get the first ids.
void add_special(tokenizer_parts& p, const std::vector<std::string>& special, const std::string& unknown,
                 std::int64_t size, std::string_view caller) {
  text t;
  if (size < 1 || size > (std::int64_t(1) << 30)) refuse(caller, t << "size is " << size << "; expected 1 to 2^30");
  for (const std::string& s : special) {
    if (s.empty() || valid_utf8(s) != s.size())
      refuse(caller, t << "special has `" << printable(s) << "`; expected UTF-8 of at least one character");
    if (!add_token(p, s)) refuse(caller, t << "special has `" << printable(s) << "` twice");
  }
  if (!unknown.empty() && p.model.words.find(unknown) == no_token)
    refuse(caller, t << "unknown is `" << printable(unknown) << "`; expected a token of special");
  p.model.unknown = unknown;
}
// Creates the common parts for word options: special tokens, the steps before the model, and the byte decoder.
template <class Options>
std::shared_ptr<tokenizer_parts> begun(const Options& o, bool prefix_space, std::string_view caller) {
  auto p = std::make_shared<tokenizer_parts>();
  add_special(*p, o.special, o.unknown, o.size, caller);
  if (o.lowercase) p->normalizers.push_back(lowercase_step());
  p->splits.push_back(step_of(o.split, prefix_space));
  if (o.split == word_split::byte_level)
    p->decoders.push_back({.kind = decoder_kind::byte_level, .text = {}, .to = {}});
  return p;
}
tokenizer finished(std::shared_ptr<tokenizer_parts> p) {
  std::uint32_t twice = 0;
  p->model.words.finish(twice);
  p->prepare();
  return tokenizer(std::move(p));
}

// ---- pairs ----------------------------------------------------------------------------------------------------------

// Trains merges: repeatedly merges the most frequent pair of tokens in words.
class pair_trainer {
 public:
  struct options {
    std::int64_t size, min_frequency, max_alphabet;
    bool bytes;
  };
  pair_trainer(token_model& m, const options& o) : m_(m), o_(o) {}
  void train(const std::vector<std::string>& special, const word_counts& words) {
    tokens_ = special;
    add_alphabet(words);
    add_words(words);
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].size(); ++i)
        change(pair_of(words_[w][i], words_[w][i + 1]), words.counts[w], w);
    offer();
    merge_pairs(words.counts);
  }

 private:
  using pair = std::uint64_t;
  static pair pair_of(std::uint32_t a, std::uint32_t b) { return pair(a) << 32 | b; }
  struct candidate {
    std::int64_t count;
    pair of;
    std::vector<std::uint32_t> in;  // indices of words that contain the pair
  };
  struct before {
    bool operator()(const candidate& a, const candidate& b) const {
      return a.count != b.count ? a.count > b.count : a.of < b.of;
    }
  };

  std::uint32_t id_of(const std::string& token) {
    std::uint32_t id = m_.words.find(token);
    if (id != no_token) return id;
    id = static_cast<std::uint32_t>(tokens_.size());
    m_.words.add(token, id);
    tokens_.push_back(token);
    return id;
  }
  void add_alphabet(const word_counts& words) {
    std::map<std::uint32_t, std::int64_t> counts;
    for (std::size_t w = 0; w < words.words.size(); ++w)
      for (std::string_view s = words.words[w]; !s.empty();) counts[next_code(s)] += words.counts[w];
    if (o_.bytes)
      for (const std::uint32_t c : byte_alphabet.code) counts[c] = std::numeric_limits<std::int64_t>::max();
    std::vector<std::pair<std::uint32_t, std::int64_t>> kept(counts.begin(), counts.end());
    if (const auto max = static_cast<std::size_t>(o_.max_alphabet); max > 0 && kept.size() > max) {
      std::stable_sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      kept.resize(max);
      std::sort(kept.begin(), kept.end());
    }
    for (const auto& [code, count] : kept) {
      std::string s;
      append_utf8(s, code);
      id_of(s);
      alphabet_.insert(code);
    }
  }
  void add_words(const word_counts& words) {
    std::string token;
    for (const std::string& word : words.words) {
      std::vector<std::uint32_t>& ids = words_.emplace_back();
      for (std::string_view s = word; !s.empty();) {
        const bool first = s.size() == word.size();
        const std::uint32_t code = next_code(s);
        if (!alphabet_.contains(code)) continue;
        token = first ? std::string() : m_.prefix;
        append_utf8(token, code);
        if (s.empty()) token += m_.suffix;
        ids.push_back(id_of(token));
      }
    }
  }
  void change(pair p, std::int64_t by, std::size_t word) {
    counts_[p] += by;
    if (by <= 0) return;
    std::vector<std::uint32_t>& in = changed_[p];
    if (in.empty() || in.back() != word) in.push_back(static_cast<std::uint32_t>(word));
  }
  void offer() {
    for (auto& [p, in] : changed_)
      if (const std::int64_t count = counts_[p]; count > 0) queue_.push({count, p, std::move(in)});
    changed_.clear();
  }
  void merge_pairs(const std::vector<std::int64_t>& counts) {
    std::uint32_t rank = 0;
    while (static_cast<std::int64_t>(tokens_.size()) < o_.size && !queue_.empty()) {
      candidate top = queue_.pop();
      if (const std::int64_t now = counts_[top.of]; now != top.count) {
        top.count = now;
        queue_.push(std::move(top));
        continue;
      }
      if (top.count < std::max<std::int64_t>(1, o_.min_frequency)) break;
      const auto a = static_cast<std::uint32_t>(top.of >> 32), b = static_cast<std::uint32_t>(top.of);
      std::string_view second = tokens_[b];
      if (second.starts_with(m_.prefix)) second.remove_prefix(m_.prefix.size());
      const std::uint32_t made = id_of(tokens_[a] + std::string(second));
      m_.merges.set(a, b, {rank++, made});
      for (const std::uint32_t w : top.in) merge_in(w, a, b, made, counts[w]);
      offer();
    }
  }
  void merge_in(std::uint32_t w, std::uint32_t a, std::uint32_t b, std::uint32_t made, std::int64_t count) {
    std::vector<std::uint32_t>& ids = words_[w];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ids.size(); ++kept) {
      if (ids[i] != a || i + 1 == ids.size() || ids[i + 1] != b) {
        ids[kept] = ids[i++];
        continue;
      }
      if (kept > 0) {
        change(pair_of(ids[kept - 1], a), -count, w);
        change(pair_of(ids[kept - 1], made), count, w);
      }
      if (i + 2 < ids.size()) {
        change(pair_of(b, ids[i + 2]), -count, w);
        change(pair_of(made, ids[i + 2]), count, w);
      }
      ids[kept] = made;
      i += 2;
    }
    ids.resize(kept);
  }

  token_model& m_;
  options o_;
  std::vector<std::string> tokens_;
  std::set<std::uint32_t> alphabet_;
  std::vector<std::vector<std::uint32_t>> words_;
  std::unordered_map<pair, std::int64_t> counts_;
  std::unordered_map<pair, std::vector<std::uint32_t>> changed_;
  heap<candidate, before> queue_;
};

}  // namespace

tokenizer byte_tokenizer(const std::vector<std::string>& special) {
  auto p = std::make_shared<tokenizer_parts>();
  std::string s;
  for (std::uint32_t b = 0; b < 256; ++b) {
    s.clear();
    append_utf8(s, byte_alphabet.code[b]);
    p->model.words.add(s, b);
  }
  split_step bytes = step_of(word_split::byte_level, false);
  bytes.use_pattern = false;
  p->splits.push_back(bytes);
  p->decoders.push_back({.kind = decoder_kind::byte_level, .text = {}, .to = {}});
  for (const std::string& token : special) {
    if (token.empty() || valid_utf8(token) != token.size() || !add_token(*p, token))
      refuse("byte_tokenizer",
             text() << "special has `" << printable(token) << "`; expected UTF-8 of several characters, each once");
  }
  return finished(std::move(p));
}

tokenizer bpe::train(view<const std::string> texts, const bpe_options& o) {
  constexpr std::string_view caller = "bpe::train";
  const bool bytes = o.split == word_split::byte_level;
  if (bytes && !o.end_of_word.empty())
    refuse(caller, text("end_of_word is for words without spaces; with split = word_split::byte_level leave it empty"));
  auto p = begun(o, o.prefix_space, caller);
  p->model.suffix = o.end_of_word;
  if (!o.end_of_word.empty()) p->decoders.push_back({.kind = decoder_kind::bpe, .text = o.end_of_word, .to = {}});
  pair_trainer(p->model, {o.size, o.min_frequency, o.max_alphabet, bytes})
      .train(o.special, count_words(texts, *p, caller));
  return finished(std::move(p));
}

tokenizer wordpiece::train(view<const std::string> texts, const wordpiece_options& o) {
  constexpr std::string_view caller = "wordpiece::train";
  auto p = std::make_shared<tokenizer_parts>();
  p->model.kind = model_kind::wordpiece;
  add_special(*p, o.special, o.unknown, o.size, caller);
  p->model.prefix = o.continuing;
  normalizer_step n;
  n.kind = normalizer_kind::bert;
  n.lower = o.lowercase;
  n.accents = o.strip_accents;
  p->normalizers.push_back(n);
  p->splits.push_back(step_of(word_split::bert, false));
  p->decoders.push_back({.kind = decoder_kind::wordpiece, .text = o.continuing, .to = {}});
  pair_trainer(p->model, {o.size, o.min_frequency, o.max_alphabet, false})
      .train(o.special, count_words(texts, *p, caller));
  p->model.merges = {};
  using part = template_piece::part;
  const std::uint32_t cls = p->model.words.find("[CLS]"), sep = p->model.words.find("[SEP]");
  const auto is_special = [&](std::string_view s) {
    return std::find(o.special.begin(), o.special.end(), s) != o.special.end();
  };
  if (is_special("[CLS]") && is_special("[SEP]")) {
    const template_piece first{part::special, 0, "[CLS]", {cls}}, last{part::special, 0, "[SEP]", {sep}},
        end{part::special, 1, "[SEP]", {sep}}, a{part::first, 0, {}, {}}, b{part::second, 1, {}, {}};
    p->single = {first, a, last};
    p->pair = {first, a, last, b, end};
  }
  return finished(std::move(p));
}

tokenizer word_level::train(view<const std::string> texts, const word_options& o) {
  constexpr std::string_view caller = "word_level::train";
  auto p = begun(o, false, caller);
  p->model.kind = model_kind::word_level;
  const word_counts words = count_words(texts, *p, caller);
  std::vector<std::uint32_t> order(words.words.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return words.counts[a] != words.counts[b] ? words.counts[a] > words.counts[b] : words.words[a] < words.words[b];
  });
  for (const std::uint32_t w : order) {
    if (static_cast<std::int64_t>(p->model.words.size()) >= o.size || words.counts[w] < o.min_frequency) break;
    p->model.words.add(words.words[w], static_cast<std::uint32_t>(p->model.words.size()));
  }
  return finished(std::move(p));
}

}  // namespace lamina
