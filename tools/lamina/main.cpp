// lamina: looks into the files that networks are kept in, and at the machine that they run on.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

import lamina;

namespace {

// A name or text of a file; names are mostly short, and longer ones are told whole up to here.
constexpr std::size_t most_of_a_name = 256, most_of_a_text = 1024;

std::string type_of(const lamina::any_tensor& t) {
  lamina::text s;
  s << t.type();
  return s.string();
}

// The tensors of a safetensors file, or the one of an idx file.
void show(const std::string& path, bool values) {
  if (path.ends_with(".safetensors")) {
    auto file = lamina::read_safetensors(path);
    std::size_t bytes = 0;
    for (const auto& [name, value] : file.tensors) {
      std::printf("%-40s %s\n", lamina::printable(name, most_of_a_name).c_str(), type_of(value).c_str());
      if (values) std::printf("%s\n", value.print().c_str());
      bytes += value.bytes();
    }
    for (const auto& [key, value] : file.metadata)
      std::printf("%s: %s\n", lamina::printable(key, most_of_a_name).c_str(), lamina::printable(value, most_of_a_text).c_str());
    std::printf("%zu tensors, %zu bytes\n", file.tensors.size(), bytes);
    return;
  }
  auto value = lamina::read_idx(path);
  std::printf("%s\n", type_of(value).c_str());
  if (values) std::printf("%s\n", value.print().c_str());
}

void machine() {
  std::printf("instruction sets:");
  for (auto set : {lamina::isa::sse2, lamina::isa::avx2, lamina::isa::avx512})
    if (lamina::machine_has(set)) std::printf(" %s", std::string(lamina::name_of(set)).c_str());
  std::printf("\nin use: %s\ncores: %d\n", std::string(lamina::name_of(lamina::target_isa())).c_str(), lamina::available_cores());
}

int run(int argc, char** argv) {
  CLI::App app("lamina " LAMINA_VERSION ": looks into files of networks and at the machine", "lamina");
  app.set_version_flag("--version", LAMINA_VERSION);
  app.require_subcommand(1);
  std::string path;
  bool values = false;
  auto* show_command = app.add_subcommand("show", "list the tensors of a .safetensors or idx file");
  show_command->add_option("file", path, "the file")->required();
  show_command->add_flag("--values", values, "print the elements too");
  auto* machine_command = app.add_subcommand("machine", "instruction sets and cores");
  try {
    app.parse(argc, argv);
    if (*show_command) show(path, values);
    if (*machine_command) machine();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw std::runtime_error(lamina::printable(e.what(), most_of_a_text) + " (--help lists what there is)");
    app.exit(e);    // prints the help or the version
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("the standard output cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lamina: %s\n", e.what());
    return 2;
  }
}
