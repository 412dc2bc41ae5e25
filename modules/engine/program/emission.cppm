// How a node becomes kernel calls: what an operation's `emit` sees of the plan that is being made.
export module lamina:emission;
import :context;
import :core;
import :dtype;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// How a buffer's elements lie in memory.
export enum class layout : std::uint8_t {
  plain,  ///< row-major
  blocked,  ///< [N, ceil(C / lanes), H, W, lanes], zeros in the channels beyond C; of int8 each number plus 128, there any
  uniform,     ///< one element stands for all
  rows_first,  ///< of [..., heads, rows, columns]: row-major as [..., rows, heads, columns]
};

/// A place in a buffer of the plan; addresses follow when the plan is bound.
struct buffer_ref {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;  // bytes
  layout form = layout::plain;
  explicit operator bool() const { return buffer >= 0; }
  buffer_ref at(std::int64_t bytes) const { return {buffer, offset + bytes, form}; }
};

/// Whether both begin at the same byte.
inline bool same_place(const buffer_ref& a, const buffer_ref& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

/// A field of an argument struct that is to hold an address.
export struct address {
  const void* field;
  buffer_ref to;
};

/// A field of an argument struct that holds a function or a table; where `numbers` is a field that holds the address of
/// floating-point numbers, the function is called only for such as are not all finite.
struct code_field {
  const void* field;
  const void* numbers = nullptr;
};

using step_function = void (*)(const void* arguments, void* scratch) noexcept;

/// What a counter notes beside its number: the first element that it counted, and where among elements of shape `of`.
struct first_counted {
  shape of;
  bool samples = false;    // each element is of a sample, which messages say
  std::int64_t begin = 0;  // where among them the elements of this counter's step begin
};

/// The epilogue that later nodes left to a matrix product or convolution.
struct epilogue {
  value_id bias, residual;    // node -1: none
  const node* sum = nullptr;  // the operation, with `sums`, that adds `residual`, if it is not a plain sum
  bool clamp = false;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  const node* windows =
      nullptr;              // the operation, with `windows`, that alone reads the result and gives that of the whole
  value_id windows_bias{};  // what follows it; node -1: none
  std::optional<value_bounds> windows_bounds{};
  /// The operands of `windows` beside that result.
  view<const value_id> windows_operands() const {
    return windows ? view<const value_id>(windows->inputs).subview(1, windows->inputs.size() - 1)
                   : view<const value_id>();
  }
};

/// One node's view of the plan being made. Steps of one stage do not depend on each other and may run at the same time;
/// work is cut into steps by its size alone.
export class emission {
 public:
  virtual const node& of() const = 0;
  virtual const tensor_type& in_type(std::size_t i) const = 0;
  virtual const tensor_type& out_type(std::size_t i) const = 0;
  virtual buffer_ref in(std::size_t i) = 0;
  virtual buffer_ref out(std::size_t i) = 0;
  /// Whether anybody reads result i.
  virtual bool used(std::size_t i) const = 0;
  virtual lamina::isa isa() const = 0;
  /// Whether the sums of a single row may be added in another order than those of a batch.
  virtual bool relaxed_summation() const = 0;
  /// Whether convolutions may take fewer multiplications with larger errors.
  virtual bool fast_convolutions() const = 0;
  /// What the operands of float32 products with weights are rounded to: float32 or bfloat16.
  virtual product_type compute() const = 0;
  /// Whether one thread runs the plan, and kernels of less code are taken where they need little more time.
  virtual bool compact() const = 0;
  /// What follows in the same pass over the result.
  virtual const lamina::epilogue& epilogue() const = 0;
  /// The buffer of a value that the epilogue names.
  virtual buffer_ref operand(value_id v) = 0;
  virtual const tensor_type& operand_type(value_id v) const = 0;
  /// Memory that lives while this node runs.
  virtual buffer_ref temporary(std::size_t bytes) = 0;
  /// A counter of int64 that is zero before a run; a run in which it is not zero afterwards fails with `message`, and
  /// no state is assigned.
  virtual buffer_ref status(std::string_view message) = 0;
  /// The same with two words of int64 behind the counter, written when it becomes 1: an element, and its position in row-major
  /// order, counted from `first.begin`. The error says both.
  virtual buffer_ref status_with_first(std::string_view message, const first_counted& first) = 0;
  /// The packed form of a value that is a state or a view of one, kept with its parameter: `make` is called if the plan does not know the format yet.
  /// Empty where the value is no state or the plan does not pack. `moves`: the form holds each element as it is, so that the
  /// parameter's own memory may be freed.
  virtual buffer_ref packed(value_id of, std::uint64_t format, std::size_t bytes,
                            const std::function<void(buffer_ref from, buffer_ref to)>& make, bool moves) = 0;
  /// Adds a word to the node's line in `explain()`: which of its special cases was taken.
  virtual void note(std::string_view words) = 0;
  /// Ends the current stage: steps added after this one run after all before it.
  virtual void stage() = 0;
  /// A kernel call: `addresses` are fields of the arguments that hold memory, `code` those that hold functions or tables.
  virtual void add(step_function run, view<const std::byte> arguments, view<const address> addresses,
                   view<const code_field> code, std::size_t scratch) = 0;

  /// Elements that a buffer of a type holds: in channel blocks, those beyond the last channel too.
  std::int64_t stored(const buffer_ref& b, const tensor_type& t) const {
    const std::int64_t lanes = isa() == lamina::isa::avx512 ? 16 : isa() == lamina::isa::avx2 ? 8 : 4;
    if (b.form != layout::blocked || t.dims.size() == 0) return t.dims.size();
    return t.dims.size() / t.dims.at(1) * ((t.dims.at(1) + lanes - 1) / lanes * lanes);
  }
  template <class A> const A& attributes() const { return *static_cast<const A*>(of().attributes.get()); }
  template <class Arguments>
  void step(step_function run, const Arguments& a, view<const address> addresses, std::size_t scratch = 0) {
    std::vector<code_field> code;
    auto found = [&](const auto& field, const auto&... numbers) {
      if (field) code.push_back({&field, static_cast<const void*>(&numbers)...});
    };
    if constexpr (requires { a.each_code(found); }) a.each_code(found);
    add(run, {reinterpret_cast<const std::byte*>(&a), sizeof a}, addresses, code, scratch);
  }
  /// Cost units that are worth a part: some microseconds.
  static constexpr double usual_grain = 100e3;
  /// Cuts `items` into 1, 2, 4, 8 or 16 runs of at least `grain` cost units and calls f(first, count) for each: powers of
  /// two, so that any usual number of threads gets equal shares, which differ by at most one `unit`. Depends on sizes alone.
  template <class F>
  static void cut(std::int64_t items, double cost_per_item, F f, double grain = usual_grain, std::int64_t unit = 1) {
    if (items <= 0) return;
    const std::int64_t units = (items + unit - 1) / unit;
    auto parts = static_cast<std::int64_t>(static_cast<double>(items) * cost_per_item / grain);
    parts = std::clamp<std::int64_t>(parts, 1, std::min<std::int64_t>(16, units));
    parts = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(parts)));
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t first = i * units / parts * unit;
      f(first, std::min((i + 1) * units / parts * unit, items) - first);
    }
  }
  /// The same where one part has the bits of many: a compact plan, which one thread runs, has one part, of which fewer kernels
  /// are linked.
  template <class F> void cut_for_threads(std::int64_t items, double cost_per_item, F f, double grain = usual_grain,
                                          std::int64_t unit = 1) const {
    if (!compact()) return cut(items, cost_per_item, f, grain, unit);
    if (items > 0) f(std::int64_t(0), items);
  }

 protected:
  ~emission() = default;
};

}  // namespace lamina
