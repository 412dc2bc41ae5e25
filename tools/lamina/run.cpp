// lamina run: a net on inputs from files, its outputs into files.
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

// Where an output goes: its scopes are folders inside the one that was given. Errors: value_error for a name that would
// be a file elsewhere, or none.
std::string file_of(const std::string& model, const std::string& folder, const std::string& name) {
  std::string_view why;
  if (name.empty())
    why = "is empty";
  else if (name[0] == '/')
    why = "is that of a file anywhere";
  else if (name.find('\0') != name.npos)
    why = "holds a zero";
  for (std::size_t at = 0; why.empty() && at <= name.size();) {
    const auto end = std::min(name.find('/', at), name.size());
    const auto part = std::string_view(name).substr(at, end - at);
    if (part.empty())
      why = "has an empty part";
    else if (part == "." || part == "..")
      why = "has a part that leads to another folder";
    at = end + 1;
  }
  if (!why.empty())
    throw value_error(
        words(model, ": output `", printable(name), "` cannot be written as ", folder, "/NAME.npy: its name ", why));
  return folder + "/" + name + ".npy";
}

// The files of all outputs. Errors: value_error for one that is another's, or a folder of another.
std::vector<std::string> files_of(const std::string& model, const std::string& folder, const program& p) {
  std::vector<std::string> files;
  for (const auto& o : p.outputs()) files.push_back(file_of(model, folder, o.name));
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < files.size(); ++j)
      if ((i > j && files[i] == files[j]) || files[j].starts_with(files[i] + "/"))
        throw value_error(words(model, ": output `", printable(p.outputs()[i].name), "` cannot be written as ", folder,
                                "/NAME.npy: the file is another output's too, or has to be its folder"));
  return files;
}

void make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw file_error(folder + ": cannot be made: " + failed.message());
}

}  // namespace

void run(const run_arguments& a) {
  const auto& [model, folder, options] = a;
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
  const auto files = folder.empty() ? std::vector<std::string>() : files_of(model, folder, p);
  const auto results = net.factory().create()(inputs);
  if (!folder.empty()) make_folder(folder);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (folder.empty()) {
      std::printf("%s: %s\n%s\n", printable(p.outputs()[i].name).c_str(), words(results[i].type()).c_str(),
                  results[i].print().c_str());
      continue;
    }
    make_folder(files[i].substr(0, files[i].rfind('/')));
    write_npy(files[i], results[i]);
    std::printf("%s: %s\n", printable(files[i], 1024).c_str(), words(results[i].type()).c_str());
  }
}

}  // namespace tool
