// Passes over a program with its shapes known: each rewriting is a named rule with a switch and a counter.
export module lamina:optimize;
import :core;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// The rewritings of single operations that `simplify` stands for, in the order in which they are tried. None changes a
/// result by more than the rounding of the operations that it replaces, but where it says so.
export enum class rewrite : std::uint8_t {
  neutral_number,       ///< x + 0, x - 0, x * 1, x / 1 and x ^ 1 are x; -0 + 0 stays -0
  same_type,            ///< a reshape, broadcast or cast to what the operand is already
  stopped_gradient,     ///< once gradients are taken it is its operand
  double_inverse,       ///< -(-x), !!x, and 1 / (1 / x), also where 1 / x overflows
  logarithm,            ///< log(exp x), also where exp x overflows; log(softmax x), also where softmax x is 0
  composed_permutation, ///< permutations one after the other, or back to where they began
  composed_reshape,     ///< reshapes one after the other
  transposed_operand,   ///< a matrix product reads a transposed operand in place
  scale,                ///< (x * a) * b with numbers a and b is x * (a * b), where both shrink or both grow; a sign joins a factor
  softmax_loss,         ///< (u / y) * y with y a softmax is u, also where y is 0: the gradient of -log y by the logits
};
export inline constexpr int rewrite_count = 10;
export std::string_view name_of(rewrite r);

/// Some of the rewritings.
export struct rewrites {
  std::uint32_t bits = 0;
  constexpr rewrites() = default;
  constexpr rewrites(std::initializer_list<rewrite> all) {
    for (auto r : all) bits |= 1u << static_cast<int>(r);
  }
  constexpr bool has(rewrite r) const { return bits >> static_cast<int>(r) & 1u; }
  bool operator==(const rewrites&) const = default;
};

/// Which rewritings run; all do unless told otherwise.
export struct pass_options {
  bool fold_constants = true;          ///< operations on constants alone are computed once
  bool simplify = true;                ///< what `rewrite` lists
  bool fuse_elementwise = true;        ///< chains of elementwise operations become one pass over memory
  bool fuse_epilogues = true;          ///< bias, residual and clamp join the matrix product or convolution before them
  bool blocked_layout = true;          ///< convolutions of inference plans run in channel blocks
  bool reuse_memory = true;            ///< results take the memory of operands that nobody reads afterwards
  rewrites without{};                  ///< those of `simplify` that stay off
  bool operator==(const pass_options&) const = default;
};

/// How often each rewriting applied; `simplified` is the sum of `rewritten`.
export struct pass_counters {
  std::int64_t nodes = 0, common = 0, folded = 0, simplified = 0, inlined_calls = 0, joined_loops = 0, fused_elementwise = 0, fused_epilogues = 0;
  std::int64_t rewritten[rewrite_count]{};
  constexpr std::int64_t of(rewrite r) const { return rewritten[static_cast<int>(r)]; }
};

/// Computes an operation on constants; given by the room that can run programs.
export using constant_evaluator = std::function<any_tensor(const program&)>;

/// The program with every shape a number, calls replaced by their subprograms, and the rules applied.
/// `inputs` holds the extents of each input. Errors: shape_error naming operation and shapes where they do not fit.
export program specialised(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
                           const constant_evaluator& evaluate);

/// A program in which everything that depends on parameters alone is a state, to be computed once.
export struct settled_program {
  std::shared_ptr<program> rewritten;   // the same inputs and outputs
  std::shared_ptr<program> values;      // from the states of the origin: an output for each state that is new
  std::vector<std::string> names;        // of the new states, in the order of those outputs
  std::int64_t joined = 0;               // factors and terms that moved into the product before them
};
/// Moves factors and terms of channels, as those of a batch norm with its running statistics, into the weights of the
/// convolution or matrix product before them, and computes on parameters beforehand. States that the program assigns stay
/// what they are.
export settled_program settled(const program& p);

}  // namespace lamina
