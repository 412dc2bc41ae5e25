// Groups the operations of a net into layers, and computes the cost of each layer.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "layers.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// Offset in a path where its layer begins.
std::size_t layer_in(std::string_view path) {
  const auto at = path.find("layer `");
  return at != path.npos && path.substr(0, at).ends_with("sub") ? at - 3 : at;
}

// Nodes that the outputs need; of an `in_training` choice, only the training operand.
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

// Layer index of a needed node: that of its path, which may be an earlier one if the path names a layer; otherwise that
// of the previous node.
std::size_t place_of(const node& n, std::vector<layer>& layers, std::map<std::string, std::size_t>& by_path,
                     std::size_t last) {
  std::size_t at = layers.size();
  if (layer_in(n.path) != n.path.npos || layers.empty()) {
    if (const auto known = by_path.find(n.path); known != by_path.end()) at = known->second;
  } else if (layers[last].path == n.path) at = last;
  if (at == layers.size()) {
    if (at) layers.back().left = true;  // earlier layers are marked already
    layers.push_back(layer{n.path, {}, "", 0, 0, false});
    by_path.emplace(n.path, at);
  }
  layer& l = layers[at];
  if (!l.left) l.output = text_of(n.results[0].dims);
  if (std::find(l.operations.begin(), l.operations.end(), n.op->name) == l.operations.end())
    l.operations.push_back(n.op->name);
  return at;
}

// FLOPs of a node; 0 for data-dependent extents, or if a subprogram does the work.
double flops_of(const program& p, const node& n) {
  std::vector<tensor_type> in;
  for (auto v : n.inputs) in.push_back(p.type(v));
  const auto open = [](const tensor_type& t) { return !t.dims.is_static(); };
  if (!n.subprograms.empty() || std::any_of(in.begin(), in.end(), open) ||
      std::any_of(n.results.begin(), n.results.end(), open))
    return 0;
  return n.op->flops(n.attributes.get(), in, n.results);
}

}  // namespace

std::string name_of(const layer& l) {
  if (const auto at = layer_in(l.path); at != l.path.npos) return printable(l.path.substr(at), max_name);
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
  return s + " (" + printable(std::filesystem::path(l.path).filename().string(), max_name) + ")";
}

layered_net layers_of(const saved_net& net, const std::vector<shape>& extents) {
  const program& saved = *net.program;
  layered_net made;
  program& p = made.program;
  std::vector<value> inputs;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const node& n = saved.at(saved.inputs()[i]);
    tensor_type type = n.results[0];
    if (type.is_tensor()) type.dims = extents[i];
    inputs.push_back(p.input(n.name, type));
  }
  p.common_subexpressions = false;
  const auto outputs = p.inlined(saved, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) p.output(saved.outputs()[i].name, outputs[i]);

  const auto needed = needed_for(p);
  std::size_t last = 0;                            // layer of the previous node
  std::map<std::string, std::size_t> by_path;      // first layer of each path
  std::map<std::string, std::int64_t> parameters;  // parameters not yet assigned to a layer
  for (std::size_t i = 0; i < net.states.size(); ++i)
    if (const auto& state = net.states[i]; state.role() == state_role::parameter)
      parameters[state.name()] = state.shape().size();
  for (const auto& known : parameters) made.parameters += known.second;
  made.layer_of.assign(p.nodes().size(), -1);
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    const node& n = p.nodes()[i];
    if (n.kind != node_kind::operation || n.op->name == "in_training") continue;
    if (needed[i]) made.layer_of[i] = static_cast<std::int32_t>(last = place_of(n, made.layers, by_path, last));
    layer& at = needed[i] ? made.layers[last] : made.updates;
    for (auto v : n.inputs) {
      if (p.at(v).kind != node_kind::state || !needed[i]) continue;
      if (const auto found = parameters.find(p.at(v).name); found != parameters.end()) {
        at.parameters += found->second;
        parameters.erase(found);
      }
    }
    at.flops += flops_of(p, n);
  }
  for (const auto& left : parameters) made.updates.parameters += left.second;
  return made;
}

}  // namespace tool
