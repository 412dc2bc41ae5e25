// Passes over a program with its shapes known: each rewriting is a named rule with a switch and a counter.
export module lamina:optimize;
import :core;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Which rewritings run; all do unless told otherwise.
export struct pass_options {
  bool fold_constants = true;          ///< operations on constants alone are computed once
  bool simplify = true;                ///< x + 0, x * 1, double transposition, log(exp x), log(softmax x), ...
  bool fuse_elementwise = true;        ///< chains of elementwise operations become one pass over memory
  bool fuse_epilogues = true;          ///< bias, residual and clamp join the matrix product or convolution before them
  bool blocked_layout = true;          ///< convolutions of inference plans run in channel blocks
  bool reuse_memory = true;            ///< results take the memory of operands that nobody reads afterwards
  bool operator==(const pass_options&) const = default;
};

/// How often each rewriting applied.
export struct pass_counters {
  std::int64_t nodes = 0, common = 0, folded = 0, simplified = 0, inlined_calls = 0, fused_elementwise = 0, fused_epilogues = 0;
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
