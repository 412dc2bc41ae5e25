// Lowering of nodes to kernel calls: an `emit` function's interface to the plan being built.
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

/// Memory layout of a buffer's elements.
export enum class layout : std::uint8_t {
  plain,       ///< row-major
  blocked,     ///< [N, ceil(C / lanes), H, W, lanes], zeros beyond channel C; int8: numbers plus 128, anything beyond C
  uniform,     ///< one element, broadcast to all
  rows_first,  ///< [..., heads, rows, columns] stored row-major as [..., rows, heads, columns]
  rounded,  ///< float32 as bfloat16 in pairs of blocks: [N, ceil(C / 2 lanes), H, W, 2 lanes], zeros beyond channel C
};
constexpr bool is_in_blocks(layout form) { return form == layout::blocked || form == layout::rounded; }
/// The name of a layout, as plans print it.
export constexpr std::string_view name_of(layout form) {
  constexpr std::string_view names[] = {"plain", "blocked", "uniform", "rows first", "bfloat16"};
  return names[static_cast<std::size_t>(form)];
}

/// An offset in a buffer of the plan; becomes an address when the plan is bound.
struct buffer_ref {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;  // bytes
  layout form = layout::plain;
  std::int64_t pitch = 0;  // elements between rows of all heads (`layout::rows_first`); 0: rows are contiguous
  explicit operator bool() const { return buffer >= 0; }
  buffer_ref at(std::int64_t bytes) const { return {buffer, offset + bytes, form, pitch}; }
};

/// Whether both refer to the same byte.
inline bool same_place(const buffer_ref& a, const buffer_ref& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

/// A field of an argument struct that receives an address.
export struct address {
  const void* field;
  buffer_ref to;
};

/// A field of an argument struct that holds a function or a table. If `numbers` is set, it is a field with the address
/// of floating-point numbers, and the function is called only if they are not all finite.
struct code_field {
  const void* field;
  const void* numbers = nullptr;
};

using step_function = void (*)(const void* arguments, void* scratch) noexcept;

/// Data that a counter records besides its value: the first element that it counted, and its position among elements of
/// shape `of`.
struct first_counted {
  shape of;
  bool samples = false;    // elements belong to samples, which messages name
  std::int64_t begin = 0;  // position of the first element of this counter's step
};

/// Later nodes fused into a matrix product or convolution.
struct epilogue {
  value_id bias, residual;    // node -1: none
  const node* sum = nullptr;  // operation with `sums` that adds `residual`, if not a plain sum
  bool clamp = false;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  const node* windows =
      nullptr;              // operation with `windows`, the only reader of the result, that computes the final result
  value_id windows_bias{};  // bias added after it; node -1: none
  std::optional<value_bounds> windows_bounds{};
  /// Operands of `windows` other than that result.
  view<const value_id> windows_operands() const {
    return windows ? view<const value_id>(windows->inputs).subview(1, windows->inputs.size() - 1)
                   : view<const value_id>();
  }
};

/// One node's interface to the plan being built. Steps of one stage are independent and may run at the same time; work
/// is split into steps by its size alone.
export class emission {
 public:
  virtual const node& of() const = 0;
  virtual const tensor_type& in_type(std::size_t i) const = 0;
  virtual const tensor_type& out_type(std::size_t i) const = 0;
  virtual buffer_ref in(std::size_t i) = 0;
  virtual buffer_ref out(std::size_t i) = 0;
  /// Whether result i is read.
  virtual bool used(std::size_t i) const = 0;
  virtual lamina::isa isa() const = 0;
  /// Whether sums of a single row may be computed in another order than those of a batch.
  virtual bool relaxed_summation() const = 0;
  /// Whether convolutions may use fewer multiplications at the cost of larger errors.
  virtual bool fast_convolutions() const = 0;
  /// Type to which operands of float32 products with weights are rounded: float32 or bfloat16.
  virtual product_type compute() const = 0;
  /// Whether one thread runs the plan and smaller kernels are preferred if they are only slightly slower.
  virtual bool compact() const = 0;
  /// Operations fused into the same pass over the result.
  virtual const lamina::epilogue& epilogue() const = 0;
  /// Buffer of a value that the epilogue names.
  virtual buffer_ref operand(value_id v) = 0;
  virtual const tensor_type& operand_type(value_id v) const = 0;
  /// Temporary memory, valid while this node runs.
  virtual buffer_ref temporary(std::size_t bytes) = 0;
  /// An int64 counter, zero before a run. If it is nonzero afterwards, the run fails with `message`, and no state is
  /// assigned.
  virtual buffer_ref status(std::string_view message) = 0;
  /// Same, with two int64 words after the counter, written when it becomes 1: an element, and its row-major position,
  /// counted from `first.begin`. The error reports both.
  virtual buffer_ref status_with_first(std::string_view message, const first_counted& first) = 0;
  /// Packed form of a state or a view of one, cached with its parameter; `make` is called if the plan does not know the
  /// format yet. Empty if the value is no state or the plan does not pack. `moves`: the form contains every element
  /// unchanged, so that the parameter's own memory may be freed.
  virtual buffer_ref packed(value_id of, std::uint64_t format, std::size_t bytes,
                            const std::function<void(buffer_ref from, buffer_ref to)>& make, bool moves) = 0;
  /// Adds a note to the node's line in `explain()`: the chosen special case.
  virtual void note(std::string_view description) = 0;
  /// Names the chosen kernel in the node's line, if the operation has several: "winograd 2x2".
  virtual void kernel(std::string_view name) = 0;
  /// Ends the current stage: steps added after this one run after all before it.
  virtual void stage() = 0;
  /// Adds a kernel call: `addresses` are argument fields that receive addresses, `code` those with functions or tables.
  virtual void add(step_function run, view<const std::byte> arguments, view<const address> addresses,
                   view<const code_field> code, std::size_t scratch) = 0;

  /// Number of elements in a buffer of a type; channel-blocked, includes padding channels.
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
  /// Minimum cost units per part: some microseconds.
  static constexpr double usual_grain = 100e3;
  /// Splits `items` into 1, 2, 4, 8 or 16 ranges of at least `grain` cost units and calls f(first, count) for each.
  /// Powers of two give any usual number of threads equal shares, which differ by at most one `unit`. Depends on sizes
  /// alone.
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
  /// Same, for work whose results do not depend on the split: a compact plan, which one thread runs, uses one part and
  /// so links fewer kernels.
  template <class F> void cut_for_threads(std::int64_t items, double cost_per_item, F f, double grain = usual_grain,
                                          std::int64_t unit = 1) const {
    if (!compact()) return cut(items, cost_per_item, f, grain, unit);
    if (items > 0) f(std::int64_t(0), items);
  }

 protected:
  ~emission() = default;
};

}  // namespace lamina
