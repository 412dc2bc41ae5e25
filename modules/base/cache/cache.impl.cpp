// Caches: parsing of settings, thread numbers, deadlock detection, and the list of a multi_cache.
module lamina:cache.impl;
import :cache;
import :cache.lru;
import :core;
import lamina.std;

namespace lamina {

std::size_t cache_capacity(std::string_view setting) {
  const bool negative = setting.starts_with('-');
  const std::string_view digits = setting.substr(negative ? 1 : 0);
  std::size_t n = 0;
  bool whole = !digits.empty(), fits = true;
  for (char c : digits) {
    const auto digit = static_cast<std::size_t>(c - '0');
    whole = whole && c >= '0' && c <= '9';
    fits = fits && n <= (std::numeric_limits<std::size_t>::max() - digit) / 10;
    n = 10 * n + digit;
  }
  text t;
  if (!whole) detail::raise(error_kind::value, t << "cache capacity: expected a whole number; got `" << setting << "`");
  if (!fits && !negative)
    detail::raise(error_kind::value, t << "cache capacity: expected at most " << std::numeric_limits<std::size_t>::max()
                                       << "; got `" << setting << "`");
  return negative ? 0 : n;
}

namespace detail {
namespace {

constexpr std::size_t no_number = 64;
constinit std::atomic<std::uint64_t> numbers_in_use{0};
constinit std::atomic<std::size_t> next_shared{0};
constinit thread_local std::size_t number_of_this_thread = no_number;

// Returns the number when the thread ends.
struct number_guard {
  std::uint64_t bit = 0;
  ~number_guard() { numbers_in_use.fetch_and(~bit, std::memory_order_relaxed); }
};

}  // namespace

std::size_t thread_number() noexcept {
  if (number_of_this_thread != no_number) return number_of_this_thread;
  static thread_local number_guard held;
  std::uint64_t in_use = numbers_in_use.load(std::memory_order_relaxed);
  for (;;) {
    const auto lowest = static_cast<std::size_t>(std::countr_one(in_use));
    if (lowest == no_number)
      return number_of_this_thread = next_shared.fetch_add(1, std::memory_order_relaxed) % no_number;
    const std::uint64_t bit = std::uint64_t(1) << lowest;
    if (!numbers_in_use.compare_exchange_weak(in_use, in_use | bit, std::memory_order_relaxed)) continue;
    held.bit = bit;
    return number_of_this_thread = lowest;
  }
}

std::size_t cache_stripes() noexcept {
  static const std::size_t count =
      std::clamp(std::bit_ceil(std::size_t(2) * std::thread::hardware_concurrency()), std::size_t(8), std::size_t(32));
  return count;
}

// ---- deadlock detection ---------------------------------------------------------------------------------------------

namespace {

// Shared by all caches: builders may wait for each other across caches. A cache locks its own mutex before this one.
struct waiter {
  std::thread::id thread;
  const build_state* what;
};
constinit std::mutex waiters_mutex;
constinit std::vector<waiter> waiters;

}  // namespace

waiting_for::waiting_for(const build_state& what) : what_(what) {
  const std::thread::id me = std::this_thread::get_id();
  const std::lock_guard lock(waiters_mutex);
  // Follows the chain of builds in progress only: a thread that waits for a finished build wakes soon.
  for (const build_state* next = &what; next && next->now == build_state::state::building;) {
    if (next->builder == me)
      raise(error_kind::state,
            "a cache builder requests the key that it is building, directly or through another builder");
    const auto at =
        std::find_if(waiters.begin(), waiters.end(), [&](const waiter& w) { return w.thread == next->builder; });
    next = at == waiters.end() ? nullptr : at->what;
  }
  waiters.push_back({me, &what});
}
waiting_for::~waiting_for() {
  const std::lock_guard lock(waiters_mutex);
  std::erase_if(waiters, [&](const waiter& w) { return w.what == &what_ && w.thread == std::this_thread::get_id(); });
}

cache_of_types::~cache_of_types() = default;

}  // namespace detail

/// An append-only list: readers need no lock.
struct multi_cache::all_types {
  explicit all_types(cache_limits l) : limits(l) {}
  all_types(const all_types&) = delete;
  all_types& operator=(const all_types&) = delete;
  ~all_types() {
    for (auto* at = first.load(); at;) delete std::exchange(at, at->next);
  }
  cache_limits limits;
  std::mutex adding;
  std::atomic<detail::cache_of_types*> first{nullptr};
};

multi_cache::multi_cache(cache_limits limits) : all_(std::make_shared<all_types>(limits)) {}

multi_cache::all_types& multi_cache::all() const {
  if (!all_) [[unlikely]]
    detail::raise(error_kind::state, "multi_cache: it was moved from and has no caches");
  return *all_;
}

detail::cache_of_types* multi_cache::find(const void* types) const {
  auto* at = all().first.load(std::memory_order_acquire);
  while (at && at->types != types) at = at->next;
  return at;
}

detail::cache_of_types* multi_cache::add(const void* types, maker make) const {
  const std::lock_guard lock(all().adding);
  if (auto* known = find(types)) return known;
  auto made = make(types, all().limits);
  made->next = all().first.load(std::memory_order_relaxed);
  all().first.store(made.get(), std::memory_order_release);
  return made.release();
}

void multi_cache::clear() {
  for (auto* at = all().first.load(std::memory_order_acquire); at; at = at->next) at->clear();
}

const cache_limits& multi_cache::limits() const { return all().limits; }

cache_statistics multi_cache::statistics() const {
  cache_statistics sum;
  for (auto* at = all().first.load(std::memory_order_acquire); at; at = at->next) {
    const cache_statistics s = at->statistics();
    sum.hits += s.hits;
    sum.misses += s.misses;
    sum.evictions += s.evictions;
    sum.builds += s.builds;
    sum.entries += s.entries;
    sum.bytes += s.bytes;
  }
  return sum;
}

}  // namespace lamina
