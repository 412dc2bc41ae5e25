// lamina bundle: a net as an object file that runs without the library.
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;
import lamina.bundle;

#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// NAME=SHAPE, with a comma between the shapes of several inputs: one for each.
bundle::entry entry_of(const std::string& model, const program& p, const std::string& option) {
  const auto equals = option.find('=');
  if (equals == option.npos)
    throw value_error(
        words(model, ": `", printable(option), "` is no entry; expected NAME=SHAPE, as in lenet_of_8=8x1x28x28"));
  std::vector<std::string> shapes;
  for (std::size_t at = equals + 1; at <= option.size();) {
    const auto end = std::min(option.find(',', at), option.size());
    shapes.push_back(option.substr(at, end - at));
    at = end + 1;
  }
  if (const auto inputs = p.inputs().size(); shapes.size() != inputs && !(inputs == 0 && shapes[0].empty()))
    throw value_error(words(model, ": entry `", printable(option), "`: the net has ", inputs,
                            inputs == 1 ? " input" : " inputs", ", and the entry ", shapes.size(),
                            shapes.size() == 1 ? " shape" : " shapes", "; expected one for each, separated by commas"));
  for (std::size_t i = 0; i < p.inputs().size(); ++i) shapes[i] = p.at(p.inputs()[i]).name + "=" + shapes[i];
  if (p.inputs().empty()) shapes.clear();
  return {option.substr(0, equals), extents_of(model, p, shapes)};
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
                    .cpu = a.cpu};
  for (auto set : {isa::sse2, isa::avx2, isa::avx512})
    if (a.set == name_of(set)) o.set = set;
  const auto net = load_model(a.model);
  o.inputs = extents_of(a.model, *net.program, a.inputs);
  for (const auto& e : a.entries) o.entries.push_back(entry_of(a.model, *net.program, e));
  const signals noted;  // all files are written, or none
  const auto made = bundle::write(*net.program, net.states, o);
  for (const auto& f : made.files) std::printf("%s\n", f.c_str());
  std::printf("constant weights %zu bytes, mutable weights %zu bytes, activations %zu bytes\n", made.constant_bytes,
              made.mutable_bytes, made.activation_bytes);
}

}  // namespace tool
