// NAME.h: what a program in C or C++ has to know of a bundle.
module lamina.bundle:header.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

std::string_view c_type(dtype t) {
  constexpr std::string_view names[] = {"float", "double", "uint16_t", "uint16_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint8_t"};
  return names[static_cast<int>(t)];
}

constexpr std::string_view codes = R"(#ifndef LAMINA_BUNDLE_OK
#define LAMINA_BUNDLE_OK 0
#define LAMINA_BUNDLE_NULL 1              /* a region is a null pointer */
#define LAMINA_BUNDLE_MISALIGNED 2        /* a region does not begin at a multiple of its alignment */
#define LAMINA_BUNDLE_NO_WEIGHTS 3        /* the constant weights do not begin as a weights file does */
#define LAMINA_BUNDLE_WEIGHTS_VERSION 4   /* they are of another version of the format */
#define LAMINA_BUNDLE_WEIGHTS_SIZE 5      /* they have another size than those of this bundle */
#define LAMINA_BUNDLE_WEIGHTS_CHECKSUM 6  /* they are not those of this bundle, or damaged */
#define LAMINA_BUNDLE_VALUE 7             /* an input has a value that the net does not take, as an index out of range */
#define LAMINA_BUNDLE_SELF_TEST 8         /* results differ from those of the program that made the bundle */
#endif
)";

constexpr std::string_view table_types = R"(#ifndef LAMINA_BUNDLE_CONFIG
#define LAMINA_BUNDLE_CONFIG
#define LAMINA_BUNDLE_CONSTANT 0
#define LAMINA_BUNDLE_INPUT 1
#define LAMINA_BUNDLE_OUTPUT 2
typedef struct {
  const char *name;
  uint64_t offset;      /* bytes from the beginning of its region: constants in the weights, the others in the mutable ones */
  uint64_t size;        /* elements */
  char kind;            /* LAMINA_BUNDLE_CONSTANT, _INPUT or _OUTPUT */
  const char *element;  /* float32, ..., bool; packed constants are uint8 */
} lamina_bundle_symbol;
typedef struct {
  uint64_t constant_size, mutable_size, activations_size, alignment, symbol_count;
  const lamina_bundle_symbol *symbols;
} lamina_bundle_config;
#endif
)";

/// A comment of C: nothing in it ends it.
std::string comment(std::string s) {
  for (std::size_t at; (at = s.find("*/")) != s.npos;) s.replace(at, 2, "* ");
  return s;
}
std::string padded(std::string s, std::size_t width) {
  s.resize(std::max(s.size(), width), ' ');
  return s;
}
template <class T>
std::string spell(const T& v) {
  text t;
  t << v;
  return t.string();
}

void describe(text& t, const image& bundle, const entry_image& e) {
  const double efficiency = e.arena_bytes ? static_cast<double>(e.live_bytes) / static_cast<double>(e.arena_bytes) : 1;
  t << " *\n * " << e.name << ": constant weights " << bundle.weights.size() << " bytes, mutable weights " << e.variable_bytes << " bytes, activations "
    << e.activation_bytes << " bytes\n * (of results " << e.arena_bytes << " bytes, of which " << e.live_bytes << " live at once: efficiency " << efficiency << ")\n";
  for (const auto& s : e.tensors)
    t << " *   " << padded(s.output ? "output" : "input", 9) << padded(comment(s.name), 20) << padded(spell(s.type), 24) << padded(std::to_string(s.type.dims.size()) + " elements", 20)
      << padded(std::to_string(s.type.bytes()) + " bytes", 18) << "at " << s.offset << "\n";
}

void declare(text& t, const image& bundle, const entry_image& e, const options& o) {
  const std::string capitals = upper(e.name);
  t << "/* Runs the net once: reads the inputs in the mutable weights and writes the outputs there. */\n"
    << "int " << e.name << "(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);\n"
    << "/* Checks the weights as " << bundle.name << "_check_weights does, runs the net on inputs that stand in them, and compares each bit of\n"
    << " * the outputs. Overwrites the mutable weights and the activations. */\n"
    << "int " << e.name << "_self_test(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);\n";
  if (o.instrument)
    t << "/* To be defined by the program: called before and after each operation, which have numbers from 0. */\n"
      << "void " << e.name << "_before(int operation, const char *what);\nvoid " << e.name << "_after(int operation, const char *what);\n";
  if (o.dump_tensors)
    t << "/* To be defined by the program: called with the result of each operation, its type as float32[1x10], and its bytes. Where\n"
      << " * those are more than the type has, channels lie in blocks. */\n"
      << "void " << e.name << "_tensor(int operation, const char *what, const char *type, const void *data, uint64_t bytes);\n";
  if (o.api == api::dynamic) {
    t << "extern const lamina_bundle_config " << e.name << "_config;\n\n";
    return;
  }
  t << "#define " << capitals << "_CONSTANT_MEM_SIZE " << bundle.weights.size() << "\n#define " << capitals << "_MUTABLE_MEM_SIZE " << e.variable_bytes << "\n#define " << capitals
    << "_ACTIVATIONS_MEM_SIZE " << e.activation_bytes << "\n#define " << capitals << "_MEM_ALIGN " << alignment << "\n";
  for (const auto& s : e.tensors) {
    const std::string macro = capitals + "_" + upper(s.identifier);
    t << "#define " << macro << "_OFFSET " << s.offset << "\n#define " << macro << "_ELEMENTS " << s.type.dims.size() << "\n#define " << macro << "_BYTES " << s.type.bytes() << "\n";
  }
  for (const auto& s : e.tensors)
    t << "static inline " << c_type(s.type.element) << " *" << e.name << "_" << s.identifier << "(uint8_t *mutable_weights) { return (" << c_type(s.type.element)
      << " *)(void *)(mutable_weights + " << capitals << "_" << upper(s.identifier) << "_OFFSET); }\n";
  t << "\n";
}

}  // namespace

std::string header_of(const image& bundle, const options& o) {
  const std::string guard = "LAMINA_BUNDLE_OF_" + bundle.name;
  text t;
  t << "/* " << bundle.name << ".h: a network, compiled ahead of time by lamina for " << name_of(bundle.set) << ". C99 and C++.\n"
    << " *\n * All three regions are memory of the caller, aligned to " << alignment << " bytes: the contents of " << bundle.name << ".weights,\n"
    << " * inputs and outputs, and memory to work in, which need not be cleared. Calls with activations and mutable weights\n"
    << " * of their own may run at the same time.\n";
  for (const auto& e : bundle.entries) describe(t, bundle, e);
  t << " */\n#ifndef " << guard << "\n#define " << guard << "\n#include <stddef.h>\n#include <stdint.h>\n\n" << codes;
  if (o.api == api::dynamic) t << table_types;
  t << "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
    << "/* Whether these `size` bytes are the weights of this bundle and whole: LAMINA_BUNDLE_OK, or what is wrong with them.\n"
    << " * The entries look at the head of the weights alone. */\n"
    << "int " << bundle.name << "_check_weights(const uint8_t *constant_weights, size_t size);\n\n";
  for (const auto& e : bundle.entries) declare(t, bundle, e, o);
  t << "#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return t.string();
}

std::string interface_of(const image& bundle, const options& o) {
  text t;
  t << "// The bundle `" << bundle.name << "` as a module: the functions of " << bundle.name << ".h, and the places in memory as functions and constants.\n"
    << "module;\n#include \"" << bundle.name << ".h\"\nexport module " << bundle.name << ";\n\nexport using ::" << bundle.name << "_check_weights;\n";
  for (const auto& e : bundle.entries) {
    t << "\nexport using ::" << e.name << ";\nexport using ::" << e.name << "_self_test;\n";
    if (o.api == api::dynamic) t << "export using ::lamina_bundle_config;\nexport using ::lamina_bundle_symbol;\nexport using ::" << e.name << "_config;\n";
    t << "export namespace " << e.name << "_memory {\ninline constexpr decltype(sizeof 0) alignment = " << alignment << ", constant_bytes = " << bundle.weights.size()
      << ", mutable_bytes = " << e.variable_bytes << ", activation_bytes = " << e.activation_bytes << ";\n";
    for (const auto& s : e.tensors) {
      t << "inline constexpr decltype(sizeof 0) " << s.identifier << "_elements = " << s.type.dims.size() << ";\n"
        << "inline " << c_type(s.type.element) << "* " << s.identifier << "(unsigned char* mutable_weights) { return reinterpret_cast<" << c_type(s.type.element)
        << "*>(mutable_weights + " << s.offset << "); }\n";
    }
    t << "}\n";
  }
  return t.string();
}

}  // namespace lamina::bundle
