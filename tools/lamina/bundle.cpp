// lamina bundle: compiles a net to an object file that runs without the library.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;
import lamina.bundle;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// An entry's name, and a shape for each input in the format of `load_fixed`.
struct entry_option {
  std::string name;
  std::vector<std::string> shapes;
};

// Parses NAME=SHAPE; shapes of several inputs are separated by commas.
entry_option entry_of(const std::string& model, const program& p, const std::string& option) {
  const auto equals = option.find('=');
  if (equals == option.npos)
    throw value_error(
        text_of(model, ": `", printable(option), "` is not an entry; expected NAME=SHAPE, as in lenet_of_8=8x1x28x28"));
  std::vector<std::string> shapes;
  for (std::size_t at = equals + 1; at <= option.size();) {
    const auto end = std::min(option.find(',', at), option.size());
    shapes.push_back(option.substr(at, end - at));
    at = end + 1;
  }
  if (const auto inputs = p.inputs().size(); shapes.size() != inputs && !(inputs == 0 && shapes[0].empty()))
    throw value_error(text_of(model, ": entry `", printable(option), "`: expected ", inputs,
                              inputs == 1 ? " shape" : " shapes", ", one for each input, separated by commas; got ",
                              shapes.size()));
  for (std::size_t i = 0; i < p.inputs().size(); ++i) shapes[i] = p.at(p.inputs()[i]).name + "=" + shapes[i];
  if (p.inputs().empty()) shapes.clear();
  return {option.substr(0, equals), shapes};
}

}  // namespace

void write_bundle(const bundle_arguments& a) {
  bundle::options o{.name = a.name,
                    .directory = a.out,
                    .api = a.api == "dynamic" ? bundle::api::dynamic : bundle::api::fixed,
                    .source = a.source,
                    .text = a.text,
                    .module_interface = a.module_interface,
                    .graph = a.graph,
                    .instrument = a.instrument,
                    .dump_tensors = a.dump_tensors,
                    .target = a.target,
                    .cpu = a.cpu,
                    .optimize = a.optimize};
  for (auto set : instruction_sets)
    if (a.set == name_of(set)) o.set = set;
  std::vector<net_with_extents> nets;
  nets.push_back(load_fixed(a.model, a));
  std::vector<entry_option> entries{{a.name, {}}};
  for (const auto& e : a.entries) {
    entries.push_back(entry_of(a.model, *nets[0].net.program, e));
    if (a.model.ends_with(".onnx")) nets.push_back(load_fixed(a.model, {entries.back().shapes, a.values}));
  }
  std::vector<bundle::program_entry> parts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [net, extents] = nets[i < nets.size() ? i : 0];
    parts.push_back({entries[i].name, *net.program, net.states,
                     i < nets.size() ? extents : extents_of(a.model, *net.program, entries[i].shapes)});
  }
  const signals noted;  // all files are written, or none
  const auto made = with_note(note_on_extents(*nets[0].net.program, a.shapes, "--input"),
                              [&] { return bundle::write(view<const bundle::program_entry>(parts), o); });
  if (a.json) {
    print_line({{"files", made.files},
                {"bytes_constant", made.constant_bytes},
                {"bytes_mutable", made.mutable_bytes},
                {"bytes_activations", made.activation_bytes}});
    return;
  }
  for (const auto& f : made.files) std::printf("%s\n", f.c_str());
  std::printf("constant weights %zu bytes, mutable weights %zu bytes, activations %zu bytes\n", made.constant_bytes,
              made.mutable_bytes, made.activation_bytes);
}

}  // namespace tool
