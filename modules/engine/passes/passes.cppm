// Passes over a program with static shapes: each rewrite is a named rule with a switch and a counter.
export module lamina:passes;
import :context;
import :core;
import :dtype;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// The rewrites that `simplify` enables: first those of single operations, in the order in which they are tried, then
/// patterns of several operations whose inner results nothing else reads. None changes a result by more than the
/// rounding of the operations that it replaces, unless its comment says so.
export enum class rewrite : std::uint8_t {
  neutral_number,        ///< x + 0, x - 0, x * 1, x / 1 and x ^ 1 are x; -0 + 0 stays -0
  same_type,             ///< a reshape, broadcast or cast to the operand's own type is the operand
  stopped_gradient,      ///< becomes its operand once gradients are taken
  double_inverse,        ///< -(-x), !!x, and 1 / (1 / x), also where 1 / x overflows
  logarithm,             ///< log(exp x), also where exp x overflows; log(softmax x), also where softmax x is 0
  composed_permutation,  ///< consecutive permutations become one, or none where they cancel
  composed_reshape,      ///< consecutive reshapes become one
  transposed_operand,    ///< a matrix product reads a transposed operand in place
  scale,  ///< (x * a) * b with numbers a and b is x * (a * b), where both shrink or both grow; a negation joins the factor
  power,           ///< x ^ 2, x ^ 3 and x ^ -1 become products and a reciprocal
  padding,         ///< zero padding before a convolution becomes the convolution's own padding
  softmax_loss,    ///< (u / y) * y with y a softmax or exp x is u, also where y is 0 or infinite: the gradient of log y
  spread_operand,  ///< elementwise operations read a gradient that is spread over a map where it is, and broadcast it
  known_positions,       ///< gathering at positions that are known and follow each other is a part of the axis
  nested_concatenation,  ///< concat(a, b, c), where the program has concat(a, b) too, is concat(concat(a, b), c)
  attention,             ///< softmax(scale q k^T + mask) v; a query that sees no key gives zeros
  part_of_heads,  ///< its operands that are parts of a permuted value, such as those of one product, are permuted parts
  rotary_embedding,  ///< x cos + rotated(x) sin
  layer_norm,  ///< (x - mean) / sqrt(variance + epsilon) along any axes, with weight and bias: also group and instance norm
  rms_norm,      ///< x / sqrt(mean(x^2) + epsilon), with weight
  softmax,       ///< exp(x - max) / sum, also without the maximum, where exp x would be infinite
  gelu,          ///< x/2 (1 + erf(x / sqrt 2))
  gelu_tanh,     ///< x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  mish,          ///< x tanh(softplus x)
  silu,          ///< x sigmoid(x)
  quick_gelu,    ///< x sigmoid(1.702 x): only counted, its elementwise operations stay and fuse
  hard_swish,    ///< x clamp(x + 3, 0, 6) / 6
  hard_sigmoid,  ///< clamp(a x + b, 0, 1)
  sigmoid,       ///< 1 / (1 + exp(-x))
  softplus,      ///< log(1 + exp x), also where exp x would be infinite, and as max(x, 0) + log(1 + exp(-|x|))
  channel_shuffle,  ///< reshape, permute, reshape that interleave channel groups, with a concatenation before and slices after
  product_of_axis,  ///< a product with a small matrix between permutations that undo each other: one along an inner axis
  quantized_conv2d,  ///< quantize(conv(dequantize x, dequantize w) + bias), with bounds: like all below, within one quantization step
  quantized_matmul,    ///< the same for a product of two values that are not parameters
  quantized_linear,    ///< the same for a matrix product with weights
  quantized_add,       ///< quantize(dequantize a + dequantize b), or their difference
  quantized_multiply,  ///< quantize(dequantize a * dequantize b)
  quantized_average,   ///< quantize(average(dequantize x))
  quantized_move,      ///< quantize(f(dequantize x)), where f moves elements
  quantized_table,     ///< quantize(f(dequantize x)), where f is elementwise: becomes a lookup table
  integer_linear,      ///< a matrix product of dequantized int8 operands: its sums are integers
  integer_matmul,      ///< a product of two dequantized int8 values with a float result
  integer_conv2d,      ///< a convolution of dequantized int8 operands with a float result
  same_bytes,          ///< u - 128 for a uint8 value u = q + 128 is the int8 value q
};
export inline constexpr int rewrite_count = 44;
export std::string_view name_of(rewrite r);

/// A set of rewrites.
export struct rewrites {
  std::uint64_t bits = 0;
  constexpr rewrites() = default;
  constexpr rewrites(std::initializer_list<rewrite> all) {
    for (auto r : all) bits |= std::uint64_t{1} << static_cast<int>(r);
  }
  constexpr bool has(rewrite r) const { return bits >> static_cast<int>(r) & 1u; }
  bool operator==(const rewrites&) const = default;
};

/// A call of an operation that is being planned, as a special case sees it; every shape is static.
export struct special_call {
  const node& of;
  view<const value> inputs;
  program& owner;  // of the inputs, and of the replacement
  template <class A> const A& attributes() const { return *static_cast<const A*>(of.attributes.get()); }
  const value& operator()(std::size_t i) const { return inputs[i]; }
  const tensor_type& type() const { return of.results[0]; }
  /// Operand k of the call that computes input i; empty if that is not a call of this operation.
  value through(std::size_t i, std::string_view operation, std::size_t k = 0) const;
};
/// A special case that a user adds to an operation: `rewrite` returns the value that replaces a call, or an empty one
/// where the case does not apply. It is called during planning. Cases are tried in their order, before the library's
/// own rewrites; the operation itself does not change. Errors: type_error, shape_error if the value has another type.
export struct special_case {
  std::string_view operation;
  value (*rewrite)(const special_call&) = nullptr;
  bool operator==(const special_case&) const = default;
};
/// Registers a case for every later evaluation in a context, also of expressions that it has planned before.
export void add_case(context& where, const special_case& added);

namespace detail {
/// The special cases of a context.
class context_cases {
 public:
  void add(const special_case& added);
  std::vector<special_case> all();
  /// Changes when a case is added.
  inline std::size_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::vector<special_case> all_;
  std::atomic<std::size_t> version_{0};
};
}  // namespace detail

/// How results share the memory of the arena; no choice changes a bit of a result.
export enum class memory_sharing : std::uint8_t {
  best,     ///< the smallest arena of `dynamic` and of several orders with best fit (smallest gap that is large enough)
  greedy,   ///< the largest block first, in the smallest gap that is large enough
  dynamic,  ///< dynamic programming in order of time: each block lies within the memory of blocks that are dead
  none,     ///< every result has its own memory
};
export std::string_view name_of(memory_sharing m);

/// Which rewrites run; all by default.
export struct pass_options {
  bool fold_constants = true;         ///< operations on constants alone are evaluated once
  bool simplify = true;               ///< the rewrites of `rewrite`
  bool fuse_elementwise = true;       ///< chains of elementwise operations become one pass over memory
  bool fuse_epilogues = true;         ///< bias, residual and clamp join the matrix product or convolution before them
  bool blocked_layout = true;         ///< convolutions of inference plans run in channel blocks
  bool reuse_memory = true;           ///< results take the memory of operands that have no later reader
  rewrites without{};                 ///< rewrites of `simplify` that are disabled
  std::vector<special_case> cases{};  ///< the user's, tried before the rewrites
  bool merge = false;  ///< auto-batching: similar operations of one level become one, row by row; used by eval_plan
  bool relaxed_summation = false;  ///< low latency for a single row: sums run in several chains, tanh and sigmoid
                                   ///< are those of recurrent gates; the bits differ from a batch's
  bool common = true;              ///< equal operations become one; in the program: `common_subexpressions`
  bool parallel = false;           ///< independent operations run at once on several threads
  bool parallel_loops = true;      ///< the same where loops do not depend on each other, such as both directions of a
                                   ///< recurrent layer, unless states are assigned; for sessions with several threads
  /// Type to which attention, and products with weights that the plan does not assign, round their operands: float32 or
  /// bfloat16. Ignored in a plan that takes gradients of convolutions. Sums and results stay float32.
  product_type compute{};
  /// Float32 convolutions of 3x3 filters over large maps use Winograd's F(4x4, 3x3): fewer multiplications, about ten
  /// times the rounding error. Bits depend on neither threads nor batch.
  bool fast_convolutions = false;
  bool compact = false;  ///< for one thread: kernels of less code where they are little slower; the same bits
  memory_sharing memory = memory_sharing::best;
  bool operator==(const pass_options&) const = default;
};

/// How often each rewrite applied; `simplified` is the sum of `rewritten`. `common` counts operations that equal
/// another one, found when the program was built or planned.
struct pass_counters {
  std::int64_t nodes = 0, common = 0, folded = 0, simplified = 0, cases = 0, inlined_calls = 0, joined_loops = 0,
               moved_before_loops = 0, merged = 0, fused_elementwise = 0, fused_epilogues = 0;
  std::int64_t rewritten[rewrite_count]{};
  std::vector<std::string> missed{};  ///< operations that nearly match a pattern, and what is missing
  constexpr std::int64_t of(rewrite r) const { return rewritten[static_cast<int>(r)]; }
  /// Counts of the patterns of several operations, by name.
  std::map<std::string, std::int64_t> recognized() const;
};

/// Evaluates an operation on constants; supplied by the module that can run programs.
using constant_evaluator = std::function<any_tensor(const program&)>;

/// The elements, for this plan, of an input that decides shapes.
struct known_input {
  std::size_t input = 0;       ///< index of the input
  const void* data = nullptr;  ///< all of its elements
};

/// The program with static shapes, calls inlined, and the rewrites applied. `inputs` holds the shape of each input,
/// `known` the elements of those that decide shapes.
/// Errors: shape_error naming operation and shapes on a mismatch; unsupported_error where a shape depends on elements
/// that only a run computes.
program specialized(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
                    const constant_evaluator& evaluate, view<const known_input> known = {});

/// Auto-batching: the specialized program with similar operations of one level merged. Samples that are evaluated side
/// by side become rows of one operation, with the same bits. `counters.merged` counts the removed operations.
program merged(const program& p, pass_counters& counters);

/// A program in which every value that depends on parameters alone is a state, to be computed once.
struct precomputed_program {
  std::shared_ptr<program> rewritten;                // the same inputs and outputs
  std::shared_ptr<program> values;                   // from the original states: one output per new state
  std::vector<std::string> names;                    // of the new states, in the order of those outputs
  std::int64_t joined = 0;                           // factors and terms that were folded into the preceding product
  std::vector<std::string> missed{};                 // products followed by factors that stay, and why
  std::map<std::string, std::int64_t> recognized{};  // as in `pass_counters`
};
/// Folds per-channel factors and terms, such as those of a batch norm with running statistics, into the weights of the
/// preceding convolution or matrix product, computes transposed convolutions with strides as convolutions without, and
/// precomputes values of parameters. States that the program assigns do not change. Without `factors` only values that
/// read parameters are precomputed: results keep their bits.
precomputed_program precomputed(const program& p, bool factors = true);

/// Which forward results the backward pass recomputes instead of keeping: the same bits, a smaller arena.
struct recomputation {
  /// Cuts the net into about sqrt(n) segments of equal bytes where few values cross from one to the next; those are
  /// kept.
  bool automatic = false;
  /// Patterns of layer paths (`block*`): inside such a layer only values that other layers read are kept.
  std::vector<std::string> layers{};
  explicit operator bool() const { return automatic || !layers.empty(); }
  bool operator==(const recomputation&) const = default;
};

/// The program with the operands of its float32 products, also in called programs, rounded to a half type. Other
/// operations and scan bodies do not change. Gradients that are taken afterwards round as their products do.
std::shared_ptr<program> with_rounded_products(const program& p, product_type to);

/// The program with values of its forward part, the first `forward` nodes, recomputed where later nodes read them.
/// Assignments of the forward part run once. Errors: value_error for a pattern that matches no layer's path.
std::shared_ptr<program> with_recomputation(const program& p, std::int32_t forward, const recomputation& how);

}  // namespace lamina
