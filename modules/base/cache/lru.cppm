// A cache for one thread that evicts the least recently used entry, and the types that all caches share.
export module lamina:cache.lru;
import :cache.key;
import :core;
import lamina.std;

namespace lamina {

/// Counters of a cache since its creation. `entries` and `bytes` describe its present contents; `builds` counts builder
/// calls.
export struct cache_statistics {
  std::size_t hits = 0, misses = 0, evictions = 0, builds = 0;
  std::size_t entries = 0, bytes = 0;
  bool operator==(const cache_statistics&) const = default;
};

/// Parses a capacity in entries: a whole number; negative numbers mean 0, which disables the cache. Errors: value_error
/// if the text is no whole number.
export std::size_t cache_capacity(std::string_view setting);
/// Same, from a number.
export constexpr std::size_t cache_capacity(std::int64_t setting) {
  return setting < 0 ? 0 : static_cast<std::size_t>(setting);
}

namespace detail {

/// Entries by key, linked from newest to oldest. Addresses of entries are stable.
template <class Key, class Content> class ordered_entries {
 public:
  struct entry {
    Content content;
    entry* newer = nullptr;
    entry* older = nullptr;
    const Key* key = nullptr;
  };
  struct hasher {
    std::size_t operator()(const Key& key) const { return key_hash(key); }
  };
  using map = std::unordered_map<Key, entry, hasher>;
  /// A removed entry with its key.
  using taken = typename map::node_type;

  ordered_entries() = default;
  ordered_entries(const ordered_entries&) = delete;
  ordered_entries& operator=(const ordered_entries&) = delete;

  std::size_t size() const { return map_.size(); }
  entry* find(const Key& key) {
    const auto at = map_.find(key);
    return at == map_.end() ? nullptr : &at->second;
  }
  /// Adds a new entry as the newest. Requires that the key is missing.
  entry& add(const Key& key, Content content) {
    const auto at = map_.try_emplace(key, entry{std::move(content)}).first;
    at->second.key = &at->first;
    push(at->second);
    return at->second;
  }
  void make_newest(entry& e) {
    if (newest_ == &e) return;
    unlink(e);
    push(e);
  }
  entry* oldest() { return oldest_; }
  taken take(entry& e) {
    unlink(e);
    return map_.extract(map_.find(*e.key));
  }
  void clear() {
    map_.clear();
    newest_ = oldest_ = nullptr;
  }

 private:
  void push(entry& e) {
    e.newer = nullptr;
    e.older = newest_;
    (newest_ ? newest_->newer : oldest_) = &e;
    newest_ = &e;
  }
  void unlink(entry& e) {
    (e.newer ? e.newer->older : newest_) = e.older;
    (e.older ? e.older->newer : oldest_) = e.newer;
  }
  map map_;
  entry* newest_ = nullptr;
  entry* oldest_ = nullptr;
};

}  // namespace detail

/// Keeps the `capacity` most recently used values. Single-threaded; use `shared_cache` for several threads.
export template <CacheKey Key, std::copyable Value> class lru_cache {
 public:
  explicit lru_cache(std::size_t capacity) : capacity_(capacity) {}

  /// Stores a value as the newest. Replaces the value of an existing key, else the oldest entry if the cache is full.
  /// Does nothing with capacity 0 or with a key that does not equal itself (NaN).
  void put(const Key& key, Value value) {
    if (capacity_ == 0 || !(key == key)) return;
    if (auto* known = entries_.find(key)) {
      known->content = std::move(value);
      entries_.make_newest(*known);
      return;
    }
    if (entries_.size() == capacity_) evict(1);
    entries_.add(key, std::move(value));
  }

  /// Returns a copy of the value of a key and makes it the newest; nothing if it is missing.
  std::optional<Value> get(const Key& key) {
    auto* known = entries_.find(key);
    if (!known) {
      ++counts_.misses;
      return std::nullopt;
    }
    ++counts_.hits;
    entries_.make_newest(*known);
    return known->content;
  }

  /// Evicts the n oldest entries, or all if there are fewer; returns how many.
  std::size_t evict(std::size_t n) {
    std::size_t gone = 0;
    for (; gone < n && entries_.oldest(); ++gone) entries_.take(*entries_.oldest());
    counts_.evictions += gone;
    return gone;
  }

  /// Removes all entries and keeps the counters.
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }
  std::size_t capacity() const { return capacity_; }
  /// Hits and misses of `get`, evictions, number of entries.
  cache_statistics statistics() const {
    cache_statistics s = counts_;
    s.entries = entries_.size();
    return s;
  }

 private:
  detail::ordered_entries<Key, Value> entries_;
  std::size_t capacity_;
  cache_statistics counts_;
};

}  // namespace lamina
