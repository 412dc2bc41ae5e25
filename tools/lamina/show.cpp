// lamina show: prints the layers of a net, or the tensors of a file.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;
#ifdef LAMINA_ONNX
import lamina.onnx;
#endif

#include "json.h"
#include "layers.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// A tensor, with its elements if requested.
json tensor_json(const std::string& name, const any_tensor& value, bool values) {
  json j{
      {"name", name}, {"dtype", text_of(value.element())}, {"shape", json_of(value.shape())}, {"bytes", value.bytes()}};
  if (values) j["values"] = values_of(value);
  return j;
}
void show_one(const any_tensor& value, const show_arguments& a) {
  if (a.json)
    return print_line({{"tensors", json::array({tensor_json("", value, a.elements)})}, {"metadata", json::object()}});
  std::printf("%s\n", text_of(value.type()).c_str());
  if (a.elements) std::printf("%s\n", value.print().c_str());
}
void show_list(const std::vector<named_tensor>& tensors, const std::map<std::string, std::string>& metadata,
               const show_arguments& a) {
  if (a.json) {
    json all = json::array();
    for (const auto& [name, value] : tensors) all.push_back(tensor_json(name, value, a.elements));
    return print_line({{"tensors", all}, {"metadata", metadata}});
  }
  std::size_t bytes = 0;
  for (const auto& [name, value] : tensors) {
    std::printf("%-40s %s\n", printable(name, max_name).c_str(), text_of(value.type()).c_str());
    if (a.elements) std::printf("%s\n", value.print().c_str());
    bytes += value.bytes();
  }
  for (const auto& [key, value] : metadata)
    std::printf("%s: %s\n", printable(key, max_name).c_str(), printable(value, max_text).c_str());
  std::printf("%zu tensors, %zu bytes\n", tensors.size(), bytes);
}

// Maximum activation bytes over the plans of a run.
std::size_t arena_of(const saved_net& net, const std::vector<shape>& extents) {
  std::size_t arena = 0;
  const session planned(net.program);
  for (const auto& segment : planned.plans(extents)) arena += segment->arena_bytes();
  return arena;
}

void print_net(const saved_net& net, const std::vector<shape>& extents, const layered_net& made) {
  const program& saved = *net.program;
  for (std::size_t i = 0; i < extents.size(); ++i)
    std::printf("input %s: %s\n", printable(saved.at(saved.inputs()[i]).name, max_name).c_str(),
                text_of(saved.at(saved.inputs()[i]).results[0]).c_str());
  for (const auto& o : saved.outputs())
    std::printf("output %s: %s\n", printable(o.name, max_name).c_str(), text_of(saved.type(o.value)).c_str());
  std::vector<std::vector<std::string>> lines{{"layer", "output", "parameters", "flops"}};
  double flops = made.updates.flops;
  for (const auto& l : made.layers) {
    lines.push_back({name_of(l), l.output, std::to_string(l.parameters), counted(l.flops)});
    flops += l.flops;
  }
  if (made.updates.flops != 0 || made.updates.parameters != 0)
    lines.push_back(
        {"(gradients and updates)", "", std::to_string(made.updates.parameters), counted(made.updates.flops)});
  print_table(lines, 2);
  std::printf("%lld parameters, %s flops, %zu bytes of states, %zu bytes of memory for activations, for",
              static_cast<long long>(made.parameters), counted(flops).c_str(), net.states.bytes(),
              arena_of(net, extents));
  for (const auto& s : extents) std::printf(" %s", text_of(s).c_str());
  std::printf("\n");
  for (const auto& [key, value] : net.metadata)
    std::printf("%s: %s\n", printable(key, max_name).c_str(), printable(value, max_text).c_str());
}

json net_json(const saved_net& net, const std::vector<shape>& extents, const layered_net& made) {
  const program& saved = *net.program;
  json inputs = json::array(), outputs = json::array(), layers = json::array();
  for (auto i : saved.inputs())
    inputs.push_back({{"name", saved.at(i).name}, {"type", json_of(saved.at(i).results[0])}});
  for (const auto& o : saved.outputs()) outputs.push_back({{"name", o.name}, {"type", json_of(saved.type(o.value))}});
  double flops = made.updates.flops;
  for (const auto& l : made.layers) {
    layers.push_back({{"layer", name_of(l)},
                      {"operations", l.operations},
                      {"output", l.output},
                      {"parameters", l.parameters},
                      {"flops", l.flops}});
    flops += l.flops;
  }
  return {{"inputs", inputs},
          {"outputs", outputs},
          {"shapes", json_of(extents)},
          {"layers", layers},
          {"updates", {{"parameters", made.updates.parameters}, {"flops", made.updates.flops}}},
          {"parameters", made.parameters},
          {"flops", flops},
          {"bytes_states", net.states.bytes()},
          {"bytes_arena", arena_of(net, extents)},
          {"metadata", net.metadata}};
}

void show_net(const show_arguments& a) {
  const auto read = load_with_extents(a.file, a);
  with_note(note_on_extents(*read.net.program, a.shapes, "--shape"), [&] {
    const auto made = layers_of(read.net, read.extents);
    if (a.json) print_line(net_json(read.net, read.extents, made));
    else print_net(read.net, read.extents, made);
  });
}

// Prints the unsupported nodes of an ONNX file; raises if there are any, so that the exit code reports them.
void show_unsupported([[maybe_unused]] const show_arguments& a) {
#ifdef LAMINA_ONNX
  const auto nodes = onnx::unsupported(a.file);
  if (a.json) {
    json all = json::array();
    for (const auto& n : nodes)
      all.push_back({{"node", n.name}, {"domain", n.domain}, {"operator", n.op}, {"opset", n.opset}, {"why", n.why}});
    print_line({{"unsupported", all}});
  } else {
    std::vector<std::vector<std::string>> lines{{"node", "operator", "opset", "why"}};
    for (const auto& n : nodes)
      lines.push_back({printable(n.name, max_name),
                       printable(n.domain.empty() ? n.op : n.domain + "." + n.op, max_name), std::to_string(n.opset),
                       n.why});
    if (!nodes.empty()) print_table(lines, 2);
  }
  if (!nodes.empty()) throw unsupported_error(text_of(a.file, ": ", nodes.size(), " nodes are not supported"));
  if (!a.json) std::printf("all operators are supported\n");
#endif
}

// Whether a path is the NAME of a saved net rather than a file.
bool is_net(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && !std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".json", ignored);
}

}  // namespace

void show(const show_arguments& a) {
  const std::string& file = a.file;
  const bool net = !file.ends_with(".safetensors") && !file.ends_with(".npy") && !file.ends_with(".npz") &&
                   (file.ends_with(".json") || file.ends_with(".onnx") || is_net(file));
  for (const auto& [option, given] : {std::pair{"--shape", &a.shapes}, {"--value", &a.values}})
    if (!net && !given->empty())
      throw value_error(text_of(printable(file, 1024), ": `", option, "` takes a net; this is a file of tensors"));
  if (net && a.elements)
    throw value_error(text_of(printable(file, 1024), ": `--values` takes a file of tensors; this is a net"));
  if (a.unsupported) {
    if (!file.ends_with(".onnx"))
      throw value_error(text_of(printable(file, 1024), ": `--unsupported` takes an ONNX file"));
    return show_unsupported(a);
  }
  if (net) about(file, [&] { show_net(a); });
  else if (file.ends_with(".safetensors")) {
    const auto read = read_safetensors(file);
    show_list(read.tensors, read.metadata, a);
  } else if (file.ends_with(".npy")) show_one(read_npy(file), a);
  else if (file.ends_with(".npz")) show_list(read_npz(file), {}, a);
  else show_one(read_idx(file), a);
}

}  // namespace tool
