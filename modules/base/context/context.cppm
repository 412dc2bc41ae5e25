// Execution context: instruction set, memory with limits and counters, threads, and typed slots for caches of higher
// modules.
export module lamina:context;
import :core;
import lamina.std;

namespace lamina {

/// Instruction sets of the kernels: those of x86-64 in ascending order, then that of aarch64.
export enum class isa : std::int32_t { sse2, avx2, avx512, neon64 };
export inline constexpr isa instruction_sets[] = {isa::sse2, isa::avx2, isa::avx512, isa::neon64};
export constexpr std::string_view name_of(isa set) {
  constexpr std::string_view names[] = {"sse2", "avx2", "avx512", "neon64"};
  return names[static_cast<int>(set)];
}
/// The best instruction set of this machine, or the one that the environment variable LAMINA_ISA names.
/// Errors: value_error if LAMINA_ISA names an unknown set or one that the machine lacks.
export isa target_isa();
/// Whether this machine supports an instruction set natively; emulation of another machine's set does not count.
export bool machine_has(isa set);

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Bytes allocated by lamina's allocator, rounded up: to multiples of 64 up to 512, to four steps per power of two up
/// to 1 MiB, and to multiples of 64 beyond.
struct memory_counters {
  std::int64_t current = 0;      // in use by all threads; exact unless a thread is allocating or releasing
  std::int64_t peak = 0;         // maximum of `current`: exact under a limit, else within 64 KiB per thread
  std::int64_t allocations = 0;  // successful calls of `allocate`
  std::int64_t cached = 0;       // free blocks kept by threads for reuse; not part of the other counts
};
export namespace memory {
/// Allocates 64-byte aligned memory from the calling thread's cache or the system.
/// Errors: out_of_memory if the limit would be exceeded (checked before allocating), or if the system refuses even
/// after all threads have returned their cached memory.
void* allocate(std::size_t bytes);
/// Releases memory from `allocate(bytes)`; any thread may call it.
void release(void* p, std::size_t bytes) noexcept;
memory_counters counters() noexcept;
/// Resets the peak to the current use.
void reset_peak() noexcept;
/// Sets the maximum of bytes in use; 0 means no limit. Memory in use stays valid. Errors: value_error below 0.
void limit(std::int64_t bytes);
/// Returns the calling thread's cached memory to the system.
void trim() noexcept;
/// Returns the cached memory of all threads, also of sleeping or computing ones, without their help and without
/// blocking them. If the system refuses membarrier(2), each other thread returns its memory at its next allocation.
void trim_all() noexcept;
}  // namespace memory

// ---- threads --------------------------------------------------------------------------------------------------------

namespace detail {

/// Starts thread `number` of `count` for the purpose `whose`; `f` must not throw. Errors: resource_error naming all
/// three, if the system has no more threads.
std::thread start_thread(std::string_view whose, int number, int count, std::function<void()> f);
/// A number that differs between a process and its forked children, which do not inherit its threads.
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
    t << type_name<S>() << " is not a scheduler: it needs ";
    if (!bulk) t << "`bulk(n, f)`, which calls f(i) for each std::size_t i below n and returns when all are done";
    if (!bulk && !width) t << ", and ";
    if (!width) t << "`int concurrency()`, the number of calls that may run at once";
    return t;
  }
};

}  // namespace detail

/// A user's own threads: `bulk(n, f)` calls f(0) to f(n - 1), in any order, on any threads, and returns when all calls
/// have returned; `concurrency()` is the number of calls that may run at once. f does not throw and is copyable; one
/// call may wait for others that have begun, never for one that has not. A pool or context calls `bulk` from one thread
/// at a time, never from inside f, with n at most `concurrency()`, which it reads once.
export template <class S>
concept Scheduler = no_error<detail::scheduler_check<S>>;

namespace detail {

/// A type-erased scheduler.
struct any_scheduler {
  std::shared_ptr<void> object;
  int (*concurrency)(void* object) = nullptr;
  void (*bulk)(void* object, std::size_t n, const lane_work& f) = nullptr;

  /// References an lvalue, moves an rvalue in.
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

/// Valid scheduler arguments: neither a number of threads nor an object that already has threads.
template <class S, class Self>
concept HandedIn = !std::same_as<std::remove_cvref_t<S>, Self> && !std::is_arithmetic_v<std::remove_cvref_t<S>> &&
                   !std::same_as<std::remove_cvref_t<S>, any_scheduler>;

}  // namespace detail

namespace detail {

/// RAII: if `on`, this thread's arithmetic flushes denormal operands and results to zero, since processors need up to a
/// hundred times as long for them. The destructor restores the thread's previous mode.
class denormals_as_zero {
 public:
  // Said to be inline, since members defined in a class of a module are not by themselves.
  inline explicit denormals_as_zero(bool on) : before_(on ? mode() : bits) {
    if ((before_ & bits) != bits) mode(before_ | bits);
  }
  inline ~denormals_as_zero() {
    if ((before_ & bits) != bits) mode(before_);
  }
  denormals_as_zero(const denormals_as_zero&) = delete;
  denormals_as_zero& operator=(const denormals_as_zero&) = delete;

 private:
#if defined(__aarch64__)
  using word = std::uint64_t;
  static constexpr word bits = 1u << 24;  // FZ: results and operands
  inline static word mode() { return __builtin_arm_rsr64("FPCR"); }
  inline static void mode(word m) { __builtin_arm_wsr64("FPCR", m); }
#else
  using word = unsigned;
  static constexpr word bits = 0x8040;  // FTZ (results) and DAZ (operands)
  inline static word mode() { return __builtin_ia32_stmxcsr(); }
  inline static void mode(word m) { __builtin_ia32_ldmxcsr(m); }
#endif
  word before_;
};

}  // namespace detail

/// Calls in stages, for `thread_pool::run_stages`: f(state, stage, i, worker) for each i < size(state, stage).
struct staged_calls {
  std::size_t stages;
  std::size_t (*size)(const void* state, std::size_t stage);
  void (*f)(void* state, std::size_t stage, std::size_t i, int worker);
  void* state;
};

/// Runs jobs in parallel: on its own threads, which block when idle, plus the calling thread; or on a scheduler.
export class thread_pool {
 public:
  /// thread_pool(1) starts no thread. In a forked child the pool works on the calling thread alone. Errors: value_error
  /// beyond 1024 threads; resource_error if the system has no more.
  explicit thread_pool(int threads);
  /// Runs on a scheduler. An lvalue must outlive the pool, an rvalue is moved in.
  template <detail::HandedIn<thread_pool> S>
  requires accepted<diagnostic<detail::scheduler_check<std::remove_reference_t<S>>>()>
  explicit thread_pool(S&& scheduler) : thread_pool(detail::any_scheduler::of(std::forward<S>(scheduler))) {}
  explicit thread_pool(detail::any_scheduler scheduler);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  int threads() const;
  /// Runs f(state, i, worker) for i in 0..n-1, with worker < threads(); calls with the same worker do not overlap. The
  /// calling thread runs all of them if n is 1, if it is inside a job of this pool, or while another run uses the pool.
  /// Waiting threads spin for at most 50 us. Errors: the first exception of f, after all running calls have ended;
  /// indices not begun by then are skipped. state_error if a scheduler's `bulk` returns before all its calls were made.
  void run(std::size_t n, void (*f)(void* state, std::size_t i, int worker), void* state);
  /// Same, for stages: each begins when all calls of the previous one have ended. Threads synchronize between stages
  /// without leaving the run.
  void run_stages(const staged_calls& calls);
  /// A pool is itself a Scheduler.
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

/// Exceptions of several workers, in order of time.
export class worker_failures {
 public:
  explicit worker_failures(std::vector<std::exception_ptr> all);
  virtual ~worker_failures();
  const std::vector<std::exception_ptr>& all() const { return all_; }

 private:
  std::vector<std::exception_ptr> all_;
};

/// Runs f(worker) for each worker < `workers`, each on its own thread, one of them the caller's, and waits for all; 0
/// workers means one per core. Errors: the error of the worker that failed. If several failed, an error with their
/// number, of the type of the first if that is one of lamina's, else `error`; it is also a `worker_failures` with all
/// of them. resource_error if the system has no more threads: workers already started finish first.
export void parallel_workers(int workers, const std::function<void(int)>& f);
/// Number of cores that this process may use.
export int available_cores();

// ---- context --------------------------------------------------------------------------------------------------------

/// Environment of an evaluation: an instruction set, threads, and slots for caches.
export class context {
 public:
  context();
  /// 0 threads means one per core. Errors: value_error beyond 1024 threads, or for an instruction set that the machine
  /// lacks.
  context(int threads, isa set);
  /// Runs work on the caller's scheduler. An lvalue must outlive the context, an rvalue is moved in.
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
  /// The single T of this context, created on first use.
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

/// A context with one thread and the best instruction set; created on first use, thread-safe.
export context& default_context();

}  // namespace lamina
