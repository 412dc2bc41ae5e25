// Where work runs: instruction set, memory with limits and counters, threads, and typed slots for caches of later rooms.
export module lamina:context;
import :core;
import lamina.std;

namespace lamina {

/// Instruction sets of the kernels: x86-64 in ascending order, and aarch64, for which plans and bundles are made.
export enum class isa : std::int32_t { sse2, avx2, avx512, neon64 };
export constexpr std::string_view name_of(isa set) {
  constexpr std::string_view names[] = {"sse2", "avx2", "avx512", "neon64"};
  return names[static_cast<int>(set)];
}
/// The best set of this machine, or the one that the environment variable LAMINA_ISA names.
/// Errors: value_error if LAMINA_ISA names no set or one that the machine lacks.
export isa target_isa();
/// Whether this machine can run a set. The stand-in for a set of another machine does not count.
export bool machine_has(isa set);

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Bytes handed out by lamina's allocator, as it rounds them: to multiples of 64 up to 512, to four steps a
/// doubling up to 1 MiB, and to multiples of 64 beyond.
struct memory_counters {
  std::int64_t current = 0;      // in use by all threads; exact unless a thread allocates or releases at this moment
  std::int64_t peak = 0;         // the most that was in use: exact under a limit, else within 64 KiB for each thread
  std::int64_t allocations = 0;  // how often `allocate` succeeded
  std::int64_t cached = 0;       // kept by threads for later allocations, and part of no other figure
};
export namespace memory {
/// 64-byte aligned memory from the calling thread's cache or the system.
/// Errors: out_of_memory, before anything is allocated, where the limit would be crossed; or where the system refuses even
/// after all threads have returned the memory that they keep.
void* allocate(std::size_t bytes);
/// Releases memory of `allocate(bytes)`, from any thread.
void release(void* p, std::size_t bytes) noexcept;
memory_counters counters() noexcept;
/// Starts the peak again at the current use.
void reset_peak() noexcept;
/// Maximum of bytes in use at once; 0 means no limit. Memory in use stays. Errors: value_error below 0.
void limit(std::int64_t bytes);
/// Returns the memory that the calling thread keeps for later to the system.
void trim() noexcept;
/// Returns what all threads keep, also of threads that sleep or compute. They need not take part and are not held up.
/// Where the system refuses membarrier(2), each other thread does so at its next allocation.
void trim_all() noexcept;
}  // namespace memory

// ---- threads --------------------------------------------------------------------------------------------------------

namespace detail {

/// Starts the thread `number` of `count` of what `whose` names; `f` throws nothing. Errors: resource_error naming all
/// three, where the system has no more threads.
std::thread start_thread(std::string_view whose, int number, int count, std::function<void()> f);
/// A number that differs between a process and its forked children, which have none of its threads.
std::uint32_t process_number();

/// The function that a scheduler calls: f(lane).
class lane_work {
 public:
  lane_work(void (*run)(void*), void* state) : run_(run), state_(state) {}
  void operator()(std::size_t) const noexcept { run_(state_); }

 private:
  void (*run_)(void*);
  void* state_;
};

template <class S> struct scheduler_check {
  static consteval text message() {
    constexpr bool bulk = requires(S& s, std::size_t n, const lane_work& f) { s.bulk(n, f); };
    constexpr bool width = requires(S& s) {
      { s.concurrency() } -> std::convertible_to<int>;
    };
    text t;
    if (bulk && width) return t;
    t << type_name<S>() << " is no scheduler: it needs ";
    if (!bulk) t << "`bulk(n, f)`, which calls f(i) for each std::size_t i below n and returns when all are done";
    if (!bulk && !width) t << ", and ";
    if (!width) t << "`int concurrency()`, the number of calls that may run at once";
    return t;
  }
};

}  // namespace detail

/// Threads of the caller's: `bulk(n, f)` calls f(0) to f(n - 1), in any order, on any threads, and returns when all calls
/// have returned; `concurrency()` is how many may run at once. f throws nothing and may be copied; a call of it may wait for
/// others that have begun, never for one that has not. A pool or context calls `bulk` from one thread at a time, never from
/// inside f, with n at most `concurrency()`, which it asks for once.
export template <class S>
concept Scheduler = no_error<detail::scheduler_check<S>>;

namespace detail {

/// A scheduler behind plain functions.
struct any_scheduler {
  std::shared_ptr<void> object;
  int (*concurrency)(void* object) = nullptr;
  void (*bulk)(void* object, std::size_t n, const lane_work& f) = nullptr;

  /// An lvalue is referred to, an rvalue moved in.
  template <class S> static any_scheduler of(S&& s) {
    using type = std::remove_cvref_t<S>;
    if constexpr (std::is_lvalue_reference_v<S>)
      return of(std::shared_ptr<type>(std::shared_ptr<type>(), const_cast<type*>(std::addressof(s))));
    else return of(std::make_shared<type>(std::forward<S>(s)));
  }
  template <class S> static any_scheduler of(std::shared_ptr<S> s) {
    return {std::move(s), [](void* o) { return static_cast<int>(static_cast<S*>(o)->concurrency()); },
            [](void* o, std::size_t n, const lane_work& f) { static_cast<S*>(o)->bulk(n, f); }};
  }
};

/// What may be handed in as a scheduler: neither a number of threads nor what already has threads.
template <class S, class Self>
concept HandedIn = !std::same_as<std::remove_cvref_t<S>, Self> && !std::is_arithmetic_v<std::remove_cvref_t<S>> &&
                   !std::same_as<std::remove_cvref_t<S>, any_scheduler>;

}  // namespace detail

namespace detail {

/// While it lives, where `on`, arithmetic of this thread takes and gives 0 for numbers below the smallest normal one: processors need up
/// to a hundred times as long for them. What the thread had set is put back.
class denormals_as_zero {
 public:
#if defined(__x86_64__)
  explicit denormals_as_zero(bool on) : before_(on ? __builtin_ia32_stmxcsr() : bits) {
    if ((before_ & bits) != bits) __builtin_ia32_ldmxcsr(before_ | bits);
  }
  ~denormals_as_zero() {
    if ((before_ & bits) != bits) __builtin_ia32_ldmxcsr(before_);
  }

 private:
  static constexpr unsigned bits = 0x8040;  // results to zero, operands as zero
  unsigned before_;
#else
  explicit denormals_as_zero(bool) {}
  ~denormals_as_zero() {}
#endif

 public:
  denormals_as_zero(const denormals_as_zero&) = delete;
  denormals_as_zero& operator=(const denormals_as_zero&) = delete;
};

}  // namespace detail

/// Calls in stages, for `thread_pool::run_stages`: f(state, stage, i, worker) for each i below size(state, stage).
struct staged_calls {
  std::size_t stages;
  std::size_t (*size)(const void* state, std::size_t stage);
  void (*f)(void* state, std::size_t stage, std::size_t i, int worker);
  void* state;
};

/// Runs jobs side by side: on threads of its own, which block when idle and with which the calling thread works, or on a
/// scheduler.
export class thread_pool {
 public:
  /// threads(1) starts no thread. In a forked child the pool works on the calling thread alone. Errors: value_error
  /// beyond 1024 threads; resource_error where the system has no more.
  explicit thread_pool(int threads);
  /// Works on a scheduler. An lvalue must outlive the pool, an rvalue is moved in.
  template <detail::HandedIn<thread_pool> S>
  requires accepted<diagnostic<detail::scheduler_check<std::remove_reference_t<S>>>()>
  explicit thread_pool(S&& scheduler) : thread_pool(detail::any_scheduler::of(std::forward<S>(scheduler))) {}
  explicit thread_pool(detail::any_scheduler scheduler);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  int threads() const;
  /// Runs f(state, i, worker) for i in 0..n-1; worker < threads(), and no two calls of a run with one worker overlap. The
  /// calling thread does it alone where n is 1, from inside a job of this pool, and while another run has the pool.
  /// Waiting threads spin for at most 50 us. Errors: the first exception of f, after all calls have ended; indices that
  /// no thread had begun are left out. state_error where a scheduler's `bulk` returns before all its calls were made.
  void run(std::size_t n, void (*f)(void* state, std::size_t i, int worker), void* state);
  /// The same for stages, each begun when all calls of the one before it have ended: threads meet in between without
  /// leaving the run.
  void run_stages(const staged_calls& calls);
  /// A pool is a scheduler.
  int concurrency() const { return threads(); }
  template <std::invocable<std::size_t> F> void bulk(std::size_t n, const F& f) {
    run(
        n, [](void* state, std::size_t i, int) { (*static_cast<const F*>(state))(i); },
        const_cast<F*>(std::addressof(f)));
  }

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// What several workers have failed with, in the order of time.
export class worker_failures {
 public:
  explicit worker_failures(std::vector<std::exception_ptr> all);
  virtual ~worker_failures();
  const std::vector<std::exception_ptr>& all() const { return all_; }

 private:
  std::vector<std::exception_ptr> all_;
};

/// Runs f(worker) for each worker below `workers`, each on a thread of its own, the calling one included, and waits for
/// all; 0 workers are as many as there are cores. Errors: the error of the worker that failed. If several failed, an error
/// with their number, of the type of the first in time if that is one of lamina's, else `error`; it is also a
/// `worker_failures`, which holds them all. resource_error where the system has no more threads: workers that were started
/// end first.
export void parallel_workers(int workers, const std::function<void(int)>& f);
/// Cores that this process may use.
export int available_cores();

// ---- context --------------------------------------------------------------------------------------------------------

/// What an evaluation needs from outside: an instruction set, threads, and a place for caches.
export class context {
 public:
  context();
  /// 0 threads are as many as there are cores. Errors: value_error beyond 1024 threads, or for a set that the machine
  /// lacks.
  context(int threads, isa set);
  /// Work runs on the caller's own scheduler. An lvalue must outlive the context, an rvalue is moved in.
  /// Errors: value_error if its concurrency is not 1 to 1024.
  template <detail::HandedIn<context> S>
  requires accepted<diagnostic<detail::scheduler_check<std::remove_reference_t<S>>>()>
  explicit context(S&& scheduler, lamina::isa set = target_isa())
      : context(detail::any_scheduler::of(std::forward<S>(scheduler)), set) {}
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  lamina::isa isa() const { return isa_; }
  int threads() const { return threads_; }
  thread_pool& pool();
  /// The one T of this context, made on first use.
  template <class T> T& slot() {
    static const std::size_t at = next_slot();
    if (at < slot_count)
      if (void* p = slots_[at].load(std::memory_order_acquire)) return *static_cast<T*>(p);
    return *static_cast<T*>(
        make_slot(at, []() -> void* { return new T(); }, [](void* p) { delete static_cast<T*>(p); }));
  }

 private:
  context(detail::any_scheduler scheduler, lamina::isa set);
  static constexpr std::size_t slot_count = 4096;
  static std::size_t next_slot();
  void* make_slot(std::size_t at, void* (*make)(), void (*destroy)(void*));
  struct shared;
  lamina::isa isa_;
  int threads_;
  std::unique_ptr<std::atomic<void*>[]> slots_;
  std::unique_ptr<shared> shared_;
};

/// A context with one thread and the best instruction set; made on first use, safe from any thread.
export context& default_context();

}  // namespace lamina
