// Where work runs: instruction set, memory with limits and counters, threads, and typed slots for caches of later rooms.
export module lamina:context;
import :core;
import lamina.std;

namespace lamina {

/// Instruction sets of the kernels, ascending.
export enum class isa : std::int32_t { sse2, avx2, avx512 };
export constexpr std::string_view name_of(isa set) { return set == isa::avx512 ? "avx512" : set == isa::avx2 ? "avx2" : "sse2"; }
/// The best set of this machine, or the one that the environment variable LAMINA_ISA names.
/// Errors: value_error if LAMINA_ISA names no set or one that the machine lacks.
export isa target_isa();
/// Whether this machine can run a set.
export bool machine_has(isa set);

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Bytes handed out by lamina's allocator, over all threads.
export struct memory_counters {
  std::int64_t current = 0, peak = 0, allocations = 0, cached = 0;
};
export namespace memory {
/// 64-byte aligned memory from the calling thread's cache or the system. Errors: out_of_memory beyond the limit.
void* allocate(std::size_t bytes);
void release(void* p, std::size_t bytes) noexcept;
memory_counters counters() noexcept;
/// Starts the peak anew at the current use.
void reset_peak() noexcept;
/// Most bytes in use at once; 0 means no limit.
void limit(std::int64_t bytes) noexcept;
/// Returns the calling thread's cached memory to the system.
void trim() noexcept;
}

// ---- threads --------------------------------------------------------------------------------------------------------

/// A small blocking pool; the calling thread works too. threads(1) starts no thread.
export class thread_pool {
 public:
  explicit thread_pool(int threads);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  int threads() const;
  /// Runs f(state, i, worker) for i in 0..n-1; worker < threads(). Waiting threads spin for at most 50 us.
  void run(std::size_t n, void (*f)(void* state, std::size_t i, int worker), void* state);

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Runs f(worker) on `workers` threads of their own, waits, and rethrows the first exception.
export void parallel_workers(int workers, const std::function<void(int)>& f);
/// Cores that this process may use.
export int available_cores();

// ---- context --------------------------------------------------------------------------------------------------------

/// What an evaluation needs from outside: an instruction set, threads, and a place for caches.
export class context {
 public:
  context();
  context(int threads, isa set);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  lamina::isa isa() const { return isa_; }
  int threads() const { return threads_; }
  thread_pool& pool();
  /// The one T of this context, made on first use.
  template <class T>
  T& slot() {
    static const std::size_t at = next_slot();
    if (at < slot_count)
      if (void* p = slots_[at].load(std::memory_order_acquire)) return *static_cast<T*>(p);
    return *static_cast<T*>(make_slot(at, []() -> void* { return new T(); }, [](void* p) { delete static_cast<T*>(p); }));
  }

 private:
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
