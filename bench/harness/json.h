// Writing JSON to a file.
#pragma once
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace bench {

/// Writes a JSON value to a file; exits with status 2 on failure.
inline void write_json(const std::string& path, const nlohmann::json& value) {
  std::ofstream file(path);
  file << value.dump(1) << '\n';
  file.close();
  if (!file) {
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::exit(2);
  }
}

}  // namespace bench
