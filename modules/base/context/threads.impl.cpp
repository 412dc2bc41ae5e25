// Threads: the pool on its own threads or a caller's scheduler, and `parallel_workers`.
module;
#include <pthread.h>
#include <sched.h>
module lamina:context.threads.impl;
import :context;
import :core;
import :stop;
import lamina.std;

namespace lamina {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  return 1;
}

namespace {
constinit std::atomic<std::uint32_t> forks{0};
}

std::uint32_t detail::process_number() {
  static const int refused = ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  if (refused) raise(error_kind::memory, "out of memory: the system refused a handler for forks");
  return forks.load(std::memory_order_relaxed);
}

std::thread detail::start_thread(std::string_view whose, int number, int count, std::function<void()> f) {
  try {
    return std::thread(std::move(f));
  } catch (const std::system_error& e) {
    text t;
    raise(error_kind::resource,
          t << whose << ": thread " << number << " of " << count << " cannot be started: " << e.code().message());
  }
}

namespace {

constexpr int max_threads = 1024;
// Returns `n`. Errors: value_error if it exceeds `max_threads`.
int checked(std::string_view whose, int n) {
  if (n <= max_threads) return n;
  text t;
  detail::raise(error_kind::value,
                t << whose << ": " << n << " threads requested, and at most " << max_threads << " are allowed");
}

// Lets the processor's other work go on for some cycles.
inline void pause() {
#if defined(__aarch64__)
  __builtin_arm_isb(15);
#else
  __builtin_ia32_pause();
#endif
}

// Spins until `ready()` holds, for at most 50 us; returns whether it does.
template <class F> bool spin_until(F ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The share that a thread tries first: its data from the previous run may still be in the core's cache.
constinit thread_local int usual_lane = 0;

// The scheduler of a pool with its own threads.
class own_threads {
 public:
  explicit own_threads(int n) : count_(n < 1 ? 1 : n) {
    try {
      workers_.reserve(static_cast<std::size_t>(count_ - 1));
      for (int w = 1; w < count_; ++w)
        workers_.push_back(detail::start_thread("thread_pool", w + 1, count_, [this, w] {
          usual_lane = w;
          work();
        }));
    } catch (...) {  // the system has no more threads: stop those already started
      stop();
      throw;
    }
  }
  ~own_threads() { stop(); }
  own_threads(const own_threads&) = delete;
  own_threads& operator=(const own_threads&) = delete;

  int concurrency() const { return count_; }

  // Whether the threads exist in this process: a forked child has none of them, and their locks keep their state of the
  // fork.
  bool here() const { return process_ == detail::process_number(); }

  void bulk(std::size_t n, const detail::lane_work& f) {
    if (!here()) {
      for (std::size_t i = 0; i < n; ++i) f(i);
      return;
    }
    job_ = &f;
    unfinished_.store(n, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      const std::uint64_t last = ticket_.load(std::memory_order_relaxed) >> 32;
      ticket_.store((last + 1) << 32 | n, std::memory_order_release);
    }
    wake_.notify_all();
    take();
    wait(done_, [&] { return unfinished_.load(std::memory_order_acquire) == 0; });
  }

 private:
  // Spins, then blocks, until `ready()` holds.
  template <class F> void wait(std::condition_variable& condition, F ready) {
    if (spin_until(ready)) return;
    std::unique_lock lock(mutex_);
    while (!ready()) condition.wait(lock);
  }

  // Makes calls until all have begun; returns whether it finished the last one. A thread that wakes late finds none
  // left, and no thread waits for it.
  bool take() {
    bool last = false;
    auto ticket = ticket_.load(std::memory_order_acquire);
    while ((ticket & calls_mask) != 0) {
      if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
      (*job_)((ticket & calls_mask) - 1);
      last = unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1;
      ticket = ticket_.load(std::memory_order_acquire);
    }
    return last;
  }

  void work() {
    std::uint64_t seen = 0;
    while (true) {
      wait(wake_, [&] { return stopping_.load() || ticket_.load(std::memory_order_acquire) >> 32 != seen; });
      if (stopping_.load()) return;
      seen = ticket_.load(std::memory_order_acquire) >> 32;
      if (!take()) continue;
      std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_.store(true);
    }
    wake_.notify_all();
    for (auto& t : workers_) t.join();
  }

  int count_;
  const std::uint32_t process_ = detail::process_number();
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  static constexpr std::uint64_t calls_mask = 0xffffffff;
  std::atomic<std::uint64_t> ticket_{0};  // upper half: job number; lower half: calls not begun
  std::atomic<std::size_t> unfinished_{0};
  std::atomic<bool> stopping_{false};
  const detail::lane_work* job_ = nullptr;
};

// The jobs that the calling thread is running, innermost first.
struct job_mark {
  const void* pool;
  int worker;
  const job_mark* outer;
};
constinit thread_local const job_mark* innermost = nullptr;

// A lane's share of the calls of a stage. Upper half of `begun`: stage number; lower half: calls of the share that have
// begun.
struct alignas(64) share_of_lane {
  std::atomic<std::uint64_t> begun;
  std::atomic<bool> taken;
};

// One run. Each lane has an equal, contiguous share of a stage's calls and steals from others when its own is empty, so
// that neither the order of lanes nor their parallelism matters. The lane that ends the last call of a stage opens the
// next one.
class run_of_lanes {
 public:
  run_of_lanes(const void* pool, const staged_calls& calls, std::span<share_of_lane> shares)
      : pool_(pool), calls_(calls), shares_(shares), stop_(detail::innermost_stop) {
    std::size_t first = 0;
    while (size(first) == 0) ++first;
    for (auto& s : shares_) {
      s.begun.store(first << 32, std::memory_order_relaxed);
      s.taken.store(false, std::memory_order_relaxed);
    }
  }

  static void lane(void* run) noexcept { static_cast<run_of_lanes*>(run)->work(); }
  int begun() const { return begun_.load(std::memory_order_acquire); }
  int ended() const { return ended_.load(std::memory_order_acquire); }
  void rethrow() const {
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
  }

 private:
  std::size_t size(std::size_t stage) const { return calls_.size(calls_.state, stage); }
  // First call of a share, which is also the end of the previous share.
  std::size_t first_of(std::size_t share, std::size_t stage) const { return share * size(stage) / shares_.size(); }

  void work() noexcept {
    begun_.fetch_add(1, std::memory_order_acq_rel);
    if (const std::size_t own = own_share(); own < shares_.size()) {
      const job_mark mark{pool_, static_cast<int>(own), innermost};
      const detail::stopped_by same(stop_);
      innermost = &mark;
      try {
        while (take(own)) {}
      } catch (...) {
        if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
        open(calls_.stages);
      }
      innermost = mark.outer;
    }
    ended_.fetch_add(1, std::memory_order_acq_rel);
  }
  std::size_t own_share() {
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const std::size_t share = (static_cast<std::size_t>(usual_lane) + i) % shares_.size();
      if (!shares_[share].taken.exchange(true, std::memory_order_acq_rel)) return share;
    }
    return shares_.size();
  }

  // Makes one call or waits for the next stage. Returns false at the end of the run.
  bool take(std::size_t own) {
    const std::size_t stage = shares_[own].begun.load(std::memory_order_acquire) >> 32;
    if (stage == calls_.stages) return false;
    for (std::size_t i = 0; i < shares_.size(); ++i)
      if (take_from((own + i) % shares_.size(), own)) return true;
    wait_for_stage_after(stage, shares_[own]);
    return true;
  }
  bool take_from(std::size_t share, std::size_t own) {
    auto& begun = shares_[share].begun;
    std::uint64_t at = begun.load(std::memory_order_acquire);
    const auto call = [&] { return first_of(share, at >> 32) + (at & calls_mask); };
    const auto left = [&] { return at >> 32 < calls_.stages && call() < first_of(share + 1, at >> 32); };
    if (!left()) return false;
    at = begun.fetch_add(1, std::memory_order_acq_rel);  // may belong to a later stage by now
    if (!left()) return false;
    const std::size_t stage = at >> 32;
    calls_.f(calls_.state, stage, call(), static_cast<int>(own));
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == size(stage)) begin(stage + 1, own);
    return true;
  }
  // Opens the next stage with more than one call; runs single calls before it directly, without other lanes.
  void begin(std::size_t stage, std::size_t own) {
    for (; stage < calls_.stages; ++stage) {
      const std::size_t n = size(stage);
      if (n > 1) break;
      if (n == 1) calls_.f(calls_.state, stage, 0, static_cast<int>(own));
    }
    done_.store(0, std::memory_order_relaxed);
    open(stage);
  }
  // The stores precede the load of `sleeping_`, just as a lane increments `sleeping_` before it rechecks its share.
  void open(std::size_t stage) {
    for (auto& s : shares_) s.begun.store(stage << 32, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard lock(mutex_);
    opened_.notify_all();
  }
  void wait_for_stage_after(std::size_t stage, const share_of_lane& own) {
    const auto opened = [&] { return own.begun.load(std::memory_order_seq_cst) >> 32 != stage; };
    if (spin_until(opened)) return;
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    std::unique_lock lock(mutex_);
    while (!opened()) opened_.wait(lock);
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
  }

  const void* pool_;
  const staged_calls& calls_;
  std::span<share_of_lane> shares_;
  const detail::stop_link* stop_;  // stop scope of the thread that began the run
  static constexpr std::uint64_t calls_mask = 0xffffffff;
  alignas(64) std::atomic<std::size_t> done_{0};  // ended calls of the current stage
  std::atomic<int> begun_{0}, ended_{0}, sleeping_{0};
  std::mutex mutex_;
  std::condition_variable opened_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_{};  // written by the lane that set `failed_`
};

}  // namespace

struct thread_pool::implementation {
  detail::any_scheduler scheduler;
  int count;
  std::vector<share_of_lane> shares;
  std::atomic<bool> taken{false};  // in use by a run
};

// A forked child can neither join nor destroy the parent's threads and condition variables: it leaks them.
static std::shared_ptr<own_threads> made_threads(int n) {
  auto made = std::make_unique<own_threads>(n);
  auto end = [](own_threads* all) {
    if (all->here()) delete all;
  };
  return std::shared_ptr<own_threads>(made.release(), end);
}

thread_pool::thread_pool(int threads)
    : thread_pool(detail::any_scheduler::of(made_threads(checked("thread_pool", threads)))) {}
thread_pool::thread_pool(detail::any_scheduler scheduler)
    : impl_(std::make_unique<implementation>(std::move(scheduler))) {
  impl_->count = impl_->scheduler.concurrency(impl_->scheduler.object.get());
  impl_->shares = std::vector<share_of_lane>(static_cast<std::size_t>(std::max(impl_->count, 1)));
}
thread_pool::~thread_pool() = default;
int thread_pool::threads() const { return impl_->count; }

void thread_pool::run(std::size_t n, void (*f)(void*, std::size_t, int), void* state) {
  struct one_stage {
    std::size_t n;
    void (*f)(void*, std::size_t, int);
    void* state;
  } stage{n, f, state};
  run_stages({.stages = 1,
              .size = [](const void* s, std::size_t) { return static_cast<const one_stage*>(s)->n; },
              .f =
                  [](void* s, std::size_t, std::size_t i, int worker) {
                    const auto& one = *static_cast<const one_stage*>(s);
                    one.f(one.state, i, worker);
                  },
              .state = &stage});
}

void thread_pool::run_stages(const staged_calls& calls) {
  auto& pool = *impl_;
  std::size_t widest = 0;
  for (std::size_t s = 0; s < calls.stages && widest < static_cast<std::size_t>(pool.count); ++s)
    widest = std::max(widest, calls.size(calls.state, s));
  auto alone = [&](int worker) {
    for (std::size_t s = 0; s < calls.stages; ++s)
      for (std::size_t i = 0, n = calls.size(calls.state, s); i < n; ++i) calls.f(calls.state, s, i, worker);
  };
  if (pool.count <= 1 || widest <= 1) return alone(0);
  for (auto* job = innermost; job; job = job->outer)
    if (job->pool == &pool) return alone(job->worker);
  // Waiting for the other run could deadlock through a job of another pool. In a forked child it may be a run of the
  // parent, which never ends.
  if (pool.taken.exchange(true, std::memory_order_acquire)) return alone(0);
  struct giving_back {
    std::atomic<bool>& taken;
    ~giving_back() { taken.store(false, std::memory_order_release); }
  } after{pool.taken};

  const auto lanes = std::min(widest, static_cast<std::size_t>(pool.count));
  run_of_lanes run(&pool, calls, std::span(pool.shares).first(lanes));
  pool.scheduler.bulk(pool.scheduler.object.get(), lanes, detail::lane_work(&run_of_lanes::lane, &run));
  if (const int ended = run.ended(); ended < static_cast<int>(lanes)) {
    while (run.ended() < run.begun()) std::this_thread::yield();
    text t;
    t << "scheduler: `bulk(" << lanes << ", f)` has returned after " << ended << " calls of f";
    detail::raise(error_kind::state, t);
  }
  run.rethrow();
}

// ---- workers --------------------------------------------------------------------------------------------------------

worker_failures::worker_failures(std::vector<std::exception_ptr> all) : all_(std::move(all)) {}
worker_failures::~worker_failures() = default;

namespace {

template <class E> struct combined : E, worker_failures {
  template <class... A> explicit combined(std::vector<std::exception_ptr> all, const A&... a)
      : E(a...), worker_failures(std::move(all)) {}
};

[[noreturn]] void raise_all(std::vector<std::exception_ptr> failures, int workers) {
  auto message = [workers, count = failures.size()](std::string_view first) {
    text t;
    t << first << " (" << count << " of " << workers << " workers have failed)";
    return t.string();
  };
  try {
    std::rethrow_exception(failures.front());
  } catch (const shape_error& e) {
    throw combined<shape_error>(std::move(failures), message(e.what()));
  } catch (const type_error& e) {
    throw combined<type_error>(std::move(failures), message(e.what()));
  } catch (const value_error& e) {
    throw combined<value_error>(std::move(failures), message(e.what()));
  } catch (const file_error& e) {
    throw combined<file_error>(std::move(failures), message(e.what()));
  } catch (const state_error& e) {
    throw combined<state_error>(std::move(failures), message(e.what()));
  } catch (const deadline_error& e) {
    throw combined<deadline_error>(std::move(failures), message(e.what()));
  } catch (const stopped_error& e) {
    throw combined<stopped_error>(std::move(failures), message(e.what()));
  } catch (const resource_error& e) {
    throw combined<resource_error>(std::move(failures), message(e.what()));
  } catch (const unsupported_error& e) {
    throw combined<unsupported_error>(std::move(failures), message(e.what()));
  } catch (const out_of_memory& e) {
    throw combined<out_of_memory>(std::move(failures), message(e.what()), e.requested(), e.used(), e.limit(),
                                  e.planned());
  } catch (const std::exception& e) { throw combined<error>(std::move(failures), message(e.what())); } catch (...) {
    throw combined<error>(std::move(failures), message("an exception without a message"));
  }
}

}  // namespace

void parallel_workers(int workers, const std::function<void(int)>& f) {
  if (checked("parallel_workers", workers) <= 0) workers = available_cores();
  std::vector<std::exception_ptr> failures;
  failures.reserve(static_cast<std::size_t>(workers) + 1);
  std::mutex mutex;
  auto failed = [&] {
    std::lock_guard lock(mutex);
    failures.push_back(std::current_exception());
  };
  auto guarded = [&, stop = detail::innermost_stop](int w) {
    const detail::stopped_by same(stop);
    try {
      f(w);
    } catch (...) { failed(); }
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<std::size_t>(workers));
    for (int w = 1; w < workers; ++w)
      threads.push_back(detail::start_thread("parallel_workers", w + 1, workers, [&guarded, w] { guarded(w); }));
    guarded(0);
  } catch (...) {  // the system has no more threads: wait for those that run
    failed();
  }
  for (auto& t : threads) t.join();
  if (failures.size() == 1) std::rethrow_exception(failures.front());
  if (!failures.empty()) raise_all(std::move(failures), workers);
}

}  // namespace lamina
