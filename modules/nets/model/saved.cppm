// Nets in files: NAME.json has the structure, NAME.safetensors beside it the states.
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

/// A saved net: a program, and the states that it reads with their slots, as of an optimizer.
export struct saved_net {
  std::shared_ptr<const lamina::program> program;
  parameter_store states;
  std::map<std::string, std::string> metadata{};
  std::vector<std::string> missed{};  ///< of `optimized`: products behind which factors stay, and why
  std::map<std::string, std::int64_t>
      recognized{};  ///< of `optimized`: patterns of quantized nets, as of `pass_counters`
  /// Names and types of inputs and outputs, in order; extents that are open have names, or are `dyn`.
  std::vector<named_type> inputs() const;
  std::vector<named_type> outputs() const;
  /// The net with everything computed that depends on weights alone, and factors and terms of channels moved into the weights
  /// before them, as those of a batch norm: what a program takes that runs it and does not train it.
  saved_net optimized() &&;
  /// Makes what runs it, for any number of threads: `net.factory().create()(inputs)`.
  program_factory factory(reference_options o = {}) const& { return program_factory(program, states, std::move(o)); }
  /// The same without a copy of the states.
  program_factory factory(reference_options o = {}) && {
    return program_factory(std::move(program), std::move(states), std::move(o));
  }
};

/// The files of a net: `NAME`, `NAME.json` and `NAME.safetensors` all name the same.
struct net_files {
  std::string structure, weights;
};
export net_files files_of_net(const std::string& path);

/// Writes a program and all states of a store as NAME.json and NAME.safetensors, each as a whole or not at all, the weights
/// first. Errors: state_error, shape_error, type_error where a state that the program reads is missing or differs;
/// value_error for names that are no UTF-8; file_error.
export void save_net(const std::string& path, const program& p, const parameter_store& states,
                     const std::map<std::string, std::string>& metadata = {});
/// The same of a model: its program of inference, and everything that it remembers, as a checkpoint.
export template <const auto& Topology, class... Rest>
void save_net(const std::string& path, const model<Topology, Rest...>& net,
              const std::map<std::string, std::string>& metadata = {}) {
  save_net(path, net.core().inference(), net.parameters(), metadata);
}

/// Reads what `save_net` wrote. The results of `load_net(path).factory().create()` equal the saved net's, bit
/// by bit on one instruction set. `own` are operations that the library does not know.
/// Errors: file_error naming file, state or node, expectation and finding, also where the two files are of different nets;
/// unsupported_error for a version, an operation or an attribute that this library does not know.
export saved_net load_net(const std::string& path, view<const operation* const> own = {});

/// The program with what follows from parameters alone computed, and the states that it reads: for these weights it gives the same
/// results, with the same bits on this instruction set. With `factors` those of channels, as of batch norms, move into weights,
/// which changes last bits.
export saved_net precomputed(const program& p, const parameter_store& states, isa set, bool factors = false);

/// A net as the part of a model that is no template, which `trainer` trains. It is trained as it was saved, for inference:
/// running statistics stay, nothing is dropped out. Errors: unsupported_error for a program that assigns states.
export model_core core_of(saved_net net, const model_options& o = {});

}  // namespace lamina
