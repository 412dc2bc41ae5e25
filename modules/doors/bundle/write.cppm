// Options and report of a bundle; `write` makes one of a model, or of any program with its states.
export module lamina.bundle:write;
import lamina;
import lamina.std;

namespace lamina::bundle {

using ir::program;
using text = message_text;

/// How a program that calls a bundle finds its way in memory.
export enum class api : std::uint8_t {
  fixed,    ///< by the header: each offset and size is a constant
  dynamic,  ///< by a table in the object file: NAME_config with the symbols, inputs, outputs and constants
};

/// The programs that make an object file, and where the kernels are. An empty member is searched for: by the variable of the
/// environment, then under the names. For another processor the kernels are compiled, by Clang; with its headers of C and C++
/// (Debian: g++-aarch64-linux-gnu) and of xsimd.
export struct tools {
  std::string compiler{};  ///< of C: CC, the compiler of the library, cc, clang, gcc; for another processor Clang:
                           ///< LAMINA_CLANG, the compiler of the library, clang-19, clang
  std::string linker{};    ///< GNU ld: LD, ld.bfd, ld; for another processor LD, <system>-ld, ld.lld-19, ld.lld
  std::string objcopy{};   ///< OBJCOPY, objcopy; for another processor OBJCOPY, <system>-objcopy, llvm-objcopy
  std::string kernels{};   ///< the folder of liblamina_kernels_<set>.a: LAMINA_KERNELS, or the library's; for another
                           ///< processor <folder>/<target>/liblamina_kernels_<set>.a is taken if it is there
  std::string sources{};   ///< the folder of the kernels' sources: LAMINA_KERNEL_SOURCES, or the library's
};

/// One more entry into a bundle: the same net for other shapes.
export struct entry {
  std::string name{};
  std::vector<shape> inputs{};
};

export struct options {
  std::string name{};           ///< of the bundle, its entry, its files: a C identifier
  std::vector<shape> inputs{};  ///< the extents of each input
  std::string directory = ".";  ///< which is made if it is not there
  bundle::api api = api::fixed;
  std::vector<entry> entries{};   ///< beside the one of the bundle's name; all share the constants
  bool source = false;            ///< writes NAME.c too
  bool text = false;              ///< writes NAME.weights.txt too: the weights as numbers to be included in an array
  bool module_interface = false;  ///< writes NAME.cppm too: the header as a module of C++, its codes as
                                  ///< NAME_codes::ok, null, misaligned, no_weights, weights_version,
                                  ///< weights_size, weights_checksum, value, self_test
  bool graph = false;             ///< writes ENTRY.graph.dot and ENTRY.graph.json too: the program of each entry
  bool instrument = false;        ///< entries call ENTRY_before and ENTRY_after of the caller's around each
                                  ///< operation; a `cond`, `loop` or `scan` is one, with all that it runs
  bool dump_tensors = false;      ///< and ENTRY_tensor with each of its results that lie in memory: not with what
                                  ///< is fused away, nor with what a cond or an iteration computes inside
  std::vector<any_tensor> samples{};  ///< inputs of the self-test of the first entry; by default made-up numbers
  std::optional<lamina::isa> set{};   ///< instruction set of the kernels; by default of this process
  std::string target{};               ///< as Clang names it: x86_64-linux-gnu, or aarch64-linux-gnu (kernels of NEON);
                                      ///< x86_64 alone is this system
  std::string cpu{};  ///< -march of the C compiler for the calls of kernels; for aarch64 -mcpu of them too
  std::optional<pass_options> passes{};  ///< by default the model's
  bool optimize =
      false;  ///< factors of channels, as those of batch norms, move into weights; else bits are those of a session
  bundle::tools tools{};
};

/// A program, its states, and the shapes for which it becomes an entry.
export struct program_entry {
  std::string name;
  const program& of;
  const parameter_store& states;
  std::vector<shape> inputs;
};

/// The written files and sizes.
export struct report {
  std::vector<std::string> files;                       ///< with their folder
  std::size_t constant_bytes = 0;                       ///< of NAME.weights
  std::size_t mutable_bytes = 0, activation_bytes = 0;  ///< of the first entry
};

/// Writes NAME.o, NAME.h and NAME.weights. The entry is
///   int NAME(const uint8_t* constant_weights, uint8_t* mutable_weights, uint8_t* activations);
/// Its three regions belong to the caller, aligned to 64 bytes: the contents of NAME.weights; inputs, outputs and the
/// states that a run assigns, to which NAME_reset gives their first values; and memory to work in. It uses no heap,
/// thread, lock or writable static data and gives 0 or a code of the header. The bits equal a run in this process
/// with the same instruction set. For another processor its kernels, compiled for this machine with the same registers,
/// tiles and order of sums, pack the weights and answer the self-test, so that only results of libm may differ.
/// Errors: value_error for a name that is no C identifier, is one of C, C++ or the C library, or would be defined twice,
/// samples that do not fit, an instruction set that this machine lacks; unsupported_error for other targets, and for a
/// program with results that are counted when it has run; shape_error for extents that do not fit; state_error for a
/// program that calls a function that is no kernel of the library, and where a tool is missing or fails, with its message;
/// file_error.
export report write(view<const program_entry> parts, const options& o);
/// The same of one program, for `o.inputs` and the shapes of `o.entries`.
export report write(const program& p, const parameter_store& states, const options& o);
/// The same of a model's inference.
export template <const auto& Topology, class... Rest> report write(const model<Topology, Rest...>& net, options o) {
  if (!o.passes) o.passes = net.core().options().passes;
  return write(net.core().inference(), net.parameters(), o);
}
/// The same of the present state of a net: its external blobs are the inputs, except parameters of its model and blobs that
/// it assigns, whose values are in the workspace. Errors: as `graph::snapshot` too.
export report write(const graph::net& n, const graph::workspace& ws, const options& o, const origin& = {});
/// The same of the part of a net that computes some blobs from others, the inputs in this order; other blobs that it needs
/// are constants with their values in the workspace. For a model it is the predictor.
export report write(const graph::net& n, const graph::workspace& ws, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const options& o, const origin& = {});
export report write(const graph::model& m, const graph::workspace& ws, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const options& o, const origin& = {});

}  // namespace lamina::bundle
