// lamina source: a net as a topology in C++, with its weights beside it.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

struct source_error {
  std::string why;
};

// Writes the layers of a program. Values that depend on states and constants alone are parameters of the layers.
class topology_writer {
 public:
  explicit topology_writer(const saved_net& net) : net_(net), p_(*net.program) {}

  // Errors: unsupported_error that names all nodes that no layer is known for.
  void run() {
    find_parameters();
    const auto kept = p_.reachable();
    if (p_.inputs().size() != 1 || p_.outputs().size() != 1 || !p_.assignments().empty())
      throw unsupported_error("a net is written as source that has one input and one output and assigns no state");
    ports_[p_.inputs()[0]] = "input";
    taken_ = {"input", "output"};
    std::vector<std::string> faults;
    for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      if (!kept[i] || parametric_[i] || p_.at(at).kind != node_kind::operation || done_.contains(at)) continue;
      try {
        write(at);
      } catch (const source_error& e) {
        const node& n = p_.at(at);
        faults.push_back(
            words(n.op->name, n.path.empty() ? "" : " at `", printable(n.path), n.path.empty() ? "" : "`", e.why));
        ports_[at] = "input";  // what follows is looked at, too
      }
    }
    if (!faults.empty()) {
      std::string all;
      for (std::size_t i = 0; i < faults.size(); ++i) all += (i ? "; " : "") + faults[i];
      throw unsupported_error(
          words("no layer is known for ", faults.size(), faults.size() == 1 ? " node: " : " nodes: ", all));
    }
    connect(port_of(p_.outputs()[0].value), "output");
  }
  std::string text(const std::string& module_name, const std::string& from, const std::string& weights) const {
    std::string s = "// The net of " + from + ", as `lamina source` writes it. `load(" + module_name +
                    "::file)` reads " + weights + ".\n";
    s += "export module " + module_name + ";\nexport import lamina;\n\nexport namespace " + module_name + " {\n\n";
    s += "inline constexpr auto layers = lamina::topology(\n";
    for (const auto& l : lines_) s += "    " + l + ",\n";
    s.resize(s.size() - 2);
    s += ");\n\nusing net = lamina::model<layers, lamina::input<" + extents(p_.at(p_.inputs()[0]).results[0].dims) +
         ">>;\n\n";
    s += "inline constexpr const char* file = \"" + weights + "\";\n";
    s += "/// The net with its weights. Errors: file_error.\n";
    s += "inline net load(const char* weights = file) {\n  net made;\n  lamina::load(made, weights);\n  return "
         "made;\n}\n\n}\n";
    return s;
  }
  const std::vector<named_tensor>& weights() const { return weights_; }
  std::size_t layers() const { return layers_; }

 private:
  // ---- values ----

  void find_parameters() {
    for (const auto& n : p_.nodes()) {
      bool all = n.kind == node_kind::operation && n.op->pure && !n.op->host && n.subprograms.empty();
      for (auto v : n.inputs) all = all && parametric_[static_cast<std::size_t>(v.node)];
      parametric_.push_back(n.kind == node_kind::state || n.kind == node_kind::constant || (all && !n.inputs.empty()));
      for (auto v : n.inputs) ++uses_[v.node];
    }
    for (const auto& o : p_.outputs()) uses_[o.value.node] += 2;
  }
  bool is_parameter(value_id v) const { return parametric_[static_cast<std::size_t>(v.node)]; }
  // The elements of a parameter, computed.
  any_tensor elements_of(value_id v) const {
    const node& n = p_.at(v.node);
    if (n.kind == node_kind::constant) return n.constant;
    if (n.kind == node_kind::state) return net_.states.find(n.name)->value();
    auto alone = std::make_shared<program>();
    std::map<std::int32_t, value_id> made;
    const std::function<value(value_id)> copy = [&](value_id of) -> value {
      const node& from = p_.at(of.node);
      if (from.kind != node_kind::operation) return alone->constant(elements_of(of));
      if (!made.contains(of.node)) {
        std::vector<value> in;
        for (auto i : from.inputs) in.push_back(copy(i));
        made[of.node] = alone->add(*from.op, from.attributes, in, {});
      }
      return value(alone.get(), {made[of.node].node, of.result});
    };
    alone->output("value", copy(v));
    return ir::session(std::shared_ptr<const program>(alone)).run(view<const any_tensor>())[0];
  }
  // The name of the state that a parameter is made of, without its last part; empty where there are several.
  std::string state_of(value_id v) const {
    const node& n = p_.at(v.node);
    if (n.kind == node_kind::state) return n.name;
    std::string found;
    for (auto i : n.inputs)
      if (const auto name = state_of(i); !name.empty()) {
        if (!found.empty() && found != name) return {};
        found = name;
      }
    return found;
  }
  std::string port_of(value_id v) {
    if (is_parameter(v)) {
      const any_tensor data = elements_of(v);
      if (data.element() != dtype::float32)
        throw source_error{words(": its operand is ", data.type(), ", and parameters are float32")};
      const std::string name = unique(identifier(state_of(v), "numbers"));
      layer(name, "nn::param_source{.shape = {" + extents(data.shape()) + "}}");
      weights_.push_back({name + ".weight", data});
      return name;
    }
    return ports_.at(v.node);
  }

  // ---- names and lines ----

  // A name of a layer, which has at most 31 letters; what is too long to be read is named by what it is.
  static std::string identifier(const std::string& from, const std::string& otherwise) {
    std::string s;
    for (const char c : from) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c));
      if (plain || (!s.empty() && s.back() != '_')) s += plain ? c : '_';
    }
    while (s.ends_with('_')) s.pop_back();
    if (s.empty() || s.size() > 24) return otherwise;
    return std::isdigit(static_cast<unsigned char>(s[0])) ? "_" + s : s;
  }
  std::string unique(const std::string& name) {
    std::string is = name;
    for (int again = 2; !taken_.insert(is).second; ++again) is = name + "_" + std::to_string(again);
    return is;
  }
  static std::string extents(const shape& s) {
    std::string all;
    for (int i = 0; i < s.rank; ++i) {
      all += i ? ", " : "";
      if (s[i].is_number()) all += std::to_string(s[i].code);
      else if (s[i].is_name()) all += "\"" + name_of_extent(words(s[i]), i) + "\"";
      else all += "lamina::dyn";
    }
    return all;
  }
  // Names of extents have at most 10 letters at compile time.
  static std::string name_of_extent(const std::string& name, int axis) {
    const std::string otherwise = "extent_" + std::to_string(axis);
    return name.size() <= 10 && identifier(name, otherwise) == name ? name : otherwise;
  }
  void layer(const std::string& name, const std::string& what) {
    lines_.push_back("lamina::sublayer<\"" + name + "\">(lamina::" + what + ")");
    ++layers_;
  }
  void connect(const std::string& from, const std::string& to) {
    lines_.push_back("lamina::connect<\"" + from + (from == "input" ? "" : ".output") + "\", \"" + to + "\">");
  }
  // A layer of one operand whose result is node `at`.
  void single(std::int32_t at, const std::string& name, const std::string& what) {
    const std::string from = port_of(p_.at(at).inputs[0]);
    layer(name, what);
    connect(from, name + ".input");
    ports_[at] = name;
  }
  attribute_value attribute(const node& n, std::string_view name) const {
    attribute_value found;
    n.op->visit(n.attributes.get(), [&](std::string_view is, attribute_value& v) {
      if (is == name) found = v;
    });
    return found;
  }
  std::string pair(const node& n, const std::string& name) const {
    const auto h = attribute(n, name + "_h").integer, w = attribute(n, name + "_w").integer;
    return h == w ? std::to_string(h) : "{" + std::to_string(h) + ", " + std::to_string(w) + "}";
  }

  // ---- layers ----

  // The sum with parameters that a product ends in, as its bias: the node of the sum.
  std::optional<std::int32_t> bias_after(std::int32_t at, std::int64_t channels, any_tensor& bias) const {
    if (uses_.at(at) != 1) return {};
    for (std::size_t i = static_cast<std::size_t>(at) + 1; i < p_.nodes().size(); ++i) {
      const node& n = p_.at(static_cast<std::int32_t>(i));
      if (n.kind != node_kind::operation || n.inputs.size() != 2 || n.inputs[0].node != at) continue;
      if (!n.op->adds || !is_parameter(n.inputs[1])) return {};
      const shape& s = p_.type(n.inputs[1]).dims;
      const int axis = p_.at(at).results[0].dims.rank == 4 ? 3 : 1;  // channels from the end
      if (!s.is_static() || s.size() != channels || s.rank < axis || s[s.rank - axis] != dim(channels)) return {};
      const any_tensor data = elements_of(n.inputs[1]);
      if (data.element() != dtype::float32) return {};
      bias = any_tensor({dtype::float32, shape{channels}});
      std::memcpy(bias.mutable_data(), data.data(), data.bytes());
      return static_cast<std::int32_t>(i);
    }
    return {};
  }
  void product(std::int32_t at, const std::string& kind, const std::string& members, const any_tensor& weight,
               std::int64_t channels) {
    const node& n = p_.at(at);
    if (weight.element() != dtype::float32) throw source_error{words(": its weights are ", weight.type())};
    std::string of = state_of(n.inputs[1]);
    if (const auto dot = of.rfind('.'); dot != of.npos) of.resize(dot);
    const std::string name = unique(identifier(of, kind));
    any_tensor bias;
    const auto sum = bias_after(at, channels, bias);
    single(at, name, "nn::" + kind + "{" + members + (sum ? "" : ", .bias = false") + "}");
    weights_.push_back({name + ".weight", weight});
    if (!sum) return;
    weights_.push_back({name + ".bias", bias});
    done_.insert(*sum);
    ports_[*sum] = name;
  }
  void conv(std::int32_t at) {
    const node& n = p_.at(at);
    if (!is_parameter(n.inputs[1])) throw source_error{": its weights are computed from the input"};
    const any_tensor w = elements_of(n.inputs[1]);
    const shape& s = w.shape();
    const auto groups = attribute(n, "groups").integer;
    product(at, "conv2d",
            ".in_channels = " + std::to_string(s.at(1) * groups) + ", .out_channels = " + std::to_string(s.at(0)) +
                ", .kernel_size = {" + std::to_string(s.at(2)) + ", " + std::to_string(s.at(3)) +
                "}, .stride = " + pair(n, "stride") + ", .padding = " + pair(n, "padding") +
                ", .dilation = " + pair(n, "dilation") + ", .groups = " + std::to_string(groups),
            w, s.at(0));
  }
  void linear(std::int32_t at) {
    const node& n = p_.at(at);
    if (!is_parameter(n.inputs[1]) || attribute(n, "transpose_a").integer || p_.type(n.inputs[1]).dims.rank != 2 ||
        p_.type(n.inputs[0]).dims.rank < 2)
      throw source_error{": a product of anything but rows with a matrix of parameters"};
    any_tensor w = elements_of(n.inputs[1]);
    if (!attribute(n, "transpose_b").integer) {
      auto turned = std::make_shared<program>();
      turned->output("w", permute(turned->constant(w), {1, 0}));
      w = ir::session(std::shared_ptr<const program>(turned)).run(view<const any_tensor>())[0];
    }
    product(
        at, "linear",
        ".in_features = " + std::to_string(w.shape().at(1)) + ", .out_features = " + std::to_string(w.shape().at(0)), w,
        w.shape().at(0));
  }
  void pool(std::int32_t at) {
    const node& n = p_.at(at);
    const bool average = n.op->name == "avg_pool2d";
    single(
        at, unique("pool"),
        "nn::" + std::string(n.op->name) + "{.kernel_size = " + pair(n, "kernel") + ", .stride = " + pair(n, "stride") +
            ", .padding = " + pair(n, "padding") +
            (average ? std::string(", .count_padding = ") + (attribute(n, "count_padding").integer ? "true" : "false")
                     : "") +
            "}");
  }
  void reduce(std::int32_t at) {
    const node& n = p_.at(at);
    const auto a = attribute(n, "axes").list;
    const bool keepdim = attribute(n, "keepdim").integer != 0;
    if (n.op->name == "reduce_mean" && p_.type(n.inputs[0]).dims.rank == 4 && keepdim && a == lamina::axes(2, 3))
      return single(at, unique("pool"), "nn::global_avg_pool2d{}");
    single(at, unique(std::string(n.op->name)),
           "nn::" + std::string(n.op->name) + "{.axes = " + spelled(a) +
               ", .keepdim = " + (keepdim ? "true" : "false") + "}");
  }
  void rows(std::int32_t at) {
    const node& n = p_.at(at);
    const shape &from = p_.type(n.inputs[0]).dims, &to = n.results[0].dims;
    std::int64_t others = 1;
    for (int i = 1; i < from.rank; ++i) others = from[i].is_number() ? others * from[i].code : -1;
    const bool flat = to.rank == 2 && from.rank >= 2 && others > 0 && (from[0] == to[0] || to[1] == dim(others));
    if (flat) return single(at, unique("flat"), "nn::flatten{}");
    int open = 0;
    std::string all;
    for (int i = 0; i < to.rank; ++i) {
      open += !to[i].is_number();
      all += (i ? ", " : "") + (to[i].is_number() ? std::to_string(to[i].code) : std::string("lamina::dyn"));
    }
    if (open > 1) throw source_error{words(": ", from, " to ", to, " has more than one open extent")};
    single(at, unique("reshape"), "nn::reshape{.to = {" + all + "}}");
  }
  static std::string spelled(const lamina::axes& list) {
    std::string all;
    for (int i = 0; i < list.count; ++i) all += (i ? ", " : "") + std::to_string(list.values[i]);
    return "lamina::axes(" + all + ")";
  }
  std::string with_axes(const node& n) const {
    const std::string member = n.op->name == "permute" ? "order" : "axes";
    return "nn::" + std::string(n.op->name) + "{." + member + " = " + spelled(attribute(n, member).list) + "}";
  }
  void clamp(std::int32_t at) {
    const node& n = p_.at(at);
    std::string bounds[2];
    for (std::size_t k = 0; k < 2; ++k) {
      const any_tensor is = is_parameter(n.inputs[k + 1]) ? elements_of(n.inputs[k + 1]) : any_tensor();
      if (!is || is.element() != dtype::float32 || is.shape().size() != 1)
        throw source_error{": its bounds are no numbers"};
      const float bound = is.elements<float>()[0];
      if (!std::isfinite(bound)) throw source_error{": its bounds are not finite"};
      char number[32];
      std::snprintf(number, sizeof number, "%.9g", static_cast<double>(bound));
      bounds[k] = number;
    }
    single(at, unique("clamp"), "nn::clamp{.low = " + bounds[0] + ", .high = " + bounds[1] + "}");
  }
  void two(std::int32_t at, const std::string& kind, const std::string& members = "") {
    const node& n = p_.at(at);
    std::string left = port_of(n.inputs[0]);
    for (std::size_t i = 1; i < n.inputs.size(); ++i) {
      const std::string right = port_of(n.inputs[i]), name = unique(kind == "add" ? "sum" : kind);
      layer(name, "nn::" + kind + "{" + members + "}");
      connect(left, name + ".lhs");
      connect(right, name + ".rhs");
      left = name;
    }
    ports_[at] = left;
  }
  void write(std::int32_t at) {
    static const std::map<std::string_view, void (*)(topology_writer&, std::int32_t, const node&)> known = [] {
      std::map<std::string_view, void (*)(topology_writer&, std::int32_t, const node&)> k;
      for (const char* name :
           {"relu", "sigmoid", "tanh",  "gelu",  "gelu_tanh", "silu",  "mish",  "softplus", "softsign",
            "abs",  "exp",     "expm1", "log",   "log1p",     "sqrt",  "rsqrt", "square",   "reciprocal",
            "erf",  "sin",     "cos",   "floor", "ceil",      "round", "sign"})
        k[name] = [](topology_writer& w, std::int32_t i, const node& n) {
          w.single(i, w.unique(std::string(n.op->name)), "nn::" + std::string(n.op->name) + "{}");
        };
      for (const char* name : {"softmax", "log_softmax"})
        k[name] = [](topology_writer& w, std::int32_t i, const node& n) {
          w.single(
              i, w.unique(std::string(n.op->name)),
              "nn::" + std::string(n.op->name) + "{.axis = " + std::to_string(w.attribute(n, "axis").integer) + "}");
        };
      for (const char* name : {"max_pool2d", "avg_pool2d"})
        k[name] = [](topology_writer& w, std::int32_t i, const node&) { w.pool(i); };
      for (const char* name : {"reshape", "flatten"})
        k[name] = [](topology_writer& w, std::int32_t i, const node&) { w.rows(i); };
      for (const char* name : {"permute", "squeeze", "unsqueeze"})
        k[name] = [](topology_writer& w, std::int32_t i, const node& n) {
          w.single(i, w.unique(std::string(n.op->name)), w.with_axes(n));
        };
      k["clamp"] = [](topology_writer& w, std::int32_t i, const node&) { w.clamp(i); };
      k["conv2d"] = [](topology_writer& w, std::int32_t i, const node&) { w.conv(i); };
      k["matmul"] = [](topology_writer& w, std::int32_t i, const node&) { w.linear(i); };
      for (const char* name : {"reduce_mean", "reduce_max", "reduce_min", "reduce_sum"})
        k[name] = [](topology_writer& w, std::int32_t i, const node&) { w.reduce(i); };
      for (const char* name : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "pow"})
        k[name] = [](topology_writer& w, std::int32_t i, const node& n) { w.two(i, std::string(n.op->name)); };
      k["concat"] = [](topology_writer& w, std::int32_t i, const node& n) {
        w.two(i, "concat", ".axis = " + std::to_string(w.attribute(n, "axis").integer));
      };
      return k;
    }();
    const node& n = p_.at(at);
    const auto found = known.find(n.op->library ? n.op->name : std::string_view());
    if (found == known.end() || n.results.empty()) throw source_error{};
    if (n.results[0].element != dtype::float32) throw source_error{words(": its result is ", n.results[0])};
    found->second(*this, at, n);
  }

  const saved_net& net_;
  const program& p_;
  std::vector<bool> parametric_;
  std::map<std::int32_t, int> uses_;
  std::map<std::int32_t, std::string> ports_;
  std::set<std::int32_t> done_;
  std::set<std::string> taken_;
  std::vector<std::string> lines_;
  std::vector<named_tensor> weights_;
  std::size_t layers_ = 0;
};

}  // namespace

void write_source(const source_arguments& a) {
  const std::filesystem::path out(a.out);
  const std::string name = out.stem().string();
  bool good = out.extension() == ".cppm" && !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (const char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  static constexpr std::string_view reserved[] = {
      "lamina",   "std",      "and",     "asm",      "auto",      "bool",     "break",    "case",      "catch",
      "char",     "class",    "const",   "continue", "default",   "delete",   "do",       "double",    "else",
      "enum",     "explicit", "export",  "extern",   "false",     "float",    "for",      "friend",    "goto",
      "if",       "import",   "inline",  "int",      "long",      "module",   "mutable",  "namespace", "new",
      "not",      "operator", "or",      "private",  "protected", "public",   "register", "requires",  "return",
      "short",    "signed",   "sizeof",  "static",   "struct",    "switch",   "template", "this",      "throw",
      "true",     "try",      "typedef", "typename", "union",     "unsigned", "using",    "virtual",   "void",
      "volatile", "while",    "xor"};
  good = good && std::find(std::begin(reserved), std::end(reserved), name) == std::end(reserved);
  if (!good)
    throw value_error(words(printable(a.out, 1024),
                            ": is no name of a module; expected NAME.cppm, where NAME is free for a namespace"));
  check_writable(a.out);
  const saved_net net = load_model(a);
  topology_writer made(net);
  made.run();
  const signals noted;  // both files are written, or none
  const std::string weights = std::filesystem::path(out).replace_extension(".safetensors").string();
  const std::string text =
      made.text(name, printable(std::filesystem::path(a.model).filename().string()), name + ".safetensors");
  write_safetensors(weights, made.weights(), {});
  write_file_atomically(a.out, [&](writer& w) { w.write(text); });
  if (a.json) print_line({{"files", {a.out, weights}}, {"layers", made.layers()}});
  else std::printf("%s\n%s\n", printable(a.out, 1024).c_str(), printable(weights, 1024).c_str());
}

}  // namespace tool
