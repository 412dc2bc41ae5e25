// Running plans: the bound executor.
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

/// Makes the plan of a program for concrete input extents: passes, then planning. `known` holds the elements of inputs that
/// decide shapes. Errors: shape_error naming operation and shapes where they do not fit; unsupported_error where elements
/// decide a shape that only a run gives.
export std::shared_ptr<const plan> make_plan(const program& p, view<const shape> inputs, isa set,
                                             const pass_options& options = {}, view<const known_input> known = {});

/// Where an executor finds its states.
struct state_source {
  parameter_store* shared = nullptr;  // parameters and packed forms, which executors of other threads may read as well
  parameter_store* own = nullptr;     // looked up first: states that no other thread reads or assigns
};

namespace detail {
/// What a plan could not get, with its numbers, and what is planned: a workspace of `planned` bytes.
[[noreturn]] void no_memory_for(const plan& p, std::size_t planned, const out_of_memory& e);
/// Whether the runs of an executor are shared with the threads of its pool. Where other programs have their processors, a run that waits for
/// what a thread has begun takes longer than one alone: this follows the times of runs, and from time to time tries what is faster.
/// Results have the same bits.
class thread_use {
 public:
  using clock = std::chrono::steady_clock;
  /// Whether the next run is to be alone.
  bool alone(clock::time_point now) const {
    return doing_ == trying_alone || (doing_ == staying_alone && now < until_);
  }
  /// After a run of so long.
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

/// Guards the packed forms of a store that several threads share, and remembers the plans that made them.
struct shared_packs {
  std::mutex mutex;
  std::vector<std::shared_ptr<const plan>> makers;
};

/// A plan bound to buffers. A run walks a flat array of {kernel, arguments}: on one thread it allocates nothing, takes no
/// lock and makes no system call. Not for several threads at once; many executors share one plan. One that was moved has
/// none: state_error.
export class executor {
 public:
  /// `store` holds the plan's states by name; their memory is bound once. With a pool, steps of a stage run side by side.
  executor(std::shared_ptr<const lamina::plan> plan, parameter_store* store, thread_pool* pool = nullptr)
      : executor(std::move(plan), {store, nullptr}, pool, std::make_shared<workspace>()) {}
  /// Works in memory that other executors use as well: `work_in` comes before a run after one of another executor.
  executor(std::shared_ptr<const lamina::plan> plan, state_source states, thread_pool* pool,
           const std::shared_ptr<workspace>& memory);
  ~executor();
  /// Makes the packed forms that a plan reads and that its states do not have yet, in no more than the scratch of one
  /// thread. Errors: as those of an executor.
  static void pack(std::shared_ptr<const lamina::plan> plan, state_source states);
  executor(executor&&) noexcept;
  executor& operator=(executor&&) noexcept;

  /// The memory of input or output i; it must stay until the runs that use it are over. Errors: value_error: there is no i.
  inline void bind_input(std::size_t i, const void* data) { bind_outside(input_at_, i, const_cast<void*>(data)); }
  inline void bind_output(std::size_t i, void* data) { bind_outside(output_at_, i, data); }
  /// Runs the steps. Errors: value_error where a check fails (an index out of range); no state is assigned then.
  /// state_error where an input or output is not bound. stopped_error where a `stop_scope` of this thread was asked to stop,
  /// naming the operation that was not begun; no state is assigned then.
  inline void run() { is_plain() && !detail::innermost_stop ? run_plain() : run_whole(); }
  /// Told the number of an output that has all of its elements.
  using output_ready = std::function<void(std::size_t output)>;
  /// A run that tells of each output as soon as no step touches it any more, while the steps after it are still to come; outputs come in
  /// the order in which the plan finishes them. A run that fails may have told of some. Errors: as those of `run`; what `ready`
  /// raises.
  void run_reporting(const output_ready& ready);
  /// A run that is not stopped once it has begun, for results that take the place of what it reads. Errors: as those of `run`.
  void run_undivided();
  /// Whether a run is nothing but its steps: all is bound, on one thread, with nothing to check or assign. It cannot fail
  /// then, but by a `stop_scope`.
  inline bool is_plain() const { return unbound_ == 0 && plain_ != 0 && watched_.empty(); }
  /// A run that `is_plain`.
  inline void run_plain() const noexcept {
    const detail::denormals_as_zero zeros(without_denormals_);
    std::byte* const scratch = scratch_;
    for (const bound_step *step = first_, *end = step + plain_; step != end; ++step)
      step->run(step->arguments, scratch);
  }
  /// A run that adds to `nanoseconds` how long each line of the plan took, and last what belongs to no line. The plan should
  /// not be one of operations side by side. Errors: as those of `run`; value_error unless there is one more number than lines.
  void run_timed(view<std::int64_t> nanoseconds);
  /// Binds in order of inputs and outputs, and runs.
  void run(view<const void* const> inputs, view<void* const> outputs);
  /// Binds tensors in order of inputs, and runs into new ones. Errors: also out_of_memory, which names what is planned.
  std::vector<any_tensor> run(view<const any_tensor> inputs);
  const lamina::plan& plan() const {
    if (!plan_) [[unlikely]]
      moved();
    return *plan_;
  }
  /// New memory for output i. Errors: out_of_memory, which names what is planned; value_error: there is no i.
  storage result_memory(std::size_t i) const;
  /// Bytes that it works in: the plan's activations, and scratch for each thread.
  std::size_t planned_bytes() const { return workspace_bytes(plan(), pool_); }
  /// Takes memory that other executors may have used since the last run. Errors: out_of_memory, which names what is planned.
  void work_in(const std::shared_ptr<workspace>& memory);
  /// Reads other states from now on, of the same names and types. Errors: state_error, shape_error, type_error: it stays as it
  /// was; out_of_memory for packed forms: it must not run before it has read states again.
  void read(state_source states);
  /// States keep their values until `read`: runs no longer ask whether one of them was assigned.
  void hold() { watched_.clear(); }
  /// Bytes that a plan needs of its workspace: arena, and scratch for each thread.
  static std::size_t workspace_bytes(const lamina::plan& p, const thread_pool* pool);
  /// Bytes of its bound arguments, and of the workspace.
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
    if (buffers[i] < 0) return;  // the program has it, the plan does not use it
    const auto& r = ranges_[static_cast<std::size_t>(buffers[i])];
    if (r.address == address) return;
    if (!address && r.address == arguments_) return;  // a tensor of no elements has no address
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
  // Stages in order, with the checks before the first that assigns.
  template <class F> void run_with(F stages);
  void run_stages(std::size_t from, std::size_t to, const detail::stop_link* stop);
  void run_parallel(std::size_t from, std::size_t to, const detail::stop_link* stop);
  [[noreturn]] void stopped(std::size_t stage) const;

  std::shared_ptr<const lamina::plan> plan_;
  thread_pool* pool_ = nullptr;
  detail::thread_use use_;
  bool alone_ = false;                 // while a run leaves the pool alone
  storage own_;                        // arguments
  std::shared_ptr<workspace> memory_;  // arena, scratch of each worker
  std::byte *arguments_ = nullptr, *arena_ = nullptr, *scratch_ = nullptr;
  std::uint64_t taken_ = 0;  // what the workspace counted when this executor took it
  std::vector<bound_step> steps_;
  bool without_denormals_ = false;
  std::vector<range> ranges_;
  std::vector<std::int32_t> input_at_, output_at_;
  std::uint32_t unbound_ = 0;  // inputs and outputs without memory
  std::vector<parameter*> states_;
  std::vector<packed_form*> packs_;
  // What was made of states before the runs, by the version of each: packed forms, and results of steps that run once.
  struct watched {
    const parameter* of;
    const std::uint64_t* seen;
  };
  std::vector<watched> watched_;
  std::vector<std::uint64_t> once_seen_;
  // Outputs and the stages that finish them, in order; made by the first run that tells of them.
  struct finished_output {
    std::size_t stage, output;
    auto operator<=>(const finished_output&) const = default;
  };
  std::vector<finished_output> finished_;
  const bound_step* first_ = nullptr;         // of a run
  detail::handed_over<std::size_t> plain_{};  // number of steps where a run is nothing but steps
};

/// Several tensors of different types; `auto [loss, gradient] = evaluate(...)` takes it apart. Plain structs up to
/// twelve, so that this works in a program that includes no header.
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
/// The most expressions that are computed together.
inline constexpr std::size_t max_results = 12;

}  // namespace lamina
