// Threads: the pool with its own workers or on a scheduler of the caller's, and the workers of a program.
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
          t << whose << ": thread " << number << " of " << count << " cannot be started: " << e.what());
  }
}

namespace {

constexpr int max_threads = 1024;
// Gives the number back where it is not too large.
int checked(std::string_view whose, int n) {
  if (n <= max_threads) return n;
  text t;
  detail::raise(error_kind::value,
                t << whose << ": " << n << " threads are asked for, and at most " << max_threads << " are allowed");
}

// The scheduler of a pool that has threads of its own.
class own_threads {
 public:
  explicit own_threads(int n) : count_(n < 1 ? 1 : n) {
    try {
      workers_.reserve(static_cast<std::size_t>(count_ - 1));
      for (int w = 1; w < count_; ++w)
        workers_.push_back(detail::start_thread("thread_pool", w + 1, count_, [this] { work(); }));
    } catch (...) {  // the system has no more threads: those that were started end
      stop();
      throw;
    }
  }
  ~own_threads() { stop(); }
  own_threads(const own_threads&) = delete;
  own_threads& operator=(const own_threads&) = delete;

  int concurrency() const { return count_; }

  // Whether the threads are in this process: a forked child has none of them, and their locks are as they were.
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
  // Waits until `ready()` holds: spins for at most 50 us, then sleeps.
  template <class F> void wait(std::condition_variable& condition, F ready) {
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
      for (int i = 0; i < 64; ++i) {
        if (ready()) return;
        __builtin_ia32_pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    std::unique_lock lock(mutex_);
    while (!ready()) condition.wait(lock);
  }

  // Makes calls until all have begun. A thread that wakes late finds none: nobody waits for it.
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
  std::atomic<std::uint64_t> ticket_{0};  // number of the job, and below it how many of its calls have not begun
  std::atomic<std::size_t> unfinished_{0};
  std::atomic<bool> stopping_{false};
  const detail::lane_work* job_ = nullptr;
};

// The jobs that the calling thread is inside of, innermost first.
struct job_mark {
  const void* pool;
  int worker;
  const job_mark* outer;
};
constinit thread_local const job_mark* innermost = nullptr;

// One run: lanes take indices from a counter, so that it does not matter which lane runs when, or whether side by side.
// A lane's number is the order in which it was begun.
struct run_of_lanes {
  const void* pool;
  std::size_t n;
  void (*f)(void*, std::size_t, int);
  void* state;
  int lanes;
  const detail::stop_link* stop;  // of the thread that began the run
  std::atomic<std::size_t> next{0};
  std::atomic<int> begun{0}, ended{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure{};  // of the lane that set `failed`

  static void lane(void* run) noexcept { static_cast<run_of_lanes*>(run)->work(); }
  void work() noexcept {
    const int mine = begun.fetch_add(1, std::memory_order_acq_rel);
    if (mine < lanes) {
      const job_mark mark{pool, mine, innermost};
      const detail::stopped_by same(stop);
      innermost = &mark;
      try {
        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_acq_rel)) < n;) f(state, i, mine);
      } catch (...) {
        next.store(n, std::memory_order_release);
        if (!failed.exchange(true, std::memory_order_acq_rel)) failure = std::current_exception();
      }
      innermost = mark.outer;
    }
    ended.fetch_add(1, std::memory_order_acq_rel);
  }
};

}  // namespace

struct thread_pool::implementation {
  detail::any_scheduler scheduler;
  int count;
  std::atomic<bool> taken{false};  // by a run
};

// Threads and conditions of the parent can be neither joined nor destroyed in a forked child: there they are kept.
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
}
thread_pool::~thread_pool() = default;
int thread_pool::threads() const { return impl_->count; }

void thread_pool::run(std::size_t n, void (*f)(void*, std::size_t, int), void* state) {
  auto alone = [&](int worker) {
    for (std::size_t i = 0; i < n; ++i) f(state, i, worker);
  };
  auto& pool = *impl_;
  if (pool.count <= 1 || n <= 1) return alone(0);
  for (auto* job = innermost; job; job = job->outer)
    if (job->pool == &pool) return alone(job->worker);
  // Waiting for the other run could be waiting for oneself, by way of a job of another pool. In a forked child it may be a
  // run of the parent, which never ends.
  if (pool.taken.exchange(true, std::memory_order_acquire)) return alone(0);
  struct giving_back {
    std::atomic<bool>& taken;
    ~giving_back() { taken.store(false, std::memory_order_release); }
  } after{pool.taken};

  const auto lanes = std::min(n, static_cast<std::size_t>(pool.count));
  run_of_lanes run{&pool, n, f, state, static_cast<int>(lanes), detail::innermost_stop};
  pool.scheduler.bulk(pool.scheduler.object.get(), lanes, detail::lane_work(&run_of_lanes::lane, &run));
  if (const int ended = run.ended.load(std::memory_order_acquire); ended < run.lanes) {
    while (run.ended.load(std::memory_order_acquire) < run.begun.load(std::memory_order_acquire))
      std::this_thread::yield();
    text t;
    t << "scheduler: `bulk(" << lanes << ", f)` has returned after " << ended << " calls of f";
    detail::raise(error_kind::state, t);
  }
  if (run.failed.load(std::memory_order_acquire)) std::rethrow_exception(run.failure);
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
  auto said = [workers, count = failures.size()](std::string_view first) {
    text t;
    t << first << " (" << count << " of " << workers << " workers have failed)";
    return t.string();
  };
  try {
    std::rethrow_exception(failures.front());
  } catch (const shape_error& e) {
    throw combined<shape_error>(std::move(failures), said(e.what()));
  } catch (const type_error& e) {
    throw combined<type_error>(std::move(failures), said(e.what()));
  } catch (const value_error& e) {
    throw combined<value_error>(std::move(failures), said(e.what()));
  } catch (const file_error& e) {
    throw combined<file_error>(std::move(failures), said(e.what()));
  } catch (const state_error& e) {
    throw combined<state_error>(std::move(failures), said(e.what()));
  } catch (const deadline_error& e) {
    throw combined<deadline_error>(std::move(failures), said(e.what()));
  } catch (const stopped_error& e) {
    throw combined<stopped_error>(std::move(failures), said(e.what()));
  } catch (const resource_error& e) {
    throw combined<resource_error>(std::move(failures), said(e.what()));
  } catch (const unsupported_error& e) {
    throw combined<unsupported_error>(std::move(failures), said(e.what()));
  } catch (const out_of_memory& e) {
    throw combined<out_of_memory>(std::move(failures), said(e.what()), e.requested(), e.used(), e.limit(), e.planned());
  } catch (const std::exception& e) { throw combined<error>(std::move(failures), said(e.what())); } catch (...) {
    throw combined<error>(std::move(failures), said("an exception without a message"));
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
  } catch (...) {  // the system has no more threads: those that run are waited for
    failed();
  }
  for (auto& t : threads) t.join();
  if (failures.size() == 1) std::rethrow_exception(failures.front());
  if (!failures.empty()) raise_all(std::move(failures), workers);
}

}  // namespace lamina
