// NAME.h: the interface of a bundle for programs in C and C++.
module lamina.bundle:header.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

std::string_view c_type(dtype t) {
  constexpr std::string_view names[] = {"float",   "double",  "uint16_t", "uint16_t", "int8_t",   "int16_t", "int32_t",
                                        "int64_t", "uint8_t", "uint8_t",  "uint16_t", "uint32_t", "uint64_t"};
  if (t == dtype::int4 || t == dtype::int2) return "int8_t";
  return t > dtype::uint64 ? "uint8_t" : names[static_cast<int>(t)];  // one byte each; plans have no strings
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
#define LAMINA_BUNDLE_STATE 3
typedef struct {
  const char *name;
  uint64_t offset;      /* bytes from the beginning of its region: constants in the weights, the others in the mutable ones */
  uint64_t size;        /* elements */
  char kind;            /* LAMINA_BUNDLE_CONSTANT, _INPUT, _OUTPUT or _STATE */
  const char *element;  /* float32, ..., bool; packed constants are uint8 */
} lamina_bundle_symbol;
typedef struct {
  uint64_t constant_size, mutable_size, activations_size, alignment, symbol_count;
  const lamina_bundle_symbol *symbols;
} lamina_bundle_config;
#endif
)";

std::string padded(std::string s, std::size_t width) {
  s.resize(std::max(s.size(), width), ' ');
  return s;
}
template <class T> std::string spell(const T& v) {
  text t;
  t << v;
  return t.string();
}

constexpr std::string_view begin =
    R"(/* @bundle@.h: a network, compiled ahead of time by lamina for @machine@. C99 and C++.
 *
 * All three regions are memory of the caller, aligned to @alignment@ bytes: the contents of @bundle@.weights; inputs, outputs
 * and states; and memory to work in, which need not be cleared. Calls with activations and mutable weights of their own
 * may run at the same time.
)";

constexpr std::string_view entry_summary = R"( *
 * @entry@: constant weights @constants@ bytes, mutable weights @variables@ bytes, activations @activations@ bytes
 * (of results @arena@ bytes, of which @live@ live at once: efficiency @efficiency@)
)";

constexpr std::string_view guard = R"( */
#ifndef LAMINA_BUNDLE_OF_@bundle@
#define LAMINA_BUNDLE_OF_@bundle@
#include <stddef.h>
#include <stdint.h>

)";

constexpr std::string_view check = R"(
#ifdef __cplusplus
extern "C" {
#endif

/* Whether these `size` bytes are the weights of this bundle and whole: LAMINA_BUNDLE_OK, or what is wrong with them.
 * The entries look at the head of the weights alone. */
int @bundle@_check_weights(const uint8_t *constant_weights, size_t size);

)";

constexpr std::string_view entry =
    R"(/* Runs the net once: reads the inputs in the mutable weights and writes the outputs there. */
int @entry@(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);
/* Checks the weights as @bundle@_check_weights does, runs the net on inputs that stand in them, and compares @comparison@. Overwrites the mutable weights and the activations. */
int @entry@_self_test(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);
)";
/// How the self-test compares the outputs.
constexpr const char* own_comparison = R"(each bit of
 * the outputs)";
constexpr const char* foreign_comparison = R"(the outputs
 * with those that a machine of another kind computed in the same order: the mathematical functions of its C library may
 * differ in the last bit. float may be off by 1e-5 of the output's largest number, double by 1e-10; half-width numbers may
 * be neighbors; all else is the same)";
constexpr std::string_view reset =
    R"(/* Gives the states in the mutable weights their first values: before the first run, and to begin again. */
int @entry@_reset(const uint8_t *constant_weights, uint8_t *mutable_weights);
)";
constexpr std::string_view instruments =
    R"(/* To be defined by the program: called before and after each operation; they are numbered from 0.
 * A cond, loop or scan is one operation, with all that it runs. */
void @entry@_before(int operation, const char *what);
void @entry@_after(int operation, const char *what);
)";
constexpr std::string_view tensors =
    R"(/* To be defined by the program: called after each operation, with each of its results that
 * lie in memory: the type as float32[1x10], and the bytes. Where those are more than the type has, channels lie in blocks;
 * where they are fewer, one element stands for all. Of a cond, loop or scan these are its results, carries before what is
 * stacked; what its programs compute inside is not told, nor what is fused away. */
void @entry@_tensor(int operation, const char *what, const char *type, const void *data, uint64_t bytes);
)";
constexpr std::string_view sizes = R"(#define @ENTRY@_CONSTANT_MEM_SIZE @constants@
#define @ENTRY@_MUTABLE_MEM_SIZE @variables@
#define @ENTRY@_ACTIVATIONS_MEM_SIZE @activations@
#define @ENTRY@_MEM_ALIGN @alignment@
)";
constexpr std::string_view place = R"(#define @ENTRY@_@TENSOR@_OFFSET @offset@
#define @ENTRY@_@TENSOR@_ELEMENTS @elements@
#define @ENTRY@_@TENSOR@_BYTES @bytes@
)";
constexpr std::string_view accessor = R"(static inline @type@ *@entry@_@tensor@(uint8_t *mutable_weights) {
  return (@type@ *)(void *)(mutable_weights + @offset@);
}
)";

constexpr std::string_view end = R"(#ifdef __cplusplus
}
#endif
#endif
)";

constexpr std::string_view module_begin =
    R"(// The bundle `@bundle@` as a module: the functions of @bundle@.h, its codes as constants of
// @bundle@_codes, and the places in memory as functions and constants.
module;
#include "@bundle@.h"
export module @bundle@;

export using ::@bundle@_check_weights;
export namespace @bundle@_codes {
inline constexpr int ok = LAMINA_BUNDLE_OK, null = LAMINA_BUNDLE_NULL, misaligned = LAMINA_BUNDLE_MISALIGNED;
inline constexpr int no_weights = LAMINA_BUNDLE_NO_WEIGHTS, weights_version = LAMINA_BUNDLE_WEIGHTS_VERSION;
inline constexpr int weights_size = LAMINA_BUNDLE_WEIGHTS_SIZE, weights_checksum = LAMINA_BUNDLE_WEIGHTS_CHECKSUM;
inline constexpr int value = LAMINA_BUNDLE_VALUE, self_test = LAMINA_BUNDLE_SELF_TEST;
}
)";
constexpr std::string_view module_entry = R"(
export using ::@entry@;
export using ::@entry@_self_test;
)";
constexpr std::string_view module_config = R"(export using ::lamina_bundle_config;
export using ::lamina_bundle_symbol;
export using ::@entry@_config;
)";
constexpr std::string_view module_memory = R"(export namespace @entry@_memory {
inline constexpr decltype(sizeof 0) alignment = @alignment@, constant_bytes = @constants@, mutable_bytes = @variables@;
inline constexpr decltype(sizeof 0) activation_bytes = @activations@;
)";
constexpr std::string_view module_place = R"(inline constexpr decltype(sizeof 0) @tensor@_elements = @elements@;
inline @type@* @tensor@(unsigned char* mutable_weights) { return reinterpret_cast<@type@*>(mutable_weights + @offset@); }
)";

/// Fills the patterns with the properties of a bundle and one of its entries.
class pattern_filler {
 public:
  pattern_filler(text& to, const image& bundle, const entry_image& e) : to_(to), bundle_(bundle), e_(e) {}
  void put(std::string_view pattern) const {
    to_ << filled(pattern,
                  {{"bundle", bundle_.name},
                   {"machine", bundle_.set_name() + (bundle_.foreign() ? " (" + comment(bundle_.target) + ")" : "")},
                   {"comparison", std::string(bundle_.foreign() ? foreign_comparison : own_comparison)},
                   {"entry", e_.name},
                   {"ENTRY", upper(e_.name)},
                   {"alignment", spell(alignment)},
                   {"constants", spell(bundle_.weights.size())},
                   {"variables", spell(e_.variable_bytes)},
                   {"activations", spell(e_.activation_bytes)},
                   {"arena", spell(e_.arena_bytes)},
                   {"live", spell(e_.live_bytes)},
                   {"efficiency", spell(efficiency())}});
  }
  void put(std::string_view pattern, const symbol& s) const {
    put(filled(pattern, {{"tensor", s.identifier},
                         {"TENSOR", upper(s.identifier)},
                         {"type", std::string(c_type(s.type.element))},
                         {"offset", spell(s.offset)},
                         {"elements", spell(s.type.dims.size())},
                         {"bytes", spell(s.type.bytes())}}));
  }

 private:
  double efficiency() const {
    return e_.arena_bytes ? static_cast<double>(e_.live_bytes) / static_cast<double>(e_.arena_bytes) : 1;
  }
  text& to_;
  const image& bundle_;
  const entry_image& e_;
};

void describe(text& t, const image& bundle, const entry_image& e) {
  pattern_filler(t, bundle, e).put(entry_summary);
  for (const auto& s : e.tensors)
    t << " *   " << padded(spell(name_of(s.is)), 9) << padded(comment(s.name), 20) << padded(spell(s.type), 24)
      << padded(spell(s.type.dims.size()) + " elements", 20) << padded(spell(s.type.bytes()) + " bytes", 18) << "at "
      << s.offset << "\n";
}

void declare(text& t, const image& bundle, const entry_image& e, const options& o) {
  const pattern_filler fill(t, bundle, e);
  fill.put(entry);
  if (e.states()) fill.put(reset);
  if (o.instrument) fill.put(instruments);
  if (o.dump_tensors) fill.put(tensors);
  if (o.api == api::dynamic) {
    fill.put("extern const lamina_bundle_config @entry@_config;\n\n");
    return;
  }
  fill.put(sizes);
  for (const auto& s : e.tensors) fill.put(place, s);
  for (const auto& s : e.tensors) fill.put(accessor, s);
  t << "\n";
}

}  // namespace

std::string header_of(const image& bundle, const options& o) {
  text t;
  const pattern_filler fill(t, bundle, bundle.entries[0]);
  fill.put(begin);
  for (const auto& e : bundle.entries) describe(t, bundle, e);
  fill.put(guard);
  t << codes;
  if (o.api == api::dynamic) t << table_types;
  fill.put(check);
  for (const auto& e : bundle.entries) declare(t, bundle, e, o);
  t << end;
  return t.string();
}

std::string interface_of(const image& bundle, const options& o) {
  text t;
  pattern_filler(t, bundle, bundle.entries[0]).put(module_begin);
  for (const auto& e : bundle.entries) {
    const pattern_filler fill(t, bundle, e);
    fill.put(module_entry);
    if (e.states()) fill.put("export using ::@entry@_reset;\n");
    if (o.api == api::dynamic) fill.put(module_config);
    fill.put(module_memory);
    std::set<std::string> there{"alignment", "constant_bytes", "mutable_bytes", "activation_bytes", "int8_t",
                                "int16_t",   "int32_t",        "int64_t",       "uint8_t",          "uint16_t"};
    for (symbol s : e.tensors) {  // without the entry's name as prefix a name may be a keyword or one of these
      while (is_keyword(s.identifier) || there.contains(s.identifier) || there.contains(s.identifier + "_elements"))
        s.identifier += '_';
      there.insert(s.identifier);
      there.insert(s.identifier + "_elements");
      fill.put(module_place, s);
    }
    t << "}\n";
  }
  return t.string();
}

}  // namespace lamina::bundle
