module;
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include "kernel_names.h"
// NAME.o: compiles the generated C, links it with the kernels that it names and hides all other symbols. Kernels for
// this architecture come from the library's archives; kernels for another one are compiled.
module lamina.bundle:object.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

/// A command line, run without a shell.
class command {
 public:
  command(std::string_view bundle, std::string program) : bundle_(bundle), arguments_{std::move(program)} {}
  command& operator<<(std::string word) {
    arguments_.push_back(std::move(word));
    return *this;
  }
  /// Hint that is added to the program's output if that says that a file is missing.
  command& where_files_are_missing(std::string hint) {
    hint_ = std::move(hint);
    return *this;
  }
  /// Errors: state_error with the program's output, if it fails.
  void run() {
    start();
    finish();
  }
  void start() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) system("a pipe cannot be created", errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    std::vector<char*> argv;
    for (auto& w : arguments_) argv.push_back(w.data());
    argv.push_back(nullptr);
    const int failed = ::posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed) {
      ::close(ends[0]);
      child_ = 0;
      system("it cannot be started", failed);
    }
    pipe_ = ends[0];
  }
  void finish() {
    std::string output;
    const int status = wait(output);
    if (status == 0) return;
    text t;
    t << "bundle `" << bundle_ << "`: `" << arguments_[0] << "` failed";
    if (!output.empty()) t << ": " << output;
    if (!hint_.empty() && output.find("file not found") != output.npos)
      t << (output.ends_with('\n') ? "" : "\n") << hint_;
    lamina::detail::raise(error_kind::state, t);
  }
  command(command&& c) noexcept
      : bundle_(c.bundle_),
        arguments_(std::move(c.arguments_)),
        hint_(std::move(c.hint_)),
        child_(std::exchange(c.child_, 0)),
        pipe_(c.pipe_) {}
  command& operator=(command&&) = delete;
  ~command() {
    std::string output;
    if (child_) wait(output);
  }

 private:
  // Returns the exit status; appends standard output and error to `output`.
  int wait(std::string& output) {
    char buffer[4096];
    for (ssize_t n; (n = ::read(pipe_, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
      if (n > 0 && output.size() < max_message) output.append(buffer, static_cast<std::size_t>(n));
    ::close(pipe_);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
    child_ = 0;
    return status;
  }
  [[noreturn]] void system(std::string_view what, int number) const {
    text t;
    t << "bundle `" << bundle_ << "`: `" << arguments_[0] << "`: " << what << ": " << std::strerror(number);
    lamina::detail::raise(error_kind::state, t);
  }
  static constexpr std::size_t max_message = 4000;
  std::string_view bundle_;
  std::vector<std::string> arguments_;
  std::string hint_;
  pid_t child_ = 0;
  int pipe_ = -1;
};

bool can_run(const std::string& program) {
  if (program.find('/') != program.npos) return ::access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    auto end = std::min(folders.find(':'), folders.size());
    if (::access((std::string(folders.substr(0, end)) + "/" + program).c_str(), X_OK) == 0) return true;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return false;
}

/// The program to use: `named`, else the environment variable, else the first of the usual names that exists.
std::string found(std::string_view bundle, std::string_view what, std::string_view package, const std::string& named,
                  const char* variable, std::initializer_list<std::string> usual) {
  if (!named.empty()) return named;
  if (const char* set = std::getenv(variable); set && *set) return set;
  for (const auto& u : usual)
    if (!u.empty() && can_run(u)) return u;
  text t;
  t << "bundle `" << bundle << "`: no " << what << " found; install " << package << ", or name one in the variable "
    << variable << " or in `tools`";
  lamina::detail::raise(error_kind::state, t);
}

/// The folder of a file of the library: `named`, else the environment variable, else beside this installed program, in
/// the build tree, or in the install prefix. Errors: file_error.
std::string folder_of(const image& bundle, std::string_view what, const std::string& file, const std::string& named,
                      std::string_view option, const char* variable, std::string_view built,
                      std::string_view installed) {
  std::vector<std::string> folders;
  if (!named.empty()) folders = {named};
  else if (const char* set = std::getenv(variable); set && *set) folders = {set};
  else {
    char self[4096];
    auto n = ::readlink("/proc/self/exe", self, sizeof self);
    if (n > 0) {
      std::string_view bin(self, static_cast<std::size_t>(n));
      bin = bin.substr(0, bin.rfind('/'));
      folders.push_back(std::string(bin.substr(0, bin.rfind('/'))) + "/" + std::string(installed));
    }
    if (std::filesystem::is_directory(built)) folders.emplace_back(built);  // otherwise built on another machine
    folders.push_back(LAMINA_INSTALL_PREFIX "/" + std::string(installed));
  }
  text message;
  message << "bundle `" << bundle.name << "`: " << what << " " << file << " are not in";
  for (const auto& f : folders) {
    if (std::filesystem::is_regular_file(f + "/" + file)) return f;
    message << " " << f;
  }
  message << "; name their folder in the variable " << variable << " or in `tools." << option << "`";
  lamina::detail::raise(error_kind::file, message);
}

/// The kernel archive of an instruction set; empty for another architecture if no named folder has it.
std::string archive_of(const image& bundle, const tools& t) {
  const std::string file = "liblamina_kernels_" + bundle.set_name() + ".a";
  if (!bundle.cross_compiled())
    return folder_of(bundle, "the kernels", file, t.kernels, "kernels", "LAMINA_KERNELS", LAMINA_BUILT_KERNELS,
                     LAMINA_INSTALLED_KERNELS) +
           "/" + file;
  const char* set = std::getenv("LAMINA_KERNELS");
  const std::string folder = !t.kernels.empty() ? t.kernels
                             : set              ? set
                                                : "",
                    at = folder + "/" + bundle.target + "/" + file;
  return !folder.empty() && std::filesystem::is_regular_file(at) ? at : std::string();
}

/// The source files of the kernels that a bundle calls.
std::vector<std::string> families_of(const image& bundle) {
  std::set<std::string_view> named;
  for (const auto& e : bundle.entries)
    for (const auto& c : e.calls) {
      named.insert(c.kernel);
      for (const auto& w : c.arguments) named.insert(w.symbol);
    }
  std::set<std::string> families;
  for (std::size_t i = 0; i < kernel_name_count; ++i)
    if (named.contains(kernel_names[i].name)) families.insert(kernel_names[i].family);
  return {families.begin(), families.end()};
}

std::vector<std::string> split_at_spaces(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != text.npos;) {
    const auto end = std::min(text.find(' ', at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

/// Runs commands in parallel, one per processor.
void run_all(std::vector<command>& commands) {
  const std::size_t max = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i < commands.size() + max; ++i) {
    if (i >= max && i - max < commands.size()) commands[i - max].finish();
    if (i < commands.size()) commands[i].start();
  }
}

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](writer& w) { w.write(text); });
}

/// Temporary folder for intermediate files, removed at the end. It is locked while its process lives: if the process is
/// killed, the next `write_file_atomically` in the same directory removes the folder.
struct temporary_directory {
  std::string name;
  std::vector<std::string> files;
  explicit temporary_directory(const std::string& directory) {
    do {
      if (lock_ >= 0) ::close(lock_);
      name = directory + "/.lamina-bundle-XXXXXX";
      if (!::mkdtemp(name.data())) {
        text t;
        t << directory << ": cannot be written: " << std::strerror(errno);
        lamina::detail::raise(error_kind::file, t);
      }
      lock_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (lock_ < 0 ? errno == ENOENT : !stays());
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory() {
    for (const auto& f : files) ::unlink(f.c_str());
    ::rmdir(name.c_str());
    if (lock_ >= 0) ::close(lock_);
  }
  std::string file(const std::string& f) { return files.emplace_back(name + "/" + f); }

 private:
  // False if another writer removed the folder between its creation and the lock.
  bool stays() const {
    struct stat status;
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return ::fstat(lock_, &status) != 0 || status.st_nlink > 0;
  }
  int lock_ = -1;
};

}  // namespace

void make_object(const std::string& directory, const image& bundle, const std::string& header,
                 const std::string& source, const std::vector<std::string>& globals, const options& o) {
  const bool cross_compiled = bundle.cross_compiled();
  const auto archive = archive_of(bundle, o.tools);
  const auto compiler = cross_compiled ? found(bundle.name, "Clang for the kernels of another processor", "clang-19",
                                               o.tools.compiler, "LAMINA_CLANG", {LAMINA_COMPILER, "clang-19", "clang"})
                                       : found(bundle.name, "C compiler", "clang or gcc", o.tools.compiler, "CC",
                                               {LAMINA_COMPILER, "cc", "clang", "gcc"});
  const auto linker = cross_compiled
                          ? found(bundle.name, "linker for " + bundle.target, "binutils-aarch64-linux-gnu or lld-19",
                                  o.tools.linker, "LD", {"aarch64-linux-gnu-ld", "ld.lld-19", "ld.lld"})
                          : found(bundle.name, "GNU ld", "binutils", o.tools.linker, "LD", {"ld.bfd", "ld"});
  const auto objcopy =
      cross_compiled
          ? found(bundle.name, "objcopy for " + bundle.target, "binutils-aarch64-linux-gnu or llvm-19", o.tools.objcopy,
                  "OBJCOPY", {"aarch64-linux-gnu-objcopy", "llvm-objcopy-19", "llvm-objcopy"})
          : found(bundle.name, "objcopy", "binutils", o.tools.objcopy, "OBJCOPY", {"objcopy"});

  temporary_directory in(directory);
  const auto code = in.file(bundle.name + ".c"), calls = in.file("calls.o"), joined = in.file("joined.o");
  const auto object = in.file(bundle.name + ".o");
  write_text(in.file(bundle.name + ".h"), header);
  write_text(code, source);
  auto for_target = [&](command&& c) {
    // A target without a system means this system: the compiler needs no --target.
    const bool other = o.target.find('-') != o.target.npos;
    if (other) c << "--target=" + o.target;
    if (!o.cpu.empty()) c << (bundle.is_arm() ? "-mcpu=" : "-march=") + o.cpu;
    if (cross_compiled)
      c.where_files_are_missing(
          "the headers of C and C++ for aarch64-linux-gnu come with the package g++-aarch64-linux-gnu, "
          "those of xsimd with libxsimd-dev");
    else if (other) c.where_files_are_missing("the headers of the C library for " + o.target + " are not installed");
    return std::move(c);
  };
  std::vector<command> compile;
  compile.push_back(for_target({bundle.name, compiler}));
  for (auto flag : {"-x", "c", "-std=c99", "-Os", "-fPIC", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-w", "-c",
                    "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections"})
    compile.back() << flag;
  compile.back() << code << "-o" << calls;
  std::vector<std::string> kernels;
  if (!archive.empty()) kernels = {archive};
  else {
    const auto families = families_of(bundle);
    const auto folder = folder_of(bundle, "the sources of the kernels", "simd.h", o.tools.sources, "sources",
                                  "LAMINA_KERNEL_SOURCES", LAMINA_BUILT_SOURCES, LAMINA_INSTALLED_SOURCES);
    for (const auto& f : families) {
      compile.push_back(for_target({bundle.name, compiler}));
      compile.back() << "-x" << "c++" << "-std=c++20" << "-fPIC" << "-w";
      compile.back() << "-DLAMINA_KERNEL_SET=" + bundle.set_name();
      for (auto& w : split_at_spaces(LAMINA_KERNEL_OPTIONS)) compile.back() << w;
      compile.back() << "-c" << folder + "/" + f + ".cpp" << "-o" << kernels.emplace_back(in.file(f + ".o"));
    }
  }
  run_all(compile);
  // Dissolves section groups: each of two bundles keeps its own copy of a kernel.
  command join(bundle.name, linker);
  join << "-r" << "--gc-sections" << "--force-group-allocation" << "-e" << globals[0];
  for (const auto& g : globals) join << "-u" << g;
  join << "-o" << joined << calls;
  for (const auto& k : kernels) join << k;
  join.run();
  command hide(bundle.name, objcopy);
  for (const auto& g : globals) hide << "--keep-global-symbol=" + g;
  for (auto section : {".comment", ".llvm_addrsig", ".eh_frame", ".rela.eh_frame"})
    hide << "--remove-section" << section;
  (hide << "--strip-unneeded" << joined << object).run();
  const auto target = directory + "/" + bundle.name + ".o";
  if (::rename(object.c_str(), target.c_str()) != 0) {
    text t;
    t << target << ": cannot be written: " << std::strerror(errno);
    lamina::detail::raise(error_kind::file, t);
  }
}

}  // namespace lamina::bundle
