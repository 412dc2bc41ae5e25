// Passes over a program with its shapes known: each rewriting is a named rule with a switch and a counter.
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

/// The rewritings that `simplify` stands for: first those of single operations, in the order in which they are tried, then
/// patterns of several that nothing else reads. None changes a result by more than the rounding of the operations that it replaces,
/// but where it says so.
export enum class rewrite : std::uint8_t {
  neutral_number,        ///< x + 0, x - 0, x * 1, x / 1 and x ^ 1 are x; -0 + 0 stays -0
  same_type,             ///< a reshape, broadcast or cast to what the operand is already
  stopped_gradient,      ///< once gradients are taken it is its operand
  double_inverse,        ///< -(-x), !!x, and 1 / (1 / x), also where 1 / x overflows
  logarithm,             ///< log(exp x), also where exp x overflows; log(softmax x), also where softmax x is 0
  composed_permutation,  ///< permutations one after the other, or back to where they began
  composed_reshape,      ///< reshapes one after the other
  transposed_operand,    ///< a matrix product reads a transposed operand in place
  scale,    ///< (x * a) * b with numbers a and b is x * (a * b), where both shrink or both grow; a sign joins a factor
  power,    ///< x ^ 2, x ^ 3 and x ^ -1 by a number are products and a reciprocal
  padding,  ///< zeros around images that a convolution reads are its own padding
  softmax_loss,  ///< (u / y) * y with y a softmax or exp x is u, also where y is 0 or infinite: the gradient of log y
  attention,     ///< softmax(scale q k^T + mask) v; a query that sees no key gives zeros
  rotary_embedding,  ///< x cos + turned(x) sin
  layer_norm,  ///< (x - mean) / sqrt(variance + epsilon) along any axes, with weight and bias: also of groups and instances
  rms_norm,         ///< x / sqrt(mean(x^2) + epsilon), with weight
  softmax,          ///< exp(x - max) / sum, also without the maximum, where exp x would be infinite
  gelu,             ///< x/2 (1 + erf(x / sqrt 2))
  gelu_tanh,        ///< x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  mish,             ///< x tanh(softplus x)
  silu,             ///< x sigmoid(x)
  quick_gelu,       ///< x sigmoid(1.702 x): counted, and stays elementwise operations, which fuse
  hard_swish,       ///< x clamp(x + 3, 0, 6) / 6
  hard_sigmoid,     ///< clamp(a x + b, 0, 1)
  sigmoid,          ///< 1 / (1 + exp(-x))
  softplus,         ///< log(1 + exp x), also where exp x would be infinite, and as max(x, 0) + log(1 + exp(-|x|))
  channel_shuffle,  ///< channels of groups in turn by reshape, permute and reshape, of a concatenation, and parts of it
  quantized_conv2d,  ///< quantize(conv(dequantize x, dequantize w) + bias), with bounds: within one step of the result, as all that follow
  quantized_matmul,    ///< the same of a product of two values that are no parameters
  quantized_linear,    ///< the same of a matrix product
  quantized_add,       ///< quantize(dequantize a + dequantize b), or their difference
  quantized_multiply,  ///< quantize(dequantize a * dequantize b)
  quantized_average,   ///< quantize(average(dequantize x))
  quantized_move,      ///< quantize(f(dequantize x)), where f moves elements
  quantized_table,     ///< quantize(f(dequantize x)), where f is a function of each element: looked up
  integer_linear,      ///< a matrix product of what int8 stands for: its sums are integers
  integer_matmul,      ///< a product of two values that int8 stands for, whose result stays float
  integer_conv2d,      ///< a convolution of what int8 stands for, whose result stays float
  same_bytes,          ///< uint8 numbers less 128 that are int8 numbers and 128
};
export inline constexpr int rewrite_count = 39;
export std::string_view name_of(rewrite r);

/// Some of the rewritings.
export struct rewrites {
  std::uint64_t bits = 0;
  constexpr rewrites() = default;
  constexpr rewrites(std::initializer_list<rewrite> all) {
    for (auto r : all) bits |= std::uint64_t{1} << static_cast<int>(r);
  }
  constexpr bool has(rewrite r) const { return bits >> static_cast<int>(r) & 1u; }
  bool operator==(const rewrites&) const = default;
};

/// A call of an operation that is about to stand in a plan, as a special case sees it; every shape is a number.
export struct special_call {
  const node& of;
  view<const value> inputs;
  program& owner;  // of the inputs, and of what is to stand for the call
  template <class A> const A& attributes() const { return *static_cast<const A*>(of.attributes.get()); }
  const value& operator()(std::size_t i) const { return inputs[i]; }
  const tensor_type& type() const { return of.results[0]; }
  /// The operand k of the call that computes input i, or an empty value if that is no call of this operation.
  value through(std::size_t i, std::string_view operation, std::size_t k = 0) const;
};
/// A special case that a user adds to an operation: `rewrite` gives the value that stands for a call, or an empty one where
/// the case does not apply, and is asked when a plan is made. Cases are tried in their order, before the library's own
/// rewritings; the operation itself stays as it is. Errors: type_error, shape_error if the value has another type.
export struct special_case {
  std::string_view operation;
  value (*rewrite)(const special_call&) = nullptr;
  bool operator==(const special_case&) const = default;
};
/// Has every evaluation in a context from now on try a case, also of expressions that it has planned before.
export void add_case(context& where, const special_case& added);

namespace detail {
/// The cases of a context.
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

/// How results share the memory of the arena; none of them changes a bit of a result.
export enum class memory_sharing : std::uint8_t {
  best,  ///< what needs the fewest bytes of several orders, each block in the smallest gap that is large enough, and of `dynamic`
  greedy,   ///< the largest block first, in the smallest gap that is large enough
  dynamic,  ///< by dynamic programming: in order of time, each block whole into the memory of blocks that are over
  none,     ///< every result has memory of its own
};
export std::string_view name_of(memory_sharing m);

/// Which rewritings run; all do unless told otherwise.
export struct pass_options {
  bool fold_constants = true;         ///< operations on constants alone are computed once
  bool simplify = true;               ///< what `rewrite` lists
  bool fuse_elementwise = true;       ///< chains of elementwise operations become one pass over memory
  bool fuse_epilogues = true;         ///< bias, residual and clamp join the matrix product or convolution before them
  bool blocked_layout = true;         ///< convolutions of inference plans run in channel blocks
  bool reuse_memory = true;           ///< results take the memory of operands that nobody reads afterwards
  rewrites without{};                 ///< those of `simplify` that stay off
  std::vector<special_case> cases{};  ///< of the user, tried before them
  bool merge = false;                 ///< like operations of one level become one, row by row; what an eval_plan does
  bool relaxed_summation =
      false;              ///< a single row is waited for: its sums run in several chains, and its tanh and sigmoid
                          ///< are those of recurrent gates; not the bits of a batch
  bool common = true;     ///< equal operations become one; in the program: `common_subexpressions`
  bool parallel = false;  ///< operations that do not depend on each other run at once on several threads
  /// What attention and products with weights that the plan does not assign round their operands to, unless it takes gradients of
  /// convolutions: float32 or bfloat16. Sums and results stay float32.
  product_type compute{};
  /// Convolutions of 3x3 filters over large maps in float32 take fewer multiplications (Winograd's F(4x4, 3x3)), whose results are off by some ten times
  /// as much. Bits depend on neither threads nor batch.
  bool fast_convolutions = false;
  bool compact = false;  ///< for one thread: kernels of less code where they take little more time; the same bits
  memory_sharing memory = memory_sharing::best;
  bool operator==(const pass_options&) const = default;
};

/// How often each rewriting applied; `simplified` is the sum of `rewritten`. `common` counts operations that were found
/// equal to another one, when the program was built and when it was planned.
struct pass_counters {
  std::int64_t nodes = 0, common = 0, folded = 0, simplified = 0, cases = 0, inlined_calls = 0, joined_loops = 0,
               merged = 0, fused_elementwise = 0, fused_epilogues = 0;
  std::int64_t rewritten[rewrite_count]{};
  std::vector<std::string> missed{};  ///< operations that nearly are a pattern, and what is missing
  constexpr std::int64_t of(rewrite r) const { return rewritten[static_cast<int>(r)]; }
  /// Patterns of several operations by their names: how often each was found.
  std::map<std::string, std::int64_t> recognized() const;
};

/// Computes an operation on constants; given by the room that can run programs.
using constant_evaluator = std::function<any_tensor(const program&)>;

/// The elements of an input that decide shapes: those of this plan.
struct known_input {
  std::size_t input = 0;       ///< which one
  const void* data = nullptr;  ///< all of its elements
};

/// The program with every shape a number, calls replaced by their subprograms, and the rules applied.
/// `inputs` holds the extents of each input, `known` the elements of those that decide shapes.
/// Errors: shape_error naming operation and shapes where they do not fit; unsupported_error where elements decide a shape
/// that only a run gives.
program specialized(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
                    const constant_evaluator& evaluate, view<const known_input> known = {});

/// The specialized program with like operations of one level merged: samples that are evaluated side by side become the rows
/// of one operation, with the same bits. `counters.merged` counts the operations that went away.
program merged(const program& p, pass_counters& counters);

/// A program in which everything that depends on parameters alone is a state, to be computed once.
struct precomputed_program {
  std::shared_ptr<program> rewritten;  // the same inputs and outputs
  std::shared_ptr<program> values;     // from the states of the origin: an output for each state that is new
  std::vector<std::string> names;      // of the new states, in the order of those outputs
  std::int64_t joined = 0;             // factors and terms that moved into the product before them
  std::vector<std::string> missed{};   // products behind which factors stay, and why
  std::map<std::string, std::int64_t> recognized{};  // as of `pass_counters`
};
/// Moves factors and terms of channels, as those of a batch norm with its running statistics, into the weights of the
/// convolution or matrix product before them, and computes on parameters beforehand. States that the program assigns stay
/// what they are. Without `factors` nothing moves, and only what reads parameters is computed: results keep their bits.
precomputed_program precomputed(const program& p, bool factors = true);

/// Which results of layers the backward pass computes again instead of keeping them: bits stay, and an arena is smaller.
struct recomputation {
  /// Cuts the net into about sqrt(n) parts of equal bytes where few values pass from one to the next; those are kept.
  bool automatic = false;
  /// Patterns of layers' paths (`block*`): inside of each such layer nothing is kept, beside what other layers read.
  std::vector<std::string> layers{};
  explicit operator bool() const { return automatic || !layers.empty(); }
  bool operator==(const recomputation&) const = default;
};

/// The program with its float32 products on operands that are rounded to a half type, those in called programs too; what is not a
/// product, and bodies of scans, stay. Gradients that are taken then round as their products do.
std::shared_ptr<program> with_rounded_products(const program& p, product_type to);

/// The program with values of its forward part, the first `forward` nodes, computed again where later nodes read them.
/// Assignments of the forward part run once. Errors: value_error for a pattern that no layer's path fits.
std::shared_ptr<program> with_recomputation(const program& p, std::int32_t forward, const recomputation& how);

}  // namespace lamina
