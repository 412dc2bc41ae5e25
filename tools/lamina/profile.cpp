// lamina profile: the ranges that a net's values take on samples, for lamina quantize.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

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

}  // namespace

void profile(const profile_arguments& a) {
  const auto& file = a.out;
  check_writable(file);
  const saved_net net = load_model(a);
  const signals noted;
  const stop_scope until(noted_signal{});
  const auto ranges = lamina::profile(net, samples_of(a.model, *net.program, a.inputs));
  save_profile(file, ranges);
  if (a.json) {
    print_line({{"files", {file}}, {"values", ranges.values.size()}, {"samples", ranges.samples}});
    return;
  }
  std::printf("%s: the ranges of %zu values on %s\n", printable(file, 1024).c_str(), ranges.values.size(),
              words(ranges.samples, ranges.samples == 1 ? " sample" : " samples").c_str());
}

}  // namespace tool
