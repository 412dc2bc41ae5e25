module;
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
// Atomic replacement of files, and append-only files.
module lamina:io.atomic.impl;
import :core;
import :io;
import :io.file.impl;
import lamina.std;

namespace lamina {

// ---- writer ---------------------------------------------------------------------------------------------------------

namespace {
constexpr std::size_t max_waiting = std::size_t(1) << 16;
}

writer::writer(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
writer::~writer() = default;

void writer::write(const void* data, std::size_t bytes) {
  auto* p = static_cast<const char*>(data);
  if (waiting_.size() + bytes > max_waiting) flush();
  if (bytes > max_waiting) send(p, bytes);
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

/// Access of write_file_atomically to a writer.
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

// Resolves symbolic links; the target need not exist.
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

// A uniquely named file in the target's folder, removed unless renamed to the target. Locked while its writer lives,
// which distinguishes it from files left by killed processes.
struct temporary_file {
  std::string name;
  int number = -1;
  bool in_place = false;

  temporary_file(const std::string& path, const std::string& target, mode_t mode) {
    static std::atomic<unsigned> counter{0};
    do {
      if (number >= 0) ::close(number);
      name = folder_of(target) + "/.lamina-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) +
             ".tmp";
      number = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (number < 0 ? errno == EEXIST : !locked());
    if (number < 0) system_failure(path, "cannot be written", errno);
    holder_ = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    if (number >= 0) ::close(number);
    if (!in_place) ::unlink(name.c_str());
    if (holder_ >= 0) ::close(holder_);
  }

 private:
  // False if another writer, between creation and lock, took it for abandoned and removed it.
  bool locked() const {
    if (::flock(number, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;  // true if the file system lacks locks
    struct stat status;
    return ::fstat(number, &status) != 0 || status.st_nlink > 0;
  }
  int holder_ = -1;  // keeps the lock until the rename, after `number` is closed
};

// Whether a name is a temporary one of lamina's: `.lamina-PID-N.tmp`, or a folder `.lamina-bundle-` with a suffix of `mkdtemp`.
bool is_temporary(std::string_view name, bool& folder) {
  constexpr std::string_view begin = ".lamina-", of_bundle = ".lamina-bundle-", end = ".tmp";
  folder = name.starts_with(of_bundle) && name.size() == of_bundle.size() + 6;
  if (!folder && !(name.starts_with(begin) && name.ends_with(end) && name.size() > begin.size() + end.size()))
    return false;
  const auto rest =
      folder ? name.substr(of_bundle.size()) : name.substr(begin.size(), name.size() - begin.size() - end.size());
  return std::all_of(rest.begin(), rest.end(), [](char c) {
    return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

// Removes a folder and its files.
void remove_folder(int folder, int parent, const char* name) noexcept {
  if (DIR* all = ::fdopendir(folder)) {
    while (const dirent* entry = ::readdir(all)) ::unlinkat(::dirfd(all), entry->d_name, 0);
    ::unlinkat(parent, name, AT_REMOVEDIR);
    ::closedir(all);
  } else {
    ::close(folder);
  }
}

// Removes files that killed writers left in a folder: those with a temporary name and without a lock. Ignores
// failures.
void remove_abandoned(const std::string& path) noexcept {
  DIR* const all = ::opendir(path.c_str());
  if (!all) return;
  const int here = ::dirfd(all);
  while (const dirent* entry = ::readdir(all)) {
    bool folder = false;
    if (!is_temporary(entry->d_name, folder)) continue;
    constexpr int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int file = folder ? ::openat(here, entry->d_name, O_RDONLY | O_DIRECTORY | flags)
                      : ::openat(here, entry->d_name, O_WRONLY | flags);
    if (file < 0 && !folder) file = ::openat(here, entry->d_name, O_RDONLY | flags);
    struct stat status;
    const bool abandoned = file >= 0 && ::fstat(file, &status) == 0 && (folder || S_ISREG(status.st_mode)) &&
                           ::flock(file, LOCK_EX | LOCK_NB) == 0;
    if (abandoned && folder) {
      remove_folder(std::exchange(file, -1), here, entry->d_name);
    } else if (abandoned) {
      ::unlinkat(here, entry->d_name, 0);
    }
    if (file >= 0) ::close(file);
  }
  ::closedir(all);
}

// Makes the rename durable; ignores folders that cannot be opened or do not support syncing.
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
  // Renaming needs no write permission on the old file, but its owner may have removed that on purpose.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
    system_failure(path, "cannot be written", errno);

  auto target = target_of(path);
  temporary_file file(path, target, exists ? status.st_mode & 0777 : 0666);
  if (exists) {
    // Only root can keep another owner; other users become the owner of what they write.
    if (::fchown(file.number, status.st_uid, status.st_gid) != 0 && errno != EPERM)
      system_failure(path, "cannot be written", errno);
    if (::fchmod(file.number, status.st_mode & 07777) != 0) system_failure(path, "cannot be written", errno);
  }
  writer_access::fill(file.number, path, fill);
  if (::fsync(file.number) != 0) system_failure(path, "cannot be written", errno);
  if (::close(std::exchange(file.number, -1)) != 0) system_failure(path, "cannot be written", errno);
  if (::rename(file.name.c_str(), target.c_str()) != 0) system_failure(path, "cannot be written", errno);
  file.in_place = true;
  remove_abandoned(folder_of(target));
  sync_folder(path, target);
}

// ---- appending ------------------------------------------------------------------------------------------------------

struct append_file::implementation {
  std::string path;
  descriptor file;
};

append_file::append_file(const std::string& path)
    : impl_(
          new implementation{path, descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666))}) {
  if (impl_->file.number < 0) system_failure(path, "cannot be written", errno);
}
append_file::append_file(append_file&&) noexcept = default;
append_file& append_file::operator=(append_file&&) noexcept = default;
append_file::~append_file() = default;

void append_file::write(std::string_view bytes) {
  if (!impl_) detail::raise(error_kind::state, "append_file: it was moved from and has no file");
  writer_access::fill(impl_->file.number, impl_->path, [&](writer& w) { w.write(bytes); });
}

}  // namespace lamina
