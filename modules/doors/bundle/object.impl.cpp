module;
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
// NAME.o: the generated C compiled and joined with the kernels that it names, everything else of both hidden.
module lamina.bundle:object.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

/// A program with its arguments, without a shell.
class command {
 public:
  command(std::string_view bundle, std::string program) : bundle_(bundle), words_{std::move(program)} {}
  command& operator<<(std::string word) {
    words_.push_back(std::move(word));
    return *this;
  }
  /// Errors: state_error with what the program says, if it fails.
  void run() {
    std::string said;
    const int status = spawn(said);
    if (status == 0) return;
    text t;
    t << "bundle `" << bundle_ << "`: `" << words_[0] << "` failed";
    if (!said.empty()) t << ": " << said;
    lamina::detail::raise(error_kind::state, t);
  }

 private:
  // Its exit status; what it writes to its standard output and error.
  int spawn(std::string& said) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) system("a pipe cannot be made", errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    std::vector<char*> words;
    for (auto& w : words_) words.push_back(w.data());
    words.push_back(nullptr);
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed) {
      ::close(ends[0]);
      system("it cannot be started", failed);
    }
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
      if (n > 0 && said.size() < most_said) said.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
  }
  [[noreturn]] void system(std::string_view what, int number) const {
    text t;
    t << "bundle `" << bundle_ << "`: `" << words_[0] << "`: " << what << ": " << std::strerror(number);
    lamina::detail::raise(error_kind::state, t);
  }
  static constexpr std::size_t most_said = 4000;
  std::string_view bundle_;
  std::vector<std::string> words_;
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

/// The program that was named, else that of the variable, else the first of the usual ones that is there.
std::string found(std::string_view bundle, std::string_view what, std::string_view package, const std::string& named,
                  const char* variable, std::initializer_list<std::string_view> usual) {
  if (!named.empty()) return named;
  if (const char* set = std::getenv(variable); set && *set) return set;
  for (auto u : usual)
    if (!u.empty() && can_run(std::string(u))) return std::string(u);
  text t;
  t << "bundle `" << bundle << "`: there is no " << what << " here; install " << package << ", or name one by the variable "
    << variable << " or in `tools`";
  lamina::detail::raise(error_kind::state, t);
}

/// The archive of a set's kernels.
std::string archive_of(const image& bundle, const tools& t) {
  const std::string file = "/liblamina_kernels_" + std::string(name_of(bundle.set)) + ".a";
  std::vector<std::string> folders;
  if (!t.kernels.empty()) folders = {t.kernels};
  else if (const char* set = std::getenv("LAMINA_KERNELS"); set && *set) folders = {set};
  else {
    char self[4096];
    auto n = ::readlink("/proc/self/exe", self, sizeof self);
    if (n > 0) {
      std::string_view bin(self, static_cast<std::size_t>(n));
      bin = bin.substr(0, bin.rfind('/'));
      folders.push_back(std::string(bin.substr(0, bin.rfind('/'))) + "/" LAMINA_INSTALLED_KERNELS);
    }
    folders.insert(folders.end(), {LAMINA_BUILT_KERNELS, LAMINA_INSTALL_PREFIX "/" LAMINA_INSTALLED_KERNELS});
  }
  text words;
  words << "bundle `" << bundle.name << "`: the kernels" << file << " are in none of";
  for (const auto& f : folders) {
    if (std::filesystem::is_regular_file(f + file)) return f + file;
    words << " " << f;
  }
  words << "; name their folder by the variable LAMINA_KERNELS or in `tools.kernels`";
  lamina::detail::raise(error_kind::file, words);
}

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](writer& w) { w.write(text); });
}

/// A folder of its own for what comes in between, gone in the end.
struct workshop {
  std::string name;
  std::vector<std::string> files;
  explicit workshop(const std::string& directory) : name(directory + "/.lamina-bundle-XXXXXX") {
    if (!::mkdtemp(name.data())) {
      text t;
      t << directory << ": cannot be written: " << std::strerror(errno);
      lamina::detail::raise(error_kind::file, t);
    }
  }
  workshop(const workshop&) = delete;
  workshop& operator=(const workshop&) = delete;
  ~workshop() {
    for (const auto& f : files) ::unlink(f.c_str());
    ::rmdir(name.c_str());
  }
  std::string file(const std::string& f) { return files.emplace_back(name + "/" + f); }
};

}  // namespace

void make_object(const std::string& directory, const image& bundle, const std::string& header, const std::string& source,
                 const std::vector<std::string>& globals, const options& o) {
  const auto archive = archive_of(bundle, o.tools);
  const auto compiler =
      found(bundle.name, "compiler of C", "clang or gcc", o.tools.compiler, "CC", {LAMINA_COMPILER, "cc", "clang", "gcc"});
  const auto linker = found(bundle.name, "GNU ld", "binutils", o.tools.linker, "LD", {"ld.bfd", "ld"});
  const auto objcopy = found(bundle.name, "objcopy", "binutils", o.tools.objcopy, "OBJCOPY", {"objcopy"});

  workshop in(directory);
  const auto code = in.file(bundle.name + ".c"), calls = in.file("calls.o"), joined = in.file("joined.o");
  const auto object = in.file(bundle.name + ".o");
  write_text(in.file(bundle.name + ".h"), header);
  write_text(code, source);
  command compile(bundle.name, compiler);
  for (auto flag : {"-x", "c", "-std=c99", "-O2", "-fPIC", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-w", "-c",
                    "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections"})
    compile << flag;
  if (!o.target.empty()) compile << "--target=" + o.target;
  if (!o.cpu.empty()) compile << "-march=" + o.cpu;
  (compile << code << "-o" << calls).run();
  // Groups are dissolved: two bundles may hold the same kernel, each its own.
  command join(bundle.name, linker);
  join << "-r" << "--gc-sections" << "--force-group-allocation" << "-e" << globals[0];
  for (const auto& g : globals) join << "-u" << g;
  (join << "-o" << joined << calls << archive).run();
  command hide(bundle.name, objcopy);
  for (const auto& g : globals) hide << "--keep-global-symbol=" + g;
  for (auto section : {".comment", ".llvm_addrsig", ".eh_frame", ".rela.eh_frame"}) hide << "--remove-section" << section;
  (hide << "--strip-unneeded" << joined << object).run();
  const auto target = directory + "/" + bundle.name + ".o";
  if (::rename(object.c_str(), target.c_str()) != 0) {
    text t;
    t << target << ": cannot be written: " << std::strerror(errno);
    lamina::detail::raise(error_kind::file, t);
  }
}

}  // namespace lamina::bundle
