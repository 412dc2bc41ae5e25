// Options and report of a bundle; `write` makes a bundle from a model, or from any program with its states.
export module lamina.bundle:write;
import lamina;
import lamina.std;

namespace lamina::bundle {

using ir::program;
using text = message_text;

/// How a program that calls a bundle finds its buffers.
export enum class api : std::uint8_t {
  fixed,    ///< through the header: each offset and size is a constant
  dynamic,  ///< through a table in the object file: NAME_config lists the symbols: inputs, outputs and constants
};

/// The programs that make an object file, and the location of the kernels. An empty member is searched for: first the
/// environment variable, then the listed names. For another processor, Clang compiles the kernels; that needs its C and
/// C++ headers (Debian: g++-aarch64-linux-gnu) and those of xsimd.
export struct tools {
  std::string compiler{};  ///< C compiler: CC, the compiler of the library, cc, clang, gcc; for another processor
                           ///< Clang: LAMINA_CLANG, the compiler of the library, clang-19, clang
  std::string linker{};    ///< GNU ld: LD, ld.bfd, ld; for another processor LD, <system>-ld, ld.lld-19, ld.lld
  std::string objcopy{};   ///< OBJCOPY, objcopy; for another processor OBJCOPY, <system>-objcopy, llvm-objcopy
  std::string kernels{};   ///< folder of liblamina_kernels_<set>.a: LAMINA_KERNELS, or the library's; for another
                           ///< processor <folder>/<target>/liblamina_kernels_<set>.a is used if it exists
  std::string sources{};   ///< folder of the kernel sources: LAMINA_KERNEL_SOURCES, or the library's
};

/// An additional entry point of a bundle: the same net for other shapes.
export struct entry {
  std::string name{};
  std::vector<shape> inputs{};
};

export struct options {
  std::string name{};           ///< name of the bundle, its entry and its files: a C identifier
  std::vector<shape> inputs{};  ///< shape of each input
  std::string directory = ".";  ///< created if missing
  bundle::api api = api::fixed;
  std::vector<entry> entries{};   ///< in addition to the entry with the bundle's name; all share the constants
  bool source = false;            ///< also writes NAME.c
  bool text = false;              ///< also writes NAME.weights.txt: the weights as numbers, to be included in an array
  bool module_interface = false;  ///< also writes NAME.cppm: the header as a C++ module, with its codes as
                                  ///< NAME_codes::ok, null, misaligned, no_weights, weights_version, weights_size,
                                  ///< weights_checksum, value, self_test
  bool graph = false;             ///< also writes ENTRY.graph.dot and ENTRY.graph.json: the program of each entry
  bool instrument = false;        ///< entries call the caller's ENTRY_before and ENTRY_after around each operation; a
                                  ///< `cond`, `loop` or `scan` counts as one, with its whole body
  bool dump_tensors = false;      ///< entries also call ENTRY_tensor for each result of an operation that has a buffer:
                                  ///< not for fused intermediates, nor for values inside a cond or an iteration
  std::vector<any_tensor> samples{};  ///< self-test inputs of the first entry; default: generated numbers
  std::optional<lamina::isa> set{};   ///< instruction set of the kernels; default: that of this process
  std::string target{};               ///< Clang target triple: x86_64-linux-gnu, or aarch64-linux-gnu (NEON kernels); a
                                      ///< bare x86_64 or aarch64 means this system, if it is this processor
  std::string cpu{};                  ///< -march for compiling the generated C; for aarch64 -mcpu, also for kernels, if
                                      ///< they are compiled for another machine
  std::optional<pass_options> passes{};  ///< default: the model's
  bool optimize =
      false;  ///< folds per-channel factors, such as those of batch norms, into weights; otherwise results are
              ///< bit-identical to a session's
  bundle::tools tools{};
};

/// A program, its states, and the input shapes that one entry is compiled for.
export struct program_entry {
  std::string name;
  const program& of;
  const parameter_store& states;
  std::vector<shape> inputs;
};

/// Files written, and sizes.
export struct report {
  std::vector<std::string> files;                       ///< paths, including the folder
  std::size_t constant_bytes = 0;                       ///< size of NAME.weights
  std::size_t mutable_bytes = 0, activation_bytes = 0;  ///< for the first entry
};

/// Writes NAME.o, NAME.h and NAME.weights. The entry is
///   int NAME(const uint8_t* constant_weights, uint8_t* mutable_weights, uint8_t* activations);
/// The caller owns the three regions, aligned to 64 bytes: the contents of NAME.weights; inputs, outputs and the states
/// that a run assigns, which NAME_reset initializes; and working memory. The entry uses no heap, thread, lock or
/// writable static data and returns 0 or a code of the header. Results are bit-identical to a run in this process with
/// the same instruction set. For another processor, its kernels are also compiled for this machine with the same
/// register size, tiles and summation order; they pack the weights and compute the expected self-test outputs, so that
/// only results of libm may differ.
/// Errors: value_error for a name that is no C identifier, is a name of C, C++ or the C library, or would be defined
/// twice, samples that do not match, an instruction set that this machine lacks; unsupported_error for other targets,
/// and for a program with data-dependent shapes; shape_error for extents that do not match; state_error for a program
/// that calls a function that is no kernel of the library, and where a tool is missing or fails, with its message;
/// file_error.
export report write(view<const program_entry> parts, const options& o);
/// The same for one program, with the shapes `o.inputs` and those of `o.entries`.
export report write(const program& p, const parameter_store& states, const options& o);
/// The same for a model's inference program.
export template <const auto& Topology, class... Rest> report write(const model<Topology, Rest...>& net, options o) {
  if (!o.passes) o.passes = net.core().options().passes;
  return write(net.core().inference(), net.parameters(), o);
}
/// The same for the current state of a net: its external blobs are the inputs, except the parameters of its model and
/// blobs that it assigns, whose values come from the workspace. Errors: also those of `graph::snapshot`.
export report write(const graph::net& n, const graph::workspace& ws, const options& o, const origin& = {});
/// The same for the part of a net that computes `outputs` from `inputs`, in this order; other blobs that it needs are
/// constants with their values from the workspace. For a model it is the predictor.
export report write(const graph::net& n, const graph::workspace& ws, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const options& o, const origin& = {});
export report write(const graph::model& m, const graph::workspace& ws, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const options& o, const origin& = {});

}  // namespace lamina::bundle
