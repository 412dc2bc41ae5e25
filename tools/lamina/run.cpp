// lamina run: a net on inputs from files, its outputs into files.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

void run(const std::string& model, const std::vector<std::string>& options, const std::string& folder) {
  const saved_net net = load_model(model);
  const program& p = *net.program;
  std::vector<any_tensor> inputs(p.inputs().size());
  for (const auto& option : options) {
    const auto [input, file] = given_for(model, p, option);
    if (inputs[input])
      throw value_error(words(model, ": input `", printable(p.at(p.inputs()[input]).name), "` is given twice"));
    inputs[input] = read_npy(file);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      throw value_error(words(model, ": input `", printable(p.at(p.inputs()[i]).name), "` (",
                              p.at(p.inputs()[i]).results[0], ") is not given; write --input NAME=FILE.npy"));
  // Outputs become files: their names must be names of files, each of its own.
  std::set<std::string> names;
  for (const auto& o : p.outputs())
    if (!folder.empty() && (o.name.empty() || o.name == "." || o.name == ".." || o.name.find('/') != o.name.npos ||
                            o.name.find('\0') != o.name.npos || !names.insert(o.name).second))
      throw value_error(words(model, ": output `", printable(o.name), "` cannot be written as ", folder,
                              "/NAME.npy: its name is empty, another's, or no name of a file"));
  const auto results = net.factory().create()(inputs);
  if (!folder.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) throw file_error(folder + ": cannot be made: " + failed.message());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string name = p.outputs()[i].name;
    if (folder.empty()) {
      std::printf("%s: %s\n%s\n", printable(name).c_str(), words(results[i].type()).c_str(),
                  results[i].print().c_str());
      continue;
    }
    const std::string file = folder + "/" + name + ".npy";
    write_npy(file, results[i]);
    std::printf("%s: %s\n", printable(file, 1024).c_str(), words(results[i].type()).c_str());
  }
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "run a net");
  auto model = std::make_shared<std::string>(), folder = std::make_shared<std::string>();
  auto inputs = std::make_shared<std::vector<std::string>>();
  add_model(*command, *model);
  command->add_option("--input", *inputs, "an input, NAME=FILE.npy, or without NAME= where there is one");
  command->add_option("--out", *folder, "the folder for the outputs, DIR/NAME.npy; without it they are printed");
  command->callback([=] { about(*model, [&] { run(*model, *inputs, *folder); }); });
}

}  // namespace tool
