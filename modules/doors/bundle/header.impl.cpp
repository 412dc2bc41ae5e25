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
#define LAMINA_BUNDLE_MISALIGNED 2        /* a region is not aligned */
#define LAMINA_BUNDLE_NO_WEIGHTS 3        /* the constant weights are not a weights file */
#define LAMINA_BUNDLE_WEIGHTS_VERSION 4   /* unsupported version of the weights format */
#define LAMINA_BUNDLE_WEIGHTS_SIZE 5      /* size differs from this bundle's weights */
#define LAMINA_BUNDLE_WEIGHTS_CHECKSUM 6  /* weights of another bundle, or damaged */
#define LAMINA_BUNDLE_VALUE 7             /* invalid input value, such as an index out of range */
#define LAMINA_BUNDLE_SELF_TEST 8         /* results differ from those expected when the bundle was written */
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
  uint64_t offset;      /* in bytes: constants in the constant weights, all others in the mutable weights */
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
template <class T> std::string text_of(const T& v) {
  text t;
  t << v;
  return t.string();
}

constexpr std::string_view begin =
    R"(/* @bundle@.h: a network compiled ahead of time by lamina for @machine@. C99 and C++.
 *
 * The caller provides three memory regions, aligned to @alignment@ bytes: constant weights (the contents of
 * @bundle@.weights); mutable weights (inputs, outputs and states); and activations (working memory; need not
 * be cleared). Calls may run concurrently if each has its own mutable weights and activations.
)";

constexpr std::string_view entry_summary = R"( *
 * @entry@: constant weights @constants@ bytes, mutable weights @variables@ bytes, activations @activations@ bytes
 * (results: @arena@ bytes, at most @live@ live at once; efficiency @efficiency@)
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

/* Checks that `size` bytes are the complete weights of this bundle. Returns LAMINA_BUNDLE_OK or an error code.
 * The entries check only the header of the weights. */
int @bundle@_check_weights(const uint8_t *constant_weights, size_t size);

)";

constexpr std::string_view entry =
    R"(/* Runs the net once: reads inputs from the mutable weights and writes outputs to them. */
int @entry@(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);
/* Checks the weights like @bundle@_check_weights, runs the net on test inputs stored in them, and compares @comparison@. Overwrites the mutable weights and the activations. */
int @entry@_self_test(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations);
)";
/// How the self-test compares the outputs.
constexpr const char* own_comparison = R"(every
 * output bit by bit)";
constexpr const char* approximate_comparison = R"(the outputs
 * with those computed on another architecture, whose math functions may differ in the last bit. Tolerance:
 * float may be off by 1e-5 of the output's largest number, double by 1e-10, half-width floats by one unit in the last
 * place; other types must be equal)";
constexpr std::string_view reset =
    R"(/* Sets the states in the mutable weights to their initial values. Call it before the first run and to restart. */
int @entry@_reset(const uint8_t *constant_weights, uint8_t *mutable_weights);
)";
constexpr std::string_view instruments =
    R"(/* Defined by the application; called before and after each operation. Operations are numbered from 0.
 * A cond, loop or scan is one operation, including everything that it runs. */
void @entry@_before(int operation, const char *what);
void @entry@_after(int operation, const char *what);
)";
constexpr std::string_view tensors =
    R"(/* Defined by the application; called after each operation for each result in memory, with its type, such as
 * float32[1x10], and its size in bytes. More bytes than the type needs: channels are stored in blocks; fewer: a single
 * element represents all. A cond, loop or scan reports its results, carries before stacked outputs. Values inside its
 * bodies and fused values are not reported. */
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
    R"(// The bundle `@bundle@` as a module: the functions of @bundle@.h, its error codes as constants in
// @bundle@_codes, and its memory layout as functions and constants.
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
    to_ << filled(
        pattern,
        {{"bundle", bundle_.name},
         {"machine", bundle_.set_name() + (bundle_.cross_compiled() ? " (" + comment(bundle_.target) + ")" : "")},
         {"comparison", std::string(bundle_.cross_compiled() ? approximate_comparison : own_comparison)},
         {"entry", e_.name},
         {"ENTRY", upper(e_.name)},
         {"alignment", text_of(alignment)},
         {"constants", text_of(bundle_.weights.size())},
         {"variables", text_of(e_.variable_bytes)},
         {"activations", text_of(e_.activation_bytes)},
         {"arena", text_of(e_.arena_bytes)},
         {"live", text_of(e_.live_bytes)},
         {"efficiency", text_of(efficiency())}});
  }
  void put(std::string_view pattern, const symbol& s) const {
    put(filled(pattern, {{"tensor", s.identifier},
                         {"TENSOR", upper(s.identifier)},
                         {"type", std::string(c_type(s.type.element))},
                         {"offset", text_of(s.offset)},
                         {"elements", text_of(s.type.dims.size())},
                         {"bytes", text_of(s.type.bytes())}}));
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
    t << " *   " << padded(text_of(name_of(s.is)), 9) << padded(comment(s.name), 20) << padded(text_of(s.type), 24)
      << padded(text_of(s.type.dims.size()) + " elements", 20) << padded(text_of(s.type.bytes()) + " bytes", 18)
      << "at " << s.offset << "\n";
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
