// models FOLDER [PART] [--fixed] [--optimize] [--times] [--allowed FILE]
//
// Runs the models of models.py whose name contains PART, each in a child process. Prints a line for each, then the
// count of each outcome. Fails if a model is wrong or crashes, or is unsupported and not listed in FILE.
//   --fixed     reads the model with the extents of the inputs instead of the declared ones
//   --optimize  precomputes values that depend only on weights, as for reference models
//   --times     seconds to load and run once, and of a later run on one and on two threads, each with ONNX Runtime's in
//                 brackets; growth of the process by the first run in MiB
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

import lamina;
import lamina.onnx;

namespace fs = std::filesystem;
using namespace lamina;

namespace {

struct wrong : std::exception {
  explicit wrong(std::string w) : words(std::move(w)) {}
  const char* what() const noexcept override { return words.c_str(); }
  std::string words;
};

struct wishes {
  bool fixed = false, optimize = false, times = false;
};

/// Seconds of loading with the first run, and of a later run; growth of the process by the first run in MiB.
struct run_costs {
  double first = 0, warm = 0, memory = 0;
};
struct model_costs {
  run_costs one, two;  // on one thread, and on two
};

double resident_mebibytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return static_cast<double>(resident * ::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::vector<double> numbers_of(const any_tensor& t) {
  std::vector<double> all;
  with_type(t.element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>)
      for (auto v : t.elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}

std::string text_of(const auto&... parts) {
  message_text t;
  ((t << parts), ...);
  return t.string();
}

// The largest |a - b| / (|b| + RMS of b + 0.01); 0 for equal bits.
double difference(std::size_t output, const any_tensor& is, const any_tensor& expected) {
  if (is.type() != expected.type())
    throw wrong(text_of("output ", output, " is ", is.type(), ", expected ", expected.type()));
  if (std::memcmp(is.data(), expected.data(), is.bytes()) == 0) return 0;
  if (!is_floating(is.element())) throw wrong(text_of("output ", output, " ", is.type(), " differs"));
  const auto a = numbers_of(is), b = numbers_of(expected);
  double squares = 0, worst = 0;
  std::size_t finite = 0;
  for (double x : b)
    if (std::isfinite(x)) squares += x * x, ++finite;
  const double scale = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(finite, 1))) + 0.01;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double d = std::abs(a[i] - b[i]) / (std::abs(b[i]) + scale);
    worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(worst, d);
  }
  return worst;
}

// The files PREFIX_0.npy, PREFIX_1.npy, ... of a folder.
std::vector<any_tensor> tensors_of(const fs::path& folder, const std::string& prefix) {
  std::vector<any_tensor> all;
  for (std::size_t i = 0;; ++i) {
    const auto file = folder / (prefix + "_" + std::to_string(i) + ".npy");
    if (!fs::exists(file)) return all;
    all.push_back(read_npy(file.string()));
  }
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The fastest run within half a second, of at least three.
double warm_seconds(const auto& run) {
  double best = std::numeric_limits<double>::infinity();
  const double begin = now();
  for (int runs = 0; runs < 3 || now() - begin < 0.5; ++runs) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best;
}

// Extents of inputs by name, from a first load of the file.
onnx::read_options options_of(const std::string& file, view<const any_tensor> inputs) {
  onnx::read_options o;
  const auto net = onnx::load(file);
  const auto& declared = net.program->inputs();
  if (declared.size() != inputs.size()) throw wrong(text_of("the model has ", declared.size(), " inputs"));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    o.shapes.emplace_back(net.program->at(declared[i]).name, inputs[i].type().dims);
  return o;
}

std::vector<any_tensor> run_model(const std::string& file, const std::vector<any_tensor>& inputs, const wishes& how,
                                  int threads, run_costs& cost) {
  const auto o = how.fixed ? options_of(file, inputs) : onnx::read_options{};
  const auto where = std::make_shared<context>(threads, target_isa());
  const double begin = now(), held = resident_mebibytes();
  const auto ran_once = [&] { cost.first = now() - begin, cost.memory = resident_mebibytes() - held; };
  auto net = onnx::load(file, o);
  std::vector<any_tensor> results;
  if (how.optimize) {
    auto net_runner = std::move(net).factory({.optimize = true}).create();
    results = net_runner(inputs);
    ran_once();
    if (how.times) cost.warm = warm_seconds([&] { net_runner(inputs); });
    return results;
  }
  net = std::move(net).optimized();
  ir::session runner = ir::session::owning(net.program, std::move(net.states), where);
  runner.run(inputs, results);
  ran_once();
  std::vector<any_tensor> again;
  if (how.times) cost.warm = warm_seconds([&] { runner.run(inputs, again); });
  return results;
}

// The largest difference, relative to the tolerance.
double run_case(const fs::path& folder, wishes how, model_costs& took) {
  how.fixed = how.fixed || fs::exists(folder / "fixed");
  const auto inputs = tensors_of(folder, "input"), expected = tensors_of(folder, "output");
  const auto file = (folder / "model.onnx").string();
  const auto results = run_model(file, inputs, how, 1, took.one);
  if (results.size() != expected.size()) throw wrong(text_of(results.size(), " outputs, expected ", expected.size()));
  std::ifstream tolerances(folder / "tolerance");
  double worst = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    double tolerance = 1e-4;
    tolerances >> tolerance;
    const double d = difference(i, results[i], expected[i]);
    if (!(d <= tolerance))
      throw wrong(text_of("output ", i, " ", results[i].type(), " differs by ", d, ", of ", tolerance, " tolerated"));
    worst = std::max(worst, d);
  }
  const auto others = how.optimize ? results : run_model(file, inputs, how, 2, took.two);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (std::memcmp(results[i].data(), others[i].data(), results[i].bytes()) != 0)
      throw wrong(text_of("output ", i, " has other bits on two threads"));
  return worst;
}

enum outcome { passed, unsupported, failed, crashed };
constexpr const char* names[] = {"passed", "unsupported", "wrong", "crashed"};

void print_passed(const fs::path& folder, double worst, const model_costs& took, bool times) {
  std::printf("%-11s %-24s differs by %.1e", names[passed], folder.filename().c_str(), worst);
  double load = 0, first = 0, one = 0, two = 0;
  std::ifstream(folder / "times") >> load >> first >> one >> two;
  if (times)
    std::printf(", first %.3f (%.3f), one %.5f (%.5f), two %.5f (%.5f), %.1f MiB", took.one.first, load + first,
                took.one.warm, one, took.two.warm, two, took.one.memory);
  std::printf("\n");
}

// Runs a model in a child process that prints its line.
outcome run_apart(const fs::path& folder, const wishes& how) {
  std::fflush(stdout);
  const std::string name = folder.filename();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    int status = passed;
    std::string words;
    try {
      model_costs took;
      print_passed(folder, run_case(folder, how, took), took, how.times);
    } catch (const unsupported_error& e) { status = unsupported, words = e.what(); } catch (const std::exception& e) {
      status = failed, words = e.what();
    }
    if (words.find(folder.string()) == 0) words.erase(0, folder.string().size() + 1);
    if (status != passed) std::printf("%-11s %-24s %s\n", names[status], name.c_str(), words.c_str());
    std::fflush(stdout);
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) <= failed) return static_cast<outcome>(WEXITSTATUS(status));
  std::printf("%-11s %-24s signal %d\n", names[crashed], name.c_str(), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return crashed;
}

std::set<std::string> lines_of(const std::string& file) {
  std::set<std::string> all;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') all.insert(line.substr(0, line.find(' ')));
  return all;
}

int run_all(const std::string& folder, const std::string& part, const wishes& how, const std::string& allowed_file) {
  if (!fs::exists(folder)) {
    std::printf("no models in %s: models.py writes them\n", folder.c_str());
    return 77;
  }
  const auto allowed = lines_of(allowed_file);
  std::vector<fs::path> models;
  for (const auto& m : fs::directory_iterator(folder))
    if (fs::exists(m.path() / "stamp") && m.path().filename().string().find(part) != std::string::npos)
      models.push_back(m.path());
  std::sort(models.begin(), models.end());
  int counts[4] = {}, unexpected = 0;
  for (const auto& m : models) {
    const outcome o = run_apart(m, how);
    ++counts[o];
    unexpected +=
        allowed_file.empty() ? o >= failed : (o != passed && !(o == unsupported && allowed.contains(m.filename())));
  }
  for (int o = passed; o <= crashed; ++o) std::printf("%s %d%s", names[o], counts[o], o == crashed ? "\n" : ", ");
  return unexpected ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string part, folder, allowed_file;
  wishes how;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--allowed" && i + 1 < argc) allowed_file = argv[++i];
    else if (a == "--fixed") how.fixed = true;
    else if (a == "--optimize") how.optimize = true;
    else if (a == "--times") how.times = true;
    else (folder.empty() ? folder : part) = a;
  }
  if (folder.empty()) {
    std::fputs("usage: models FOLDER [PART] [--fixed] [--optimize] [--times] [--allowed FILE]\n", stderr);
    return 2;
  }
  return run_all(folder, part, how, allowed_file);
}
