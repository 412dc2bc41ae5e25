// The planner's class: what it knows of a program while it makes its plan. Its work is in choose, arrange and emit.
module;
#include "../kernels/table.h"
module lamina:planner;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.control;
import :op.elementwise;
import :op.nn;
import :op.shape;
import :passes;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Makes one plan: looks at the program, decides, orders, and lets the operations emit their steps.
class planner final : public emission {
 public:
  planner(plan& result, const program& from, lamina::isa set, const pass_options& options)
      : plan_(result),
        p_(from),
        isa_(set),
        options_(options),
        table_(kernels::kernels_of(static_cast<kernels::isa>(set))) {}
  /// For the iteration of a loop: its states are the loop's carries, its inputs from `invariant` on are the same in every iteration.
  planner(plan& result, const program& body, const planner& outside, std::size_t invariant)
      : planner(result, body, outside.isa_, outside.options_) {
    first_invariant_ = invariant;
    training_ = outside.training_;
  }

  void run();

  // ---- emission ----
  const node& of() const override { return p_.at(current_->nodes[0]); }
  const tensor_type& in_type(std::size_t i) const override { return p_.type(operand_at(i)); }
  const tensor_type& out_type(std::size_t i) const override { return of().results[result_at(i)]; }
  buffer_ref in(std::size_t i) override { return read(operand_at(i), current_->wanted[i]); }
  buffer_ref out(std::size_t i) override;
  bool used(std::size_t i) const override;
  lamina::isa isa() const override { return isa_; }
  bool relaxed_summation() const override { return options_.relaxed_summation; }
  const lamina::epilogue& epilogue() const override { return current_->tail; }
  buffer_ref operand(value_id v) override {
    operand_type(v);  // refuses what there is not
    return read(v, v == current_->tail.residual ? form(current_->result) : layout::plain);
  }
  // Operands and results that an `emit` asks for, which may be a user's.
  value_id operand_at(std::size_t i) const {
    if (i >= of().inputs.size()) no_such("operand", i, of().inputs.size());
    return of().inputs[i];
  }
  std::size_t result_at(std::size_t i) const {
    if (i >= of().results.size()) no_such("result", i, of().results.size());
    return i;
  }
  [[noreturn]] void no_such(std::string_view what, std::size_t i, std::size_t count) const;
  const tensor_type& operand_type(value_id v) const override;
  buffer_ref temporary(std::size_t bytes) override;
  buffer_ref status(std::string_view message) override { return counter(message, std::nullopt); }
  buffer_ref status_with_first(std::string_view message, const first_counted& first) override {
    return counter(message, first);
  }
  buffer_ref packed(value_id v, std::uint64_t format, std::size_t bytes,
                    const std::function<void(buffer_ref, buffer_ref)>& make, bool moves) override;
  void note(std::string_view words) override { note_ = words; }
  void stage() override;
  void add(step_function run, view<const std::byte> arguments, view<const address> addresses,
           view<const void* const> code, std::size_t scratch) override;

 private:
  // Makes room for the arguments of kernels, 64-byte aligned; where it begins. Errors: out_of_memory beyond 256 MiB.
  std::uint32_t more_arguments(std::size_t bytes);
  // What is scheduled as one: an operation with its epilogue, a chain of elementwise operations, or a change of layout.
  struct item {
    enum class kind { operation, chain, reorder } what = kind::operation;
    std::vector<std::int32_t> nodes;  // the operation first, then what its epilogue absorbed; or the chain's nodes
    value_id result;
    std::vector<layout> wanted;  // of the operands
    lamina::epilogue tail;
    layout to = layout::plain;  // of a reorder
    bool once = false;          // reads nothing but states that no run assigns
    bool late = false;          // for assigned values alone
    std::int32_t level = 0;     // items of one level run at the same time; else each has a level of its own
    std::int32_t order = 0;     // where it stands if each item comes after the other
  };
  struct use_list {
    std::vector<std::int32_t> nodes;
    bool root = false;
  };
  // Memory before it has an offset: lives over the items that touch it.
  struct block {
    buffer_kind kind;
    std::int32_t index;
    std::size_t bytes;
    std::int32_t first = -1, last = -1;
    std::int32_t same_as = -1;
  };

  static constexpr std::int32_t no_node = -1;
  static constexpr std::size_t max_once_bytes = 64 * 1024;  // of a result that every executor keeps for itself

  // ---- uses ----
  void look();
  std::int32_t state_index(std::int32_t node) const;
  bool elementwise(std::int32_t i) const;

  // ---- layouts ----
  layout form(value_id v) const;
  std::int64_t lanes() const { return kernels::lanes(static_cast<kernels::isa>(isa_)); }
  std::size_t bytes_of(value_id v, layout f) const;
  // The channels beyond C of a blocked value hold one finite number, which convolutions multiply by 0: what it is, where it
  // is known, and what an elementwise operation makes of those of its operands.
  std::optional<float> padding(value_id v) const;
  std::optional<float> padding_after(const node& n) const;
  void choose_layouts();
  // In which layouts an operation on images that has a say in it takes and gives them.
  image_layouts images(const node& n) const;
  std::vector<layout> wanted_by(const node& n) const;

  // ---- epilogues ----
  const use_list& uses(value_id v) const;
  bool is_bias(value_id v, const node& target) const;
  void absorb_epilogues();
  bool absorb(item& it, const node& product);
  bool ready(value_id other, const item& it) const;
  bool takes_residual(value_id v, const node& product, bool blocked) const;
  // Whether a value can be ready before node `n`: it does not depend on it.
  bool before(std::int32_t v, std::int32_t n) const;
  // A bias may have stopped the blocked layout at the addition; with it absorbed, what follows can be blocked too.
  void rederive_layouts();

  // ---- elementwise chains ----
  struct group {
    std::vector<std::int32_t> nodes;
    std::set<value_id> operands;
    shape dims;
    layout form;
    std::size_t results;
  };
  void group_elementwise();
  bool stays_inside(std::int32_t i, const std::vector<std::int32_t>& nodes) const;
  int max_temporaries(const std::vector<std::int32_t>& nodes) const;

  // ---- order ----
  void schedule();
  // What depends on states alone is computed when they change, not in every run.
  void put_once_first();
  bool runs_once(const item& it) const;
  std::vector<value_id> dependencies_of_item(std::int32_t n) const;
  void visit(std::int32_t root);
  void append(std::int32_t n);
  void number_items();
  // Puts items that do not depend on each other into one level.
  void into_levels();
  bool reads(const item& it, const std::function<bool(value_id)>& is) const;
  void reorder_operands(const node& n, const std::vector<layout>& wanted);
  void reorder(value_id v, layout to);

  // ---- memory ----
  std::int32_t new_block(std::size_t bytes);
  std::int32_t external(buffer_kind kind, std::int32_t index, std::size_t bytes);
  void touch(std::int32_t b);
  std::int32_t root_block(std::int32_t b) const;
  // A result that is only another view of an operand: the operand and the bytes between them.
  std::optional<std::pair<value_id, std::int64_t>> viewed(value_id v) const;
  buffer_ref home(value_id v);
  buffer_ref read(value_id v, layout wanted);
  buffer_ref write(value_id v);

  // Results that leave the plan are written where they belong: an output into the caller's memory, an assigned value
  // into its state if nobody reads the old value afterwards.
  void place_roots();
  value_id base_of(value_id v) const;
  // Whether an item reads a state's old value; in the chain that replaces it, reading up to the step that does is no harm.
  bool reads_state(const item& it, std::int32_t state, value_id replaced_by) const;
  bool may_fail(const item& it) const;

  // ---- steps ----
  void emit_items();
  void emit_item();
  void check_written(bool steps) const;
  void check_bytes(std::size_t bytes) const;
  unsigned written_ = 0;  // bit i: the current `emit` asked for result i
  // What an item of a level became: stages, and how much each of their steps computes.
  struct part {
    std::size_t first, last;
    double weight;
  };
  // The stages of a level's items, side by side.
  void merge_stages(std::vector<part> parts, std::size_t first_step);
  static constexpr std::int32_t never = std::numeric_limits<std::int32_t>::max();

  void record(std::size_t steps);
  void keep_once();

  void emit_reorder();

  // A scan: the plan of its body becomes part of this one.
  void emit_loop();
  // A cond: so do the plans of both its programs, each behind a gate.
  void emit_branches();
  // How a plan runs inside this one: how often, what it carries and walks along, and whether a predicate must be `open` for it.
  struct loop_form {
    std::int64_t count = 1;
    std::size_t first_operand = 0, carries = 0, sequences = 0;  // of the node's operands, carries are before the first
    bool reverse = false;
    buffer_ref gate{};
    bool open = false;
  };
  void take_over(const plan& body, const loop_form& how, std::int32_t status);
  buffer_ref counter(std::string_view message, const std::optional<first_counted>& first);
  void tell(const plan& body, const std::string& when, double times);

  kernels::map_function function_of(const node& n) const;
  // Of a plan whose results are waited for: less accurate where that is faster.
  kernels::map_function low_latency_function_of(const node& n) const;

  // An operand or result of a chain, with its strides over the iteration space in elements.
  struct chain_slot {
    value_id v;
    buffer_ref at;
    std::int64_t stride[max_rank];
    std::int64_t size;
    bool written;
  };

  struct chain;
  void emit_chain();
  std::size_t slot_of(chain& c, value_id v, bool written) const;
  void find_slots(chain& c);
  std::pair<buffer_ref, bool> place_in(chain& c, value_id v, bool written);
  void emit_calls(chain& c);
  kernels::chain_args steps_of(chain& of);
  void emit_tiles(const chain& of, kernels::chain_args c);
  // A result may overwrite an operand of the same size and shape that nobody reads afterwards.
  void reuse_operand(value_id result, const std::vector<chain_slot>& slots);
  // Whether the current item, up to its node `until`, is the last to read a value.
  bool last_read_here(value_id v, std::int32_t until);
  // Who reads a value: the item of the highest level, that level, and the highest one of the others; -1 where there is none.
  struct reader_list {
    std::int32_t item = -1, level = -1, other_level = -1;
    bool viewed = false;
  };
  const reader_list& readers_of(value_id v);

  void copy_whole(value_id v, buffer_ref from, buffer_ref to);
  void emit_copies();

  void finish();
  void find_touched_states();

  plan& plan_;
  const program& p_;
  lamina::isa isa_;
  std::string note_;  // of the item whose steps are being made
  const pass_options& options_;
  const kernels::table& table_;
  bool training_ = false, packing_ = false;
  std::vector<char> needed_, shape_read_;  // shape_read_: somebody reads the shape alone
  std::map<value_id, use_list> uses_;
  std::map<value_id, layout> form_;
  std::map<value_id, float> padding_;
  std::vector<std::int32_t> absorbed_, group_of_, item_of_;
  std::map<std::int32_t, item> absorbing_;
  std::vector<group> groups_;
  std::vector<item> items_;
  std::map<std::pair<value_id, layout>, std::int32_t> converted_;
  std::vector<block> virtual_;
  std::map<std::pair<buffer_kind, std::int32_t>, std::int32_t> external_;  // where those of outside stand in it
  std::map<value_id, std::int32_t> home_;
  std::set<std::int32_t> reused_;
  std::map<value_id, reader_list> readers_;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> pack_of_;  // buffers, by state and format
  std::set<std::int32_t> once_states_;
  std::set<std::size_t> placed_outputs_;
  std::set<std::int32_t> placed_assignments_;
  std::vector<plan_step> pending_, pack_steps_, loop_steps_;
  std::optional<std::size_t> first_invariant_;
  std::size_t stage_first_ = 0;
  std::int32_t now_ = 0;  // time: the level, from 1
  std::int32_t at_ = 0;   // the current item
  std::int32_t commit_item_ = never, status_ = -1;
  bool late_ = false;
  std::size_t status_bytes_ = 0;
  std::vector<std::int32_t> check_order_;  // of the item of each check
  item* current_ = nullptr;
};

}  // namespace lamina
