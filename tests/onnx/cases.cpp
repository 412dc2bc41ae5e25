// cases FOLDER [PART] [--special FILE]
//
// Runs the cases of write_cases.py whose kind/name contains PART, each in a child process. Prints a line for each case
// that does not pass, then the count of each outcome. Fails if a case is wrong or crashes. FILE has lines `NAME WORD`:
//   unsupported    with it, every other unsupported case is a failure, too
//   random         only types are compared: the expected values are from NumPy's generator
//   noise          expected values are 0 except for rounding
//   rank:INPUT=N   the file omits the rank of an input, or states a wrong one
//   value:INPUT    the model is read with this input's value
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
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

std::vector<double> numbers_of(const any_tensor& t) {
  std::vector<double> all;
  with_type(t.element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, float>)
      for (auto v : t.elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}

std::string text_of(const auto&... parts) {
  message_text t;
  ((t << parts), ...);
  return t.string();
}

void compare(std::size_t output, const any_tensor& is, const any_tensor& expected, double relative, double absolute) {
  if (is.type() != expected.type())
    throw wrong(text_of("output ", output, " is ", is.type(), ", expected ", expected.type()));
  if (is.element() == dtype::string) {
    const auto a = is.elements<std::string_view>(), b = expected.elements<std::string_view>();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) throw wrong(text_of("output ", output, ": element ", i, " is ", a[i], ", expected ", b[i]));
    return;
  }
  if (is.bytes() == 0 || std::memcmp(is.data(), expected.data(), is.bytes()) == 0) return;
  // Expected half-precision values are rounded after each step of a formula, results here once.
  if (is.element() == dtype::bfloat16) relative = std::max(relative, 1.0 / 64);
  if (is.element() == dtype::float16) relative = std::max(relative, 1.0 / 512);
  const auto a = numbers_of(is), b = numbers_of(expected);
  std::size_t bad = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same || std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])) continue;
    if (bad++ == 0) first = i;
  }
  if (bad)
    throw wrong(text_of("output ", output, " ", is.type(), ": ", bad, " of ", a.size(), " elements differ; element ",
                        first, " is ", a[first], ", expected ", b[first]));
}

void compare(std::size_t output, const any_value& is, const any_value& expected, double relative, double absolute) {
  if (is.kind() == value_kind::tensor) return compare(output, is.as_tensor(), expected.as_tensor(), relative, absolute);
  if (is.kind() == value_kind::sequence) {
    if (is.elements().size() != expected.elements().size())
      throw wrong(
          text_of("output ", output, " has ", is.elements().size(), " tensors, expected ", expected.elements().size()));
    for (std::size_t i = 0; i < is.elements().size(); ++i)
      compare(output, is.elements()[i], expected.elements()[i], relative, absolute);
    return;
  }
  if (is.has_value() != expected.has_value())
    throw wrong(text_of("output ", output, " is there or not, unlike expected"));
  if (is.has_value()) compare(output, is.held(), expected.held(), relative, absolute);
}

// The files PREFIX_0.pb, PREFIX_1.pb, ... of a folder, as values of these types.
std::vector<any_value> values_of(const fs::path& folder, const std::string& prefix,
                                 const std::vector<named_type>& types) {
  std::vector<any_value> all;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto file = folder / (prefix + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) break;
    all.push_back(onnx::load_value(file.string(), types[i].type.kind).value);
  }
  return all;
}

// The read options of a special case. `value` is the position of the input that becomes a constant.
onnx::read_options options_of(const fs::path& folder, const std::string& special, std::size_t& value) {
  onnx::read_options o;
  const auto name = special.substr(std::min(special.find(':') + 1, special.size()));
  if (special.starts_with("rank:")) {
    shape open;
    for (int i = std::stoi(name.substr(name.find('=') + 1)); i > 0; --i) open.push_back(dyn);
    o.shapes.emplace_back(name.substr(0, name.find('=')), open);
  }
  if (special.starts_with("value:"))
    for (std::size_t i = 0; o.values.empty(); ++i) {
      const auto file = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
      if (auto given = onnx::load_value(file.string()); given.name == name) {
        o.values.emplace_back(name, given.value.as_tensor());
        value = i;
      }
    }
  return o;
}

void run_case(const fs::path& folder, const std::string& special) {
  double relative = 1e-3, absolute = 1e-7;
  std::ifstream(folder / "tolerance") >> relative >> absolute;
  std::size_t constant = std::string::npos;
  auto net = onnx::load((folder / "model.onnx").string(), options_of(folder, special, constant));
  auto given = net.inputs();
  const auto made = net.outputs();
  if (constant != std::string::npos) given.insert(given.begin() + static_cast<std::ptrdiff_t>(constant), named_type{});
  ir::session run = ir::session::owning(net.program, std::move(net.states));
  for (std::size_t n = 0;; ++n) {
    const auto data = folder / ("test_data_set_" + std::to_string(n));
    if (!fs::exists(data)) return;
    auto inputs = values_of(data, "input", given);
    const auto expected = values_of(data, "output", made);
    if (constant != std::string::npos) inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(constant));
    const auto results = run.run(view<const any_value>(inputs));
    if (results.size() != expected.size()) throw wrong(text_of(results.size(), " outputs, expected ", expected.size()));
    for (std::size_t i = 0; i < results.size(); ++i)
      if (special == "random" && results[i].kind() == value_kind::tensor) {
        if (results[i].as_tensor().type() != expected[i].as_tensor().type()) throw wrong("another type than expected");
      } else compare(i, results[i], expected[i], relative, special == "noise" ? 1e-6 : absolute);
  }
}

enum outcome { passed, unsupported, failed, crashed };
constexpr const char* names[] = {"passed", "unsupported", "wrong", "crashed"};

// Runs a case in a child process that prints the message.
outcome run_apart(const fs::path& folder, const std::string& name, const std::string& special) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    int status = passed;
    std::string words;
    try {
      run_case(folder, special);
    } catch (const unsupported_error& e) { status = unsupported, words = e.what(); } catch (const std::exception& e) {
      status = failed, words = e.what();
    }
    if (status != passed) {
      const auto at = words.find(folder.string());
      if (at == 0) words.erase(0, folder.string().size() + 1);
      std::printf("%-11s %s: %s\n", names[status], name.c_str(), words.c_str());
    }
    std::fflush(stdout);
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) <= failed) return static_cast<outcome>(WEXITSTATUS(status));
  std::printf("%-11s %s: signal %d\n", names[crashed], name.c_str(), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return crashed;
}

}  // namespace

int main(int argc, char** argv) {
  std::string part, folder, special_file;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--special" && i + 1 < argc) special_file = argv[++i];
    else (folder.empty() ? folder : part) = a;
  }
  if (folder.empty()) {
    std::fputs("usage: cases FOLDER [PART] [--special FILE]\n", stderr);
    return 2;
  }
  std::map<std::string, std::string> special;
  if (!special_file.empty()) {
    std::ifstream lines(special_file);
    for (std::string name, word; lines >> name >> word;) special[name] = word;
  }
  std::vector<fs::path> cases;
  for (const auto& kind : fs::directory_iterator(folder))
    if (kind.is_directory())
      for (const auto& c : fs::directory_iterator(kind.path())) cases.push_back(c.path());
  std::sort(cases.begin(), cases.end());
  std::map<int, int> counts;
  int unexpected = 0;
  for (const auto& c : cases) {
    const std::string name = (c.parent_path().filename() / c.filename()).string();
    if (name.find(part) == name.npos) continue;
    const auto word = special.find(name);
    const outcome o = run_apart(c, name, word == special.end() ? std::string() : word->second);
    ++counts[o];
    const bool known = word != special.end() && word->second == "unsupported";
    if (o >= failed || (o == unsupported && !special_file.empty() && !known)) ++unexpected;
  }
  for (int o = passed; o <= crashed; ++o) std::printf("%s %d%s", names[o], counts[o], o == crashed ? "\n" : ", ");
  return unexpected ? 1 : 0;
}
