// lamina source: writes a net as a C++ topology, with its weights beside it.
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
#include "topology_writer.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

void topology_writer::run() {
  if (p_.outputs().empty() || p_.inputs().empty() || !p_.assignments().empty())
    throw unsupported_error("source needs a net that has inputs and outputs and assigns no state");
  constexpr std::size_t max = 12;  // maximum number of results of a call
  if (p_.outputs().size() > max)
    throw unsupported_error(text_of("it has ", p_.outputs().size(), " outputs; source supports at most ", max));
  find_parameters();
  find_needed();
  std::vector<std::string> names;
  for (auto i : p_.inputs()) names.push_back(p_.at(i).name);
  inputs_ = port_names(names, "input");
  names.clear();
  for (const auto& o : p_.outputs()) names.push_back(o.name);
  outputs_ = port_names(names, "output");
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::int32_t at = p_.inputs()[i];
    if (!is_read(at, 0))
      throw unsupported_error(
          text_of("input `", printable(p_.at(at).name), "` affects no output; source cannot have such an input"));
    result(at, inputs_[i]);
  }
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
    const auto at = static_cast<std::int32_t>(i);
    if (!needed_[i] || parametric_[i] || p_.at(at).kind != node_kind::operation || done_.contains(at)) continue;
    try {
      write(at);
    } catch (const source_error& e) {
      const node& n = p_.at(at);
      problems.push_back(
          text_of(n.op->name, n.path.empty() ? "" : " at `", printable(n.path), n.path.empty() ? "" : "`", e.why));
      for (std::size_t k = 0; k < n.results.size(); ++k)
        result(at, inputs_[0], static_cast<std::int32_t>(k));  // any value, so that later nodes are checked too
    }
  }
  if (!problems.empty()) {
    std::string all;
    for (std::size_t i = 0; i < problems.size(); ++i) all += (i ? "; " : "") + problems[i];
    throw unsupported_error(
        text_of("no layer is known for ", problems.size(), problems.size() == 1 ? " node: " : " nodes: ", all));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) connect(port_of(p_.outputs()[i].value), outputs_[i]);
}

std::string topology_writer::text(const std::string& module_name, const std::string& from,
                                  const std::string& weights) const {
  std::string s = "// The net of " + from + ", as `lamina source` writes it. `load(" + module_name + "::file)` reads " +
                  weights + ".\n";
  const std::string inputs = input_types();
  if (inputs.find("std::") != inputs.npos) s += "module;\n#include <cstdint>\n\n";
  s += "export module " + module_name + ";\nexport import lamina;\n\nexport namespace " + module_name + " {\n\n";
  s += "inline constexpr auto layers = lamina::topology(\n";
  for (const auto& l : lines_) s += "    " + l + ",\n";
  s.resize(s.size() - 2);
  s += ");\n\nusing net = lamina::model<layers, " + inputs + ">;\n\n";
  s += "inline constexpr const char* file = \"" + weights + "\";\n";
  s += "/// The net with its weights. Errors: file_error.\n";
  s += "inline net load(const char* weights = file) {\n  net made;\n  lamina::load(made, weights);\n  return "
       "made;\n}\n\n}\n";
  return s;
}

// ---- values ---------------------------------------------------------------------------------------------------------

void topology_writer::find_parameters() {
  for (const auto& n : p_.nodes()) {
    bool all = n.kind == node_kind::operation && n.op->pure && !n.op->host && n.subprograms.empty();
    for (auto v : n.inputs) all = all && parametric_[static_cast<std::size_t>(v.node)];
    parametric_.push_back(n.kind == node_kind::state || n.kind == node_kind::constant || (all && !n.inputs.empty()));
  }
}
void topology_writer::need(value_id v) {
  needed_[static_cast<std::size_t>(v.node)] = true;
  read_.emplace(v.node, v.result);
  ++uses_[v.node];
}
// Runs from the outputs backwards: the layer of a node may absorb earlier nodes.
void topology_writer::find_needed() {
  needed_.assign(p_.nodes().size(), false);
  for (const auto& o : p_.outputs()) need(o.value), ++uses_[o.value.node];
  for (std::size_t i = p_.nodes().size(); i-- > 0;) {
    if (!needed_[i] || parametric_[i]) continue;
    const auto at = static_cast<std::int32_t>(i);
    const node& n = p_.at(at);
    if (auto scan = match_scan(at)) {
      need(scan->sequence);
      for (auto v : scan->first) need(v);
      scans_.emplace(at, std::move(*scan));
    } else if (const auto groups = groups_of(p_, n)) need(groups->input);
    else
      for (auto v : n.inputs) need(v);
  }
}
// Whether a value is all zeros, like the initial states of a recurrent net.
bool topology_writer::is_zero(value_id v) const {
  const node& n = p_.at(v.node);
  if (is_parameter(v)) {
    const any_tensor data = elements_of(v);
    if (data.element() != dtype::float32) return false;
    const auto all = data.elements<float>();
    return std::all_of(all.begin(), all.end(), [](float x) { return x == 0; });
  }
  if (n.kind != node_kind::operation || n.inputs.empty()) return false;
  if (n.op->name == "multiply") return is_zero(n.inputs[0]) || is_zero(n.inputs[1]);
  if (n.op->name == "add") return is_zero(n.inputs[0]) && is_zero(n.inputs[1]);
  return (n.op->keeps_elements || n.op->name == "broadcast_like") && n.op->library && is_zero(n.inputs[0]);
}
// Computes the elements of a parameter.
any_tensor topology_writer::elements_of(value_id v) const {
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
// Name of the state that a parameter derives from, without its last component; empty if there are several.
std::string topology_writer::state_of(value_id v) const {
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
std::string topology_writer::port_of(value_id v) {
  if (!is_parameter(v)) return ports_.at({v.node, v.result});
  const any_tensor data = elements_of(v);
  if (data.element() != dtype::float32)
    throw source_error{text_of(": its operand is ", data.type(), ", and parameters are float32")};
  const std::string name = unique(identifier(state_of(v), "numbers"));
  const auto all = data.elements<float>();
  const bool one_number = p_.at(v.node).kind == node_kind::constant && !all.empty() && std::isfinite(all[0]) &&
                          std::all_of(all.begin(), all.end(), [&](float x) { return x == all[0]; });
  if (one_number) {
    layer(name, "nn::constant{.shape = {" + extents(data.shape()) + "}, .value = " + number(all[0]) + "}");
  } else {
    layer(name, "nn::param_source{.shape = {" + extents(data.shape()) + "}}");
    weights_.push_back({name + ".weight", data});
  }
  return name + ".output";
}

// ---- names and lines ------------------------------------------------------------------------------------------------

// A layer name, of at most 31 characters; `otherwise` replaces one that would be too long.
std::string topology_writer::identifier(const std::string& from, const std::string& otherwise) {
  std::string s;
  for (const char c : from) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c));
    if (plain || (!s.empty() && s.back() != '_')) s += plain ? c : '_';
  }
  while (s.ends_with('_')) s.pop_back();
  if (s.empty() || s.size() > 24) return otherwise;
  return std::isdigit(static_cast<unsigned char>(s[0])) ? "_" + s : s;
}
std::string topology_writer::unique(const std::string& name) {
  std::string is = name;
  for (int again = 2; !taken_.insert(is).second; ++again) is = name + "_" + std::to_string(again);
  return is;
}
// Port names of the net; a single port gets the standard name.
std::vector<std::string> topology_writer::port_names(const std::vector<std::string>& names, const std::string& only) {
  std::vector<std::string> made;
  for (std::size_t i = 0; i < names.size(); ++i)
    made.push_back(unique(names.size() == 1 ? only : identifier(names[i], only + std::to_string(i))));
  return made;
}
std::string topology_writer::input_types() const {
  std::string all;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const tensor_type& type = p_.at(p_.inputs()[i]).results[0];
    std::string element;
    for (const auto& [is, name] : {std::pair{dtype::float32, "float"},
                                   {dtype::float64, "double"},
                                   {dtype::int64, "std::int64_t"},
                                   {dtype::int32, "std::int32_t"},
                                   {dtype::boolean, "bool"}})
      if (type.element == is) element = name;
    if (!type.is_tensor() || element.empty())
      throw unsupported_error(text_of("input `", printable(p_.at(p_.inputs()[i]).name), "` is ", type,
                                      "; expected float, double, int64, int32 or bool"));
    const std::string dims = (type.dims.rank ? ", " : "") + extents(type.dims);
    if (inputs_.size() > 1)
      all += (i ? ", " : "") + ("lamina::port_input<\"" + inputs_[i] + "\", " + element) + dims + ">";
    else if (element == "float") all += "lamina::input<" + extents(type.dims) + ">";
    else all += "lamina::input_of<" + element + dims + ">";
  }
  return all;
}
namespace {
// Extent names have at most 10 characters at compile time.
std::string name_of_extent(const std::string& name, int axis, const std::string& as_identifier) {
  return name.size() <= 10 && as_identifier == name ? name : "extent_" + std::to_string(axis);
}
}  // namespace
std::string topology_writer::extents(const shape& s) {
  std::string all;
  for (int i = 0; i < s.rank; ++i) {
    all += i ? ", " : "";
    if (s[i].is_number()) all += std::to_string(s[i].code);
    else if (s[i].is_name()) all += "\"" + name_of_extent(text_of(s[i]), i, identifier(text_of(s[i]), "")) + "\"";
    else all += "lamina::dyn";
  }
  return all;
}
void topology_writer::layer(const std::string& name, const std::string& what) {
  lines_.push_back("lamina::sublayer<\"" + name + "\">(lamina::" + what + ")");
  ++layers_;
}
void topology_writer::connect(const std::string& from, const std::string& to) {
  lines_.push_back("lamina::connect<\"" + from + "\", \"" + to + "\">");
}
// Writes a layer of one operand whose result is node `at`.
void topology_writer::single(std::int32_t at, const std::string& name, const std::string& what) {
  const std::string from = port_of(p_.at(at).inputs[0]);
  layer(name, what);
  connect(from, name + ".input");
  result(at, name + ".output");
}
// Appends a layer to a port and returns its output port.
std::string topology_writer::append(const std::string& port, const std::string& name, const std::string& what) {
  const std::string is = unique(name);
  layer(is, what);
  connect(port, is + ".input");
  return is + ".output";
}

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
    throw value_error(text_of(printable(a.out, 1024),
                              ": is not a name of a module; expected NAME.cppm, where NAME is valid for a namespace"));
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
