// Tensor memory: free blocks cached per thread, counters over all threads, and a limit.
module;
#include <errno.h>
#include <linux/membarrier.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
module lamina:context.memory.impl;
import :context;
import :core;
import lamina.std;

namespace lamina {

namespace {

std::atomic<std::int64_t> current_bytes, peak_bytes, byte_limit;
std::atomic<std::int64_t> other_allocations;  // by ended threads, and by threads that bypassed their cache

// Sizes up to 1 MiB are rounded up to four steps per power of two and cached per thread, at most 4 MiB per size class.
constexpr std::size_t largest = std::size_t(1) << 20, kept_per_class = std::size_t(4) << 20;
constexpr int classes = 52;
struct size_class {
  int index;
  std::size_t bytes;
};
constexpr size_class class_of(std::size_t bytes) {
  if (bytes <= 512) {
    int steps = bytes == 0 ? 1 : static_cast<int>((bytes + 63) / 64);
    return {steps - 1, static_cast<std::size_t>(steps) * 64};
  }
  int width = static_cast<int>(std::bit_width(bytes - 1));
  std::size_t step = std::size_t(1) << (width - 3), steps = (bytes + step - 1) / step;
  return {8 + (width - 10) * 4 + static_cast<int>(steps) - 5, steps * step};
}
static_assert(class_of(largest).index == classes - 1);
constexpr std::size_t bytes_of(int index) {
  if (index < 8) return (static_cast<std::size_t>(index) + 1) * 64;
  return (static_cast<std::size_t>(index) % 4 + 5) << (7 + (index - 8) / 4);
}
static_assert([] {
  for (std::size_t bytes = 0; bytes <= largest; bytes += 31)
    if (auto c = class_of(bytes); bytes_of(c.index) != c.bytes || c.bytes < bytes) return false;
  return true;
}());
constexpr int small_class = class_of(4096).index;  // largest class whose byte counts are batched
size_class rounded(std::size_t bytes) {
  if (bytes <= largest) return class_of(bytes);
  return {-1, (bytes + 63) / 64 * 64};
}

// Written by one thread at a time, read by any.
class thread_counter {
 public:
  void add(std::int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  void set(std::int64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::int64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Free blocks of one thread. Its owner accesses it between `enter` and `leave`, which cost two stores and a load. Other
// threads lock the registry, set `state` to held, issue a membarrier, and wait until `busy` is false: then the owner is
// outside, and if it enters it sees the state and bypasses its cache. So the owner never waits, and needs no fence.
struct thread_cache {
  enum class states { fresh, ready, held, called, ended };
  struct item {
    item* next;
  };

  std::atomic<bool> busy{false};
  std::atomic<states> state{states::fresh};
  std::int64_t max_pending = 0;  // 0 under a memory limit
  thread_counter pending;        // bytes of small blocks not yet added to `current_bytes`
  thread_counter allocations;
  item* heads[classes]{};
  thread_counter held[classes];  // number of items
  item* given_up[classes]{};     // blocks to return to the system; guarded by the registry's lock
  thread_cache *next = nullptr, *previous = nullptr;

  bool enter() noexcept {
    busy.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state.load(std::memory_order_acquire) == states::ready) [[likely]]
      return true;
    leave();
    return attend();
  }
  void leave() noexcept { busy.store(false, std::memory_order_release); }
  bool attend() noexcept;

  void* get(int index) noexcept {
    auto k = static_cast<std::size_t>(index);
    item* i = heads[k];
    if (!i) return nullptr;
    heads[k] = i->next;
    held[k].add(-1);
    return i;
  }
  bool keep(void* p, size_class c) noexcept {
    auto k = static_cast<std::size_t>(c.index);
    if (static_cast<std::size_t>(held[k].read()) * c.bytes >= kept_per_class) return false;
    auto* i = static_cast<item*>(p);
    i->next = heads[k];
    heads[k] = i;
    held[k].add(1);
    return true;
  }
  // Adds a small block's bytes to `pending` if it has room: that avoids a locked instruction.
  bool gather(int index, std::int64_t change) noexcept {
    if (static_cast<unsigned>(index) > static_cast<unsigned>(small_class)) return false;
    const auto all = pending.read() + change;
    if (all > max_pending || all < -max_pending) return false;
    pending.set(all);
    return true;
  }
  std::int64_t cached() const noexcept {
    std::int64_t bytes = 0;
    for (int k = 0; k < classes; ++k) bytes += held[k].read() * static_cast<std::int64_t>(bytes_of(k));
    return bytes;
  }

  // Called by the owner or while the cache is held, under the registry's lock.
  void give_up() noexcept {
    for (std::size_t k = 0; k < classes; ++k) {
      given_up[k] = std::exchange(heads[k], nullptr);
      held[k].set(0);
    }
  }
  void free_given_up() noexcept {
    for (auto& head : given_up)
      while (item* i = head) {
        head = i->next;
        std::free(i);
      }
  }
  // Adds `pending` to `current_bytes`; from then on up to `max` bytes may be pending.
  void flush_pending(std::int64_t max) noexcept {
    max_pending = max;
    current_bytes.fetch_add(pending.read(), std::memory_order_relaxed);
    pending.set(0);
  }
};
// Trivially destructible, so that a thread can release memory until its very end.
constinit thread_local thread_cache cache;

// The caches of all threads, in an intrusive list: registration must not allocate, since releasing memory must not
// fail.
struct cache_registry {
  std::mutex mutex;
  thread_cache* first = nullptr;

  void add(thread_cache& c) noexcept {
    c.next = first;
    if (first) first->previous = &c;
    first = &c;
  }
  void remove(thread_cache& c) noexcept {
    (c.previous ? c.previous->next : first) = c.next;
    if (c.next) c.next->previous = c.previous;
  }
  template <class F> void each(F f) {
    for (auto* c = first; c; c = c->next) f(*c);
  }
  // Calls f for each cache while its owner is kept out.
  template <class F> void each_held(F f);
};
union forever {  // never destroyed: outlives every thread
  cache_registry value;
  constexpr forever() : value() {}
  ~forever() {}
};
constinit forever all_caches;
cache_registry& registry() { return all_caches.value; }

bool barrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }
// Whether the process may use membarrier on its threads. First called at the first allocation, when registering is
// cheap.
bool can_hold() {
  static const bool can =
      barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  return can;
}

template <class F> void cache_registry::each_held(F f) {
  using enum thread_cache::states;
  each([](thread_cache& c) { c.state.store(held, std::memory_order_release); });
  barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  each([&](thread_cache& c) {
    while (c.busy.load(std::memory_order_acquire)) std::this_thread::yield();
    f(c);
    c.state.store(ready, std::memory_order_release);
  });
}

// Destroys the thread's cache when the thread ends.
struct cache_end {
  bool expected = false;
  ~cache_end() {
    std::lock_guard lock(registry().mutex);
    cache.state.store(thread_cache::states::ended, std::memory_order_relaxed);
    cache.give_up();
    cache.free_given_up();
    cache.flush_pending(0);
    other_allocations.fetch_add(cache.allocations.read(), std::memory_order_relaxed);
    registry().remove(cache);
  }
};
thread_local cache_end end_of_thread;

// Maximum of pending bytes: 0 under a limit, or if a later limit could not collect the pending bytes.
std::int64_t max_to_gather() { return byte_limit.load() || !can_hold() ? 0 : 65536; }

// Called by the owner if its cache is not ready; returns whether it may enter.
bool thread_cache::attend() noexcept {
  const auto now = state.load(std::memory_order_acquire);
  if (now != states::fresh && now != states::called) return false;
  {
    std::lock_guard lock(registry().mutex);
    if (now == states::fresh) {
      end_of_thread.expected = true;
      max_pending = max_to_gather();
      registry().add(*this);
    } else {
      give_up();
      free_given_up();
    }
    state.store(states::ready, std::memory_order_relaxed);
  }
  return enter();
}

// Adds `change` and the pending bytes to `current_bytes`; returns false and adds nothing if that would exceed the
// limit. `now` receives the bytes in use.
bool count_bytes(thread_cache* local, std::int64_t change, std::int64_t& now) noexcept {
  const auto max = byte_limit.load(std::memory_order_relaxed);
  const auto all = change + (local ? local->pending.read() : 0);
  if (max && change > 0) {
    now = current_bytes.load(std::memory_order_relaxed);
    do {
      if (now + all > max) return false;
    } while (!current_bytes.compare_exchange_weak(now, now + all, std::memory_order_relaxed));
  } else {
    now = current_bytes.fetch_add(all, std::memory_order_relaxed);
  }
  now += all;
  if (local) local->pending.set(0);
  return true;
}

void raise_peak(std::int64_t now) noexcept {
  auto peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}

[[noreturn]] void refuse(std::size_t bytes, std::int64_t used) {
  auto max = byte_limit.load(std::memory_order_relaxed);
  text t;
  t << "out of memory: " << bytes << " bytes requested, " << used << " in use, limit " << max;
  throw out_of_memory(t.string(), bytes, used, max);
}
[[noreturn]] void refused_by_system(std::size_t bytes, std::string_view before, std::string_view after) {
  text t;
  t << "out of memory: " << before << bytes << after;
  throw out_of_memory(t.string(), bytes, memory::counters().current, byte_limit.load(std::memory_order_relaxed));
}

// Weights are read sequentially, which 4 KiB pages slow down: requests huge pages for the whole 2 MiB pages inside. A
// smaller block, of a size that weights have, gets all its pages at once unless it has some from an earlier use: on a
// Zen 4 one call takes two thirds of the time of a fault for each page.
void prepare_pages(void* p, std::size_t size) noexcept {
  constexpr std::size_t large_page = std::size_t(2) << 20, least = std::size_t(128) << 10;
  static const auto small_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  static std::atomic<bool> refused{false};  // by an older kernel
  const auto first = reinterpret_cast<std::uintptr_t>(p), last = first + size;
  const auto inside = [&](std::size_t page, auto f) {
    const auto begin = (first + page - 1) / page * page, end = last / page * page;
    return begin >= end || f(static_cast<char*>(p) + (begin - first), end - begin) == 0;
  };
  const int error = errno;  // these are only hints
  inside(large_page, [](void* at, std::size_t bytes) { return ::madvise(at, bytes, MADV_HUGEPAGE); });
  if (size >= least && size < 2 * large_page && !refused.load(std::memory_order_relaxed)) {
    constexpr int populate = 23;  // MADV_POPULATE_WRITE, which older headers lack
    unsigned char present = 1;
    auto* middle = static_cast<char*>(p) + size / 2;
    middle -= reinterpret_cast<std::uintptr_t>(middle) % small_page;
    if (::mincore(middle, small_page, &present) == 0 && !(present & 1) &&
        !inside(small_page, [](void* at, std::size_t bytes) { return ::madvise(at, bytes, populate); }))
      refused.store(errno == EINVAL, std::memory_order_relaxed);
  }
  errno = error;
}

// Allocates from the system, of which `used` bytes are for the caller; if that fails, retries after returning all
// threads' cached blocks.
void* from_system(std::size_t size, std::size_t used) noexcept {
  void* p = std::aligned_alloc(64, size);
  if (!p) {
    memory::trim_all();
    p = std::aligned_alloc(64, size);
  }
  if (p) prepare_pages(p, used);
  return p;
}

void return_free_pages() noexcept {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace

namespace {

// Slow path: no cached block, or the bytes must be counted immediately.
[[gnu::noinline]] void* allocate_slowly(std::size_t bytes, size_class c, bool inside) {
  thread_cache& local = cache;
  const auto change = static_cast<std::int64_t>(c.bytes);
  std::int64_t now = 0;
  const bool counted = (inside && local.gather(c.index, change)) || count_bytes(inside ? &local : nullptr, change, now);
  void* p = counted && inside && c.index >= 0 ? local.get(c.index) : nullptr;
  if (inside) local.leave();
  if (!counted) refuse(bytes, now);
  if (!p) p = from_system(c.bytes, bytes);
  if (!p) {
    count_bytes(nullptr, -change, now);
    refused_by_system(bytes, "the system refused ", " bytes");
  }
  if (now) raise_peak(now);
  if (inside) local.allocations.add(1);
  else other_allocations.fetch_add(1, std::memory_order_relaxed);
  return p;
}

}  // namespace

void* memory::allocate(std::size_t bytes) {
  // Larger than the address space: below this, rounding and counting cannot overflow.
  if (bytes >> 47) [[unlikely]]
    refused_by_system(bytes, "", " bytes requested");
  const size_class c = rounded(bytes);
  thread_cache& local = cache;
  const bool inside = local.enter();
  if (!inside || static_cast<unsigned>(c.index) > static_cast<unsigned>(small_class) || !local.heads[c.index] ||
      !local.gather(c.index, static_cast<std::int64_t>(c.bytes)))
    return allocate_slowly(bytes, c, inside);
  void* p = local.get(c.index);
  local.leave();
  local.allocations.add(1);
  return p;
}

void memory::release(void* p, std::size_t bytes) noexcept {
  if (!p) return;
  const size_class c = rounded(bytes);
  const auto change = -static_cast<std::int64_t>(c.bytes);
  thread_cache& local = cache;
  const bool inside = local.enter();
  std::int64_t now = 0;
  if (!inside || !local.gather(c.index, change)) count_bytes(inside ? &local : nullptr, change, now);
  const bool kept = inside && c.index >= 0 && local.keep(p, c);
  if (inside) local.leave();
  if (!kept) std::free(p);
}

memory_counters memory::counters() noexcept {
  std::lock_guard lock(registry().mutex);
  memory_counters c{current_bytes, peak_bytes, other_allocations, 0};
  registry().each([&](thread_cache& t) {
    c.allocations += t.allocations.read();
    c.cached += t.cached();
    c.current += t.pending.read();
  });
  c.peak = std::max(c.peak, c.current);
  return c;
}
void memory::reset_peak() noexcept { peak_bytes = counters().current; }

void memory::limit(std::int64_t bytes) {
  if (bytes < 0) {
    text t;
    detail::raise(error_kind::value,
                  t << "memory::limit: `bytes` is " << bytes << "; expected 0 or more; 0 is no limit");
  }
  std::lock_guard lock(registry().mutex);
  byte_limit = bytes;
  // From here on every thread counts its bytes immediately; their pending bytes are collected.
  if (can_hold()) registry().each_held([max = max_to_gather()](thread_cache& c) { c.flush_pending(max); });
}

void memory::trim() noexcept {
  {
    std::lock_guard lock(registry().mutex);
    cache.give_up();
    cache.free_given_up();
  }
  return_free_pages();
}

void memory::trim_all() noexcept {
  {
    std::lock_guard lock(registry().mutex);
    if (can_hold()) {
      registry().each_held([](thread_cache& c) { c.give_up(); });
      registry().each([](thread_cache& c) { c.free_given_up(); });
    } else {
      registry().each([](thread_cache& c) { c.state.store(thread_cache::states::called, std::memory_order_release); });
    }
  }
  if (!can_hold()) trim();
  return_free_pages();
}

}  // namespace lamina
