module;
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
// Shared by the formats: error messages, open files, mappings.
module lamina:io.file.impl;
import :core;
import lamina.std;

namespace lamina::detail {

/// Raises a file_error: the file name, then the message.
[[noreturn]] void file_failure(std::string_view path, std::string_view what) {
  text t;
  t << (path.empty() ? std::string_view("the path is empty") : path) << ": " << what;
  raise(error_kind::file, t);
}
[[noreturn]] void file_failure(std::string_view path, const text& what) { file_failure(path, what.view()); }
/// Raises a file_error with the system's message for an error number.
[[noreturn]] void system_failure(std::string_view path, std::string_view what, int number) {
  text t;
  t << what << ": " << std::strerror(number);
  file_failure(path, t);
}

/// An open file descriptor.
struct descriptor {
  int number = -1;
  explicit descriptor(int n) : number(n) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number >= 0) ::close(number);
  }
  int give_up() { return std::exchange(number, -1); }
};

/// Opens a file for reading and sets `size`. Errors: file_error, also for a directory.
int open_for_reading(const std::string& path, std::int64_t& size) {
  descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // never blocks, even on a pipe
  if (file.number < 0) system_failure(path, "cannot be read", errno);
  struct stat status;
  if (::fstat(file.number, &status) != 0) system_failure(path, "cannot be read", errno);
  if (S_ISDIR(status.st_mode)) system_failure(path, "cannot be read", EISDIR);
  if (!S_ISREG(status.st_mode)) file_failure(path, "cannot be read: not a regular file");
  size = status.st_size;
  return file.give_up();
}

/// Reads bytes of an open file. Errors: file_error, also at a premature end of file: it was truncated meanwhile.
void read_at(int file, const std::string& path, std::int64_t at, void* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const auto n =
        ::pread(file, static_cast<std::byte*>(to) + done, bytes - done, at + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) system_failure(path, "cannot be read", errno);
    if (n == 0) file_failure(path, "became shorter while it was read");
    done += static_cast<std::size_t>(n);
  }
}

/// A memory-mapped file. If another program truncates it, reading raises a signal. Pages are private, so writes to a
/// tensor in it never reach the file.
struct mapped_file {
  std::byte* data = nullptr;
  std::size_t size = 0;

  explicit mapped_file(const std::string& path) {
    std::int64_t bytes = 0;
    descriptor file(open_for_reading(path, bytes));
    size = static_cast<std::size_t>(bytes);
    if (size == 0) return;
    void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
    if (p == MAP_FAILED) system_failure(path, "cannot be mapped", errno);
    data = static_cast<std::byte*>(p);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
    if (data) ::munmap(data, size);
  }
};

/// Bytes of a tensor, or -1 if an extent is negative or the product overflows; extents of 0 hide no overflow.
std::int64_t checked_bytes(view<const std::int64_t> extents, std::size_t element_size) {
  auto largest = static_cast<std::int64_t>(element_size);
  bool empty = false;
  for (auto n : extents) {
    if (n < 0) return -1;
    if (n == 0) empty = true;
    else if (__builtin_mul_overflow(largest, n, &largest)) return -1;
  }
  return empty ? 0 : largest;
}

}  // namespace lamina::detail
