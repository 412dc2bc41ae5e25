// What can be chosen on the command line.
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

/// Reads the command line. `--help` ends the program with 0, a mistake with 2 and one line on stderr.
options parse_options(int argc, char** argv);
