// Hash tables: tokens by bytes and by id, and merges by pairs of ids.
module lamina:tokenizer.vocabulary;
import lamina.std;

namespace lamina::detail {

inline constexpr std::uint32_t no_token = 0xFFFFFFFFU;

/// Incremental hash (FNV-1a), so that all prefixes of a word are hashed in one pass.
struct growing_hash {
  std::uint64_t value = 0xCBF29CE484222325U;
  void add(char c) { value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3U; }
  void add(std::string_view s) {
    for (const char c : s) add(c);
  }
  std::uint64_t mixed() const { return value ^ value >> 29; }
};

/// Tokens and their ids, which need not be dense.
class vocabulary {
 public:
  /// Adds a token; false if it exists.
  bool add(std::string_view token, std::uint32_t id) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow();
    growing_hash h;
    h.add(token);
    if (find(token, h) != no_token) return false;
    insert(h.mixed(), static_cast<std::uint32_t>(entries_.size()));
    entries_.push_back({h.value, chars_.size(), static_cast<std::uint32_t>(token.size()), id});
    chars_.append(token);
    longest_ = std::max(longest_, token.size());
    return true;
  }
  /// Sorts by id, after the last `add`. False if two tokens have the same id, which is then stored in `twice`.
  bool finish(std::uint32_t& twice) {
    by_id_.resize(entries_.size());
    std::iota(by_id_.begin(), by_id_.end(), 0U);
    std::sort(by_id_.begin(), by_id_.end(),
              [this](std::uint32_t a, std::uint32_t b) { return entries_[a].id < entries_[b].id; });
    for (std::size_t i = 1; i < by_id_.size(); ++i)
      if (entries_[by_id_[i]].id == entries_[by_id_[i - 1]].id) return twice = entries_[by_id_[i]].id, false;
    return true;
  }
  std::uint32_t find(std::string_view token) const {
    growing_hash h;
    h.add(token);
    return find(token, h);
  }
  std::uint32_t find(std::string_view token, growing_hash h) const { return find(token, {}, h); }
  /// Finds a token given in two parts; `h` is its hash.
  std::uint32_t find(std::string_view a, std::string_view b, growing_hash h) const {
    return find(h, a.size() + b.size(), [&](const char* chars) {
      return std::string_view(chars, a.size()) == a && std::string_view(chars + a.size(), b.size()) == b;
    });
  }
  std::optional<std::string_view> token(std::uint32_t id) const {
    if (id < by_id_.size() && entries_[by_id_[id]].id == id) return chars_of(entries_[by_id_[id]]);
    const auto at = std::lower_bound(by_id_.begin(), by_id_.end(), id,
                                     [this](std::uint32_t e, std::uint32_t i) { return entries_[e].id < i; });
    if (at == by_id_.end() || entries_[*at].id != id) return std::nullopt;
    return chars_of(entries_[*at]);
  }
  std::size_t size() const { return entries_.size(); }
  std::size_t longest() const { return longest_; }
  std::uint32_t max_id() const { return by_id_.empty() ? 0 : entries_[by_id_.back()].id; }
  /// Calls f(token, id) in the order of ids.
  template <class F> void each(const F& f) const {
    for (const std::uint32_t e : by_id_) f(chars_of(entries_[e]), entries_[e].id);
  }

 private:
  struct entry {
    std::uint64_t hash;
    std::size_t first;
    std::uint32_t length, id;
  };
  std::string_view chars_of(const entry& e) const { return {chars_.data() + e.first, e.length}; }
  template <class F> std::uint32_t find(growing_hash h, std::size_t length, const F& equal) const {
    if (slots_.empty()) return no_token;
    for (std::size_t i = h.mixed() & (slots_.size() - 1); slots_[i]; i = (i + 1) & (slots_.size() - 1)) {
      const entry& e = entries_[slots_[i] - 1];
      if (e.hash == h.value && e.length == length && equal(chars_.data() + e.first)) return e.id;
    }
    return no_token;
  }
  void insert(std::uint64_t mixed, std::uint32_t e) {
    std::size_t i = mixed & (slots_.size() - 1);
    while (slots_[i]) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = e + 1;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), 0);
    for (std::uint32_t e = 0; e < entries_.size(); ++e) insert(growing_hash{entries_[e].hash}.mixed(), e);
  }

  std::vector<std::uint32_t> slots_, by_id_;
  std::vector<entry> entries_;
  std::string chars_;
  std::size_t longest_ = 0;
};

/// Result and rank of a merge of two tokens; lower ranks are merged first.
struct merge {
  std::uint32_t rank = no_token, made = 0;
};
class merge_table {
 public:
  void set(std::uint32_t a, std::uint32_t b, merge m) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    slot& s = at(key(a, b));
    count_ += s.key == empty;
    s = {key(a, b), m};
  }
  /// The merge of two tokens; its rank is `no_token` if there is none.
  merge find(std::uint32_t a, std::uint32_t b) const {
    if (slots_.empty()) return {};
    const std::uint64_t k = key(a, b);
    for (std::size_t i = place(k);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == k) return slots_[i].is;
      if (slots_[i].key == empty) return {};
    }
  }
  /// Pairs and their merges, in order of rank.
  struct ranked {
    std::uint32_t a, b;
    merge is;
  };
  std::vector<ranked> in_order() const {
    std::vector<ranked> all;
    for (const slot& s : slots_)
      if (s.key != empty)
        all.push_back({static_cast<std::uint32_t>(s.key >> 32), static_cast<std::uint32_t>(s.key), s.is});
    std::sort(all.begin(), all.end(), [](const ranked& x, const ranked& y) { return x.is.rank < y.is.rank; });
    return all;
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t(0);  // a pair of `no_token`
  struct slot {
    std::uint64_t key = empty;
    merge is;
  };
  static std::uint64_t key(std::uint32_t a, std::uint32_t b) { return std::uint64_t(a) << 32 | b; }
  std::size_t place(std::uint64_t k) const { return (k * 0x9E3779B97F4A7C15U >> 20) & (slots_.size() - 1); }
  slot& at(std::uint64_t k) {
    std::size_t i = place(k);
    while (slots_[i].key != empty && slots_[i].key != k) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void grow() {
    std::vector<slot> before(std::max<std::size_t>(64, 2 * slots_.size()));
    before.swap(slots_);
    for (const slot& s : before)
      if (s.key != empty) at(s.key) = s;
  }
  std::vector<slot> slots_;
  std::size_t count_ = 0;
};

/// Binary heap with the smallest element by `Before` first. Ties are ordered independently of the standard library.
template <class T, class Before> class heap {
 public:
  bool empty() const { return all_.empty(); }
  void clear() { all_.clear(); }
  void push(T x) {
    all_.push_back(std::move(x));
    std::size_t i = all_.size() - 1;
    for (; i > 0 && Before{}(all_[i], all_[(i - 1) / 2]); i = (i - 1) / 2) std::swap(all_[i], all_[(i - 1) / 2]);
  }
  T pop() {
    std::swap(all_.front(), all_.back());
    T first = std::move(all_.back());
    all_.pop_back();
    for (std::size_t i = 0;;) {
      std::size_t next = 2 * i + 1;
      if (next >= all_.size()) return first;
      if (next + 1 < all_.size() && Before{}(all_[next + 1], all_[next])) ++next;
      if (!Before{}(all_[next], all_[i])) return first;
      std::swap(all_[i], all_[next]);
      i = next;
    }
  }

 private:
  std::vector<T> all_;
};

}  // namespace lamina::detail
