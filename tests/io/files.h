// Files for tests: temporary folders, raw reading and writing, gzip.
#pragma once
#include <unistd.h>
#include <zlib.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace test_files {

struct folder {
  std::filesystem::path path;
  folder() {
    static int count = 0;
    path = std::filesystem::temp_directory_path() /
           ("lamina-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(std::string_view name) const { return (path / name).string(); }
  std::ptrdiff_t count() const { return std::distance(std::filesystem::directory_iterator(path), {}); }
};

inline void write_raw(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);  // some file systems sync a file that is truncated and rewritten
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline std::string read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_gzip(const std::string& path, std::string_view bytes) {
  gzFile f = gzopen(path.c_str(), "wb");
  gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(f);
}

/// While alive, drops root's privilege to read and write everything, so that permissions can be tested as root.
struct unprivileged {
  bool was_root = ::geteuid() == 0;
  unprivileged() {
    if (was_root && ::seteuid(65534) != 0) throw std::runtime_error("cannot become an ordinary user");
  }
  unprivileged(const unprivileged&) = delete;
  unprivileged& operator=(const unprivileged&) = delete;
  ~unprivileged() {
    if (was_root && ::seteuid(0) != 0) std::abort();
  }
};

/// The bytes of an idx file: element type code, extents, elements in file order.
inline std::string idx(int code, std::initializer_list<unsigned> extents, std::string_view elements) {
  std::string s{'\0', '\0', static_cast<char>(code), static_cast<char>(extents.size())};
  for (unsigned n : extents)
    for (int shift : {24, 16, 8, 0}) s += static_cast<char>(n >> shift & 255);
  return s += elements;
}

/// Matches an error whose message contains all of these parts.
struct says {
  std::initializer_list<std::string_view> parts;
  template <class E> bool operator()(const E& e) const {
    std::string_view what = e.what();
    for (auto p : parts)
      if (what.find(p) == what.npos) {
        BOOST_TEST_MESSAGE("`" << what << "` lacks `" << p << "`");
        return false;
      }
    return true;
  }
};

}  // namespace test_files
