// NAME.c: the plan as C, in which every offset and size is a constant. Arguments are words on the stack: numbers,
// addresses in the caller's regions, and names of kernels.
module lamina.bundle:source.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

constexpr std::string_view head = R"(/* @bundle@.c: a network as calls of kernels, made by lamina for @set@. C99.
 * It is linked with the kernels of liblamina_kernels_@set@.a that it names. */
#include "@bundle@.h"
#include <string.h>

#define CONSTANT(offset) ((uint64_t)(uintptr_t)(constant_weights + (offset)))
#define VARIABLE(offset) ((uint64_t)(uintptr_t)(mutable_weights + (offset)))
#define ACTIVATION(offset) ((uint64_t)(uintptr_t)(activations + (offset)))
#define CODE(symbol) ((uint64_t)(uintptr_t)(symbol))

)";

constexpr std::string_view checks = R"(
static uint64_t lamina_word_at(const uint8_t *p) {
  uint64_t w;
  memcpy(&w, p, 8);
  return w;
}
@comparisons@
static int lamina_head_of(const uint8_t *weights) {
  if (lamina_word_at(weights) != @magic@) return LAMINA_BUNDLE_NO_WEIGHTS;
  if ((uint32_t)lamina_word_at(weights + 8) != @version@) return LAMINA_BUNDLE_WEIGHTS_VERSION;
  if (lamina_word_at(weights + 16) != @size@) return LAMINA_BUNDLE_WEIGHTS_SIZE;
  if (lamina_word_at(weights + 24) != @checksum@) return LAMINA_BUNDLE_WEIGHTS_CHECKSUM;
  return LAMINA_BUNDLE_OK;
}
static int lamina_regions_of(const uint8_t *weights, const uint8_t *variables, const uint8_t *activations) {
  if (!weights || !variables || !activations) return LAMINA_BUNDLE_NULL;
  if (((uintptr_t)weights | (uintptr_t)variables | (uintptr_t)activations) % @alignment@) return LAMINA_BUNDLE_MISALIGNED;
  return lamina_head_of(weights);
}

int @bundle@_check_weights(const uint8_t *constant_weights, size_t size) {
  uint64_t sum = 0xcbf29ce484222325u;
  size_t at;
  int wrong;
  if (!constant_weights) return LAMINA_BUNDLE_NULL;
  if ((uintptr_t)constant_weights % @alignment@) return LAMINA_BUNDLE_MISALIGNED;
  if (size < @head@) return LAMINA_BUNDLE_NO_WEIGHTS;
  wrong = lamina_head_of(constant_weights);
  if (wrong) return wrong;
  if (size != @size@) return LAMINA_BUNDLE_WEIGHTS_SIZE;
  for (at = @head@; at < size; at += 8) {
    sum = (sum ^ lamina_word_at(constant_weights + at)) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum == @checksum@ ? LAMINA_BUNDLE_OK : LAMINA_BUNDLE_WEIGHTS_CHECKSUM;
}

)";

constexpr std::string_view own_comparison = R"(static int lamina_differ(const uint8_t *a, const uint8_t *b, size_t n) {
  uint8_t d = 0;
  size_t i;
  for (i = 0; i < n; ++i) d |= (uint8_t)(a[i] ^ b[i]);
  return d != 0;
}
)";
/// Those where the expected outputs are another machine's: of float and double, and of half-width numbers.
constexpr std::string_view foreign_comparison =
    R"(static int lamina_differ_@type@(const uint8_t *a, const uint8_t *b, size_t n) {
  const @type@ *x = (const @type@ *)(const void *)a, *y = (const @type@ *)(const void *)b;
  @type@ most = 0;
  size_t i;
  n /= sizeof(@type@);
  for (i = 0; i < n; ++i)
    if (y[i] - y[i] == 0 && (y[i] < 0 ? -y[i] : y[i]) > most) most = y[i] < 0 ? -y[i] : y[i];
  for (i = 0; i < n; ++i) {
    if (x[i] == y[i] || (x[i] != x[i] && y[i] != y[i])) continue;
    if (!(x[i] - y[i] <= @tolerance@ * most && y[i] - x[i] <= @tolerance@ * most)) return 1;
  }
  return 0;
}
)";
constexpr std::string_view half_comparison =
    R"(static int lamina_differ_half(const uint8_t *a, const uint8_t *b, size_t n) {
  size_t i;
  for (i = 0; i + 1 < n; i += 2) {
    const int d = (a[i] | a[i + 1] << 8) - (b[i] | b[i + 1] << 8);
    if (d < -1 || d > 1) return 1;
  }
  return 0;
}
)";

constexpr std::string_view entry_begin =
    R"(int @entry@(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations) {
  const int wrong = lamina_regions_of(constant_weights, mutable_weights, activations);
  uint8_t *const scratch = activations + @scratch@;
  (void)scratch;
  if (wrong) return wrong;
)";

/// Compilers take too long for one function of many calls, and for thousands of calls that they optimize. What they would
/// gain is little: the functions store arguments and call kernels.
constexpr std::string_view part_attribute = R"(#if defined(__GNUC__)
#define LAMINA_PART __attribute__((noinline)) static void
#else
#define LAMINA_PART static void
#endif

)";
constexpr std::string_view quick_part_attribute = R"(#if defined(__clang__)
#define LAMINA_PART __attribute__((noinline, optnone)) static void
#elif defined(__GNUC__)
#define LAMINA_PART __attribute__((noinline, optimize("O0"))) static void
#else
#define LAMINA_PART static void
#endif

)";
constexpr std::string_view part_begin =
    R"(LAMINA_PART lamina_@entry@_part_@part@(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations, uint8_t *scratch) {
  (void)constant_weights, (void)mutable_weights, (void)activations, (void)scratch;
)";

constexpr std::string_view reset_begin =
    R"(int @entry@_reset(const uint8_t *constant_weights, uint8_t *mutable_weights) {
  const int wrong = lamina_regions_of(constant_weights, mutable_weights, mutable_weights);
  if (wrong) return wrong;
)";

constexpr std::string_view test_begin =
    R"(int @entry@_self_test(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations) {
  int status = lamina_regions_of(constant_weights, mutable_weights, activations);
  if (!status) status = @bundle@_check_weights(constant_weights, @size@);
  if (status) return status;
)";

constexpr std::string_view test_run = R"(  status = @entry@(constant_weights, mutable_weights, activations);
  if (status) return status;
)";

constexpr std::string_view function_end = "  return LAMINA_BUNDLE_OK;\n}\n\n";

std::string hexadecimal(std::uint64_t v) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%llxu", static_cast<unsigned long long>(v));
  return digits;
}

text& operator<<(text& t, const word& w) {
  constexpr std::string_view regions[] = {"", "CONSTANT", "VARIABLE", "ACTIVATION"};
  if (!w.symbol.empty()) return t << "CODE(" << w.symbol << ")";
  if (w.in != region::none) return t << regions[static_cast<int>(w.in)] << "(" << w.value << ")";
  if (w.value < 1000000) return t << w.value;
  return t << hexadecimal(w.value);
}

/// A string of C.
std::string quoted(std::string_view s) {
  std::string q = "\"";
  for (char c : s) {
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned char>(c));
    if (c == '"' || c == '\\' || c == '?' || c < ' ' || c > '~') q += octal;
    else q += c;
  }
  return q + "\"";
}

/// The function that compares outputs of a type.
std::string_view comparison_of(const image& bundle, dtype t) {
  if (!bundle.foreign()) return "lamina_differ";
  switch (t) {
    case dtype::float32: return "lamina_differ_float";
    case dtype::float64: return "lamina_differ_double";
    case dtype::float16:
    case dtype::bfloat16: return "lamina_differ_half";
    default: return "lamina_differ";
  }
}
/// Those that the self-tests call.
std::string comparisons_of(const image& bundle) {
  std::set<std::string_view> called;
  for (const auto& e : bundle.entries)
    for (const auto& s : e.tensors)
      if (s.is == symbol::role::output && s.type.bytes()) called.insert(comparison_of(bundle, s.type.element));
  std::string all;
  auto add = [&](std::string_view name, std::string text) {
    if (called.contains(name)) all += text;
  };
  add("lamina_differ", std::string(own_comparison));
  add("lamina_differ_float", filled(foreign_comparison, {{"type", "float"}, {"tolerance", "1e-5f"}}));
  add("lamina_differ_double", filled(foreign_comparison, {{"type", "double"}, {"tolerance", "1e-10"}}));
  add("lamina_differ_half", std::string(half_comparison));
  return all;
}

/// Writes one entry.
class entry_source {
 public:
  entry_source(text& to, const image& bundle, const entry_image& e, const options& o)
      : to_(to), bundle_(bundle), e_(e), options_(o) {}

  void run() {
    divide();
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      to_ << filled(part_begin, {{"entry", e_.name}, {"part", std::to_string(k)}});
      arguments_.clear();
      for (auto i = parts_[k].first; i < parts_[k].end; ++i) compute(i);
      to_ << "}\n\n";
    }
    put(entry_begin);
    arguments_.clear();
    for (const auto& [at, what] : e_.checks)
      to_ << "  memset(activations + " << at << ", 0, 8);  /* counts: " << comment(what) << " */\n";
    const std::size_t before = before_commit();
    compute_all(0, before);
    for (const auto& check : e_.checks)
      to_ << "  if (lamina_word_at(activations + " << check.first << ")) return LAMINA_BUNDLE_VALUE;\n";
    compute_all(before, e_.operations.size());
    put(function_end);
    if (e_.states()) reset();
    self_test();
  }
  /// Whether the operations of an entry are so many that they are functions of their own.
  static bool in_parts(const entry_image& e) { return e.end - e.first > max_calls; }

 private:
  // Operations [first, end) that are a function.
  struct part {
    std::size_t first, end;
  };
  static constexpr std::size_t max_calls = 48;  // of a function

  std::size_t before_commit() const {
    std::size_t i = 0;
    while (i < e_.operations.size() && e_.operations[i].first < e_.commit) ++i;
    return i;
  }
  void divide() {
    if (!in_parts(e_)) return;
    const std::size_t before = before_commit();
    std::size_t calls = 0;
    for (std::size_t i = 0; i < e_.operations.size(); ++i) {
      const std::size_t mine = calls_of(e_.operations[i].first, e_.operations[i].count);
      if (parts_.empty() || i == before || calls + mine > max_calls) {
        parts_.push_back({i, i});
        calls = 0;
      }
      calls += mine;
      parts_.back().end = i + 1;
    }
  }
  // With those that loops make.
  std::size_t calls_of(std::size_t first, std::size_t count) const {
    std::size_t n = count;
    for (std::size_t c = first; c < first + count; ++c)
      if (const auto l = e_.calls[c].loop; l >= 0)
        n += calls_of(e_.loops[static_cast<std::size_t>(l)].first, e_.loops[static_cast<std::size_t>(l)].count);
    return n;
  }
  void compute_all(std::size_t first, std::size_t end) {
    if (parts_.empty())
      for (auto i = first; i < end; ++i) compute(i);
    for (std::size_t k = 0; k < parts_.size(); ++k)
      if (parts_[k].first >= first && parts_[k].end <= end)
        to_ << "  lamina_" << e_.name << "_part_" << k
            << "(constant_weights, mutable_weights, activations, scratch);\n";
  }

  void put(std::string_view pattern) {
    to_ << filled(pattern, {{"entry", e_.name},
                            {"bundle", bundle_.name},
                            {"scratch", std::to_string(e_.scratch)},
                            {"size", std::to_string(bundle_.weights.size())}});
  }

  void compute(std::size_t number) {
    const auto& o = e_.operations[number];
    auto tell = [&](std::string_view event) -> text& {
      return to_ << "  " << e_.name << "_" << event << "(" << number << ", " << quoted(o.what);
    };
    to_ << "  /* " << comment(o.what) << " */\n";
    if (options_.instrument) tell("before") << ");\n";
    for (std::size_t c = o.first; c < o.first + o.count; ++c) {
      if (e_.calls[c].loop >= 0) iterations(c);
      else single(c);
    }
    if (options_.instrument) tell("after") << ");\n";
    if (!options_.dump_tensors) return;
    constexpr std::string_view regions[] = {"", "constant_weights", "mutable_weights", "activations"};
    for (const auto& r : o.results) {
      text type;
      type << r.type;
      tell("tensor") << ", " << quoted(type.view()) << ", " << regions[static_cast<int>(r.in)] << " + " << r.offset
                     << ", " << r.bytes << ");\n";
    }
  }

  void words(std::size_t c, std::string_view name) {
    const auto& all = e_.calls[c].arguments;
    to_ << "uint64_t " << name << "[" << all.size() << "] = {";
    for (std::size_t w = 0; w < all.size(); ++w) to_ << (w == 0 ? "" : w % 12 ? ", " : ",\n        ") << all[w];
    to_ << "};\n";
  }
  void invoke(std::size_t c, std::string_view name, std::string_view indent) {
    to_ << indent << e_.calls[c].kernel << "(" << name << ", scratch);\n";
  }
  // Calls of one kernel share their words in a function, where only those are stored that differ from the call before.
  void single(std::size_t c) {
    const call& now = e_.calls[c];
    const auto [at, fresh] = arguments_.try_emplace({now.kernel, now.arguments.size()}, c, arguments_.size());
    const std::string name = "k" + std::to_string(at->second.second);
    if (fresh) {
      to_ << "  ";
      words(c, name);
    } else {
      const auto& before = e_.calls[std::exchange(at->second.first, c)].arguments;
      std::size_t on_line = 0;
      for (std::size_t w = 0; w < before.size(); ++w)
        if (!(before[w] == now.arguments[w]))
          to_ << (on_line++ % 6  ? " "
                  : on_line == 1 ? "  "
                                 : "\n  ")
              << name << "[" << w << "] = " << now.arguments[w] << ";";
      if (on_line) to_ << "\n";
    }
    invoke(c, name, "  ");
  }

  // All arguments of a loop, and of loops inside it, live through all its iterations, since each iteration moves some of them on.
  void iterations(std::size_t call) {
    to_ << "  {\n";
    declare(call);
    body(call, "    ", 0);
    to_ << "  }\n";
  }
  void declare(std::size_t call) {
    if (!e_.calls[call].arguments.empty()) {
      to_ << "    ";
      words(call, "a" + std::to_string(call));
    }
    if (e_.calls[call].loop < 0) return;
    const auto& l = e_.loops[static_cast<std::size_t>(e_.calls[call].loop)];
    for (std::size_t c = l.first; c < l.first + l.count; ++c) declare(c);
  }
  void body(std::size_t call, std::string indent, int depth) {
    const auto& l = e_.loops[static_cast<std::size_t>(e_.calls[call].loop)];
    const std::string t = "t" + std::to_string(depth);
    to_ << indent << "int64_t " << t << ";\n";
    if (!e_.calls[call].arguments.empty())  // a predicate says whether it runs at all
      to_ << indent << "if (*(const uint8_t*)(uintptr_t)a" << call << "[0] == a" << call << "[1])\n";
    to_ << indent << "for (" << t << " = 0; " << t << " < " << l.iterations << "; ++" << t << ") {\n";
    for (std::size_t c = l.first; c < l.first + l.count; ++c) {
      if (e_.calls[c].loop >= 0) {
        to_ << indent << "  {\n";
        body(c, indent + "    ", depth + 1);
        to_ << indent << "  }\n";
      } else invoke(c, "a" + std::to_string(c), indent + "  ");
    }
    for (const auto& m : l.moves) step_on(m, m.stride, indent + "  ");
    to_ << indent << "}\n";
    if (depth && e_.calls[call].arguments.empty())  // the next iteration around this loop begins where this one did
      for (const auto& m : l.moves) step_on(m, -m.stride * l.iterations, indent);
  }
  void step_on(const move& m, std::int64_t by, std::string_view indent) {
    to_ << indent << "a" << m.call << "[" << m.at << "] " << (by < 0 ? "-" : "+") << "= " << (by < 0 ? -by : by)
        << ";\n";
  }

  void reset() {
    put(reset_begin);
    copy_given(symbol::role::state);
    put(function_end);
  }
  // What the weights hold for tensors of a role goes there.
  void copy_given(symbol::role role) {
    each(role, [&](const symbol& s, std::size_t given) {
      to_ << "  memcpy(mutable_weights + " << s.offset << ", constant_weights + " << given << ", " << s.type.bytes()
          << ");\n";
    });
  }
  void self_test() {
    put(test_begin);
    copy_given(symbol::role::state);
    copy_given(symbol::role::input);
    put(test_run);
    each(symbol::role::output, [&](const symbol& s, std::size_t given) {
      to_ << "  if (" << comparison_of(bundle_, s.type.element) << "(mutable_weights + " << s.offset
          << ", constant_weights + " << given << ", " << s.type.bytes() << ")) return LAMINA_BUNDLE_SELF_TEST;\n";
    });
    put(function_end);
  }
  template <class F> void each(symbol::role role, F f) const {
    for (std::size_t i = 0; i < e_.tensors.size(); ++i)
      if (e_.tensors[i].is == role && e_.tensors[i].type.bytes()) f(e_.tensors[i], e_.given[i]);
  }

  text& to_;
  const image& bundle_;
  const entry_image& e_;
  const options& options_;
  std::vector<part> parts_;
  // Of the function that is written: the last call of each kernel with so many words, and the number of its array.
  std::map<std::pair<std::string_view, std::size_t>, std::pair<std::size_t, std::size_t>> arguments_;
};

void declare_kernels(text& t, const image& bundle) {
  std::set<std::string_view> kernels, addresses;
  for (const auto& e : bundle.entries)
    for (const auto& c : e.calls) {
      if (!c.kernel.empty()) kernels.insert(c.kernel);
      for (const auto& w : c.arguments)
        if (!w.symbol.empty()) addresses.insert(w.symbol);
    }
  for (auto k : kernels) t << "void " << k << "(const void *arguments, void *scratch);\n";
  for (auto a : addresses)
    if (!kernels.contains(a)) t << "extern const char " << a << "[];\n";
}

void config(text& t, const image& bundle, const entry_image& e) {
  t << "static const lamina_bundle_symbol " << e.name << "_symbols[] = {\n";
  for (const auto* all : {&e.tensors, &e.constants})
    for (const auto& s : *all)
      t << "    {" << quoted(s.name) << ", " << s.offset << ", " << s.type.dims.size() << ", LAMINA_BUNDLE_"
        << upper(std::string(name_of(s.is))) << ", " << quoted(lamina::name_of(s.type.element)) << "},\n";
  t << "};\nconst lamina_bundle_config " << e.name << "_config = {" << bundle.weights.size() << ", " << e.variable_bytes
    << ", " << e.activation_bytes << ", " << alignment << ", " << e.tensors.size() + e.constants.size() << ", "
    << e.name << "_symbols};\n\n";
}

}  // namespace

std::string source_of(const image& bundle, const options& o) {
  std::uint64_t magic;
  std::memcpy(&magic, weights_magic.data(), sizeof magic);
  text t;
  t << filled(head, {{"bundle", bundle.name}, {"set", bundle.set_name()}});
  declare_kernels(t, bundle);
  t << filled(checks, {{"comparisons", comparisons_of(bundle)},
                       {"bundle", bundle.name},
                       {"magic", hexadecimal(magic)},
                       {"version", std::to_string(weights_version)},
                       {"head", std::to_string(sizeof(weights_head))},
                       {"size", std::to_string(bundle.weights.size())},
                       {"checksum", hexadecimal(bundle.checksum)},
                       {"alignment", std::to_string(alignment)}});
  if (o.api == api::dynamic)
    for (const auto& e : bundle.entries) config(t, bundle, e);
  if (std::any_of(bundle.entries.begin(), bundle.entries.end(), &entry_source::in_parts)) {
    constexpr std::size_t max_optimized = 1000;
    std::size_t calls = 0;
    for (const auto& e : bundle.entries) calls += e.calls.size();
    t << (calls > max_optimized ? quick_part_attribute : part_attribute);
  }
  for (const auto& e : bundle.entries) entry_source(t, bundle, e, o).run();
  return t.string();
}

}  // namespace lamina::bundle
