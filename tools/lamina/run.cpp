// lamina run: runs a net on inputs from files and writes its outputs to files.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "json.h"
#include "measure.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// File of an output: `/` and `:` in its name become `_`. Errors: value_error for a name that is no valid file name.
std::string file_of(const std::string& model, const std::string& folder, std::string name) {
  if (name.empty() || name.size() > 250 || name.find('\0') != name.npos)
    throw value_error(text_of(model, ": output `", printable(name), "` cannot be written as ", folder,
                              "/NAME.npy: its name ",
                              name.empty()        ? "is empty"
                              : name.size() > 250 ? "is longer than 250 bytes"
                                                  : "contains a zero byte"));
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '/' || c == ':'; }, '_');
  return folder + "/" + name + ".npy";
}

// Files of all outputs. Errors: value_error if two outputs have the same file.
std::vector<std::string> files_of(const std::string& model, const std::string& folder, const program& p) {
  std::vector<std::string> files;
  for (const auto& o : p.outputs()) {
    files.push_back(file_of(model, folder, o.name));
    if (std::find(files.begin(), files.end() - 1, files.back()) != files.end() - 1)
      throw value_error(text_of(model, ": output `", printable(o.name), "` cannot be written as ", folder,
                                "/NAME.npy: another output has this file"));
  }
  return files;
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw file_error(folder + ": the folder cannot be created: " + failed.message());
}

// Reads all inputs from the files that options name. Errors: value_error for a duplicate or missing input.
std::vector<any_tensor> all_inputs(const std::string& model, const program& p,
                                   const std::vector<std::string>& options) {
  for (const auto& o : p.outputs())
    if (!p.type(o.value).is_tensor())
      throw unsupported_error(text_of(model, ": output `", printable(o.name), "` is ", p.type(o.value),
                                      "; files contain only tensors: run this net with a session"));
  auto inputs = inputs_of(model, p, options);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      throw value_error(text_of(model, ": input `", printable(p.at(p.inputs()[i]).name), "` (",
                                p.at(p.inputs()[i]).results[0], ") is not given; write --input NAME=FILE.npy"));
  return inputs;
}

// Writes a trace of one run, with operations in sequence on one thread, as JSON for chrome://tracing and Perfetto.
// Times are in microseconds; an earlier run made the plans and packed the weights.
void write_trace(const std::string& file, session& net, std::vector<any_tensor> outputs,
                 const std::vector<any_tensor>& inputs) {
  std::vector<shape> extents;
  for (const auto& x : inputs) extents.push_back(x.shape());
  auto times = timed_plans_of(net, inputs, outputs);
  net.run_timed(inputs, outputs, times);

  json events = json::array();
  double now = 0;
  const auto add = [&](const std::string& name, std::size_t segment, std::int64_t nanoseconds, json arguments) {
    const double spent = static_cast<double>(nanoseconds) / 1000;
    events.push_back({{"name", name},
                      {"cat", "segment " + std::to_string(segment + 1)},
                      {"ph", "X"},
                      {"ts", now},
                      {"dur", spent},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", std::move(arguments)}});
    now += spent;
  };
  for (const auto& t : times) {
    const auto lines = t.lines();
    for (std::size_t i = 0; i < lines.size(); ++i) add(lines[i].what, t.segment, t.nanoseconds[i], json_of(lines[i]));
    if (t.nanoseconds.back()) add("copies", t.segment, t.nanoseconds.back(), json::object());
  }
  const auto all = line_of({{"traceEvents", events},
                            {"displayTimeUnit", "ns"},
                            {"otherData", {{"isa", name_of(target_isa())}, {"shapes", json_of(extents)}}}});
  write_file_atomically(file, [&](writer& w) { w.write(all); });
}

}  // namespace

void run(const run_arguments& a) {
  const auto& folder = a.out;
  saved_net saved = load_model(a).optimized();
  const program& p = *saved.program;
  const auto inputs = all_inputs(a.model, p, a.inputs);
  const auto files = folder.empty() ? std::vector<std::string>() : files_of(a.model, folder, p);
  if (!a.trace.empty()) check_writable(a.trace);
  const signals noted;
  const stop_scope until(noted_signal{});
  auto net = session::owning(saved.program, std::move(saved.states), nullptr, a.passes());
  const auto results = net.run(inputs);
  if (!folder.empty()) make_folder(folder);
  json outputs = json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    json report{{"name", p.outputs()[i].name},
                {"dtype", text_of(results[i].element())},
                {"shape", json_of(results[i].shape())}};
    if (folder.empty()) {
      if (a.json) report["values"] = values_of(results[i]);
      else
        std::printf("%s: %s\n%s\n", printable(p.outputs()[i].name).c_str(), text_of(results[i].type()).c_str(),
                    results[i].print().c_str());
    } else {
      signals::check();
      write_npy(files[i], results[i]);
      report["file"] = files[i];
      if (!a.json) std::printf("%s: %s\n", printable(files[i], 1024).c_str(), text_of(results[i].type()).c_str());
    }
    outputs.push_back(std::move(report));
  }
  if (a.json) print_line({{"outputs", outputs}});
  if (!a.trace.empty()) write_trace(a.trace, net, results, inputs);
}

}  // namespace tool
