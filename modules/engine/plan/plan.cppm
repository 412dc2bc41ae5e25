// A program prepared to run for concrete shapes: layouts, order, memory offsets and kernel calls. A plan is immutable,
// holds no data address, and is shared by all executors that run it.
export module lamina:plan;
import :context;
import :core;
import :dtype;
import :emission;
import :passes;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

export enum class buffer_kind : std::uint8_t { arena, input, output, state, constant, packed };

/// Memory that a plan refers to: part of the arena, or a buffer that is bound from outside.
export struct plan_buffer {
  buffer_kind kind = buffer_kind::arena;
  std::int32_t index = 0;   // of the input, output, state, constant or packed form
  std::int64_t offset = 0;  // in the arena
  std::size_t bytes = 0;
};
/// A kernel, with the position of its arguments and their size in bytes.
struct plan_step {
  step_function run;
  std::uint32_t arguments, bytes;
};
/// A step with the address of its arguments.
struct bound_step {
  step_function run;
  const void* arguments;
};
/// An address within the arguments that advances with each iteration of a loop.
struct loop_move {
  std::uint32_t at;
  std::int64_t stride;
};
/// A step that runs other steps in a loop: positions of its arguments, steps and moves, and the stages of an iteration
/// if threads can share them. Their steps are counted from the first of the loop.
struct plan_loop {
  std::uint32_t arguments, first, count, first_move, moves, first_stage = 0, stages = 0;
};
/// The arguments of a loop step; the executor fills in the first addresses.
export struct loop_arguments {
  const bound_step* steps;
  const loop_move* moves;
  std::byte* arguments;
  std::int64_t count, move_count, iterations;
  const bool* gate;  // null, or a predicate: iterations run only if it equals `open`
  bool open;
  /// Whether the iterations run.
  bool runs() const { return !gate || *gate == open; }
  /// Advances the addresses of slices by a number of iterations.
  void advance(std::int64_t by) const;
};
/// Independent steps [first, first + count), and the line of `explain()` that they belong to; -1: several lines or
/// none. `loop`: the loop that is its only step and whose iterations threads can share, or -1.
struct plan_stage {
  std::uint32_t first, count;
  std::int32_t line = -1, loop = -1;
};
/// An address to be written into the arguments.
struct relocation {
  std::uint32_t at;
  std::int32_t buffer;
  std::int64_t offset;
};
/// `at`: position in the arguments of the address of a function or kernel table. `numbers`: position of the address of
/// floating-point numbers, for a function that is called only if not all of them are finite.
struct plan_code {
  static constexpr std::uint32_t always = ~0u;
  std::uint32_t at, numbers = always;
  plan_code moved(std::uint32_t by) const { return {at + by, numbers == always ? always : numbers + by}; }
};
/// A packed form of a state that the plan reads, and the steps that make it. In the plan of a loop's body, ~state is
/// the index of a loop-invariant input.
struct plan_pack {
  std::int32_t state;
  std::uint64_t format;
  std::size_t bytes;
  std::int32_t buffer;
  plan_stage steps;
  bool moves;  // the steps only move elements, without arithmetic
};
/// A counter that must be zero before states are assigned.
struct plan_check {
  std::int64_t offset;
  std::string message;
  std::optional<first_counted> first{};  // two more words follow the counter
};

/// A result that a line of `explain()` leaves in memory, and where. Values that only the line itself reads have no
/// memory.
struct plan_result {
  tensor_type type;
  layout form;
  std::int32_t buffer;
  std::int64_t offset;  // bytes
  std::size_t bytes;    // with the padding of blocks
};
/// One line of `explain()`: an operation, or a group of them that runs in one pass.
export struct plan_line {
  std::string what;
  tensor_type result;
  layout form;
  double flops;
  std::size_t bytes;
  std::uint32_t steps;
  std::vector<plan_result> results{};  // empty for a line of a loop's body: its results live for one iteration
  std::string where{};                 // path of the operation: its source location in the user's code, or its layer
  std::string kernel{};                // how a convolution or product of floats is computed; else empty
};

/// The cost of a plan, known without running it.
struct plan_cost {
  double flops = 0;
  std::size_t bytes = 0;      // read and written
  std::size_t arena = 0;      // of activations
  std::size_t live_peak = 0;  // largest number of bytes alive at once: the lower bound of the arena
  std::size_t unshared = 0;   // of all blocks of the arena, without sharing
  memory_sharing sharing = memory_sharing::best;
  std::size_t scratch = 0, packed = 0;
  std::size_t steps = 0, stages = 0, reorders = 0;
};

export class plan {
 public:
  /// Plans a program with static shapes (see `specialized`).
  plan(const program& p, isa set, const pass_options& options, pass_counters counters);

  const std::vector<plan_buffer>& buffers() const { return buffers_; }
  inline const std::vector<plan_step>& steps() const { return steps_; }
  const std::vector<plan_stage>& stages() const { return stages_; }
  inline const std::vector<relocation>& relocations() const { return relocations_; }
  const std::vector<std::byte>& arguments() const { return arguments_; }
  const std::vector<plan_code>& code() const { return code_; }
  const std::vector<any_tensor>& constants() const { return constants_; }
  const std::vector<plan_pack>& packs() const { return packs_; }
  const std::vector<plan_check>& checks() const { return checks_; }
  const std::vector<plan_loop>& loops() const { return loops_; }
  /// Stages of the loops' iterations, without lines.
  const std::vector<plan_stage>& loop_stages() const { return loop_stages_; }
  const std::vector<loop_move>& moves() const { return moves_; }
  /// The first stage that assigns states; the checks are read before it.
  std::size_t commit_stage() const { return commit_stage_; }
  /// Stages before this one read only states, `once_states`: they run again after one of those was assigned.
  std::size_t once_stages() const { return once_stages_; }
  const std::vector<std::int32_t>& once_states() const { return once_states_; }
  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  const std::vector<tensor_type>& input_types() const { return input_types_; }
  const std::vector<tensor_type>& output_types() const { return output_types_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  const std::vector<std::string>& state_names() const { return state_names_; }
  const std::vector<tensor_type>& state_types() const { return state_types_; }
  /// Whether a run reads or writes the elements of a state, not only its packed forms.
  bool touches_elements(std::size_t state) const { return touches_elements_[state]; }
  /// The states that a run assigns.
  const std::vector<std::int32_t>& assigned_states() const { return assigned_; }

  /// Whether input i and output o may share memory: all reads of the input come before any write to the output, or a
  /// single step reads each element where it writes it.
  bool in_place(std::size_t i, std::size_t o) const;

  /// Whether runs flush denormals to zero: true for products with weights, which propagate denormals and are up to a
  /// hundred times slower with them.
  bool without_denormals() const { return without_denormals_; }
  lamina::isa isa() const { return isa_; }
  const pass_counters& counters() const { return counters_; }
  const plan_cost& cost() const { return cost_; }
  const std::vector<plan_line>& lines() const { return lines_; }
  /// Memory that the plan itself takes, in bytes.
  std::size_t bytes() const;
  /// A table: operations in order with result, layout, flops and bytes; reorders; memory.
  std::string explain() const;

 private:
  friend class emitter;
  explicit plan(lamina::isa set) : isa_(set) {}
  std::vector<plan_buffer> buffers_;
  std::vector<plan_step> steps_;
  std::vector<plan_stage> stages_, loop_stages_;
  std::vector<relocation> relocations_;
  std::vector<std::byte> arguments_;
  std::vector<plan_code> code_;
  std::vector<any_tensor> constants_;
  std::vector<plan_pack> packs_;
  std::vector<plan_check> checks_;
  std::vector<plan_loop> loops_;
  std::vector<loop_move> moves_;
  std::vector<tensor_type> input_types_, output_types_, state_types_;
  std::vector<std::string> output_names_, state_names_;
  std::vector<std::int32_t> assigned_, once_states_;
  std::vector<bool> touches_elements_;
  std::vector<std::uint32_t> by_element_;  // arguments of steps of operations marked `by_element`, ascending
  std::vector<plan_line> lines_;
  std::size_t commit_stage_ = 0, once_stages_ = 0, arena_bytes_ = 0, scratch_bytes_ = 0;
  lamina::isa isa_;
  pass_counters counters_;
  plan_cost cost_;
  bool without_denormals_ = false;
};

/// A block of memory that is alive from `first` to `last`: blocks that are alive at once must not overlap.
export struct memory_block {
  std::size_t bytes;
  std::int32_t first, last;
  std::int64_t offset;
};
/// Sets the offsets and returns the required bytes; `live_peak` receives the lower bound.
export std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak,
                                memory_sharing how = memory_sharing::best);
/// Checks memory use by the steps of a plan, independently of its planner; returns the error, or an empty string. Two
/// buffers of the arena may overlap if one is not touched in a stage between the first and the last that touch the
/// other; in a stage that touches both, each step that touches one touches the other at the same address.
export std::string memory_clash(const plan& p);
/// For each output the last stage that touches it: its elements are final from then to the end of the run. The last
/// stage of the plan if no step touches it.
std::vector<std::size_t> output_stages(const plan& p);

}  // namespace lamina
