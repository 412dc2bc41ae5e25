// Instruction sets, and contexts.
module lamina:context.impl;
import :core;
import :context;
import lamina.std;

namespace lamina {

#if defined(__aarch64__)
static constexpr isa sets_of_processor[] = {isa::neon64};
static constexpr std::string_view choices = "neon64";
bool machine_has(isa set) { return set == isa::neon64; }
#else
static constexpr isa sets_of_processor[] = {isa::sse2, isa::avx2, isa::avx512};
static constexpr std::string_view choices = "avx512, avx2 or sse2";
bool machine_has(isa set) {
  switch (set) {
    case isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd");
    case isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    case isa::neon64: return false;
    case isa::sse2: return true;
  }
  return false;
}
#endif

isa target_isa() {
  static const isa chosen = [] {
    isa best = sets_of_processor[0];
    for (isa set : sets_of_processor)
      if (machine_has(set)) best = set;
    const char* forced = std::getenv("LAMINA_ISA");
    if (!forced || !*forced) return best;
    for (isa set : sets_of_processor)
      if (name_of(set) == forced) {
        if (!machine_has(set)) {
          text t;
          t << "LAMINA_ISA=" << forced << ": this machine has no " << forced << "; the best it has is "
            << name_of(best);
          detail::raise(error_kind::value, t);
        }
        return set;
      }
    text t;
    t << "LAMINA_ISA=" << forced << ": not an instruction set of this processor; choose " << choices;
    detail::raise(error_kind::value, t);
  }();
  return chosen;
}

// ---- context --------------------------------------------------------------------------------------------------------

struct context::shared {
  std::mutex mutex;
  std::unique_ptr<thread_pool> pool;
  std::vector<std::pair<void*, void (*)(void*)>> owned;
  std::map<std::size_t, void*> overflow;  // slots beyond the flat array
};

// A larger number is a mistake, and the system would fail partway through starting that many.
static constexpr int max_threads = 1024;
static int checked(int threads) {
  if (threads > max_threads) {
    text t;
    t << "context: " << threads << " threads requested, and at most " << max_threads << " are allowed";
    detail::raise(error_kind::value, t);
  }
  return threads;
}

context::context() : context(1, target_isa()) {}
context::context(int threads, lamina::isa set)
    : isa_(set),
      threads_(checked(threads > 0 ? threads : available_cores())),
      slots_(std::make_unique<std::atomic<void*>[]>(slot_count)),
      shared_(std::make_unique<shared>()) {
  if (!machine_has(set)) {
    text t;
    t << "context: this machine has no " << name_of(set);
    detail::raise(error_kind::value, t);
  }
}
context::context(detail::any_scheduler scheduler, lamina::isa set) : context(1, set) {
  shared_->pool = std::make_unique<thread_pool>(std::move(scheduler));
  threads_ = shared_->pool->threads();
  if (threads_ < 1 || threads_ > max_threads) {
    text t;
    t << "context: scheduler concurrency: expected 1 to " << max_threads << "; got " << threads_;
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
  std::unique_ptr<void, void (*)(void*)> made(make(), destroy);
  shared_->owned.reserve(shared_->owned.size() + 1);
  if (at >= slot_count) shared_->overflow[at] = made.get();
  else slots_[at].store(made.get(), std::memory_order_release);
  shared_->owned.emplace_back(made.get(), destroy);
  return made.release();
}

context& default_context() {
  static context c;
  return c;
}

}  // namespace lamina
