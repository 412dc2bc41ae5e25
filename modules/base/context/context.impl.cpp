module;
#include <sched.h>
module lamina:context.impl;
import :core;
import :context;
import lamina.std;

namespace lamina {

bool machine_has(isa set) {
  switch (set) {
    case isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    case isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    default: return true;
  }
}

isa target_isa() {
  static const isa chosen = [] {
    isa best = machine_has(isa::avx512) ? isa::avx512 : machine_has(isa::avx2) ? isa::avx2 : isa::sse2;
    const char* forced = std::getenv("LAMINA_ISA");
    if (!forced || !*forced) return best;
    for (isa set : {isa::sse2, isa::avx2, isa::avx512})
      if (name_of(set) == forced) {
        if (!machine_has(set)) {
          text t;
          t << "LAMINA_ISA=" << forced << ": this machine has no " << forced << "; the best it has is " << name_of(best);
          detail::raise(error_kind::value, t);
        }
        return set;
      }
    text t;
    t << "LAMINA_ISA=" << forced << ": not an instruction set; choose avx512, avx2 or sse2";
    detail::raise(error_kind::value, t);
  }();
  return chosen;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace {

std::atomic<std::int64_t> current_bytes, peak_bytes, byte_limit;

// Sizes up to 1 MiB are rounded up to one of four steps a doubling and kept per thread, at most 4 MiB a class.
constexpr std::size_t largest = std::size_t(1) << 20;
constexpr int classes = 52;
struct size_class { int index; std::size_t bytes; };
constexpr size_class class_of(std::size_t bytes) {
  if (bytes <= 512) {
    int steps = bytes == 0 ? 1 : static_cast<int>((bytes + 63) / 64);
    return {steps - 1, static_cast<std::size_t>(steps) * 64};
  }
  int width = static_cast<int>(std::bit_width(bytes - 1));
  std::size_t step = std::size_t(1) << (width - 3), steps = (bytes + step - 1) / step;
  return {8 + (width - 10) * 4 + static_cast<int>(steps) - 5, steps * step};
}

// Written by its own thread alone, read by whoever asks for the counters.
class thread_counter {
 public:
  void add(std::int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::int64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct thread_cache;
struct cache_registry {
  std::mutex mutex;
  std::vector<thread_cache*> caches;
  std::int64_t allocations = 0;          // of threads that have ended
};
cache_registry& registry() {
  static auto* r = new cache_registry;   // outlives every thread
  return *r;
}

struct thread_cache {
  struct item { item* next; };
  item* heads[classes]{};
  std::size_t held[classes]{};
  thread_counter allocations, cached;
  thread_counter pending;                // of small blocks: not yet in `current_bytes`
  bool alive = true;

  thread_cache() {
    std::lock_guard lock(registry().mutex);
    registry().caches.push_back(this);
  }
  ~thread_cache() {
    trim();
    alive = false;
    std::lock_guard lock(registry().mutex);
    current_bytes.fetch_add(pending.read(), std::memory_order_relaxed);
    registry().allocations += allocations.read();
    std::erase(registry().caches, this);
  }
  void trim() noexcept {
    for (int c = 0; c < classes; ++c) {
      while (item* i = heads[c]) {
        heads[c] = i->next;
        std::free(i);
      }
      held[c] = 0;
    }
    cached.add(-cached.read());
  }
};
thread_local thread_cache cache;

size_class rounded(std::size_t bytes) {
  if (bytes <= largest) return class_of(bytes);
  return {-1, (bytes + 63) / 64 * 64};
}

// Counts bytes in or out; false, and nothing counted, where they would cross the limit. Small blocks are gathered by their
// thread and counted together, unless there is a limit to keep, so that they cost no locked instruction; the peak may
// then miss up to 64 KiB a thread.
constexpr std::int64_t small_block = 4096, gathered = 65536;
bool count_bytes(thread_cache& mine, std::int64_t change) {
  auto most = byte_limit.load(std::memory_order_relaxed);
  auto all = change;
  if (mine.alive) {
    all += mine.pending.read();
    if (!most && change <= small_block && change >= -small_block && all <= gathered && all >= -gathered) {
      mine.pending.add(change);
      return true;
    }
    mine.pending.add(change - all);
  }
  auto now = current_bytes.fetch_add(all, std::memory_order_relaxed) + all;
  if (!most || change <= 0 || now <= most) return true;
  current_bytes.fetch_sub(change, std::memory_order_relaxed);
  return false;
}

}  // namespace

void* memory::allocate(std::size_t bytes) {
  if (bytes >> 47) {   // more than an address space holds: rounding and counting need not think of overflow
    text t;
    t << "out of memory: " << bytes << " bytes requested";
    detail::raise(error_kind::memory, t);
  }
  auto [kind, size] = rounded(bytes);
  auto change = static_cast<std::int64_t>(size);
  thread_cache& mine = cache;
  if (!count_bytes(mine, change)) {
    text t;
    t << "out of memory: " << bytes << " bytes requested, " << current_bytes.load() << " in use, limit " << byte_limit.load();
    detail::raise(error_kind::memory, t);
  }
  void* p;
  if (kind >= 0 && mine.alive && mine.heads[kind]) {
    auto* i = mine.heads[kind];
    mine.heads[kind] = i->next;
    --mine.held[kind];
    mine.cached.add(-change);
    p = i;
  } else if (p = std::aligned_alloc(64, size); !p) {
    count_bytes(mine, -change);
    text t;
    t << "out of memory: the system refused " << bytes << " bytes";
    detail::raise(error_kind::memory, t);
  }
  auto now = current_bytes.load(std::memory_order_relaxed);
  for (auto peak = peak_bytes.load(std::memory_order_relaxed); now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed);) {}
  mine.allocations.add(1);
  return p;
}

void memory::release(void* p, std::size_t bytes) noexcept {
  if (!p) return;
  auto [kind, size] = rounded(bytes);
  thread_cache& mine = cache;
  count_bytes(mine, -static_cast<std::int64_t>(size));
  if (kind >= 0 && mine.alive && mine.held[kind] * size < (std::size_t(4) << 20)) {
    auto* i = static_cast<thread_cache::item*>(p);
    i->next = mine.heads[kind];
    mine.heads[kind] = i;
    ++mine.held[kind];
    mine.cached.add(static_cast<std::int64_t>(size));
    return;
  }
  std::free(p);
}

memory_counters memory::counters() noexcept {
  memory_counters c{current_bytes, peak_bytes, 0, 0};
  std::lock_guard lock(registry().mutex);
  c.allocations = registry().allocations;
  for (auto* t : registry().caches) {
    c.allocations += t->allocations.read();
    c.cached += t->cached.read();
    c.current += t->pending.read();
  }
  c.peak = std::max(c.peak, c.current);
  return c;
}
void memory::reset_peak() noexcept { peak_bytes = counters().current; }
void memory::limit(std::int64_t bytes) noexcept { byte_limit = bytes; }
void memory::trim() noexcept { cache.trim(); }

// ---- threads --------------------------------------------------------------------------------------------------------

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  return 1;
}

struct thread_pool::implementation {
  explicit implementation(int n) : count(n < 1 ? 1 : n) {
    for (int w = 1; w < count; ++w) workers.emplace_back([this, w] { work(w); });
  }
  ~implementation() {
    stopping.store(true);
    {
      std::lock_guard lock(mutex);
      generation.fetch_add(1);
    }
    wake.notify_all();
    for (auto& t : workers) t.join();
  }

  static void pause() { __builtin_ia32_pause(); }

  // Waits until `ready()` holds: spins for at most 50 us, then sleeps.
  template <class F>
  void wait(std::condition_variable& condition, F ready) {
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
      for (int i = 0; i < 64; ++i) {
        if (ready()) return;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    std::unique_lock lock(mutex);
    while (!ready()) condition.wait(lock);
  }

  void take(int worker) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_acq_rel)) < total;) job(state, i, worker);
  }

  void work(int worker) {
    std::uint64_t seen = 0;
    while (true) {
      wait(wake, [&] { return generation.load(std::memory_order_acquire) != seen; });
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load()) return;
      take(worker);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void run(std::size_t n, void (*f)(void*, std::size_t, int), void* s) {
    if (count == 1 || n <= 1) {
      for (std::size_t i = 0; i < n; ++i) f(s, i, 0);
      return;
    }
    std::lock_guard one_at_a_time(runs);
    job = f;
    state = s;
    total = n;
    next.store(0, std::memory_order_relaxed);
    busy.store(count - 1, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    take(0);
    wait(done, [&] { return busy.load(std::memory_order_acquire) == 0; });
  }

  int count;
  std::vector<std::thread> workers;
  std::mutex mutex, runs;
  std::condition_variable wake, done;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> next{0};
  std::atomic<int> busy{0};
  void (*job)(void*, std::size_t, int) = nullptr;
  void* state = nullptr;
  std::size_t total = 0;
};

thread_pool::thread_pool(int threads) : impl_(std::make_unique<implementation>(threads)) {}
thread_pool::~thread_pool() = default;
int thread_pool::threads() const { return impl_->count; }
void thread_pool::run(std::size_t n, void (*f)(void*, std::size_t, int), void* state) { impl_->run(n, f, state); }

void parallel_workers(int workers, const std::function<void(int)>& f) {
  std::exception_ptr first;
  std::mutex mutex;
  auto guarded = [&](int w) {
    try {
      f(w);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int w = 1; w < workers; ++w) threads.emplace_back(guarded, w);
    if (workers > 0) guarded(0);
  } catch (...) {   // the system has no more threads: those that run are waited for
    std::lock_guard lock(mutex);
    first = std::current_exception();
  }
  for (auto& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

// ---- context --------------------------------------------------------------------------------------------------------

struct context::shared {
  std::mutex mutex;
  std::unique_ptr<thread_pool> pool;
  std::vector<std::pair<void*, void (*)(void*)>> owned;
  std::map<std::size_t, void*> overflow;   // slots beyond the flat array
};

// A number beyond all machines is a mistake, and the system would fail in the midst of starting so many.
static int checked(int threads) {
  constexpr int most = 1024;
  if (threads > most) {
    text t;
    t << "context: " << threads << " threads are asked for, and at most " << most << " are allowed";
    detail::raise(error_kind::value, t);
  }
  return threads;
}

context::context() : context(1, target_isa()) {}
context::context(int threads, lamina::isa set)
    : isa_(set), threads_(checked(threads > 0 ? threads : available_cores())),
      slots_(std::make_unique<std::atomic<void*>[]>(slot_count)), shared_(std::make_unique<shared>()) {
  if (!machine_has(set)) {
    text t;
    t << "context: this machine has no " << name_of(set);
    detail::raise(error_kind::value, t);
  }
}
context::~context() {
  for (auto i = shared_->owned.rbegin(); i != shared_->owned.rend(); ++i) i->second(i->first);
}

thread_pool& context::pool() {
  std::lock_guard lock(shared_->mutex);
  if (!shared_->pool) shared_->pool = std::make_unique<thread_pool>(threads_);
  return *shared_->pool;
}

std::size_t context::next_slot() {
  static std::atomic<std::size_t> next{0};
  return next.fetch_add(1);
}

void* context::make_slot(std::size_t at, void* (*make)(), void (*destroy)(void*)) {
  std::lock_guard lock(shared_->mutex);
  if (at < slot_count) {
    if (void* p = slots_[at].load()) return p;
  } else if (auto i = shared_->overflow.find(at); i != shared_->overflow.end()) {
    return i->second;
  }
  void* p = make();
  shared_->owned.emplace_back(p, destroy);
  if (at < slot_count) slots_[at].store(p, std::memory_order_release);
  else shared_->overflow[at] = p;
  return p;
}

context& default_context() {
  static context c;
  return c;
}

}  // namespace lamina
