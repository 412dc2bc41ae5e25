// NAME.c: the plan as C, with every offset and size a constant. Arguments are words on the stack: numbers, addresses in
// the caller's regions, and addresses of kernels. A table of bytes encodes which words change from call to call.
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

#define ADDRESS(of) ((uint64_t)(uintptr_t)(of))
#if defined(__GNUC__)
#define LAMINA_APART __attribute__((noinline, unused)) static void
#else
#define LAMINA_APART static void
#endif

)";

constexpr std::string_view checks = R"(
static uint64_t lamina_word_at(const uint8_t *p) {
  uint64_t w;
  memcpy(&w, p, 8);
  return w;
}

typedef struct {
  const uint8_t *at;    /* in the table of arguments */
  uint64_t base[4];     /* of numbers, constants, variables, activations */
  const uint64_t *code; /* kernels, and functions and tables that arguments name */
  uint64_t *words;      /* arguments of the calls in a row, one array for each kernel */
  uint8_t *scratch;
} lamina_calls;

/* The words of a call that differ from what `to` holds. Its table has 3 bytes of where `to` lies in `words`, 2 of the kernel,
 * 3 of how many words follow; a byte of each word with the kind (3 bits), the size of the value (2) and how many words are left
 * out before it (3); and the values. */
LAMINA_APART lamina_arguments(lamina_calls *calls, uint64_t *to) {
  const uint8_t *head = calls->at + 8, *const heads_end = head + (lamina_word_at(calls->at) >> 40), *at = heads_end;
  for (; head != heads_end; ++head) {
    const unsigned bits = 8u << (*head >> 3 & 3), kind = *head & 7;
    const uint64_t value = lamina_word_at(at) & (~(uint64_t)0 >> (64 - bits));
    at += bits / 8;
    to += *head >> 5;
    if (kind == @skip@) to += value;
    else *to++ = kind == @code@ ? calls->code[value] : calls->base[kind] + value;
  }
  calls->at = at;
}
LAMINA_APART lamina_run(lamina_calls *calls, size_t count) {
  for (; count; --count) {
    const uint64_t head = lamina_word_at(calls->at);
    uint64_t *const words = calls->words + (head & 0xffffff);
    lamina_arguments(calls, words);
    ((void (*)(const void *, void *))(uintptr_t)calls->code[head >> 24 & 0xffff])(words, calls->scratch);
  }
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
/// Comparisons used if the expected outputs were computed on another architecture: for float and double, and for
/// half-width numbers.
constexpr std::string_view foreign_comparison =
    R"(static int lamina_differ_@type@(const uint8_t *a, const uint8_t *b, size_t n) {
  const @type@ *x = (const @type@ *)(const void *)a, *y = (const @type@ *)(const void *)b;
  @type@ max = 0;
  size_t i;
  n /= sizeof(@type@);
  for (i = 0; i < n; ++i)
    if (y[i] - y[i] == 0 && (y[i] < 0 ? -y[i] : y[i]) > max) max = y[i] < 0 ? -y[i] : y[i];
  for (i = 0; i < n; ++i) {
    if (x[i] == y[i] || (x[i] != x[i] && y[i] != y[i])) continue;
    if (!(x[i] - y[i] <= @tolerance@ * max && y[i] - x[i] <= @tolerance@ * max)) return 1;
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
  uint64_t words[@words@];
  const uint64_t code[] = {@code@};
  lamina_calls all, *const calls = &all;
  if (wrong) return wrong;
  memset(words, 0, sizeof words);
  all.at = lamina_@entry@_arguments, all.code = code, all.words = words, all.scratch = scratch;
  all.base[0] = 0, all.base[1] = ADDRESS(constant_weights);
  all.base[2] = ADDRESS(mutable_weights), all.base[3] = ADDRESS(activations);
  (void)calls;
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

/// Kind of an argument word: the index of the base that is added to its value, or one of these.
constexpr unsigned code_kind = 4, skip_kind = 5;

/// Builds the argument table of an entry and the list of symbols that it refers to.
class argument_table {
 public:
  /// Adds the arguments of a call of `kernel` (empty: of a loop or of a call in one), for the words from `place` on,
  /// which hold the arguments `before` (null: zeros).
  void add(std::string_view kernel, std::size_t place, const std::vector<word>& now, const std::vector<word>* before) {
    std::vector<unsigned char> heads, values;
    const auto put = [&](unsigned kind, std::size_t skipped, std::uint64_t value) {
      unsigned size = 0;
      while (size < 3 && value >> (8u << size)) ++size;
      heads.push_back(static_cast<unsigned char>(kind | size << 3 | skipped << 5));
      append(values, value, std::size_t(1) << size);
    };
    std::size_t written = 0;  // words before this index are already correct
    for (std::size_t w = 0; w < now.size(); ++w) {
      if (now[w] == (before ? (*before)[w] : word{})) continue;
      std::size_t skipped = w - written;
      if (skipped > 7) put(skip_kind, 0, std::exchange(skipped, 0));
      if (now[w].symbol.empty()) put(static_cast<unsigned>(now[w].in), skipped, now[w].value);
      else put(code_kind, skipped, number_of(now[w].symbol));
      written = w + 1;
    }
    append(bytes_, place | (kernel.empty() ? 0 : number_of(kernel)) << 24 | heads.size() << 40, 8);
    bytes_.insert(bytes_.end(), heads.begin(), heads.end());
    bytes_.insert(bytes_.end(), values.begin(), values.end());
  }
  const std::vector<std::string>& code() const { return code_; }
  std::string text_of() const {
    std::string all;
    for (std::size_t i = 0; i < bytes_.size() + 8; ++i) {  // padding: each value is read as 8 bytes
      all += std::to_string(i < bytes_.size() ? bytes_[i] : 0);
      all += i % 32 == 31 ? ",\n" : ",";
    }
    return all;
  }

 private:
  static void append(std::vector<unsigned char>& to, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<unsigned char>(value >> 8 * i));
  }
  std::uint64_t number_of(std::string_view symbol) {
    const auto [at, fresh] = number_.try_emplace(std::string(symbol), code_.size());
    if (fresh) code_.push_back(at->first);
    return at->second;
  }
  std::vector<unsigned char> bytes_;
  std::vector<std::string> code_;
  std::map<std::string, std::uint64_t> number_;
};

/// A C string literal.
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

/// Name of the function that compares outputs of a type.
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
/// The comparison functions that the self-tests call.
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
    text before;
    std::swap(before, to_);  // calls are generated first, then the declarations that precede them
    for (const auto& [at, what] : e_.checks)
      to_ << "  memset(activations + " << at << ", 0, 8);  /* counts: " << comment(what) << " */\n";
    std::size_t next = 0;
    for (; next < e_.operations.size() && e_.operations[next].first < e_.commit; ++next) compute(next);
    flush();
    for (const auto& check : e_.checks)
      to_ << "  if (lamina_word_at(activations + " << check.first << ")) return LAMINA_BUNDLE_VALUE;\n";
    for (; next < e_.operations.size(); ++next) compute(next);
    flush();
    std::swap(before, to_);
    to_ << "static const uint8_t lamina_" << e_.name << "_arguments[] = {\n" << table_.text_of() << "};\n\n";
    put(entry_begin);
    to_ << before;
    put(function_end);
    if (e_.states()) reset();
    self_test();
  }

 private:
  void put(std::string_view pattern) {
    to_ << filled(pattern, {{"entry", e_.name},
                            {"bundle", bundle_.name},
                            {"scratch", std::to_string(e_.scratch)},
                            {"words", std::to_string(std::max<std::size_t>(1, words_))},
                            {"code", code()},
                            {"size", std::to_string(bundle_.weights.size())}});
  }

  std::string code() const {
    std::string all;
    for (const auto& c : table_.code()) all += "ADDRESS(" + c + "), ";
    return all + "0";  // C has no empty arrays
  }

  void compute(std::size_t number) {
    const auto& o = e_.operations[number];
    auto tell = [&](std::string_view event) -> text& {
      flush();
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

  // Calls of one kernel share an argument array; only words that differ from the previous call are written.
  void single(std::size_t c) {
    const call& now = e_.calls[c];
    const auto [at, fresh] = arguments_.try_emplace({now.kernel, now.arguments.size()}, c, words_);
    auto& [before, place] = at->second;
    table_.add(now.kernel, place, now.arguments, fresh ? nullptr : &e_.calls[before].arguments);
    if (fresh) words_ += now.arguments.size();
    before = c;
    ++waiting_;
  }
  // Emits the pending calls.
  void flush() {
    if (waiting_) to_ << "  lamina_run(calls, " << std::exchange(waiting_, 0) << ");\n";
  }

  // The arguments of a loop and of its nested loops live through all iterations, since each iteration advances some of
  // them.
  void iterations(std::size_t call) {
    flush();
    to_ << "  {\n";
    declare(call);
    body(call, "    ", 0);
    to_ << "  }\n";
  }
  void declare(std::size_t call) {
    if (const auto& all = e_.calls[call].arguments; !all.empty()) {
      to_ << "    uint64_t a" << call << "[" << all.size() << "] = {0};\n    lamina_arguments(calls, a" << call
          << ");\n";
      table_.add({}, 0, all, nullptr);
    }
    if (e_.calls[call].loop < 0) return;
    const auto& l = e_.loops[static_cast<std::size_t>(e_.calls[call].loop)];
    for (std::size_t c = l.first; c < l.first + l.count; ++c) declare(c);
  }
  void body(std::size_t call, std::string indent, int depth) {
    const auto& l = e_.loops[static_cast<std::size_t>(e_.calls[call].loop)];
    const std::string t = "t" + std::to_string(depth);
    to_ << indent << "int64_t " << t << ";\n";
    if (!e_.calls[call].arguments.empty())  // a predicate decides whether it runs
      to_ << indent << "if (*(const uint8_t*)(uintptr_t)a" << call << "[0] == a" << call << "[1])\n";
    to_ << indent << "for (" << t << " = 0; " << t << " < " << l.iterations << "; ++" << t << ") {\n";
    for (std::size_t c = l.first; c < l.first + l.count; ++c) {
      if (e_.calls[c].loop >= 0) {
        to_ << indent << "  {\n";
        body(c, indent + "    ", depth + 1);
        to_ << indent << "  }\n";
      } else to_ << indent << "  " << e_.calls[c].kernel << "(a" << c << ", scratch);\n";
    }
    for (const auto& m : l.moves) step_on(m, m.stride, indent + "  ");
    to_ << indent << "}\n";
    if (depth && e_.calls[call].arguments.empty())  // rewinds the arguments for the next iteration of the enclosing
                                                    // loop
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
  // Copies the values that the weights hold for tensors of a role to these tensors.
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
  argument_table table_;
  // By kernel and number of words: its last call outside loops, and the position of its argument array.
  std::map<std::pair<std::string_view, std::size_t>, std::pair<std::size_t, std::size_t>> arguments_;
  std::size_t words_ = 0, waiting_ = 0;
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
                       {"skip", std::to_string(skip_kind)},
                       {"code", std::to_string(code_kind)},
                       {"bundle", bundle.name},
                       {"magic", hexadecimal(magic)},
                       {"version", std::to_string(weights_version)},
                       {"head", std::to_string(sizeof(weights_head))},
                       {"size", std::to_string(bundle.weights.size())},
                       {"checksum", hexadecimal(bundle.checksum)},
                       {"alignment", std::to_string(alignment)}});
  if (o.api == api::dynamic)
    for (const auto& e : bundle.entries) config(t, bundle, e);
  for (const auto& e : bundle.entries) entry_source(t, bundle, e, o).run();
  return t.string();
}

}  // namespace lamina::bundle
