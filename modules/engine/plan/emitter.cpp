// Emits the kernel calls of a plan from the decisions of the phases: memory blocks, steps, stages.
module;
#include "../kernels/families.h"
module lamina:emitter;
import :context;
import :core;
import :dtype;
import :emission;
import :passes;
import :plan.phases;
import :plan;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using namespace planning;

/// Whether a node is an elementwise operation of the kernels.
inline bool is_elementwise(const node& n) {
  return n.kind == node_kind::operation && n.op->map != nullptr && n.op->identity != identity_rule::always;
}
/// The kernel of an elementwise operation. Errors: type_error where there is none for its element type.
kernels::map_function map_function_of(const request& r, const node& n);

/// Runs the `emit` of a program's operations, which add steps to a plan.
class emitter final : public emission {
 public:
  emitter(plan& result, const request& r)
      : plan_(result), r_(r), p_(r.of), d_(decide(r)), block_of_(d_.used.first_value, none) {}

  void run();
  /// The buffer of the counters that checks read, or none.
  std::int32_t status_buffer() const { return status_; }

  // ---- emission ----
  const node& of() const override { return p_.at(nodes_[0]); }
  const tensor_type& in_type(std::size_t i) const override { return p_.type(operand_at(i)); }
  const tensor_type& out_type(std::size_t i) const override { return of().results[result_at(i)]; }
  buffer_ref in(std::size_t i) override {
    return read(operand_at(i), operand_layout(r_, d_.used, d_.forms, nodes_[0], i));
  }
  buffer_ref out(std::size_t i) override;
  bool used(std::size_t i) const override;
  lamina::isa isa() const override { return r_.isa; }
  bool relaxed_summation() const override { return r_.options.relaxed_summation; }
  bool fast_convolutions() const override { return r_.options.fast_convolutions; }
  product_type compute() const override { return d_.used.gradients ? product_type() : r_.options.compute; }
  bool compact() const override { return r_.options.compact; }
  const lamina::epilogue& epilogue() const override;
  buffer_ref operand(value_id v) override {
    operand_type(v);  // rejects a value that is not an operand
    return read(
        v, v == epilogue().residual ? planning::residual_layout(d_.forms, *d_.groups.of(nodes_[0])) : layout::plain);
  }
  // Operands and results that an `emit`, possibly a user's, requests.
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
  void note(std::string_view description) override { note_ = description; }
  void kernel(std::string_view name) override { kernel_ = name; }
  void stage() override;
  void add(step_function run, view<const std::byte> arguments, view<const address> addresses,
           view<const code_field> code, std::size_t scratch) override;

 private:
  // Reserves 64-byte aligned room for kernel arguments; returns its position. Errors: out_of_memory beyond 256 MiB.
  std::uint32_t more_arguments(std::size_t bytes);
  // Memory without an offset yet; alive during the items that touch it.
  struct block {
    buffer_kind kind;
    std::int32_t index;
    std::size_t bytes;
    std::int32_t first = -1, last = -1;
    std::int32_t same_as = -1;
  };

  layout form(value_id v) const { return d_.forms.form[v]; }
  std::size_t bytes_of(value_id v, layout f) const { return planning::bytes_of(r_, v, f); }

  // ---- memory ----
  std::int32_t new_block(std::size_t bytes);
  std::int32_t external(buffer_kind kind, std::int32_t index, std::size_t bytes);
  void touch(std::int32_t b);
  std::int32_t root_block(std::int32_t b) const;
  std::int32_t block_for(value_id v);
  buffer_ref home(value_id v);
  buffer_ref read(value_id v, layout as);
  buffer_ref write(value_id v);

  // ---- packed forms ----
  using pack_maker = std::function<void(buffer_ref, buffer_ref)>;
  std::int32_t add_pack(value_id v, std::uint64_t format, std::size_t bytes, const pack_maker& make, bool moves);
  std::int32_t pack_constant(value_id v, std::size_t bytes, const pack_maker& make);
  std::vector<plan_step> packing_steps(value_id v, std::int32_t to, const pack_maker& make);

  // ---- steps ----
  void begin();
  void begin_item(const plan_item& it);
  void emit_items();
  void emit_item();
  void check_written(bool steps) const;
  void check_bytes(std::size_t bytes) const;
  unsigned written_ = 0;  // bit i: the current `emit` requested result i
  // The stages of one item of a level, and the work of each of their steps.
  struct part {
    std::size_t first, last;
    double weight;
  };
  // Merges the stages of a level's items, so that they run side by side.
  void merge_stages(std::vector<part> parts, std::size_t first_step);

  void record(std::size_t steps, std::size_t first_stage);
  void keep_once();

  std::int32_t block_for_conversion(value_id v, layout to);
  void emit_reorder();

  // A scan: embeds the plan of its body.
  void emit_loop();
  // A cond: embeds the plans of both branches, each behind a gate.
  void emit_branches();
  struct loop_form;
  struct loop_part;
  void take_over(const plan& body, const loop_form& how, std::int32_t status);
  void place_buffers(loop_part& part);
  bool pack_invariants(loop_part& part);
  void add_moves(const loop_part& part);
  buffer_ref counter(std::string_view message, const std::optional<first_counted>& first);
  void add_lines(const plan& body, const std::string& when, double times);

  // A kernel for low-latency plans: less accurate where that is faster.
  kernels::map_function low_latency_function_of(const node& n) const;

  // An operand or result of a chain, with its strides over the iteration space in elements.
  struct chain_slot {
    value_id v;
    buffer_ref at;
    std::int64_t stride[max_rank];
    std::int64_t size;
    bool written;
    bool blocked = false;
    std::int64_t repeats = 0;  // elements that repeat along the innermost axis
  };

  std::int64_t lanes_of_blocks() const { return kernels::lanes(static_cast<kernels::isa>(r_.isa)); }
  struct chain;
  void emit_chain();
  // Whether the current chain computes a value.
  bool in_chain(value_id v) const { return d_.groups.group_of[static_cast<std::size_t>(v.node)] == current_->group; }
  std::size_t slot_of(chain& c, value_id v, bool written) const;
  void find_slots(chain& c);
  std::pair<buffer_ref, bool> place_in(chain& c, value_id v, bool written);
  void emit_calls(chain& c);
  kernels::chain_args steps_of(chain& of);
  void emit_tiles(const chain& of, kernels::chain_args c);
  void emit_rounded(const chain& of, kernels::chain_args c);
  // A call that adds up a result of a chain.
  struct chain_sums {
    kernels::chain_sum_args args{};
    std::int64_t step[max_rank]{};  // bytes of sums between positions of each axis
  };
  chain_sums sums_of(const chain& of, std::size_t outside) const;
  void emit_sums(chain& c);

  void copy_whole(value_id v, buffer_ref from, buffer_ref to);
  void emit_copies();
  void make_plain(value_id v);
  void copy_outputs();
  void copy_assignments();

  void finish();
  void place_memory();
  void find_touched_states();
  void sort_relocations();

  plan& plan_;
  const request r_;
  const program& p_;
  const decisions d_;
  std::string note_, kernel_;  // of the item that is being emitted
  bool packing_ = false;
  std::map<std::pair<value_id, layout>, std::int32_t> converted_;  // blocks
  std::vector<block> virtual_;
  std::map<std::pair<buffer_kind, std::int32_t>, std::int32_t>
      external_;  // index in `virtual_` of each external buffer
  value_table<std::int32_t> block_of_;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> pack_of_;  // blocks, by node and format
  std::set<std::int32_t> once_states_;
  std::vector<plan_step> pending_, pack_steps_, loop_steps_;
  std::vector<tensor_type> types_;  // of the operands of the node that is being recorded
  std::size_t stage_first_ = 0;
  std::int32_t now_ = 0;  // time: the level, from 1
  std::int32_t at_ = 0;   // the current item
  std::int32_t status_ = -1;
  std::size_t status_bytes_ = 0;
  std::vector<std::int32_t> check_order_;  // order of each check's item
  const plan_item* current_ = nullptr;
  view<const std::int32_t> nodes_;  // of the current item
};

}  // namespace lamina
