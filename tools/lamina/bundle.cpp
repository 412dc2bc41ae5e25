// lamina bundle: a net as an object file that runs without the library.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;
import lamina.bundle;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

struct arguments {
  std::string model, api = "static", set;
  std::vector<std::string> inputs, entries;
  bundle::options o;
};

// NAME=SHAPE, with a comma between the shapes of several inputs: one for each.
bundle::entry entry_of(const std::string& model, const program& p, const std::string& option) {
  const auto equals = option.find('=');
  if (equals == option.npos)
    throw value_error(words(model, ": `", printable(option), "` is to be NAME=SHAPE, as in lenet_of_8=8x1x28x28"));
  std::vector<std::string> shapes;
  for (std::size_t at = equals + 1; at <= option.size();) {
    const auto end = std::min(option.find(',', at), option.size());
    shapes.push_back(option.substr(at, end - at));
    at = end + 1;
  }
  if (const auto inputs = p.inputs().size(); shapes.size() != inputs && !(inputs == 0 && shapes[0].empty()))
    throw value_error(words(model, ": entry `", printable(option), "`: the net has ", inputs,
                            inputs == 1 ? " input" : " inputs", ", and ", shapes.size(),
                            shapes.size() == 1 ? " shape is" : " shapes are",
                            " given; write one for each, with a comma between them"));
  for (std::size_t i = 0; i < p.inputs().size(); ++i) shapes[i] = p.at(p.inputs()[i]).name + "=" + shapes[i];
  if (p.inputs().empty()) shapes.clear();
  return {option.substr(0, equals), extents_of(model, p, shapes)};
}

void write(arguments& a) {
  if (a.set == "sse2") a.o.set = isa::sse2;
  else if (a.set == "avx2") a.o.set = isa::avx2;
  else if (a.set == "avx512") a.o.set = isa::avx512;
  if (a.api == "dynamic") a.o.api = bundle::api::dynamic;
  about(a.model, [&] {
    const auto net = load_model(a.model);
    a.o.inputs = extents_of(a.model, *net.program, a.inputs);
    for (const auto& e : a.entries) a.o.entries.push_back(entry_of(a.model, *net.program, e));
    const auto made = bundle::write(*net.program, net.states, a.o);
    for (const auto& f : made.files) std::printf("%s\n", f.c_str());
    std::printf("constant weights %zu bytes, mutable weights %zu bytes, activations %zu bytes\n", made.constant_bytes,
                made.mutable_bytes, made.activation_bytes);
  });
}

}  // namespace

void add_bundle(CLI::App& app) {
  auto* command = app.add_subcommand(
      "bundle", "write a net as an object file that runs without the library: NAME.o, NAME.h, NAME.weights");
  auto a = std::make_shared<arguments>();
  add_model(*command, a->model);
  command->add_option("--name", a->o.name, "of the bundle, its entry and its files: a C identifier")->required();
  command->add_option("--input", a->inputs,
                      "extents of an input, NAME=8x1x28x28, or without NAME= where there is one; what is left open is "
                      "what it is in another input, by its name, or 1");
  command->add_option("--out", a->o.directory, "the folder, which is made if it is not there")->capture_default_str();
  command->add_option("--entry", a->entries,
                      "one more entry, NAME=8x1x28x28; a shape for each input, with a comma between them");
  command->add_option("--api", a->api, "static: the header has each offset; dynamic: a table in the object file does")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command->add_option("--isa", a->set, "instruction set of the kernels; else the best of this machine")
      ->check(CLI::IsMember({"sse2", "avx2", "avx512"}));
  command->add_option("--target", a->o.target,
                      "the processor and system to compile for: x86_64-linux-gnu, or aarch64-linux-gnu; x86_64 alone is this system");
  command->add_option("--cpu", a->o.cpu, "what the C compiler takes as -march for the calls of kernels; for aarch64 as -mcpu, of them too");
  command->add_flag("--source", a->o.source, "write NAME.c too");
  command->add_flag("--text", a->o.text, "write NAME.weights.txt too: the weights as numbers for an array");
  command->add_flag("--module", a->o.module_interface, "write NAME.cppm too: the header as a module of C++");
  command->add_flag("--dump-graph", a->o.graph, "write NAME.graph.dot and NAME.graph.json too");
  command->add_flag("--instrument", a->o.instrument,
                    "entries call NAME_before and NAME_after of the program around each operation; a cond, loop or "
                    "scan is one, with all that it runs");
  command->add_flag("--dump-tensors", a->o.dump_tensors,
                    "entries call NAME_tensor of the program with each result of each operation that lies in "
                    "memory; of a cond, loop or scan with its results, not with those of its turns");
  command->callback([a] { write(*a); });
}

}  // namespace tool
