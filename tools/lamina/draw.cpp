// lamina draw: a net as a drawing.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

import lamina;

#include "tool.h"

extern char** environ;

namespace tool {

using namespace lamina;

namespace {

// Graphviz's `dot` from one file to another.
void run_dot(const std::string& from, const std::string& to) {
  std::string program = "dot", type = "-Tsvg", out = "-o" + to, in = from;
  char* arguments[] = {program.data(), type.data(), out.data(), in.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "dot", nullptr, nullptr, arguments, environ);
  if (failed == ENOENT)
    throw unsupported_error(to +
                            ": an SVG takes the program `dot` of Graphviz, which is not installed; write a .dot file");
  if (failed) throw file_error(to + ": `dot` cannot be started: " + std::strerror(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw file_error(to + ": `dot` failed");
}

}  // namespace

void draw(const draw_arguments& a) {
  const auto& [model, out] = a;
  if (const auto ending = std::filesystem::path(out).extension().string();
      !ending.empty() && ending != ".svg" && ending != ".dot")
    throw value_error(printable(out, 1024) + ": drawings are written as .svg or .dot, not as " + printable(ending));
  const auto net = load_model(model);
  const auto words = net.program->to_dot();
  if (out.empty()) {
    std::fputs(words.c_str(), stdout);
    return;
  }
  const bool svg = out.ends_with(".svg");
  const std::string dot = svg ? out + ".dot" : out;
  write_file_atomically(dot, [&](writer& w) { w.write(words); });
  if (!svg) return;
  try {
    run_dot(dot, out);
  } catch (...) {
    std::remove(dot.c_str());
    throw;
  }
  std::remove(dot.c_str());
}

}  // namespace tool
