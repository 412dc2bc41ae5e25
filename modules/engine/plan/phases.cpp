// The phases of planning and what each hands to the next: functions from data to data. `analyze` finds who reads what,
// `lay_out` the layout of each value, `group` the operations that run as one, `find_views` the results that are memory of
// others, `schedule` the order, `place` the memory of each result. The emitter makes kernel calls of what they decided.
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

/// A program whose shapes are numbers, and for which kernels it is planned.
struct request {
  const program& of;
  lamina::isa isa;
  const pass_options& options;
  /// Of the body of a loop: its states are carries, its inputs from here on are the same in every iteration.
  std::optional<std::size_t> first_invariant{};
  bool gradients = false;  // of the body of a loop: the plan around it takes gradients
};

/// A T for each value of a program.
template <class T> class value_table {
 public:
  value_table() = default;
  /// `first` holds the number of each node's result 0, and behind them how many values there are.
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

/// Who reads what.
struct usage {
  std::shared_ptr<const std::vector<std::int32_t>> first_value;  // for value tables
  std::vector<char> needed;                                      // nodes that the program's roots reach
  std::vector<char> shape_read;      // nodes of which somebody reads the shape of a result alone
  std::vector<char> parameter_only;  // operations that depend on constants and states alone, which no run assigns
  value_table<std::int32_t> reader_count, first_reader;
  std::vector<std::int32_t> readers;  // nodes that read elements, in their order, by value
  value_table<char> root;             // outputs and assigned values
  bool gradients = false;  // operations of gradients stand here, which keep images plain and weights unpacked

  view<const std::int32_t> readers_of(value_id v) const {
    return {readers.data() + first_reader[v], static_cast<std::size_t>(reader_count[v])};
  }
  bool is_read(value_id v) const { return root[v] || reader_count[v] > 0; }
};
usage analyze(const request& r);

// ---- lay out ----

/// How the elements of each value lie.
struct layouts {
  value_table<layout> form;
  /// The channels beyond C of a blocked value hold one finite number, which convolutions multiply by 0: what it is, where
  /// it is known.
  value_table<std::optional<float>> padding;
  bool any_blocked = false, any_uniform = false;
};
layouts lay_out(const request& r, const usage& u);
/// Goes over the program again: operations that read what has become blocked may be blocked too.
void extend_layouts(const request& r, const usage& u, layouts& all);
std::size_t bytes_of(const request& r, value_id v, layout form);
/// Whether a value has one number for each channel of images, or for each channel of all images.
bool is_for_channels(const tensor_type& t, const tensor_type& image);
/// The number in the channels beyond C; empty where it is not known.
std::optional<float> padding_of(const request& r, const layouts& all, value_id v);
/// The layout in which node `n` reads its operand `k`.
layout wanted(const request& r, const usage& u, const layouts& all, std::int32_t n, std::size_t k);

// ---- group ----

/// What runs as one: a product and the operations that its epilogue does, or a chain of elementwise operations.
struct group {
  bool chain = false;
  std::vector<std::int32_t> nodes;  // the product first; those of a chain in their order
  value_id result;
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
  /// Whether the result of a chain's node is read in the chain alone, so that it needs no memory.
  bool stays_inside(const usage& u, std::int32_t node) const;
};
/// An epilogue may block the layout of what it takes in, and of what follows.
grouping group_nodes(const request& r, const usage& u, layouts& forms);
/// Heads that are swapped with rows lie as they lay before, where all that read them, or what made them, can do with it.
void put_rows_first(const request& r, const usage& u, const grouping& groups, layouts& all);

// ---- views ----

/// A result that is part of an operand's memory.
struct memory_view {
  value_id of{};  // none: the value has memory of its own
  std::int64_t offset = 0;
  value_id base{};  // the value whose memory it is at last; itself where it is no view
};
using view_table = value_table<memory_view>;
view_table find_views(const request& r, const usage& u, const layouts& forms, const grouping& groups);
/// Bytes from the begin of `whole` at which the positions `at` of it begin, which are `part`; none where they do not lie side by side in
/// the layout that both have.
std::optional<std::int64_t> offset_inside(const request& r, const layouts& forms, value_id whole, value_id part,
                                          const axis_view& at);

// ---- schedule ----

/// What is scheduled as one: an operation with its epilogue, a chain, or a change of layout.
struct plan_item {
  enum class kind : std::uint8_t { operation, chain, reorder } what = kind::operation;
  layout to = layout::plain;  // of a reorder
  bool once = false;          // reads nothing but states that no run assigns
  bool late = false;          // for assigned values alone
  bool may_fail = false;
  std::int32_t group = none;  // what it runs; none: a node alone
  value_id result{};          // of a reorder its operand
  std::int32_t level = 0;     // items of one level run at the same time; else each has a level of its own
  std::int32_t order = 0;     // where it stands if each item comes after the other
};
struct item_order {
  std::vector<plan_item> items;
  std::vector<std::int32_t> item_of;    // by node
  value_table<std::uint8_t> reordered;  // bit f: an item turns the value into layout f

  bool is_reordered(value_id v, layout to) const { return reordered[v] >> static_cast<int>(to) & 1u; }
  /// The nodes that an item runs: none of a reorder.
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

/// Where the memory of a result is.
struct home {
  enum class place : std::uint8_t { own, output, state, over, inside } in = place::own;
  std::int32_t index = none;  // of the output or state
  value_id over{};            // the operand whose memory it takes, or the result that it is a part of
  std::int64_t offset = 0;    // bytes from the begin of that result
};
struct placement {
  value_table<home> homes;
  std::vector<value_id> leaving;                    // values that are written into outputs and states
  std::vector<char> output_written, state_written;  // by output, by assignment: the result is where it belongs
  std::int32_t commit_item = never;                 // the first that writes a state
};
placement place(const request& r, const usage& u, const layouts& forms, const grouping& groups, const view_table& views,
                const item_order& order);

// ---- all of them ----

/// What is known of a program before the first kernel call is made.
struct decisions {
  usage used;
  layouts forms;
  grouping groups;
  view_table views;
  item_order order;
  placement places;
};
decisions decide(const request& r);
/// A table of each phase's answers: values with readers, layout and memory; groups; items with their levels.
std::string describe(const request& r, const decisions& all);

/// The number of a state or input among those of the program.
inline std::int32_t index_in(const std::vector<std::int32_t>& all, std::int32_t node) {
  return static_cast<std::int32_t>(std::lower_bound(all.begin(), all.end(), node) - all.begin());
}

}  // namespace lamina::planning
