// Nets in files: NAME.json holds the structure, NAME.safetensors in the same folder the states.
export module lamina:saved;
import :context;
import :core;
import :model;
import :parameter;
import :program;
import :reference;
import :structure;
import lamina.std;

namespace lamina {

/// A saved net: a program and the states that it reads, with their slots, such as an optimizer's.
export struct saved_net {
  std::shared_ptr<const lamina::program> program;
  parameter_store states;
  std::map<std::string, std::string> metadata{};
  std::vector<std::string> missed{};  ///< set by `optimized`: products whose factors could not be folded, and why
  std::map<std::string, std::int64_t>
      recognized{};  ///< set by `optimized`: patterns of quantized nets, as in `pass_counters`
  /// Names and types of inputs and outputs, in order; symbolic extents are named or `dyn`.
  std::vector<named_type> inputs() const;
  std::vector<named_type> outputs() const;
  /// Optimizes the net for inference: precomputes values that depend only on weights, folds per-channel factors and
  /// terms, such as those of a batch norm, into the weights before them, and computes transposed convolutions with
  /// strides as convolutions of the strides' phases.
  saved_net optimized() &&;
  /// Creates a factory of reference models, one per thread: `net.factory().create()(inputs)`.
  program_factory factory(reference_options o = {}) const& { return program_factory(program, states, std::move(o)); }
  /// The same without copying the states.
  program_factory factory(reference_options o = {}) && {
    return program_factory(std::move(program), std::move(states), std::move(o));
  }
};

/// Paths of a net's two files; `NAME`, `NAME.json` and `NAME.safetensors` denote the same net.
struct net_files {
  std::string structure, weights;
};
export net_files files_of_net(const std::string& path);

/// Writes a program and all states of a store as NAME.json and NAME.safetensors, each atomically, weights first.
/// Errors: state_error, shape_error, type_error if a state that the program reads is missing or differs;
/// value_error for names that are not UTF-8; file_error.
export void save_net(const std::string& path, const program& p, const parameter_store& states,
                     const std::map<std::string, std::string>& metadata = {});
/// The same for a model: its inference program and all of its states, as in a checkpoint.
export template <const auto& Topology, class... Rest>
void save_net(const std::string& path, const model<Topology, Rest...>& net,
              const std::map<std::string, std::string>& metadata = {}) {
  save_net(path, net.core().inference(), net.parameters(), metadata);
}

/// Reads a net that `save_net` wrote. Results of `load_net(path).factory().create()` are bitwise equal to the saved
/// net's on one instruction set. `own` lists user-defined operations.
/// Errors: file_error with file, state or node, expected and actual value, also if the two files belong to different
/// nets; unsupported_error for an unknown version, operation or attribute.
export saved_net load_net(const std::string& path, view<const operation* const> own = {});

/// The program with all values precomputed that depend only on parameters, and the states that it reads. For these
/// weights results are bitwise equal on this instruction set. With `factors`, per-channel factors, such as those of
/// batch norms, are folded into weights, which changes the last bits.
export saved_net precomputed(const program& p, const parameter_store& states, isa set, bool factors = false);

/// Converts a net to a `model_core`, which `trainer` can train. Training runs the saved inference program:
/// running statistics stay fixed and dropout is off. Errors: unsupported_error for a program that assigns states.
export model_core core_of(saved_net net, const model_options& o = {});

}  // namespace lamina
