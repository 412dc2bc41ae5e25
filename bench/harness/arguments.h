// Command-line arguments of all benchmark programs: output file, shapes file, core.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "machine.h"
#include "quick.h"

namespace bench {

struct arguments {
  std::string out, shapes;
  int core = 0;
  bool exhaustive = false;
};

/// Reads `--out FILE --shapes FILE --core N [--exhaustive] [--quick]` and pins this thread to the core.
inline arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool takes_value = i + 1 < argc;
    if (name == "--exhaustive") a.exhaustive = true;
    else if (name == "--quick") quick = true;
    else if (name == "--out" && takes_value) a.out = argv[++i];
    else if (name == "--shapes" && takes_value) a.shapes = argv[++i];
    else if (name == "--core" && takes_value) a.core = std::atoi(argv[++i]);
    else {
      std::fprintf(stderr, "usage: %s --out FILE [--shapes FILE] [--core N] [--exhaustive] [--quick]\n", argv[0]);
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

/// Lines of a shapes file without comments (#) and empty lines; in a quick run only lines that end with `# quick`.
inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    std::exit(2);
  }
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const bool in_quick = line.ends_with("# quick");
    line.resize(std::min(line.find('#'), line.size()));
    line.resize(line.find_last_not_of(" \t") + 1);
    if (!line.empty() && (in_quick || !quick)) lines.push_back(line);
  }
  if (lines.empty()) {
    std::fprintf(stderr, "%s has no shapes%s\n", path.c_str(), quick ? " for a quick run" : "");
    std::exit(2);
  }
  return lines;
}

}  // namespace bench
