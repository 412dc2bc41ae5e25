// What every benchmark program takes: where to write, which shapes, which core.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "machine.h"

namespace bench {

struct arguments {
  std::string out, shapes;
  int core = 0;
  bool exhaustive = false;
};

/// Reads `--out FILE --shapes FILE --core N [--exhaustive]` and pins this thread to the core.
inline arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool takes_value = i + 1 < argc;
    if (name == "--exhaustive")
      a.exhaustive = true;
    else if (name == "--out" && takes_value)
      a.out = argv[++i];
    else if (name == "--shapes" && takes_value)
      a.shapes = argv[++i];
    else if (name == "--core" && takes_value)
      a.core = std::atoi(argv[++i]);
    else {
      std::fprintf(stderr, "usage: %s --out FILE [--shapes FILE] [--core N] [--exhaustive]\n", argv[0]);
      std::exit(2);
    }
  }
  if (a.out.empty()) {
    std::fprintf(stderr, "%s: --out FILE is missing\n", argv[0]);
    std::exit(2);
  }
  pin(a.core);
  return a;
}

/// The lines of a shapes file, without comments (#) and empty lines.
inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    std::exit(2);
  }
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace bench
