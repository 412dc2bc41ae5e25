// operators_table FILE [--write]
//
// Checks that a document's table of operators matches the registry; --write updates it.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

import lamina;
import lamina.onnx;

namespace {
constexpr const char *begin = "<!-- operators: begin -->\n", *end = "<!-- operators: end -->\n";

std::string table() {
  std::map<std::pair<std::string, std::string>, std::string> since;
  for (const auto& o : lamina::onnx::operators()) {
    auto& list = since[{std::string(o.domain), std::string(o.op)}];
    list += (list.empty() ? "" : ", ") + std::to_string(o.since);
  }
  std::string made = "| domain | operator | meanings since opset |\n|---|---|---|\n";
  for (const auto& [of, list] : since)
    made += "| " + (of.first.empty() ? std::string("ai.onnx") : of.first) + " | " + of.second + " | " + list + " |\n";
  return made;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::stringstream read;
  read << std::ifstream(argv[1]).rdbuf();
  std::string text = read.str();
  const auto from = text.find(begin), to = text.find(end);
  if (from == text.npos || to == text.npos) {
    std::printf("%s has no table of operators\n", argv[1]);
    return 1;
  }
  const auto first = from + std::string(begin).size();
  const std::string made = table();
  if (text.substr(first, to - first) == made) return 0;
  if (argc < 3) {
    std::printf("the table of operators in %s is not that of the registry; write it with: operators_table %s --write\n",
                argv[1], argv[1]);
    return 1;
  }
  text.replace(first, to - first, made);
  std::ofstream(argv[1]) << text;
}
