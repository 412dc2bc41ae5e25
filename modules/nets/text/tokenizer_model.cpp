// Token models, which encode pieces of a text as ids: merged pairs (BPE), longest known prefix (WordPiece), or whole
// words.
module lamina:tokenizer.model;
import :tokenizer.vocabulary;
import :unicode;
import lamina.std;

namespace lamina::detail {

enum class model_kind { bpe, wordpiece, word_level };

/// Characters that represent bytes: printable bytes represent themselves, the others are mapped to U+0100 onwards.
/// Source: Radford and others, "Language Models are Unsupervised Multitask Learners" (2019), its released `encoder.py`.
struct byte_characters {
  std::array<std::uint32_t, 256> code{};
  constexpr byte_characters() {
    std::uint32_t next = 256;
    for (std::uint32_t b = 0; b < 256; ++b)
      code[b] = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++;
  }
  /// The byte that a character represents, or -1.
  constexpr int byte_of(std::uint32_t c) const {
    if (c < 256 && code[c] == c) return static_cast<int>(c);
    if (c < 256 || c >= 256 + 68) return -1;
    for (std::uint32_t b = 0; b < 256; ++b)
      if (code[b] == c) return static_cast<int>(b);
    return -1;
  }
};
inline constexpr byte_characters byte_alphabet;
inline void append_byte_characters(std::string& to, std::string_view bytes) {
  for (const char c : bytes) append_utf8(to, byte_alphabet.code[static_cast<unsigned char>(c)]);
}

/// Scratch memory for encoding, one per thread.
struct model_scratch {
  struct waiting {
    std::uint32_t rank, at, made;
  };
  struct earlier {
    bool operator()(const waiting& a, const waiting& b) const {
      return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
    }
  };
  std::vector<std::uint32_t> symbols, before, after, ids;
  std::vector<merge> merges;
  heap<waiting, earlier> queue;
  std::vector<growing_hash> hashes;
  std::vector<std::uint32_t> ends;
};

struct token_model {
  model_kind kind = model_kind::bpe;
  vocabulary words;
  std::string unknown;  // empty for none
  std::uint32_t unknown_id = no_token;
  // bpe
  merge_table merges;
  std::string prefix, suffix;  // prefix of tokens inside a word; suffix of tokens at its end
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  // wordpiece; `prefix` marks tokens that continue a word
  std::size_t max_characters = 100;
  // Ids computed by `prepare`.
  std::array<std::uint32_t, 256> of_byte{};  // of the characters that represent bytes
  std::array<std::uint32_t, 128> of_ascii{};
  std::array<std::uint32_t, 256> fallback{};  // of <0x00> to <0xFF>

  void prepare() {
    unknown_id = unknown.empty() ? no_token : words.find(unknown);
    std::string s;
    for (std::uint32_t b = 0; b < 256; ++b) {
      s.clear();
      append_utf8(s, byte_alphabet.code[b]);
      of_byte[b] = words.find(s);
      if (b < 128) of_ascii[b] = words.find(std::string(1, static_cast<char>(b)));
      constexpr std::string_view digits = "0123456789ABCDEF";
      const char name[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
      fallback[b] = words.find({name, 6});
    }
  }
  /// Whether `encode_bytes` can take raw bytes instead of the characters that represent them.
  bool takes_bytes() const {
    return kind == model_kind::bpe && prefix.empty() && suffix.empty() && !ignore_merges && !byte_fallback;
  }

  void encode(std::string_view piece, model_scratch& s, std::vector<std::uint32_t>& ids) const {
    if (piece.empty()) return;
    switch (kind) {
      case model_kind::bpe: return encode_pairs(piece, s, ids);
      case model_kind::wordpiece: return encode_longest(piece, s, ids);
      case model_kind::word_level: break;
    }
    const std::uint32_t id = words.find(piece);
    ids.push_back(id == no_token ? unknown_id : id);
  }
  /// The same for raw bytes.
  void encode_bytes(std::string_view piece, model_scratch& s, std::vector<std::uint32_t>& ids) const {
    s.symbols.clear();
    bool pending = false;
    for (const char c : piece) add_symbol(of_byte[static_cast<unsigned char>(c)], pending, s.symbols);
    if (pending) s.symbols.push_back(unknown_id);
    merge_symbols(s, ids);
  }

 private:
  // Delays an unknown token, because following ones may be fused with it.
  void add_symbol(std::uint32_t id, bool& pending, std::vector<std::uint32_t>& symbols) const {
    if (id != no_token) {
      if (pending) symbols.push_back(unknown_id);
      pending = false;
      symbols.push_back(id);
    } else if (unknown_id != no_token) {
      if (pending && !fuse_unknown) symbols.push_back(unknown_id);
      pending = true;
    }
  }
  bool add_fallback(std::string_view s, std::vector<std::uint32_t>& symbols) const {
    for (const char c : s)
      if (fallback[static_cast<unsigned char>(c)] == no_token) return false;
    for (const char c : s) symbols.push_back(fallback[static_cast<unsigned char>(c)]);
    return true;
  }
  void encode_pairs(std::string_view piece, model_scratch& s, std::vector<std::uint32_t>& ids) const {
    if (ignore_merges)
      if (const std::uint32_t id = words.find(piece); id != no_token) return ids.push_back(id);
    s.symbols.clear();
    bool pending = false;
    std::string decorated;
    for (std::size_t i = 0; i < piece.size();) {
      const std::size_t length = decode_utf8(piece.data() + i, piece.size() - i).length;
      const bool begins = i > 0 && !prefix.empty(), ends = i + length == piece.size() && !suffix.empty();
      std::string_view c = piece.substr(i, length);
      std::uint32_t id = no_token;
      if (begins || ends) {
        decorated.assign(begins ? prefix : "").append(c).append(ends ? suffix : "");
        c = decorated;
        id = words.find(c);
      } else {
        id = length == 1 ? of_ascii[static_cast<unsigned char>(c[0]) & 127] : words.find(c);
      }
      if (id != no_token || !byte_fallback || !add_fallback(c, s.symbols)) add_symbol(id, pending, s.symbols);
      i += length;
    }
    if (pending) s.symbols.push_back(unknown_id);
    merge_symbols(s, ids);
  }

  static constexpr std::size_t short_word = 40;
  void merge_symbols(model_scratch& s, std::vector<std::uint32_t>& ids) const {
    if (s.symbols.size() > short_word) return merge_long(s, ids);
    // Short words: linear search for the lowest rank after each merge.
    std::size_t n = s.symbols.size();
    std::uint32_t* const symbols = s.symbols.data();
    if (n > 1) {
      merge pairs[short_word];
      for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
      while (n > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < n; ++i)
          if (pairs[i].rank < pairs[best].rank) best = i;
        if (pairs[best].rank == no_token) break;
        symbols[best] = pairs[best].made;
        for (std::size_t i = best + 1; i + 1 < n; ++i) symbols[i] = symbols[i + 1];
        for (std::size_t i = best + 1; i + 2 < n; ++i) pairs[i] = pairs[i + 1];
        --n;
        if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
        if (best + 1 < n) pairs[best] = merges.find(symbols[best], symbols[best + 1]);
      }
    }
    ids.insert(ids.end(), symbols, symbols + n);
  }
  // Long words: a priority queue of pairs over a linked list of symbols; skips stale pairs.
  void merge_long(model_scratch& s, std::vector<std::uint32_t>& ids) const {
    const auto n = static_cast<std::uint32_t>(s.symbols.size());
    s.before.resize(n), s.after.resize(n);
    s.queue.clear();
    const auto offer = [&](std::uint32_t at) {
      const merge m = merges.find(s.symbols[at], s.symbols[s.after[at]]);
      if (m.rank != no_token) s.queue.push({m.rank, at, m.made});
    };
    for (std::uint32_t i = 0; i < n; ++i) s.before[i] = i - 1, s.after[i] = i + 1;
    for (std::uint32_t i = 0; i + 1 < n; ++i) offer(i);
    while (!s.queue.empty()) {
      const auto top = s.queue.pop();
      const std::uint32_t next = s.symbols[top.at] == no_token ? n : s.after[top.at];
      if (next == n) continue;
      const merge m = merges.find(s.symbols[top.at], s.symbols[next]);
      if (m.rank == no_token || m.made != top.made) continue;
      s.symbols[top.at] = top.made;
      s.symbols[next] = no_token;
      s.after[top.at] = s.after[next];
      if (s.after[next] < n) s.before[s.after[next]] = top.at;
      if (top.at > 0) offer(s.before[top.at]);
      if (s.after[top.at] < n) offer(top.at);
    }
    for (const std::uint32_t id : s.symbols)
      if (id != no_token) ids.push_back(id);
  }

  void encode_longest(std::string_view piece, model_scratch& s, std::vector<std::uint32_t>& ids) const {
    const std::size_t before = ids.size();
    s.ends.clear();
    for (std::size_t i = 0; i < piece.size(); i += decode_utf8(piece.data() + i, piece.size() - i).length)
      s.ends.push_back(static_cast<std::uint32_t>(i));
    s.ends.push_back(static_cast<std::uint32_t>(piece.size()));
    if (s.ends.size() - 1 > max_characters) return ids.push_back(unknown_id);
    for (std::size_t first = 0; first + 1 < s.ends.size();) {
      const std::string_view start = first ? std::string_view(prefix) : std::string_view();
      const std::size_t begin = s.ends[first];
      // Hash all prefixes up to the longest token, then find the longest one in the vocabulary.
      s.hashes.clear();
      growing_hash h;
      h.add(start);
      for (std::size_t end = first + 1; end < s.ends.size() && start.size() + s.ends[end] - begin <= words.longest();
           ++end) {
        h.add(piece.substr(s.ends[end - 1], s.ends[end] - s.ends[end - 1]));
        s.hashes.push_back(h);
      }
      std::uint32_t id = no_token;
      std::size_t count = s.hashes.size();
      for (; count > 0 && id == no_token; --count)
        id = words.find(start, piece.substr(begin, s.ends[first + count] - begin), s.hashes[count - 1]);
      if (id == no_token) {
        ids.resize(before);
        return ids.push_back(unknown_id);
      }
      ids.push_back(id);
      first += count + 1;
    }
  }
};

}  // namespace lamina::detail
