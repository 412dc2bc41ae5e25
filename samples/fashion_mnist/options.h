// Command-line options.
#pragma once
#include <cstdint>
#include <string>

struct options {
  std::int64_t epochs = 5, batch = 64;
  double lr = 3e-3;
  std::int64_t seed = 42;
  int threads = 0;  // 0: all cores
  std::string data, out = "results";
  bool resume = false;
};

/// Parses the command line. `--help` exits with status 0; an error exits with status 2 and one line on stderr.
options parse_options(int argc, char** argv);
