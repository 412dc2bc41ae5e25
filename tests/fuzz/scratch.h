// Files in memory, for readers that take a path.
#pragma once
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

/// A folder of this process, removed at its end.
struct scratch_folder {
  std::filesystem::path path;
  scratch_folder() {
    const std::filesystem::path memory = "/dev/shm";
    path = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
           ("lamina-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const char* name) const { return (path / name).string(); }
};
inline void write_bytes(const std::string& path, const unsigned char* data, unsigned long size) {
  std::FILE* f = std::fopen(path.c_str(), "wb");
  if (!f || std::fwrite(data, 1, size, f) != size || std::fclose(f) != 0) std::abort();
}
inline std::string bytes_of(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
