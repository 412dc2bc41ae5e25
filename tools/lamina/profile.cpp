// lamina profile: the ranges that a net's values take on samples, for lamina quantize.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

// The k-th files of all inputs are the k-th sample.
std::vector<std::vector<any_tensor>> samples_of(const std::string& model, const program& p,
                                                const std::vector<std::string>& options) {
  std::vector<std::vector<std::string>> files(p.inputs().size());
  for (const auto& option : options) {
    const auto [input, file] = given_for(model, p, option);
    files[input].push_back(file);
  }
  std::vector<std::vector<any_tensor>> samples(files.empty() ? 0 : files[0].size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = printable(p.at(p.inputs()[i]).name);
    if (files[i].empty())
      throw value_error(words(model, ": input `", name, "` (", p.at(p.inputs()[i]).results[0],
                              ") is not given; write --input NAME=FILE.npy"));
    if (files[i].size() != samples.size())
      throw value_error(words(model, ": input `", name, "` has ", files[i].size(), " files, and input `",
                              printable(p.at(p.inputs()[0]).name), "` ", samples.size(),
                              "; each sample needs all inputs"));
    for (std::size_t k = 0; k < samples.size(); ++k) samples[k].push_back(read_npy(files[i][k]));
  }
  return samples;
}

void run(const std::string& model, const std::vector<std::string>& options, const std::string& file) {
  check_writable(file);
  const saved_net net = load_model(model);
  const auto ranges = profile(net, samples_of(model, *net.program, options));
  save_profile(file, ranges);
  std::printf("%s: the ranges of %zu values on %s\n", printable(file, 1024).c_str(), ranges.values.size(),
              words(ranges.samples, ranges.samples == 1 ? " sample" : " samples").c_str());
}

}  // namespace

void add_profile(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "record the ranges of a net's values on samples, for `quantize`");
  auto model = std::make_shared<std::string>(), file = std::make_shared<std::string>();
  auto inputs = std::make_shared<std::vector<std::string>>();
  add_model(*command, *model);
  command->add_option("--input", *inputs,
                      "an input of a sample, NAME=FILE.npy, or without NAME= where there is one; once for each sample");
  command->add_option("--out", *file, "the file of the profile, as in net.profile.json")->required();
  command->callback([=] { about(*model, [&] { run(*model, *inputs, *file); }); });
}

}  // namespace tool
