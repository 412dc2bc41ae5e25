// A thread-safe cache that builds each value once (`shared_cache`), and one such cache per key and value type
// (`multi_cache`).
//
// Threads that hit write no shared memory: they only read the table, and write the lock, hit count and order of use in
// the stripe of their own thread.  A change of the table locks all stripes while it links an entry; builders, and
// destructors of evicted values, run without locks.
export module lamina:cache;
import :cache.key;
import :cache.lru;
import :core;
import lamina.std;

namespace lamina {

export enum class cache_lookup : std::uint8_t { hit, miss };

/// A value from a cache. `lookup` is `miss` if the value was not cached at the time of the call: the caller built it,
/// or waited for another thread that did.
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

/// Capacity of a cache. With 0 entries it keeps nothing and builds on each call.
export struct cache_limits {
  std::size_t entries = 5000;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

namespace detail {

/// A small number, unique among living threads unless more than 64 have asked.
std::size_t thread_number() noexcept;
/// Number of stripes of a cache on this machine, a power of two.
std::size_t cache_stripes() noexcept;

/// A build in progress, in any cache.
struct build_state {
  enum class state : std::uint8_t { building, ready, failed };
  std::thread::id builder = std::this_thread::get_id();
  std::atomic<state> now{state::building};
};
/// RAII: records that this thread waits for a build. Errors: state_error if that build waits for this thread, through
/// any caches.
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
/// - Concurrent misses of one key build once: one thread runs its builder, the others wait. Hits, and builds of other
///   keys, never wait for a builder.
/// - A builder that throws caches nothing. Its caller gets the exception; one of the waiting threads then runs its own
///   builder.
/// - A value equal to Value() is empty: it is returned, to waiting threads too, but not kept, unless the builder
///   returns `built` with `keep_empty`.
/// - Beyond a limit, the least recently used entries are evicted. The order is exact if one thread uses the cache;
///   between two changes of the table, hits of several threads are ordered by each thread's hit count.
/// - The cost of an entry is its `built::bytes`, else the result of the cost function, else sizeof(Key) +
///   sizeof(Value). An entry that costs more than the limit is returned but not kept.
///
/// A hit copies the value: wrap large ones in a std::shared_ptr<const T>. Threads that copy one shared_ptr contend for
/// its reference count; `visit` copies nothing.
///
/// A builder may ask this cache and others for other keys. Errors: state_error if builders wait for each other in a
/// cycle, through one cache or several.
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

  /// Returns the value of a key, built by `builder()` if missing. The builder returns a Value or a `built` one, and is
  /// called at most once.
  template <class Builder> requires std::convertible_to<detail::built_by<Builder>, Value>
  cache_result<Value> get_or_create(const Key& key, Builder&& builder) {
    if (auto value = find_copy(key)) return {*std::move(value), cache_lookup::hit};
    return create(key, builder);
  }

  /// Returns the value of a key if it is cached; never waits for a build.
  std::optional<Value> get(const Key& key) {
    auto value = find_copy(key);
    if (!value) misses_.fetch_add(1, std::memory_order_relaxed);
    return value;
  }

  /// Calls use(const Value&) with the cached value of a key, without a copy; returns whether there is one. The entry
  /// stays alive during the call, even if evicted. No thread waits for `use`, which may call the cache itself.
  template <std::invocable<const Value&> Use> bool visit(const Key& key, Use&& use) {
    if (visit_kept(key, use)) return true;
    misses_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  /// Same, but builds a missing value.
  template <class Builder, std::invocable<const Value&> Use>
  requires std::convertible_to<detail::built_by<Builder>, Value>
  cache_lookup visit(const Key& key, Builder&& builder, Use&& use) {
    if (visit_kept(key, use)) return cache_lookup::hit;
    const cache_result<Value> made = create(key, builder);
    std::invoke(use, made.value);
    return made.lookup;
  }

  /// Evicts the n least recently used entries, or all if there are fewer; returns how many.
  std::size_t evict(std::size_t n) {
    std::vector<taken> dropped;
    const std::lock_guard lock(change_);
    const all_stripes all(*this);
    apply_recorded_uses();
    std::size_t gone = 0;
    for (; gone < n && table_.oldest(); ++gone) drop(*table_.oldest(), dropped);
    evictions_ += gone;
    return gone;
  }
  /// Removes all entries and keeps the counters. A value being built still reaches the threads that wait for it, but is
  /// not kept.
  void clear() {
    std::vector<taken> dropped;
    const std::lock_guard lock(change_);
    pending_.clear();
    const all_stripes all(*this);
    apply_recorded_uses();
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
    std::uint32_t place;  // index of its marks in each stripe
    bool dropped = false;
  };
  using table = detail::ordered_entries<Key, content>;
  using entry = typename table::entry;
  using taken = typename table::taken;

  /// Per-stripe data of an entry: last use since `apply_recorded_uses` (0: none), and number of active visits.
  struct mark {
    std::uint64_t used = 0, visits = 0;
  };
  struct alignas(128) stripe {
    std::mutex mutex;
    std::uint64_t clock = 0;
    std::size_t hits = 0;
    std::vector<mark> marks;             // by index of the entry
    std::vector<std::uint32_t> touched;  // places with nonzero `used`
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

  // ---- hits: one stripe is locked -----------------------------------------------------------------------------------

  stripe& own_stripe() { return stripes_[detail::thread_number() & mask_]; }

  /// Finds the entry of a key and counts a hit.
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

  std::optional<Value> find_copy(const Key& key) {
    stripe& s = own_stripe();
    const std::lock_guard lock(s.mutex);
    if (entry* const e = hit(s, key)) return e->content.value;
    return std::nullopt;
  }

  template <class Use> bool visit_kept(const Key& key, Use& use) {
    stripe& s = own_stripe();
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

  // ---- changes: `change_` and all stripes are locked ----------------------------------------------------------------

  bool visited(std::uint32_t place) const {
    for (std::size_t i = 0; i <= mask_; ++i)
      if (place < stripes_[i].marks.size() && stripes_[i].marks[place].visits != 0) return true;
    return false;
  }

  /// Applies the uses recorded in all stripes to the table's order, oldest first.
  void apply_recorded_uses() {
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

  /// Removes an entry. Without visitors it goes to `dropped`, which the caller destroys after unlocking; otherwise the
  /// last visitor destroys it.
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
    apply_recorded_uses();
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

  // ---- builds: `change_` is locked except while the builder runs ----------------------------------------------------

  /// A build in progress.
  struct pending_build : detail::build_state {
    std::size_t waiting = 0;
    std::optional<Value> value;  // for waiting threads
    std::condition_variable done;
  };

  template <class Builder> cache_result<Value> create(const Key& key, Builder& builder) {
    if (limits_.entries == 0 || !(key == key)) {  // a key with a NaN is never found
      misses_.fetch_add(1, std::memory_order_relaxed);
      builds_.fetch_add(1, std::memory_order_relaxed);
      return {detail::build_with<Value>(builder).value, cache_lookup::miss};
    }
    std::shared_ptr<pending_build> own;
    {
      std::unique_lock lock(change_);
      for (;;) {
        if (auto value = find_copy(key)) return {*std::move(value), cache_lookup::hit};
        const auto known = pending_.find(key);
        if (known == pending_.end()) break;
        const std::shared_ptr<pending_build> other = known->second;
        if (!wait_for(*other, lock)) continue;
        misses_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        return {*other->value, cache_lookup::miss};
      }
      own = std::make_shared<pending_build>();
      pending_.try_emplace(key, own);
    }
    misses_.fetch_add(1, std::memory_order_relaxed);
    builds_.fetch_add(1, std::memory_order_relaxed);
    build_guard end{*this, key, *own};
    built<Value> made = detail::build_with<Value>(builder);
    finish(key, *own, made);
    end.landed = true;
    return {std::move(made.value), cache_lookup::miss};
  }

  /// Waits for a build; returns whether it produced a value.
  bool wait_for(pending_build& f, std::unique_lock<std::mutex>& lock) {
    const detail::waiting_for waiter(f);
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
    const bool current = at != pending_.end() && at->second.get() == &f;  // false if the cache was cleared meanwhile
    if (f.waiting != 0) f.value = made.value;
    if (current && keeps) keep(key, made.value, bytes, dropped);
    if (current) pending_.erase(at);
    f.now = pending_build::state::ready;
    f.done.notify_all();
  }

  /// Marks a build as failed unless it has finished.
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

  // Members read by hits.
  cache_limits limits_;
  cost_function cost_;
  std::size_t mask_;
  std::unique_ptr<stripe[]> stripes_;
  table table_;
  std::vector<entry*> places_;  // entry of each mark index
  // Members written by misses.
  alignas(128) mutable std::mutex change_;
  std::unordered_map<Key, std::shared_ptr<pending_build>, typename table::hasher> pending_;
  std::vector<std::uint32_t> free_;  // unused places; capacity for all
  std::vector<taken> visited_;       // dropped, with active visitors
  std::vector<use> uses_;
  std::size_t bytes_ = 0, evictions_ = 0;
  std::atomic<std::size_t> misses_{0}, builds_{0};
};

namespace detail {

/// The cache of one key and value type in a multi_cache.
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

/// One `shared_cache` per requested pair of key and value types, each with the same limits. Copies share their entries;
/// using a moved-from one raises a state_error. Safe from any thread.
///
/// Builders with the same key and value types share entries: the key must fully determine the value.
export class multi_cache {
 public:
  explicit multi_cache(cache_limits limits = {});

  /// Like `shared_cache::get_or_create`; the builder's result determines the value's type.
  // The constraint of CacheKey, repeated: the compiler reaches the message one step earlier.
  template <class Key, class Builder> requires accepted<diagnostic<detail::key_check<Key>>()>
  auto get_or_create(const Key& key, Builder&& builder) -> cache_result<detail::built_by<Builder>> {
    return of<Key, detail::built_by<Builder>>().get_or_create(key, builder);
  }

  /// The cache of a key and a value type, created on first use.
  template <CacheKey Key, std::copyable Value> shared_cache<Key, Value>& of() const {
    const void* const types = &detail::type_pair<Key, Value>;
    detail::cache_of_types* known = find(types);
    if (!known)
      known = add(types, [](const void* pair, cache_limits limits) -> std::unique_ptr<detail::cache_of_types> {
        return std::make_unique<detail::cache_of<Key, Value>>(pair, limits);
      });
    return static_cast<detail::cache_of<Key, Value>*>(known)->cache;
  }

  /// Removes the entries of all types.
  void clear();
  /// Limits of each pair of types.
  const cache_limits& limits() const;
  /// Sums over all pairs of types.
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
