// NAME.c: the plan as C, in which every offset and size is a constant. Arguments are words on the stack: numbers, addresses
// in the caller's regions, and names of kernels.
module lamina.bundle:source.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

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
/// A line that can stand in a comment.
std::string line(std::string_view s) {
  std::string c(s);
  for (std::size_t at; (at = c.find("*/")) != c.npos;) c.replace(at, 2, "* ");
  return c;
}

/// Writes one entry.
class entry_source {
 public:
  entry_source(text& to, const image& bundle, const entry_image& e, const options& o) : to_(to), bundle_(bundle), e_(e), options_(o) {}

  void run() {
    to_ << "int " << e_.name << parameters << " {\n  const int wrong = " << bundle_.name << "_regions(constant_weights, mutable_weights, activations);\n"
        << "  uint8_t *const scratch = activations + " << e_.scratch << ";\n  if (wrong) return wrong;\n";
    for (const auto& [at, what] : e_.checks) to_ << "  memset(activations + " << at << ", 0, 8);  /* counts: " << line(what) << " */\n";
    for (std::size_t i = 0; i < e_.operations.size(); ++i) compute(i);
    for (const auto& check : e_.checks) to_ << "  if (lamina_word_at(activations + " << check.first << ")) return LAMINA_BUNDLE_VALUE;\n";
    to_ << "  (void)scratch;\n  return LAMINA_BUNDLE_OK;\n}\n\n";
    self_test();
  }

 private:
  static constexpr std::string_view parameters = "(const uint8_t *constant_weights, uint8_t *mutable_weights, uint8_t *activations)";

  void compute(std::size_t number) {
    const auto& o = e_.operations[number];
    auto tell = [&](std::string_view event) { to_ << "  " << e_.name << "_" << event << "(" << number << ", " << quoted(o.what) << ");\n"; };
    to_ << "  /* " << line(o.what) << " */\n";
    if (options_.instrument) tell("before");
    for (std::size_t c = o.first; c < o.first + o.count; ++c) {
      if (e_.calls[c].loop >= 0) turns(e_.calls[c].loop);
      else single(c);
    }
    if (options_.instrument) tell("after");
    if (!options_.dump_tensors || o.in == region::none) return;
    constexpr std::string_view regions[] = {"", "constant_weights", "mutable_weights", "activations"};
    text type;
    type << o.result;
    to_ << "  " << e_.name << "_tensor(" << number << ", " << quoted(o.what) << ", " << quoted(type.view()) << ", " << regions[static_cast<int>(o.in)] << " + " << o.offset << ", "
        << o.bytes << ");\n";
  }

  void words(std::size_t c) {
    const auto& all = e_.calls[c].arguments;
    to_ << "uint64_t a" << c << "[" << all.size() << "] = {";
    for (std::size_t w = 0; w < all.size(); ++w) to_ << (w == 0 ? "" : w % 12 ? ", " : ",\n        ") << all[w];
    to_ << "};\n";
  }
  void invoke(std::size_t c, std::string_view indent) { to_ << indent << e_.calls[c].kernel << "(a" << c << ", scratch);\n"; }
  void single(std::size_t c) {
    to_ << "  {\n    const ";
    words(c);
    invoke(c, "    ");
    to_ << "  }\n";
  }

  // All arguments of a loop, and of loops inside it, live through all its turns, since each turn moves some of them on.
  void turns(std::int32_t number) {
    to_ << "  {\n";
    declare(number);
    body(number, "    ", 0);
    to_ << "  }\n";
  }
  void declare(std::int32_t number) {
    const auto& l = e_.loops[static_cast<std::size_t>(number)];
    for (std::size_t c = l.first; c < l.first + l.count; ++c) {
      if (e_.calls[c].loop >= 0) {
        declare(e_.calls[c].loop);
        continue;
      }
      to_ << "    ";
      words(c);
    }
  }
  void body(std::int32_t number, std::string indent, int depth) {
    const auto& l = e_.loops[static_cast<std::size_t>(number)];
    to_ << indent << "int64_t t" << depth << ";\n" << indent << "for (t" << depth << " = 0; t" << depth << " < " << l.turns << "; ++t" << depth << ") {\n";
    for (std::size_t c = l.first; c < l.first + l.count; ++c) {
      if (e_.calls[c].loop >= 0) {
        to_ << indent << "  {\n";
        body(e_.calls[c].loop, indent + "    ", depth + 1);
        to_ << indent << "  }\n";
      } else invoke(c, indent + "  ");
    }
    for (const auto& m : l.moves) step_on(m, m.stride, indent + "  ");
    to_ << indent << "}\n";
    if (depth)          // the next turn around this loop begins where this one did
      for (const auto& m : l.moves) step_on(m, -m.stride * l.turns, indent);
  }
  void step_on(const move& m, std::int64_t by, std::string_view indent) {
    to_ << indent << "a" << m.call << "[" << m.at << "] " << (by < 0 ? "-" : "+") << "= " << (by < 0 ? -by : by) << ";\n";
  }

  void self_test() {
    const auto inputs = e_.test_inputs.size();
    to_ << "int " << e_.name << "_self_test" << parameters << " {\n  int status = " << bundle_.name << "_regions(constant_weights, mutable_weights, activations);\n"
        << "  if (!status) status = " << bundle_.name << "_check_weights(constant_weights, " << bundle_.weights.size() << ");\n  if (status) return status;\n";
    for (std::size_t i = 0; i < inputs; ++i)
      if (auto n = e_.tensors[i].type.bytes()) to_ << "  memcpy(mutable_weights + " << e_.tensors[i].offset << ", constant_weights + " << e_.test_inputs[i] << ", " << n << ");\n";
    to_ << "  status = " << e_.name << "(constant_weights, mutable_weights, activations);\n  if (status) return status;\n";
    for (std::size_t i = 0; i < e_.test_outputs.size(); ++i) {
      const auto& s = e_.tensors[inputs + i];
      to_ << "  if (lamina_differ(mutable_weights + " << s.offset << ", constant_weights + " << e_.test_outputs[i] << ", " << s.type.bytes() << ")) return LAMINA_BUNDLE_SELF_TEST;\n";
    }
    to_ << "  return LAMINA_BUNDLE_OK;\n}\n\n";
  }

  text& to_;
  const image& bundle_;
  const entry_image& e_;
  const options& options_;
};

void helpers(text& t, const image& bundle) {
  std::uint64_t magic;
  std::memcpy(&magic, weights_magic.data(), sizeof magic);
  t << "static uint64_t lamina_word_at(const uint8_t *p) {\n  uint64_t w;\n  memcpy(&w, p, 8);\n  return w;\n}\n"
    << "static int lamina_differ(const uint8_t *a, const uint8_t *b, size_t n) {\n  uint8_t d = 0;\n  size_t i;\n  for (i = 0; i < n; ++i) d |= (uint8_t)(a[i] ^ b[i]);\n  return d != 0;\n}\n\n"
    << "static int lamina_head_of(const uint8_t *weights) {\n  if (lamina_word_at(weights) != " << hexadecimal(magic) << ") return LAMINA_BUNDLE_NO_WEIGHTS;\n"
    << "  if ((uint32_t)lamina_word_at(weights + 8) != " << weights_version << ") return LAMINA_BUNDLE_WEIGHTS_VERSION;\n"
    << "  if (lamina_word_at(weights + 16) != " << bundle.weights.size() << ") return LAMINA_BUNDLE_WEIGHTS_SIZE;\n"
    << "  if (lamina_word_at(weights + 24) != " << hexadecimal(bundle.checksum) << ") return LAMINA_BUNDLE_WEIGHTS_CHECKSUM;\n  return LAMINA_BUNDLE_OK;\n}\n"
    << "static int " << bundle.name << "_regions(const uint8_t *weights, const uint8_t *variables, const uint8_t *activations) {\n"
    << "  if (!weights || !variables || !activations) return LAMINA_BUNDLE_NULL;\n"
    << "  if (((uintptr_t)weights | (uintptr_t)variables | (uintptr_t)activations) % " << alignment << ") return LAMINA_BUNDLE_MISALIGNED;\n"
    << "  return lamina_head_of(weights);\n}\n\n"
    << "int " << bundle.name << "_check_weights(const uint8_t *constant_weights, size_t size) {\n"
    << "  uint64_t sum = 0xcbf29ce484222325u;\n  size_t at;\n  int wrong;\n  if (!constant_weights) return LAMINA_BUNDLE_NULL;\n"
    << "  if ((uintptr_t)constant_weights % " << alignment << ") return LAMINA_BUNDLE_MISALIGNED;\n"
    << "  if (size < " << sizeof(weights_head) << ") return LAMINA_BUNDLE_NO_WEIGHTS;\n  wrong = lamina_head_of(constant_weights);\n  if (wrong) return wrong;\n"
    << "  if (size != " << bundle.weights.size() << ") return LAMINA_BUNDLE_WEIGHTS_SIZE;\n"
    << "  for (at = " << sizeof(weights_head) << "; at < size; at += 8) sum = (sum ^ lamina_word_at(constant_weights + at)) * 0x100000001b3u;\n"
    << "  return sum == " << hexadecimal(bundle.checksum) << " ? LAMINA_BUNDLE_OK : LAMINA_BUNDLE_WEIGHTS_CHECKSUM;\n}\n\n";
}

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
  auto row = [&](const symbol& s, std::string_view kind) {
    t << "    {" << quoted(s.name) << ", " << s.offset << ", " << s.type.dims.size() << ", LAMINA_BUNDLE_" << kind << ", " << quoted(name_of(s.type.element)) << "},\n";
  };
  for (const auto& s : e.tensors) row(s, s.output ? "OUTPUT" : "INPUT");
  for (const auto& s : e.constants) row(s, "CONSTANT");
  t << "};\nconst lamina_bundle_config " << e.name << "_config = {" << bundle.weights.size() << ", " << e.variable_bytes << ", " << e.activation_bytes << ", " << alignment << ", "
    << e.tensors.size() + e.constants.size() << ", " << e.name << "_symbols};\n\n";
}

}  // namespace

std::string source_of(const image& bundle, const options& o) {
  text t;
  t << "/* " << bundle.name << ".c: a network as calls of kernels, made by lamina for " << name_of(bundle.set) << ". C99.\n"
    << " * It is linked with the kernels of liblamina_kernels_" << name_of(bundle.set) << ".a that it names. */\n"
    << "#include \"" << bundle.name << ".h\"\n#include <string.h>\n\n"
    << "#define CONSTANT(offset) ((uint64_t)(uintptr_t)(constant_weights + (offset)))\n"
    << "#define VARIABLE(offset) ((uint64_t)(uintptr_t)(mutable_weights + (offset)))\n"
    << "#define ACTIVATION(offset) ((uint64_t)(uintptr_t)(activations + (offset)))\n"
    << "#define CODE(symbol) ((uint64_t)(uintptr_t)(symbol))\n\n";
  declare_kernels(t, bundle);
  t << "\n";
  helpers(t, bundle);
  if (o.api == api::dynamic)
    for (const auto& e : bundle.entries) config(t, bundle, e);
  for (const auto& e : bundle.entries) entry_source(t, bundle, e, o).run();
  return t.string();
}

}  // namespace lamina::bundle
