// Output folder for tests that write ONNX models. Include it after the standard headers that it uses and <unistd.h>.
#pragma once

namespace onnx_test {

/// A folder for models: $LAMINA_WRITTEN, which check_written.py reads, or a temporary one.
struct folder {
  std::filesystem::path path;
  bool kept = false;
  folder() {
    if (const char* message = std::getenv("LAMINA_WRITTEN")) path = message, kept = true;
    else {
      static int count = 0;
      path = std::filesystem::temp_directory_path() /
             ("lamina-written-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    }
    std::filesystem::create_directories(path);
  }
  ~folder() {
    std::error_code ignored;
    if (!kept) std::filesystem::remove_all(path, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

}  // namespace onnx_test
