// lamina show: the layers of a net, the tensors of a file.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

// A name or text of a file; names are mostly short, and longer ones are told whole up to here.
constexpr std::size_t most_of_a_name = 256, most_of_a_text = 1024;

void show_one(const any_tensor& value, bool values) {
  std::printf("%s\n", words(value.type()).c_str());
  if (values) std::printf("%s\n", value.print().c_str());
}
void show_list(const std::vector<named_tensor>& tensors, const std::map<std::string, std::string>& metadata,
               bool values) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : tensors) {
    std::printf("%-40s %s\n", printable(name, most_of_a_name).c_str(), words(value.type()).c_str());
    if (values) std::printf("%s\n", value.print().c_str());
    bytes += value.bytes();
  }
  for (const auto& [key, value] : metadata)
    std::printf("%s: %s\n", printable(key, most_of_a_name).c_str(), printable(value, most_of_a_text).c_str());
  std::printf("%zu tensors, %zu bytes\n", tensors.size(), bytes);
}

// What stands together in the program: a layer, or operations that follow each other and were added at one place of the
// user's code.
struct layer {
  std::string path;
  std::vector<std::string_view> operations;
  std::string output;
  std::int64_t parameters = 0;
  double flops = 0;
  bool left = false;      // others came after it; what comes back to it are its gradients
};
// Where in a path its layer begins.
std::size_t layer_in(std::string_view path) {
  const auto at = path.find("layer `");
  return at != path.npos && path.substr(0, at).ends_with("sub") ? at - 3 : at;
}
// A layer by its name, wherever it was added; else the operations, and where they stand.
std::string name_of(const layer& l) {
  if (const auto at = layer_in(l.path); at != l.path.npos) return printable(l.path.substr(at), most_of_a_name);
  std::string s;
  for (std::size_t i = 0; i < l.operations.size(); ++i) {
    s += i ? ", " : "";
    if (i == 3) {
      s += "...";
      break;
    }
    s += l.operations[i];
  }
  if (l.path.empty()) return s;
  return s + " (" + printable(std::filesystem::path(l.path).filename().string(), most_of_a_name) + ")";
}

// The nodes that the outputs need: of what is one thing in training and another at inference, the former.
std::vector<char> needed_for(const program& p) {
  std::vector<char> needed(p.nodes().size());
  for (const auto& o : p.outputs()) needed[static_cast<std::size_t>(o.value.node)] = 1;
  for (auto i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const node& n = p.nodes()[i];
    const bool either = n.kind == node_kind::operation && n.op->name == "in_training";
    for (std::size_t k = 0; k < (either ? 1 : n.inputs.size()); ++k)
      needed[static_cast<std::size_t>(n.inputs[k].node)] = 1;
  }
  return needed;
}

void show_net(const std::string& model, const std::vector<std::string>& shapes) {
  const saved_net net = load_model(model);
  const program& saved = *net.program;
  const auto extents = extents_of(model, saved, shapes);
  // The same nodes with these extents, none of them simplified or merged.
  program p;
  std::vector<value> inputs;
  for (std::size_t i = 0; i < extents.size(); ++i)
    inputs.push_back(
        p.input(saved.at(saved.inputs()[i]).name, {saved.at(saved.inputs()[i]).results[0].element, extents[i]}));
  p.joins = false;
  for (const auto& v : p.inlined(saved, inputs)) p.output("", v);

  for (std::size_t i = 0; i < extents.size(); ++i)
    std::printf("input %s: %s\n", printable(saved.at(saved.inputs()[i]).name, most_of_a_name).c_str(),
                words(saved.at(saved.inputs()[i]).results[0]).c_str());
  for (const auto& o : saved.outputs())
    std::printf("output %s: %s\n", printable(o.name, most_of_a_name).c_str(), words(saved.type(o.value)).c_str());

  // Layers are those that the outputs need. What only the next values of states need is one line at the end.
  const auto needed = needed_for(p);
  std::vector<layer> layers;
  std::size_t last = 0;      // the line of the node before
  layer updates{"", {}, "", 0, 0, false};
  std::map<std::string, std::int64_t> parameters;      // those that no layer has met yet
  for (std::size_t i = 0; i < net.states.size(); ++i)
    if (const auto& state = net.states[i]; state.role() == state_role::parameter)
      parameters[state.name()] = state.shape().size();
  double flops = 0;
  std::int64_t all_parameters = 0;
  for (const auto& known : parameters) all_parameters += known.second;
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    const node& n = p.nodes()[i];
    if (n.kind != node_kind::operation || n.op->name == "in_training") continue;
    layer* at = &updates;
    if (needed[i]) {
      const bool anywhere = layer_in(n.path) != n.path.npos;
      auto found = anywhere || layers.empty() ? layers.begin() : layers.begin() + static_cast<std::ptrdiff_t>(last);
      const auto end = anywhere || layers.empty() ? layers.end() : found + 1;
      found = std::find_if(found, end, [&](const layer& l) { return l.path == n.path; });
      if (found == end) {
        for (auto& l : layers) l.left = true;
        found = layers.insert(layers.end(), layer{n.path, {}, "", 0, 0, false});
      }
      last = static_cast<std::size_t>(found - layers.begin());
      at = &*found;
      if (!at->left) at->output = words(n.results[0].dims);
      if (std::find(at->operations.begin(), at->operations.end(), n.op->name) == at->operations.end())
        at->operations.push_back(n.op->name);
    }
    std::vector<tensor_type> in;
    bool known = true;      // extents that are counted when the net runs cost what nobody knows before
    for (auto v : n.inputs) {
      known = known && p.type(v).dims.is_static();
      in.push_back(p.type(v));
      if (p.at(v).kind != node_kind::state || !needed[i]) continue;
      if (const auto met = parameters.find(p.at(v).name); met != parameters.end()) {
        at->parameters += met->second;
        parameters.erase(met);
      }
    }
    for (const auto& r : n.results) known = known && r.dims.is_static();
    if (n.subprograms.empty() && known) at->flops += n.op->flops(n.attributes.get(), in, n.results);
  }
  for (const auto& left : parameters) updates.parameters += left.second;
  std::vector<std::vector<std::string>> lines{{"layer", "output", "parameters", "flops"}};
  for (const auto& l : layers) {
    lines.push_back({name_of(l), l.output, std::to_string(l.parameters), counted(l.flops)});
    flops += l.flops;
  }
  if (updates.flops != 0 || updates.parameters != 0)
    lines.push_back({"(gradients and updates)", "", std::to_string(updates.parameters), counted(updates.flops)});
  flops += updates.flops;
  print_table(lines, 2);
  std::size_t arena = 0;
  plan_runner planned(net.program, {}, std::make_shared<context>(1, target_isa()), {});
  for (const auto& segment : planned.plans(extents)) arena += segment->arena_bytes();
  std::printf("%lld parameters, %s flops, %zu bytes of states, %zu bytes of memory for activations, for",
              static_cast<long long>(all_parameters), counted(flops).c_str(), net.states.bytes(), arena);
  for (const auto& s : extents) std::printf(" %s", words(s).c_str());
  std::printf("\n");
  for (const auto& [key, value] : net.metadata)
    std::printf("%s: %s\n", printable(key, most_of_a_name).c_str(), printable(value, most_of_a_text).c_str());
}

// Whether a path is the NAME of a net, not a file.
bool is_net(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && !std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".json", ignored);
}

}  // namespace

void show(const show_arguments& a) {
  const std::string& file = a.file;
  if (file.ends_with(".safetensors")) {
    const auto read = read_safetensors(file);
    show_list(read.tensors, read.metadata, a.values);
  } else if (file.ends_with(".npy")) show_one(read_npy(file), a.values);
  else if (file.ends_with(".npz")) show_list(read_npz(file), {}, a.values);
  else if (file.ends_with(".json") || file.ends_with(".onnx") || is_net(file)) about(file, [&] { show_net(file, a.shapes); });
  else show_one(read_idx(file), a.values);
}

}  // namespace tool
