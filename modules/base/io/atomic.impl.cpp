module;
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
// Files that are replaced as a whole or not at all.
module lamina:io.atomic.impl;
import :core;
import :io;
import :io.file.impl;
import lamina.std;

namespace lamina {

// ---- writer ---------------------------------------------------------------------------------------------------------

namespace {
constexpr std::size_t most_waiting = std::size_t(1) << 16;
}

writer::writer(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
writer::~writer() = default;

void writer::write(const void* data, std::size_t bytes) {
  auto* p = static_cast<const char*>(data);
  if (waiting_.size() + bytes > most_waiting) flush();
  if (bytes > most_waiting) send(p, bytes);
  else if (bytes) waiting_.insert(waiting_.end(), p, p + bytes);
}

void writer::flush() {
  send(waiting_.data(), waiting_.size());
  waiting_.clear();
}

void writer::send(const char* data, std::size_t bytes) {
  while (bytes) {
    auto n = ::write(descriptor_, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) detail::system_failure(path_, "cannot be written", errno);
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

/// What write_file_atomically may do with a writer.
struct writer_access {
  static void fill(int descriptor, const std::string& path, const std::function<void(writer&)>& f) {
    writer w(descriptor, path);
    f(w);
    w.flush();
  }
};

// ---- replacing ------------------------------------------------------------------------------------------------------

namespace {

using detail::descriptor;
using detail::system_failure;

void write_in_place(const std::string& path, const std::function<void(writer&)>& fill) {
  descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number < 0) system_failure(path, "cannot be written", errno);
  writer_access::fill(file.number, path, fill);
  if (::close(file.give_up()) != 0) system_failure(path, "cannot be written", errno);
}

std::string folder_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The file that a path leads to, through symbolic links, whether it exists or not.
std::string target_of(const std::string& path) {
  std::string at = path;
  for (int links = 0; links < 40; ++links) {
    char next[PATH_MAX];
    auto n = ::readlink(at.c_str(), next, sizeof next);
    if (n < 0) return at;
    std::string to(next, static_cast<std::size_t>(n));
    if (!to.starts_with('/')) to.insert(0, folder_of(at) + "/");
    at = to;
  }
  system_failure(path, "cannot be written", ELOOP);
}

// A file of its own name beside the target, removed unless it takes the target's place.
struct temporary_file {
  std::string name;
  int number = -1;
  bool in_place = false;

  temporary_file(const std::string& path, const std::string& target, mode_t mode) {
    static std::atomic<unsigned> counter{0};
    do {
      name = folder_of(target) + "/.lamina-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
      number = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (number < 0 && errno == EEXIST);
    if (number < 0) system_failure(path, "cannot be written", errno);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    if (number >= 0) ::close(number);
    if (!in_place) ::unlink(name.c_str());
  }
};

// Makes the rename last: a folder that cannot be opened or synced by its nature is left alone.
void sync_folder(const std::string& path, const std::string& target) {
  descriptor folder(::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number < 0) return;
  if (::fsync(folder.number) != 0 && errno != EINVAL && errno != ENOTSUP)
    system_failure(path, "was written, but its folder could not be synced", errno);
}

}  // namespace

void write_file_atomically(const std::string& path, const std::function<void(writer&)>& fill) {
  if (path.empty() || path.ends_with('/')) detail::file_failure(path, "cannot be written: a file name is expected");
  struct stat status;
  bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) system_failure(path, "cannot be written", errno);
  if (exists && S_ISDIR(status.st_mode)) system_failure(path, "cannot be written", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(path, fill);
  // Renaming asks for no right to write the old file, but its owner may have taken that away for a reason.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) system_failure(path, "cannot be written", errno);

  auto target = target_of(path);
  temporary_file file(path, target, exists ? status.st_mode & 0777 : 0666);
  if (exists) {
    // Another owner can be kept by root alone; whoever may not is the owner of what he writes.
    if (::fchown(file.number, status.st_uid, status.st_gid) != 0 && errno != EPERM) system_failure(path, "cannot be written", errno);
    if (::fchmod(file.number, status.st_mode & 07777) != 0) system_failure(path, "cannot be written", errno);
  }
  writer_access::fill(file.number, path, fill);
  if (::fsync(file.number) != 0) system_failure(path, "cannot be written", errno);
  if (::close(std::exchange(file.number, -1)) != 0) system_failure(path, "cannot be written", errno);
  if (::rename(file.name.c_str(), target.c_str()) != 0) system_failure(path, "cannot be written", errno);
  file.in_place = true;
  sync_folder(path, target);
}

}  // namespace lamina
