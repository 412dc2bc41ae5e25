// Running plans: the executor.
export module lamina:execute;
import :context;
import :core;
import :passes;
import :parameter;
import :plan;
import :program;
import :shape;
import :stop;
import :tensor;
export import :workspace;
import lamina.std;

namespace lamina {

/// Makes the plan of a program for concrete input extents: passes, then planning. `known` has the elements of inputs
/// that determine shapes. Errors: shape_error naming operation and shapes if they mismatch; unsupported_error if a
/// shape depends on elements known only during a run.
export std::shared_ptr<const plan> make_plan(const program& p, view<const shape> inputs, isa set,
                                             const pass_options& options = {}, view<const known_input> known = {});

/// Sources of an executor's states.
struct state_source {
  parameter_store* shared = nullptr;  // parameters and packed forms; executors of other threads may read them too
  parameter_store* own = nullptr;     // searched first: states that no other thread reads or assigns
};

namespace detail {
/// Raises out_of_memory with the plan's needs: a workspace of `planned` bytes.
[[noreturn]] void no_memory_for(const plan& p, std::size_t planned, const out_of_memory& e);
/// Adaptive choice between running in a pool and alone. If other programs occupy the processors, a run that waits for
/// pool threads is slower than one alone: this measures run times and occasionally tries the alternative. Results are
/// identical to the bit.
class thread_use {
 public:
  using clock = std::chrono::steady_clock;
  /// Whether the next run should use only the calling thread.
  bool alone(clock::time_point now) const {
    return doing_ == trying_alone || (doing_ == staying_alone && now < until_);
  }
  /// Records the duration of a run.
  void ran(bool alone, clock::duration took, clock::time_point now);

 private:
  enum state { sharing, trying_alone, staying_alone, trying_to_share };
  void begin(state s) { doing_ = s, runs_ = 0, sum_ = {}; }
  state doing_ = sharing;
  int runs_ = 0, slow_ = 0;
  clock::duration sum_{}, usual_{}, alone_time_{}, stay_{};
  clock::time_point until_{}, next_try_{};
};
}  // namespace detail

/// Lock for the packed forms of a store shared by several threads, and the plans that packed them.
struct shared_packs {
  std::mutex mutex;
  std::vector<std::shared_ptr<const plan>> makers;
};

/// A plan bound to buffers. A run iterates over a flat array of {kernel, arguments}; on one thread it allocates
/// nothing, takes no lock and makes no system call. An executor is not thread-safe; many executors share one plan. A
/// moved-from executor raises state_error.
export class executor {
 public:
  /// `store` has the plan's states by name; their memory is bound once. With a pool, steps of a stage run in parallel.
  executor(std::shared_ptr<const lamina::plan> plan, parameter_store* store, thread_pool* pool = nullptr)
      : executor(std::move(plan), {store, nullptr}, pool, std::make_shared<workspace>()) {}
  /// Works in a workspace shared with other executors: call `work_in` before a run if another executor used it.
  executor(std::shared_ptr<const lamina::plan> plan, state_source states, thread_pool* pool,
           const std::shared_ptr<workspace>& memory);
  ~executor();
  /// Makes the packed forms that a plan needs and its states lack, using no more than one thread's scratch. Errors:
  /// like the constructor.
  static void pack(std::shared_ptr<const lamina::plan> plan, state_source states);
  executor(executor&&) noexcept;
  executor& operator=(executor&&) noexcept;

  /// Binds the memory of input or output i, which must outlive the runs that use it. Errors: value_error if there is no
  /// i.
  inline void bind_input(std::size_t i, const void* data) { bind_outside(input_at_, i, const_cast<void*>(data)); }
  inline void bind_output(std::size_t i, void* data) { bind_outside(output_at_, i, data); }
  /// Runs the steps. Errors: value_error if a check fails (an index out of range); no state is assigned then.
  /// state_error if an input or output is not bound. stopped_error if a `stop_scope` of this thread was asked to stop,
  /// naming the first skipped operation; no state is assigned then.
  inline void run() { is_plain() && !detail::innermost_stop ? run_plain() : run_whole(); }
  /// Callback: output `output` is complete.
  using output_ready = std::function<void(std::size_t output)>;
  /// Runs and reports each output as soon as no later step accesses it, while later steps still run, in the order in
  /// which the plan finishes them. A failing run may have reported some. Errors: like `run`; exceptions of `ready`.
  void run_reporting(const output_ready& ready);
  /// Runs without being stoppable once begun, for results that overwrite operands. Errors: like `run`.
  void run_undivided();
  /// Whether a run consists only of steps: all is bound, on one thread, without checks or assignments. Such a run can
  /// fail only by a `stop_scope`.
  inline bool is_plain() const { return unbound_ == 0 && plain_ != 0 && watched_.empty(); }
  /// Runs if `is_plain()`.
  inline void run_plain() const noexcept {
    const detail::denormals_as_zero zeros(without_denormals_);
    std::byte* const scratch = scratch_;
    for (const bound_step *step = first_, *end = step + plain_; step != end; ++step)
      step->run(step->arguments, scratch);
  }
  /// Runs and adds the time of each plan line to `nanoseconds`; the last element is for everything else. Use a plan
  /// without parallel operations. Errors: like `run`; value_error unless there is one more number than lines.
  void run_timed(view<std::int64_t> nanoseconds);
  /// Binds in order of inputs and outputs, and runs.
  void run(view<const void* const> inputs, view<void* const> outputs);
  /// Binds tensors in order of inputs, and runs into new ones. Errors: also out_of_memory, which names the planned
  /// bytes.
  std::vector<any_tensor> run(view<const any_tensor> inputs);
  const lamina::plan& plan() const {
    if (!plan_) [[unlikely]]
      moved();
    return *plan_;
  }
  /// Allocates memory for output i. Errors: out_of_memory, which names the planned bytes; value_error if there is no i.
  storage result_memory(std::size_t i) const;
  /// Bytes of its workspace: the plan's activations, and scratch for each thread.
  std::size_t planned_bytes() const { return workspace_bytes(plan(), pool_); }
  /// Switches to a workspace that other executors may have used since the last run. Errors: out_of_memory, which names
  /// the planned bytes.
  void work_in(const std::shared_ptr<workspace>& memory);
  /// Switches to other states of the same names and types. Errors: state_error, shape_error, type_error leave it
  /// unchanged; after out_of_memory for packed forms, `read` must succeed before the next run.
  void read(state_source states);
  /// Promises that states keep their values until `read`: runs skip the check for assignments.
  void hold() { watched_.clear(); }
  /// Bytes of workspace that a plan needs: arena, and scratch for each thread.
  static std::size_t workspace_bytes(const lamina::plan& p, const thread_pool* pool);
  /// Bytes of its bound arguments and of the workspace.
  std::size_t bytes() const { return own_bytes() + (memory_ ? memory_->bytes() : 0); }
  /// Bytes of its bound arguments.
  std::size_t own_bytes() const;

 private:
  struct unbound {};
  executor(unbound, std::shared_ptr<const lamina::plan> plan, thread_pool* pool);
  struct range {
    std::uint32_t first = 0, count = 0;
    void* address = nullptr;
  };
  inline void bind_outside(const std::vector<std::int32_t>& buffers, std::size_t i, void* address) {
    if (i >= buffers.size()) [[unlikely]]
      no_such_buffer(i);
    if (buffers[i] < 0) return;  // an input or output that the plan does not use
    const auto& r = ranges_[static_cast<std::size_t>(buffers[i])];
    if (r.address == address) return;
    if (!address && r.address == arguments_) return;  // an empty tensor has no address
    unbound_ += static_cast<std::uint32_t>(!address) - static_cast<std::uint32_t>(!r.address);
    bind(buffers[i], address);
  }
  [[noreturn]] void no_such_buffer(std::size_t i) const;
  [[noreturn]] void not_bound() const;
  [[noreturn]] static void moved();
  inline void bind(std::int32_t buffer, void* address) {
    auto& r = ranges_[static_cast<std::size_t>(buffer)];
    if (r.address == address) return;
    r.address = address;
    const relocation* at = plan_->relocations().data() + r.first;
    for (std::uint32_t i = 0; i < r.count; ++i) {
      void* target = static_cast<std::byte*>(address) + at[i].offset;
      std::memcpy(arguments_ + at[i].at, &target, sizeof target);
    }
  }
  void bind_states(state_source states);
  void run_packing(const plan_pack& k);
  static void unpack(const std::shared_ptr<const lamina::plan>& plan, std::size_t pack, const storage& packed,
                     std::byte* elements);
  void prepare();
  void prepare_packs();
  void check() const;
  void refresh();
  void run_whole();
  // Runs stages in order, with the checks before the first that assigns a state.
  template <class F> void run_with(F stages);
  void run_stages(std::size_t from, std::size_t to, const detail::stop_link* stop);
  void run_parallel(std::size_t from, std::size_t to, const detail::stop_link* stop);
  struct shared_steps;
  void run_iterations(const plan_loop& loop, std::size_t at, const detail::stop_link* stop);
  [[noreturn]] void stopped(std::size_t stage) const;

  std::shared_ptr<const lamina::plan> plan_;
  thread_pool* pool_ = nullptr;
  detail::thread_use use_;
  bool alone_ = false;                 // whether the current run avoids the pool
  storage own_;                        // arguments
  std::shared_ptr<workspace> memory_;  // arena, scratch of each worker
  std::byte *arguments_ = nullptr, *arena_ = nullptr, *scratch_ = nullptr;
  std::uint64_t taken_ = 0;  // the workspace's counter when this executor acquired it
  std::vector<bound_step> steps_;
  bool without_denormals_ = false;
  std::vector<range> ranges_;
  std::vector<std::int32_t> input_at_, output_at_;
  std::uint32_t unbound_ = 0;  // inputs and outputs without memory
  std::vector<parameter*> states_;
  std::vector<packed_form*> packs_;
  // State versions from which data was precomputed: packed forms, and results of steps that run once.
  struct watched {
    const parameter* of;
    const std::uint64_t* seen;
  };
  std::vector<watched> watched_;
  std::vector<std::uint64_t> once_seen_;
  // Outputs and the stages that finish them, in order; computed by the first run that reports outputs.
  struct finished_output {
    std::size_t stage, output;
    auto operator<=>(const finished_output&) const = default;
  };
  std::vector<finished_output> finished_;
  const bound_step* first_ = nullptr;         // first step of a run
  detail::handed_over<std::size_t> plain_{};  // number of steps if a run consists only of steps, else 0
};

/// Several tensors of different types; supports `auto [loss, gradient] = evaluate(...)`. Plain structs of up to twelve
/// members, so that this works in a program that includes no header.
template <class... T> struct results;
template <class A, class B> struct results<A, B> {
  A first;
  B second;
};
template <class A, class B, class C> struct results<A, B, C> {
  A first;
  B second;
  C third;
};
template <class A, class B, class C, class D> struct results<A, B, C, D> {
  A first;
  B second;
  C third;
  D fourth;
};
template <class A, class B, class C, class D, class E> struct results<A, B, C, D, E> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
};
template <class A, class B, class C, class D, class E, class F> struct results<A, B, C, D, E, F> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
};
template <class A, class B, class C, class D, class E, class F, class G> struct results<A, B, C, D, E, F, G> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
};
template <class A, class B, class C, class D, class E, class F, class G, class H>
struct results<A, B, C, D, E, F, G, H> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
};
template <class A, class B, class C, class D, class E, class F, class G, class H, class I>
struct results<A, B, C, D, E, F, G, H, I> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
  I ninth;
};
template <class A, class B, class C, class D, class E, class F, class G, class H, class I, class J>
struct results<A, B, C, D, E, F, G, H, I, J> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
  I ninth;
  J tenth;
};
template <class A, class B, class C, class D, class E, class F, class G, class H, class I, class J, class K>
struct results<A, B, C, D, E, F, G, H, I, J, K> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
  I ninth;
  J tenth;
  K eleventh;
};
template <class A, class B, class C, class D, class E, class F, class G, class H, class I, class J, class K, class L>
struct results<A, B, C, D, E, F, G, H, I, J, K, L> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
  I ninth;
  J tenth;
  K eleventh;
  L twelfth;
};
/// Maximum number of expressions computed together.
inline constexpr std::size_t max_results = 12;

}  // namespace lamina
