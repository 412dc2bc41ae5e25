// lamina draw: draws a net.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "layers.h"
#include "tool.h"

extern char** environ;

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// Runs Graphviz's `dot` from one file to another.
void run_dot(const std::string& from, const std::string& to) {
  std::string program = "dot", type = "-Tsvg", out = "-o" + to, in = from;
  char* arguments[] = {program.data(), type.data(), out.data(), in.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "dot", nullptr, nullptr, arguments, environ);
  if (failed == ENOENT)
    throw unsupported_error(to +
                            ": SVG needs the program `dot` of Graphviz, which is not installed; write a .dot file");
  if (failed) throw file_error(to + ": `dot` cannot be started: " + std::strerror(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw file_error(to + ": `dot` failed");
}

// Quotes a text as a Graphviz label.
std::string quoted(const std::string& s) {
  std::string q = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    if (c == '\n') q += "\\n";
    else q += c;
  }
  return q + '"';
}

// Draws the layers by name with their output shapes; no constants, states or updates. Values that come from no layer,
// such as constants, get no edge.
std::string drawing_of(const layered_net& net) {
  const program& p = net.program;
  std::string s = "digraph layers {\n  node [shape=box, fontname=\"monospace\"];\n";
  const auto box = [&](const std::string& name, const std::string& label, bool gray) {
    s += "  " + name + " [label=" + quoted(label) + (gray ? ", style=filled, fillcolor=lightgray];\n" : "];\n");
  };
  const auto name_in_drawing = [&](std::int32_t n) -> std::string {
    if (p.at(n).kind == node_kind::input) return "i" + std::to_string(n);
    const auto l = net.layer_of[static_cast<std::size_t>(n)];
    return l < 0 ? std::string() : "l" + std::to_string(l);
  };
  for (auto i : p.inputs())
    box(name_in_drawing(i), "input " + printable(p.at(i).name, max_name) + "\n" + text_of(p.at(i).results[0]), true);
  for (std::size_t l = 0; l < net.layers.size(); ++l)
    box("l" + std::to_string(l), name_of(net.layers[l]) + "\n" + net.layers[l].output, false);
  std::set<std::pair<std::string, std::string>> drawn;
  const auto arrow = [&](const std::string& from, const std::string& to) {
    if (!from.empty() && from != to && drawn.emplace(from, to).second) s += "  " + from + " -> " + to + ";\n";
  };
  for (std::size_t n = 0; n < p.nodes().size(); ++n)
    if (const auto l = net.layer_of[n]; l >= 0)
      for (auto v : p.nodes()[n].inputs) arrow(name_in_drawing(v.node), "l" + std::to_string(l));
  for (std::size_t o = 0; o < p.outputs().size(); ++o) {
    const auto name = "o" + std::to_string(o);
    box(name, "output " + printable(p.outputs()[o].name, max_name), true);
    arrow(name_in_drawing(p.outputs()[o].value.node), name);
  }
  return s + "}\n";
}

}  // namespace

void draw(const draw_arguments& a) {
  const auto& out = a.out;
  if (const auto ending = std::filesystem::path(out).extension().string();
      !ending.empty() && ending != ".svg" && ending != ".dot")
    throw value_error(printable(out, 1024) + ": drawings are written as .svg or .dot, not as " + printable(ending));
  const auto [net, extents] = load_with_extents(a.model, a);
  const auto dot_text = with_note(note_on_extents(*net.program, a.shapes, "--shape"), [&] {
    return a.operations ? net.program->to_dot() : drawing_of(layers_of(net, extents));
  });
  if (out.empty()) {
    std::fputs(dot_text.c_str(), stdout);
    return;
  }
  const bool svg = out.ends_with(".svg");
  const std::string dot = svg ? out + ".dot" : out;
  write_file_atomically(dot, [&](writer& w) { w.write(dot_text); });
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
