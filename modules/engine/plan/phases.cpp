// The phases of planning and the data that each passes to the next; every phase is a function from data to data.
// `analyze` finds the readers of values, `lay_out` the layout of each value, `group` the operations that run as one,
// `find_views` the results that alias others, `schedule` the order, `place` the memory of each result. The emitter
// turns these decisions into kernel calls.
module lamina:plan.phases;
import :context;
import :core;
import :emission;
import :passes;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

inline constexpr std::int32_t none = -1;
inline constexpr std::int32_t never = std::numeric_limits<std::int32_t>::max();

/// A program with static shapes, and the kernels to plan it for.
struct request {
  const program& of;
  lamina::isa isa;
  const pass_options& options;
  /// For the body of a loop: its states are carries, its inputs from this index on are loop-invariant.
  std::optional<std::size_t> first_invariant{};
  bool gradients = false;  // for the body of a loop: the enclosing plan takes gradients
};

/// One T per value of a program.
template <class T> class value_table {
 public:
  value_table() = default;
  /// `first`: the number of each node's result 0, then the number of all values.
  explicit value_table(std::shared_ptr<const std::vector<std::int32_t>> first, T initial = {})
      : first_(std::move(first)), all_(static_cast<std::size_t>(first_->back()), initial) {}
  T& operator[](value_id v) { return all_[number(v)]; }
  const T& operator[](value_id v) const { return all_[number(v)]; }

 private:
  std::size_t number(value_id v) const {
    return static_cast<std::size_t>((*first_)[static_cast<std::size_t>(v.node)] + v.result);
  }
  std::shared_ptr<const std::vector<std::int32_t>> first_;
  std::vector<T> all_;
};

// ---- analyze ----

/// Readers of values.
struct usage {
  std::shared_ptr<const std::vector<std::int32_t>> first_value;  // for value tables
  std::vector<char> needed;                                      // nodes that the program's roots reach
  std::vector<char> shape_read;      // nodes with a result of which some reader uses only the shape
  std::vector<char> parameter_only;  // operations that depend only on constants and states that no run assigns
  value_table<std::int32_t> reader_count, first_reader;
  std::vector<std::int32_t> readers;  // nodes that read elements, in program order, grouped by value
  value_table<char> root;             // outputs and assigned values
  bool gradients = false;  // there are operations of gradients, for which images stay plain and weights unpacked

  view<const std::int32_t> readers_of(value_id v) const {
    return {readers.data() + first_reader[v], static_cast<std::size_t>(reader_count[v])};
  }
  bool is_read(value_id v) const { return root[v] || reader_count[v] > 0; }
};
usage analyze(const request& r);

// ---- lay out ----

/// The memory layout of each value.
struct layouts {
  value_table<layout> form;
  /// In a blocked value the channels beyond C hold one finite number, which convolutions multiply by 0; empty where it
  /// is unknown.
  value_table<std::optional<float>> padding;
  bool any_blocked = false, any_uniform = false;
};
layouts lay_out(const request& r, const usage& u);
/// Second pass: operations that read newly blocked values may become blocked too.
void extend_layouts(const request& r, const usage& u, layouts& all);
std::size_t bytes_of(const request& r, value_id v, layout form);
/// The extents of an operand beside an image: with leading extents of 1 if it has fewer than four axes.
shape with_four_axes(const shape& s);
/// Whether a value has one number per channel, for each image or for all images.
bool is_for_channels(const tensor_type& t, const tensor_type& image);
/// Whether the bytes of a value are the same in two layouts: floats in channel blocks, if the blocks of a single pixel are
/// full. Blocks of int8 hold other numbers.
bool is_same_in(const request& r, const tensor_type& t, layout a, layout b);
/// The number in the channels beyond C; empty where it is unknown.
std::optional<float> padding_of(const request& r, const layouts& all, value_id v);
/// The layout in which node `n` reads its operand `k`.
layout operand_layout(const request& r, const usage& u, const layouts& all, std::int32_t n, std::size_t k);

// ---- group ----

/// Operations that run as one: a product and the operations in its epilogue, or a chain of elementwise operations.
struct group {
  bool chain = false;
  std::vector<std::int32_t> nodes;  // the product first; a chain in program order, then `sum`
  value_id result;
  std::int32_t sum = none;  // the sum along axes of the last result of a chain
  epilogue tail{};
};
struct grouping {
  std::vector<group> groups;
  std::vector<std::int32_t> group_of;  // by node; none: it runs alone
  std::int64_t fused_elementwise = 0, fused_epilogues = 0;

  const group* of(std::int32_t node) const {
    const auto g = group_of[static_cast<std::size_t>(node)];
    return g == none ? nullptr : &groups[static_cast<std::size_t>(g)];
  }
  /// Whether only the chain itself reads the result of its node, so that it needs no memory.
  bool stays_inside(const usage& u, std::int32_t node) const;
};
/// An epilogue may make its operands, and operations after it, blocked.
grouping group_nodes(const request& r, const usage& u, layouts& forms);
/// Swaps of heads and rows keep the memory order of their operand (rows first), if all readers or the producer support
/// it.
void put_rows_first(const request& r, const usage& u, const grouping& groups, layouts& all);

/// Images between products that round them to bfloat16 are stored so, where their kernels can: half as many bytes. A sum
/// that a product adds to such an image reads it rounded.
void round_images(const request& r, const usage& u, const grouping& groups, layouts& all);
/// The layout in which a product reads the residual of its epilogue.
layout residual_layout(const layouts& all, const group& g);

// ---- views ----

/// A result that aliases part of an operand's memory.
struct memory_view {
  value_id of{};  // none: the value has its own memory
  std::int64_t offset = 0;
  value_id base{};         // the value that owns the memory at the end of the chain of views; itself if it is no view
  bool in_pieces = false;  // positions of an axis of `of` that are not contiguous; only chains read it, by its strides
  std::int64_t pitch = 0;  // the same, but only operations that take rows first read it: elements between its pieces
};
using view_table = value_table<memory_view>;
view_table find_views(const request& r, const usage& u, const layouts& forms, const grouping& groups);
/// Byte offset in `whole` of its positions `at`, which are `part`; none if they are not contiguous in the layout of
/// both.
std::optional<std::int64_t> offset_inside(const request& r, const layouts& forms, value_id whole, value_id part,
                                          const axis_view& at);

// ---- schedule ----

/// A unit of scheduling: an operation with its epilogue, a chain, or a change of layout.
struct plan_item {
  enum class kind : std::uint8_t { operation, chain, reorder } what = kind::operation;
  layout to = layout::plain;  // of a reorder
  bool once = false;          // reads only states that no run assigns
  bool late = false;          // needed for assigned values alone
  bool may_fail = false;
  std::int32_t group = none;  // the group that it runs; none: a single node
  value_id result{};          // for a reorder: its operand
  std::int32_t level = 0;     // items of one level run at the same time; without parallelism each has its own level
  std::int32_t order = 0;     // position in the sequential order
};
struct item_order {
  std::vector<plan_item> items;
  std::vector<std::int32_t> item_of;    // by node
  value_table<std::uint8_t> reordered;  // bit f: an item converts the value to layout f

  bool is_reordered(value_id v, layout to) const { return reordered[v] >> static_cast<int>(to) & 1u; }
  /// The nodes that an item runs; none for a reorder.
  view<const std::int32_t> nodes(const grouping& groups, const plan_item& it) const {
    if (it.group != none) return groups.groups[static_cast<std::size_t>(it.group)].nodes;
    return {&it.result.node, it.what == plan_item::kind::reorder ? 0u : 1u};
  }
};
item_order schedule(const request& r, const usage& u, const layouts& forms, const grouping& groups,
                    const view_table& views);
/// Calls f(v) for each operand of a product's epilogue.
template <class F> void each_operand(const epilogue& tail, F f) {
  if (tail.bias) f(tail.bias);
  if (tail.residual) f(tail.residual);
  if (tail.windows_bias) f(tail.windows_bias);
  for (auto v : tail.windows_operands()) f(v);
  if (!tail.sum) return;
  const auto& [first, second] = tail.sum->op->sums;
  for (int k = 0; k < static_cast<int>(tail.sum->inputs.size()); ++k)
    if (k != first && k != second) f(tail.sum->inputs[static_cast<std::size_t>(k)]);
}
/// Calls f(v) for each value whose elements an item reads, in their order.
template <class F>
void each_read(const program& p, const grouping& groups, const item_order& order, const plan_item& it, F f) {
  if (it.what == plan_item::kind::reorder) return f(it.result);
  for (auto m : order.nodes(groups, it)) {
    const node& n = p.at(m);
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k)) f(n.inputs[k]);
  }
  if (it.group == none) return;
  each_operand(groups.groups[static_cast<std::size_t>(it.group)].tail, f);
}

// ---- place ----

/// Location of a result's memory.
struct home {
  enum class place : std::uint8_t { own, output, state, over, inside } in = place::own;
  std::int32_t index = none;  // of the output or state
  value_id over{};            // the operand whose memory it takes, or the result that contains it
  std::int64_t offset = 0;    // byte offset in that result
};
struct placement {
  value_table<home> homes;
  std::vector<value_id> leaving;                    // values that are written into outputs and states
  std::map<value_id, std::int32_t> plain_in;        // blocked values: the output that their plain form is written into
  std::vector<char> output_written, state_written;  // by output, by assignment: the result is computed in place
  std::int32_t commit_item = never;                 // the first item that writes a state
};
placement place(const request& r, const usage& u, const layouts& forms, const grouping& groups, const view_table& views,
                const item_order& order);

// ---- all of them ----

/// All decisions about a program before the first kernel call is emitted.
struct decisions {
  usage used;
  layouts forms;
  grouping groups;
  view_table views;
  item_order order;
  placement places;
};
decisions decide(const request& r);
/// The decisions of each phase as a table: values with readers, layout and memory; groups; items with their levels.
std::string describe(const request& r, const decisions& all);

/// Index of a state or input among those of the program.
inline std::int32_t index_in(const std::vector<std::int32_t>& all, std::int32_t node) {
  return static_cast<std::int32_t>(std::lower_bound(all.begin(), all.end(), node) - all.begin());
}

}  // namespace lamina::planning
