// A cache for many threads, in which a value is built once, and one for each pair of a key's and a value's type.
//
// Threads that hit share no memory that either writes: the table is only read, and a hit writes its lock, its count and the
// order of use into a stripe of its own thread.  A change of the table holds all stripes while an entry is linked in;
// builders, and destructors of evicted values, run outside.
export module lamina:cache;
import :cache.key;
import :cache.lru;
import :core;
import lamina.std;

namespace lamina {

export enum class cache_lookup : std::uint8_t { hit, miss };

/// A value from a cache. `lookup` is `miss` where the value was missing when it was asked for: it was built now, by the
/// caller or by another thread that the caller waited for.
export template <class Value> struct cache_result {
  Value value;
  cache_lookup lookup;
};

/// A value with its cost, which a builder may return instead of a bare value.
export template <class Value> struct built {
  Value value;
  /// Cost of the entry in `cache_limits::bytes`.
  std::optional<std::size_t> bytes = std::nullopt;
  /// Keep the value even if it equals Value(), so that its absence is remembered.
  bool keep_empty = false;
};
export template <class Value> built(Value, std::size_t, bool) -> built<Value>;
export template <class Value> built(Value, std::size_t) -> built<Value>;
export template <class Value> built(Value) -> built<Value>;

/// How much a cache keeps. With 0 entries it keeps nothing and builds each time.
export struct cache_limits {
  std::size_t entries = 5000;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

namespace detail {

/// A small number that no other living thread has, unless more than 64 have asked.
std::size_t thread_number() noexcept;
/// How many stripes a cache has on this machine, a power of two.
std::size_t cache_stripes() noexcept;

/// A build that is under way, in whatever cache.
struct build_state {
  enum class state : std::uint8_t { building, ready, failed };
  std::thread::id builder = std::this_thread::get_id();
  std::atomic<state> now{state::building};
};
/// Says, while it lives, that this thread waits for a build. Errors: state_error where that one waits for this thread, by
/// way of any cache.
class waiting_for {
 public:
  explicit waiting_for(const build_state& what);
  ~waiting_for();
  waiting_for(const waiting_for&) = delete;
  waiting_for& operator=(const waiting_for&) = delete;

 private:
  const build_state& what_;
};

template <class T> struct value_of_build {
  using type = T;
};
template <class T> struct value_of_build<built<T>> {
  using type = T;
};
template <class Builder> using built_by =
    typename value_of_build<std::remove_cvref_t<std::invoke_result_t<Builder&>>>::type;

template <class Value, class Builder> built<Value> build_with(Builder& builder) {
  using made = std::remove_cvref_t<std::invoke_result_t<Builder&>>;
  if constexpr (std::same_as<made, built_by<Builder>>) {
    return {.value = std::invoke(builder)};
  } else {
    made b = std::invoke(builder);
    return {.value = std::move(b.value), .bytes = b.bytes, .keep_empty = b.keep_empty};
  }
}

}  // namespace detail

/// Keeps values by key for any number of threads, and builds each once.
///
/// - Concurrent misses of one key build once: one thread runs its builder, the others wait for that. Hits, and builds
///   of other keys, wait for no builder.
/// - A builder that throws leaves nothing behind. Its caller gets the exception; of those who waited, one builds next,
///   with its own builder.
/// - A value equal to Value() is empty: it is handed out, to those who waited too, and not kept, unless the builder
///   returns `built` with `keep_empty`.
/// - Beyond a limit, the least recently used entries are evicted. The order is exact where one thread uses the cache;
///   between two changes of the table, hits of several threads are ordered by how often each thread had hit.
/// - The cost of an entry is `built::bytes` of its builder, else the result of the cost function, else sizeof(Key) +
///   sizeof(Value). An entry that costs more than the limit is handed out and not kept.
///
/// Copying a value is a part of a hit: keep large ones behind a std::shared_ptr<const T>. Two threads that copy one
/// shared_ptr wait for its count; `visit` copies nothing.
///
/// A builder may ask this cache, and others, for other keys. Errors: state_error where builders wait for each other in a
/// circle, by way of one cache or several.
export template <CacheKey Key, std::copyable Value> class shared_cache {
 public:
  using cost_function = std::function<std::size_t(const Key&, const Value&)>;

  explicit shared_cache(cache_limits limits = {}, cost_function cost = {})
      : limits_(limits),
        cost_(std::move(cost)),
        mask_(detail::cache_stripes() - 1),
        stripes_(std::make_unique<stripe[]>(mask_ + 1)) {}
  shared_cache(const shared_cache&) = delete;
  shared_cache& operator=(const shared_cache&) = delete;

  /// The value of a key, built by `builder()` if it is not there. The builder returns a Value or a `built` one, and is
  /// called at most once.
  template <class Builder> requires std::convertible_to<detail::built_by<Builder>, Value>
  cache_result<Value> get_or_create(const Key& key, Builder&& builder) {
    if (auto value = look(key)) return {*std::move(value), cache_lookup::hit};
    return create(key, builder);
  }

  /// The value of a key if it is there; never waits for a build.
  std::optional<Value> get(const Key& key) {
    auto value = look(key);
    if (!value) misses_.fetch_add(1, std::memory_order_relaxed);
    return value;
  }

  /// Calls use(const Value&) with the value of a key where it is kept, without a copy; says whether it is there. The
  /// entry stays alive meanwhile, even if it is evicted, and no thread waits for `use`, which may use the cache itself.
  template <std::invocable<const Value&> Use> bool visit(const Key& key, Use&& use) {
    if (visit_kept(key, use)) return true;
    misses_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  /// The same, with a value that is built if it is not there.
  template <class Builder, std::invocable<const Value&> Use>
  requires std::convertible_to<detail::built_by<Builder>, Value>
  cache_lookup visit(const Key& key, Builder&& builder, Use&& use) {
    if (visit_kept(key, use)) return cache_lookup::hit;
    const cache_result<Value> made = create(key, builder);
    std::invoke(use, made.value);
    return made.lookup;
  }

  /// Forgets the n entries used least recently, or all where there are fewer; says how many.
  std::size_t evict(std::size_t n) {
    std::vector<taken> dropped;
    const std::lock_guard lock(change_);
    const all_stripes all(*this);
    settle_order();
    std::size_t gone = 0;
    for (; gone < n && table_.oldest(); ++gone) drop(*table_.oldest(), dropped);
    evictions_ += gone;
    return gone;
  }
  /// Removes all entries. A value that is being built reaches the threads that wait for it and is not kept; the counts stay.
  void clear() {
    std::vector<taken> dropped;
    const std::lock_guard lock(change_);
    pending_.clear();
    const all_stripes all(*this);
    settle_order();
    while (table_.oldest()) drop(*table_.oldest(), dropped);
  }

  const cache_limits& limits() const { return limits_; }
  std::size_t size() const { return statistics().entries; }
  cache_statistics statistics() const {
    const std::lock_guard lock(change_);
    const all_stripes all(*this);
    cache_statistics s;
    for (std::size_t i = 0; i <= mask_; ++i) s.hits += stripes_[i].hits;
    s.misses = misses_.load(std::memory_order_relaxed);
    s.builds = builds_.load(std::memory_order_relaxed);
    s.evictions = evictions_;
    s.entries = table_.size();
    s.bytes = bytes_;
    return s;
  }

 private:
  struct content {
    Value value;
    std::size_t bytes;
    std::uint32_t place;  // of its marks
    bool dropped = false;
  };
  using table = detail::ordered_entries<Key, content>;
  using entry = typename table::entry;
  using taken = typename table::taken;

  /// What one stripe knows of an entry: when it was used since the order was settled, and how many visits it has.
  struct mark {
    std::uint64_t used = 0, visits = 0;
  };
  struct alignas(128) stripe {
    std::mutex mutex;
    std::uint64_t clock = 0;
    std::size_t hits = 0;
    std::vector<mark> marks;             // by place
    std::vector<std::uint32_t> touched;  // places whose marks say `used`
  };
  struct all_stripes {
    explicit all_stripes(const shared_cache& c) : cache(c) {
      for (std::size_t i = 0; i <= cache.mask_; ++i) cache.stripes_[i].mutex.lock();
    }
    ~all_stripes() {
      for (std::size_t i = cache.mask_ + 1; i-- > 0;) cache.stripes_[i].mutex.unlock();
    }
    all_stripes(const all_stripes&) = delete;
    all_stripes& operator=(const all_stripes&) = delete;
    const shared_cache& cache;
  };

  // ---- hits: one stripe is held -------------------------------------------------------------------------------------

  stripe& mine() { return stripes_[detail::thread_number() & mask_]; }

  /// The entry of a key, which counts as a hit.
  entry* hit(stripe& s, const Key& key) {
    entry* const e = table_.find(key);
    if (!e) return nullptr;
    const std::uint32_t place = e->content.place;
    if (place >= s.marks.size()) {
      s.marks.resize(places_.size());
      s.touched.reserve(places_.size());
    }
    mark& m = s.marks[place];
    if (m.used == 0) s.touched.push_back(place);
    m.used = ++s.clock;
    ++s.hits;
    return e;
  }

  std::optional<Value> look(const Key& key) {
    stripe& s = mine();
    const std::lock_guard lock(s.mutex);
    if (entry* const e = hit(s, key)) return e->content.value;
    return std::nullopt;
  }

  template <class Use> bool visit_kept(const Key& key, Use& use) {
    stripe& s = mine();
    entry* e = nullptr;
    {
      const std::lock_guard lock(s.mutex);
      e = hit(s, key);
      if (!e) return false;
      ++s.marks[e->content.place].visits;
    }
    const visitor here{*this, s, *e};
    std::invoke(use, std::as_const(e->content.value));
    return true;
  }
  struct visitor {
    shared_cache& cache;
    stripe& s;
    entry& e;
    ~visitor() {
      bool dropped = false;
      {
        const std::lock_guard lock(s.mutex);
        --s.marks[e.content.place].visits;
        dropped = e.content.dropped;
      }
      if (dropped) cache.release_dropped();
    }
  };

  // ---- changes: `change_` and all stripes are held ------------------------------------------------------------------

  bool visited(std::uint32_t place) const {
    for (std::size_t i = 0; i <= mask_; ++i)
      if (place < stripes_[i].marks.size() && stripes_[i].marks[place].visits != 0) return true;
    return false;
  }

  /// Brings the marks of all stripes into the table's order.
  void settle_order() {
    std::size_t count = 0;
    for (std::size_t i = 0; i <= mask_; ++i) count += stripes_[i].touched.size();
    uses_.reserve(count);
    for (std::size_t i = 0; i <= mask_; ++i) {
      stripe& s = stripes_[i];
      for (std::uint32_t place : s.touched) uses_.push_back({std::exchange(s.marks[place].used, 0), place});
      s.touched.clear();
      s.clock = 0;
    }
    std::sort(uses_.begin(), uses_.end(), [](const use& a, const use& b) { return a.when < b.when; });
    for (const use& u : uses_) table_.make_newest(*places_[u.place]);
    uses_.clear();
  }

  /// Takes an entry out; the caller destroys it when nothing is held any more, the last visitor if there are any.
  void drop(entry& e, std::vector<taken>& dropped) {
    dropped.reserve(dropped.size() + 1);
    visited_.reserve(visited_.size() + 1);
    bytes_ -= e.content.bytes;
    e.content.dropped = true;
    if (visited(e.content.place)) {
      visited_.push_back(table_.take(e));
      return;
    }
    free_.push_back(e.content.place);
    dropped.push_back(table_.take(e));
  }

  void release_dropped() {
    for (bool more = true; more;) {
      taken gone;
      const std::lock_guard lock(change_);
      const all_stripes all(*this);
      const auto at = std::find_if(visited_.begin(), visited_.end(),
                                   [this](const taken& t) { return !visited(t.mapped().content.place); });
      more = at != visited_.end();
      if (!more) return;
      free_.push_back(at->mapped().content.place);
      gone = std::move(*at);
      visited_.erase(at);
    }
  }

  void keep(const Key& key, Value value, std::size_t bytes, std::vector<taken>& dropped) {
    const all_stripes all(*this);
    settle_order();
    while (table_.size() >= limits_.entries || bytes > limits_.bytes - bytes_) {
      drop(*table_.oldest(), dropped);
      ++evictions_;
    }
    if (free_.empty()) {
      places_.reserve(places_.size() + 1);
      free_.reserve(places_.capacity());
      free_.push_back(static_cast<std::uint32_t>(places_.size()));
      places_.push_back(nullptr);
    }
    const std::uint32_t place = free_.back();
    entry& e = table_.add(key, content{std::move(value), bytes, place});
    free_.pop_back();
    places_[place] = &e;
    bytes_ += bytes;
  }

  // ---- builds: `change_` is held but while the builder runs ---------------------------------------------------------

  /// A build that is under way.
  struct pending_build : detail::build_state {
    std::size_t waiting = 0;
    std::optional<Value> value;  // for those who wait
    std::condition_variable done;
  };

  template <class Builder> cache_result<Value> create(const Key& key, Builder& builder) {
    if (limits_.entries == 0 || !(key == key)) {  // a key with a NaN is never found
      misses_.fetch_add(1, std::memory_order_relaxed);
      builds_.fetch_add(1, std::memory_order_relaxed);
      return {detail::build_with<Value>(builder).value, cache_lookup::miss};
    }
    std::shared_ptr<pending_build> mine;
    {
      std::unique_lock lock(change_);
      for (;;) {
        if (auto value = look(key)) return {*std::move(value), cache_lookup::hit};
        const auto known = pending_.find(key);
        if (known == pending_.end()) break;
        const std::shared_ptr<pending_build> other = known->second;
        if (!wait_for(*other, lock)) continue;
        misses_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        return {*other->value, cache_lookup::miss};
      }
      mine = std::make_shared<pending_build>();
      pending_.try_emplace(key, mine);
    }
    misses_.fetch_add(1, std::memory_order_relaxed);
    builds_.fetch_add(1, std::memory_order_relaxed);
    build_guard end{*this, key, *mine};
    built<Value> made = detail::build_with<Value>(builder);
    finish(key, *mine, made);
    end.landed = true;
    return {std::move(made.value), cache_lookup::miss};
  }

  /// Whether a build that was waited for has given a value.
  bool wait_for(pending_build& f, std::unique_lock<std::mutex>& lock) {
    const detail::waiting_for said(f);
    ++f.waiting;
    while (f.now == pending_build::state::building) f.done.wait(lock);
    return f.now == pending_build::state::ready;
  }

  static bool is_empty(const Value& value) {
    if constexpr (std::default_initializable<Value> && std::equality_comparable<Value>) return value == Value();
    else return false;
  }

  void finish(const Key& key, pending_build& f, const built<Value>& made) {
    std::size_t bytes = made.bytes ? *made.bytes : cost_ ? cost_(key, made.value) : sizeof(Key) + sizeof(Value);
    bool keeps = bytes <= limits_.bytes && (made.keep_empty || !is_empty(made.value));
    std::vector<taken> dropped;
    const std::lock_guard lock(change_);
    const auto at = pending_.find(key);
    const bool current = at != pending_.end() && at->second.get() == &f;  // else the cache was cleared meanwhile
    if (f.waiting != 0) f.value = made.value;
    if (current && keeps) keep(key, made.value, bytes, dropped);
    if (current) pending_.erase(at);
    f.now = pending_build::state::ready;
    f.done.notify_all();
  }

  /// Ends a build that has not finished.
  struct build_guard {
    shared_cache& cache;
    const Key& key;
    pending_build& f;
    bool landed = false;
    ~build_guard() {
      if (landed) return;
      const std::lock_guard lock(cache.change_);
      const auto at = cache.pending_.find(key);
      if (at != cache.pending_.end() && at->second.get() == &f) cache.pending_.erase(at);
      f.now = pending_build::state::failed;
      f.done.notify_all();
    }
  };

  struct use {
    std::uint64_t when;
    std::uint32_t place;
  };

  // Read by hits.
  cache_limits limits_;
  cost_function cost_;
  std::size_t mask_;
  std::unique_ptr<stripe[]> stripes_;
  table table_;
  std::vector<entry*> places_;  // of the entries' marks
  // Written by misses.
  alignas(128) mutable std::mutex change_;
  std::unordered_map<Key, std::shared_ptr<pending_build>, typename table::hasher> pending_;
  std::vector<std::uint32_t> free_;  // places of no entry; has room for all
  std::vector<taken> visited_;       // dropped, and still visited
  std::vector<use> uses_;
  std::size_t bytes_ = 0, evictions_ = 0;
  std::atomic<std::size_t> misses_{0}, builds_{0};
};

namespace detail {

/// The cache of one pair of types in a multi_cache.
struct cache_of_types {
  explicit cache_of_types(const void* pair) : types(pair) {}
  cache_of_types(const cache_of_types&) = delete;
  cache_of_types& operator=(const cache_of_types&) = delete;
  virtual ~cache_of_types();
  virtual cache_statistics statistics() const = 0;
  virtual void clear() = 0;

  const void* types;
  cache_of_types* next = nullptr;
};
template <class Key, class Value> struct cache_of final : cache_of_types {
  cache_of(const void* pair, cache_limits limits) : cache_of_types(pair), cache(limits) {}
  cache_statistics statistics() const override { return cache.statistics(); }
  void clear() override { cache.clear(); }
  shared_cache<Key, Value> cache;
};
/// Its address identifies the two types.
template <class Key, class Value> inline char type_pair = 0;

}  // namespace detail

/// A `shared_cache` for each pair of a key's and a value's type that is asked for, each with the same limits. Copies
/// share their entries; one that was moved has none, and using it raises a state_error. Safe from any thread.
///
/// Two builders whose keys and values have the same types share entries: the key must fully determine the value.
export class multi_cache {
 public:
  explicit multi_cache(cache_limits limits = {});

  /// As in `shared_cache`; the value's type is what the builder returns.
  // What CacheKey says, said here: one step fewer to the sentence.
  template <class Key, class Builder> requires accepted<diagnostic<detail::key_check<Key>>()>
  auto get_or_create(const Key& key, Builder&& builder) -> cache_result<detail::built_by<Builder>> {
    return of<Key, detail::built_by<Builder>>().get_or_create(key, builder);
  }

  /// The cache of two types, made when it is first asked for.
  template <CacheKey Key, std::copyable Value> shared_cache<Key, Value>& of() const {
    const void* const types = &detail::type_pair<Key, Value>;
    detail::cache_of_types* known = find(types);
    if (!known)
      known = add(types, [](const void* pair, cache_limits limits) -> std::unique_ptr<detail::cache_of_types> {
        return std::make_unique<detail::cache_of<Key, Value>>(pair, limits);
      });
    return static_cast<detail::cache_of<Key, Value>*>(known)->cache;
  }

  /// Forgets the entries of all types.
  void clear();
  /// Of each pair of types.
  const cache_limits& limits() const;
  /// The sums over all pairs of types.
  cache_statistics statistics() const;

 private:
  using maker = std::unique_ptr<detail::cache_of_types> (*)(const void*, cache_limits);
  struct all_types;
  all_types& all() const;
  detail::cache_of_types* find(const void* types) const;
  detail::cache_of_types* add(const void* types, maker make) const;
  std::shared_ptr<all_types> all_;
};

}  // namespace lamina
