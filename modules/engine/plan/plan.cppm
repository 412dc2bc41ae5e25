// A program made ready to run for concrete shapes: layout, order, memory offsets and kernel calls. A plan is immutable,
// holds no data address, and is shared by all who run it.
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

/// Memory that a plan refers to: part of the arena, or something that is bound from outside.
export struct plan_buffer {
  buffer_kind kind = buffer_kind::arena;
  std::int32_t index = 0;   // which input, output, state, constant or packed form
  std::int64_t offset = 0;  // in the arena
  std::size_t bytes = 0;
};
/// A kernel, where its arguments begin and how many bytes they have.
struct plan_step {
  step_function run;
  std::uint32_t arguments, bytes;
};
/// A step with its arguments' address.
struct bound_step {
  step_function run;
  const void* arguments;
};
/// An address within the arguments that moves on with each iteration of a loop.
struct loop_move {
  std::uint32_t at;
  std::int64_t stride;
};
/// A step that runs other steps in turns: where its arguments are, and its steps and moves.
struct plan_loop {
  std::uint32_t arguments, first, count, first_move, moves;
};
/// The arguments of such a step; the executor fills in the first addresses.
export struct loop_arguments {
  const bound_step* steps;
  const loop_move* moves;
  std::byte* arguments;
  std::int64_t count, move_count, iterations;
  const bool* gate;  // null, or what must hold `open` for any iteration to run
  bool open;
};
/// Steps [first, first + count) that do not depend on each other, and the line of `explain()` that they belong to; -1: to
/// several, or to none.
struct plan_stage {
  std::uint32_t first, count;
  std::int32_t line = -1;
};
/// An address to be written into the arguments.
struct relocation {
  std::uint32_t at;
  std::int32_t buffer;
  std::int64_t offset;
};
/// Where the arguments hold the address of a function or of a table of kernels, and the address of floating-point numbers
/// where the function is called only for such as are not all finite.
struct plan_code {
  static constexpr std::uint32_t always = ~0u;
  std::uint32_t at, numbers = always;
  plan_code moved(std::uint32_t by) const { return {at + by, numbers == always ? always : numbers + by}; }
};
/// A packed form of a state that the plan reads, and the steps that make it. In the plan of a loop's body, ~state is the
/// number of an input that is the same in every iteration.
struct plan_pack {
  std::int32_t state;
  std::uint64_t format;
  std::size_t bytes;
  std::int32_t buffer;
  plan_stage steps;
  bool moves;  // the steps move all elements and compute nothing
};
/// A counter that must be zero when the states are about to be assigned.
struct plan_check {
  std::int64_t offset;
  std::string message;
  std::optional<first_counted> first{};  // two more words follow the counter
};

/// A result that a line of `explain()` leaves in memory, and where: what is read by the line itself alone has no place.
struct plan_result {
  tensor_type type;
  layout form;
  std::int32_t buffer;
  std::int64_t offset;  // bytes
  std::size_t bytes;    // with those that fill up blocks
};
/// One line of `explain()`: an operation, or a group of them that runs in one pass.
export struct plan_line {
  std::string what;
  tensor_type result;
  layout form;
  double flops;
  std::size_t bytes;
  std::uint32_t steps;
  std::vector<plan_result> results{};  // of a line of a loop's body none: they lie there for an iteration
  std::string where{};                 // path of the operation: its place in the user's code, or its layer
};

/// What a plan does, without running it.
struct plan_cost {
  double flops = 0;
  std::size_t bytes = 0;      // read and written
  std::size_t arena = 0;      // of activations
  std::size_t live_peak = 0;  // most bytes alive at once: the lower bound of the arena
  std::size_t unshared = 0;   // of all blocks of the arena, if none shared memory
  memory_sharing sharing = memory_sharing::best;
  std::size_t scratch = 0, packed = 0;
  std::size_t steps = 0, stages = 0, reorders = 0;
};

export class plan {
 public:
  /// Makes the plan of a program whose shapes are all numbers (see `specialized`).
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
  const std::vector<loop_move>& moves() const { return moves_; }
  /// The stage before which the checks are read; stages from here on assign states.
  std::size_t commit_stage() const { return commit_stage_; }
  /// The stages before this one read nothing but states, `once_states`: they run again when one of those was assigned.
  std::size_t once_stages() const { return once_stages_; }
  const std::vector<std::int32_t>& once_states() const { return once_states_; }
  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  const std::vector<tensor_type>& input_types() const { return input_types_; }
  const std::vector<tensor_type>& output_types() const { return output_types_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  const std::vector<std::string>& state_names() const { return state_names_; }
  const std::vector<tensor_type>& state_types() const { return state_types_; }
  /// Whether a run reads or writes the elements of a state, not only packed forms of it.
  bool touches_elements(std::size_t state) const { return touches_elements_[state]; }
  /// Which states a run assigns.
  const std::vector<std::int32_t>& assigned_states() const { return assigned_; }

  /// Whether input i and output o may be the same memory: whatever reads the one has run before anything touches the other,
  /// or a single step reads each element where it writes it.
  bool in_place(std::size_t i, std::size_t o) const;

  /// Whether runs take numbers below the smallest normal one for zero: where there are products with weights, which pass
  /// such numbers on and take up to a hundred times as long with them.
  bool without_denormals() const { return without_denormals_; }
  lamina::isa isa() const { return isa_; }
  const pass_counters& counters() const { return counters_; }
  const plan_cost& cost() const { return cost_; }
  const std::vector<plan_line>& lines() const { return lines_; }
  /// Bytes that the plan itself takes.
  std::size_t bytes() const;
  /// A table: operations in order with result, layout, flops and bytes; reorders; memory.
  std::string explain() const;

 private:
  friend class emitter;
  explicit plan(lamina::isa set) : isa_(set) {}
  std::vector<plan_buffer> buffers_;
  std::vector<plan_step> steps_;
  std::vector<plan_stage> stages_;
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
  std::vector<std::uint32_t> by_element_;  // arguments of steps of such operations, ascending
  std::vector<plan_line> lines_;
  std::size_t commit_stage_ = 0, once_stages_ = 0, arena_bytes_ = 0, scratch_bytes_ = 0;
  lamina::isa isa_;
  pass_counters counters_;
  plan_cost cost_;
  bool without_denormals_ = false;
};

/// Offsets for blocks that live over ranges of time: no two that live at once overlap.
export struct memory_block {
  std::size_t bytes;
  std::int32_t first, last;
  std::int64_t offset;
};
/// Sets the offsets and returns the bytes that are needed; `live_peak` gets the lower bound.
export std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak,
                                memory_sharing how = memory_sharing::best);
/// Looks at the steps of a plan, not at what its planner thought: what is wrong with its memory, or nothing. Two buffers of
/// the arena may overlap where one is not touched in a stage between the first and the last that touch the other; in the
/// stage where both meet, each step that touches one touches the other at the same address.
export std::string memory_clash(const plan& p);
/// For each output the last stage that touches it: after that its elements stay as they are until the end of the run. The last
/// stage of all where no step touches it.
std::vector<std::size_t> output_stages(const plan& p);

}  // namespace lamina
