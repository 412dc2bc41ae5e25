// Shared by the commands: models by name, inputs by name, tables.
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
#ifdef LAMINA_ONNX
import lamina.onnx;
#endif

#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {
bool is_onnx(const std::string& path) {
  if (!path.ends_with(".onnx")) return false;
#ifndef LAMINA_ONNX
  throw unsupported_error(path +
                          ": this program was built without protozero, which reads and writes ONNX (libprotozero-dev)");
#endif
  return true;
}

saved_net load_saved(const std::string& path) {
  if (path.ends_with(".npy") || path.ends_with(".npz"))
    throw value_error(path + " contains arrays; expected a saved net (NAME.json beside NAME.safetensors) or NAME.onnx");
  return load_net(path);
}
}  // namespace

given given_for(const std::string& model, const program& p, const std::string& option) {
  const auto equals = option.find('=');
  if (equals == option.npos) {
    if (p.inputs().size() == 1) return {0, option};
    throw value_error(text_of(model, ": `", printable(option), "` has no name; expected NAME=VALUE, since the net has ",
                              p.inputs().size(), " inputs"));
  }
  const std::string name = option.substr(0, equals);
  std::string there;
  for (std::size_t i = 0; i < p.inputs().size(); ++i) {
    const auto& input = p.at(p.inputs()[i]).name;
    if (input == name) return {i, option.substr(equals + 1)};
    there += (i ? ", `" : "`") + printable(input) + "`";
  }
  throw value_error(text_of(model, ": the net has no input `", printable(name), "`; its inputs are ",
                            there.empty() ? "none" : there.c_str()));
}

namespace {
// A tensor of bits as one of type `e`; another tensor stays.
template <class Bits> any_tensor with_bits(const any_tensor& t, dtype e, int low, int high, const std::string& file) {
  if (t.element() != dtype_of<Bits>) return t;
  for (int x : t.elements<Bits>())
    if (x < low || x > high)
      throw value_error(
          text_of(file, ": the element ", x, " is out of range for ", e, "; expected ", low, " to ", high));
  return any_tensor(t.memory(), {e, t.shape()});
}
// npy files lack some element types: bfloat16 is given as uint16, types of up to one byte as integers of the same bits.
any_tensor as_element(const any_tensor& t, dtype e, const std::string& file) {
  if (e == dtype::bfloat16) return with_bits<std::uint16_t>(t, e, 0, 0xffff, file);
  if (e == dtype::string) return t;
  return with_type(e, [&]<class T>() {
    if constexpr (requires { T::lowest; }) return with_bits<decltype(T::v)>(t, e, T::lowest, T::highest, file);
    else if constexpr (std::is_class_v<T> && sizeof(T) == 1)
      return with_bits<std::uint8_t>(t, e, 0, e == dtype::float4_e2m1 ? 15 : 255, file);
    else return t;
  });
}
}  // namespace

std::vector<any_tensor> inputs_of(const std::string& model, const program& p, const std::vector<std::string>& options) {
  std::vector<any_tensor> inputs(p.inputs().size());
  for (auto i : p.inputs())
    if (const node& n = p.at(i); !n.results[0].is_tensor())
      throw unsupported_error(text_of(model, ": input `", printable(n.name), "` is ", n.results[0],
                                      "; files contain only tensors: run this net with a session"));
  for (const auto& option : options) {
    const auto [input, file] = given_for(model, p, option);
    if (inputs[input])
      throw value_error(text_of(model, ": input `", printable(p.at(p.inputs()[input]).name), "` is given twice"));
    inputs[input] = as_element(read_npy(file), p.at(p.inputs()[input]).results[0].element, file);
  }
  return inputs;
}

namespace {
shape parsed_shape(const std::string& model, const std::string& name, const std::string& s) {
  constexpr std::int64_t max_elements = std::int64_t(1) << 40;
  shape dims;
  std::int64_t elements = 1;
  std::size_t at = 0;
  while (at < s.size() || dims.rank == 0) {
    std::size_t end = at;
    std::int64_t n = 0;
    while (end < s.size() && s[end] >= '0' && s[end] <= '9' && end - at < 13) n = 10 * n + (s[end++] - '0');
    const bool good = end > at && (end == s.size() || (s[end] == 'x' && end + 1 < s.size())) && dims.rank < max_rank &&
                      n > 0 && n <= max_elements / elements;
    if (!good)
      throw value_error(text_of(model, ": ", name.empty() ? "" : "input `", printable(name),
                                name.empty() ? "`" : "`: `", printable(s),
                                "` is not a shape; expected numbers from 1, as in 8x1x28x28, at most ", max_rank,
                                " of them and 2^40 elements"));
    dims.push_back(n);
    elements *= n;
    at = end + 1;
  }
  return dims;
}
}  // namespace

std::vector<shape> extents_of(const std::string& model, const program& p, const std::vector<std::string>& shapes) {
  std::vector<shape> all;
  dimension_names names;
  for (auto i : p.inputs()) all.push_back(p.at(i).results[0].dims);
  std::vector<bool> shaped(all.size());
  for (const auto& option : shapes) {
    const auto [input, value] = given_for(model, p, option);
    const node& n = p.at(p.inputs()[input]);
    if (shaped[input])
      throw value_error(text_of(model, ": input `", printable(n.name), "` has two shapes; expected one; got also `",
                                printable(value), "`"));
    shaped[input] = true;
    all[input] = parsed_shape(model, n.name, value);
    if (!fits(n.results[0].dims, all[input]))
      throw value_error(text_of(model, ": input `", printable(n.name), "` is ", n.results[0].dims,
                                "; the given shape is ", all[input]));
    if (const dim clash = names.bind(n.results[0].dims, all[input]); clash.is_name())
      throw value_error(text_of(model, ": input `", printable(n.name), "` is ", n.results[0].dims,
                                "; the given shape is ", all[input], ", but dimension `", clash, "` is ", names(clash),
                                " in another input"));
  }
  for (auto& s : all) {
    s = names(s);
    for (int k = 0; k < s.rank; ++k)
      if (!s[k].is_number()) s[k] = 1;
  }
  return all;
}

#ifdef LAMINA_ONNX
namespace {
onnx::read_options options_of(const std::string& path, const given_inputs& given) {
  onnx::read_options o;
  for (const auto& s : given.shapes) {
    const auto equals = s.find('=');
    const std::string name = equals == s.npos ? "" : s.substr(0, equals);  // empty: means the only input
    o.shapes.emplace_back(name, parsed_shape(path, name, equals == s.npos ? s : s.substr(equals + 1)));
  }
  std::set<std::string> valued;
  for (const auto& v : given.values) {
    const auto equals = v.find('=');
    if (equals == v.npos) throw value_error(text_of(path, ": `", printable(v), "` has no name; expected NAME=VALUE"));
    const std::string name = v.substr(0, equals), value = v.substr(equals + 1);
    if (!valued.insert(name).second)
      throw value_error(text_of(path, ": input `", printable(name), "` has two values; expected one"));
    if (const auto number = number_in(value)) o.numbers.emplace_back(name, *number);
    else if (value.ends_with(".npy")) o.values.emplace_back(name, read_npy(value));
    else
      throw value_error(text_of(path, ": input `", printable(name), "`: `", printable(value),
                                "` is not a value; expected a number or FILE.npy"));
  }
  return o;
}
}  // namespace
#endif

saved_net load_model(const std::string& path, const given_inputs& given) {
#ifdef LAMINA_ONNX
  if (is_onnx(path)) return onnx::load(path, options_of(path, given));
#endif
  if (!is_onnx(path) && (!given.shapes.empty() || !given.values.empty()))
    throw value_error(path + ": shapes and values of inputs are for ONNX files; this net was saved with its own");
  return load_saved(path);
}

std::vector<std::string> files_to_write(const std::string& out) {
  if (is_onnx(out)) return {out};
  const auto files = files_of_net(out);
  return {files.structure, files.weights};
}
void write_net(const std::string& out, const saved_net& net) {
#ifdef LAMINA_ONNX
  if (is_onnx(out)) return onnx::save(out, net);
#endif
  save_net(out, *net.program, net.states, net.metadata);
}

net_with_extents load_with_extents(const std::string& path, const given_inputs& given) {
  const bool saved = !is_onnx(path);
  net_with_extents made{load_model(path, saved ? given_inputs{{}, given.values} : given), {}};
  std::vector<std::string> of_inputs;  // without those that became constants
  for (const auto& s : given.shapes) {
    const auto is_valued = [&](const std::string& v) { return s.starts_with(v.substr(0, v.find('=') + 1)); };
    if (std::none_of(given.values.begin(), given.values.end(), is_valued)) of_inputs.push_back(s);
  }
  made.extents = extents_of(path, *made.net.program, of_inputs);
  return made;
}

net_with_extents load_fixed(const std::string& path, const given_inputs& given) {
  auto made = load_with_extents(path, given);
#ifdef LAMINA_ONNX
  if (!is_onnx(path)) return made;
  auto o = options_of(path, given);
  const auto& p = *made.net.program;
  bool known = true;
  for (std::size_t i = 0; i < made.extents.size(); ++i) {
    const node& n = p.at(p.inputs()[i]);
    if (n.results[0].dims.is_static()) continue;
    known = false;
    o.shapes.emplace_back(n.name, made.extents[i]);
  }
  if (!known) made.net = onnx::load(path, o);
#endif
  return made;
}

std::string note_on_extents(const program& p, const std::vector<std::string>& shapes, const char* option) {
  for (auto i : p.inputs()) {
    const node& n = p.at(i);
    const bool given = std::any_of(shapes.begin(), shapes.end(), [&](const std::string& s) {
      return p.inputs().size() == 1 || s.starts_with(n.name + "=");
    });
    if (!given && !n.results[0].dims.is_static())
      return text_of("; the open extents of input `", printable(n.name), "`, ", n.results[0].dims,
                     ", count as 1 without ", option, " ", printable(n.name), "=...");
  }
  return {};
}

namespace {
constexpr int noticed[] = {SIGINT, SIGTERM};
std::atomic<int> noted_number{0};
static_assert(std::atomic<int>::is_always_lock_free);  // so that a signal handler may write it
struct sigaction before[2];
}  // namespace

signals::signals() {
  for (int i = 0; i < 2; ++i) {
    ::sigaction(noticed[i], nullptr, &before[i]);
    if (before[i].sa_handler == SIG_IGN) continue;
    struct sigaction note{};
    note.sa_handler = [](int number) { noted_number.store(number); };
    note.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    ::sigaction(noticed[i], &note, nullptr);
  }
}
signals::~signals() {
  for (int i = 0; i < 2; ++i) ::sigaction(noticed[i], &before[i], nullptr);
}
int signals::noted() noexcept { return noted_number.load(std::memory_order_relaxed); }
void signals::check() {
  if (noted()) throw stopped_error("the work was not finished");
}

void check_writable(const std::string& file) {
  const auto fail = [&](const char* why) {
    throw file_error(text_of(printable(file, 1024), ": cannot be written: ", why));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) fail(std::strerror(EISDIR));
  // Files are written to a temporary file and renamed, so the folder must be writable.
  std::string temporary = (std::filesystem::path(file).parent_path() / ".lamina-XXXXXX").string();
  const int made = ::mkstemp(temporary.data());
  if (made < 0) fail(std::strerror(errno));
  ::close(made);
  ::unlink(temporary.c_str());
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& there) {
  // Levenshtein distance.
  auto apart = [](const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < a.size(); ++i) {
      std::size_t corner = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < b.size(); ++j) {
        const std::size_t changed = corner + (a[i] != b[j]);
        corner = row[j + 1];
        row[j + 1] = std::min({changed, corner + 1, row[j] + 1});
      }
    }
    return row[b.size()];
  };
  auto bare = [](const std::string& w) { return w.substr(std::min(w.find_first_not_of('-'), w.size()), 64); };
  std::string nearest;
  std::size_t least = bare(word).size() / 2 + 1;  // less than half in common: no suggestion
  for (const auto& w : there)
    if (const auto n = apart(bare(word), bare(w)); n < least) least = n, nearest = w;
  return nearest.empty() ? "" : "; did you mean `" + nearest + "`?";
}

std::string counted(double n) {
  const char* units[] = {"", " k", " M", " G", " T"};
  int u = 0;
  while (n >= 10000 && u < 4) n /= 1000, ++u;
  return decimals_of(n, u == 0 ? 0 : 1) + units[u];
}

void print_table(const std::vector<std::vector<std::string>>& lines, std::size_t left_columns) {
  std::vector<std::size_t> width;
  for (const auto& l : lines)
    for (std::size_t i = 0; i < l.size(); ++i) {
      if (i == width.size()) width.push_back(0);
      width[i] = std::max(width[i], l[i].size());
    }
  for (const auto& l : lines) {
    std::string s;
    for (std::size_t i = 0; i < l.size(); ++i) {
      const std::string space(width[i] - l[i].size(), ' ');
      s += (i ? "  " : "") + (i < left_columns ? l[i] + space : space + l[i]);
    }
    s.erase(s.find_last_not_of(' ') + 1);
    std::printf("%s\n", s.c_str());
  }
}

std::vector<std::vector<any_tensor>> samples_of(const std::string& model, const program& p,
                                                const std::vector<std::string>& options) {
  std::vector<std::vector<std::string>> files(p.inputs().size());
  for (const auto& option : options) {
    const auto [input, file] = given_for(model, p, option);
    files[input].push_back(file);
  }
  std::vector<std::vector<any_tensor>> samples(files.empty() ? 0 : files[0].size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = printable(p.at(p.inputs()[i]).name);
    if (files[i].empty())
      throw value_error(text_of(model, ": input `", name, "` (", p.at(p.inputs()[i]).results[0],
                                ") is not given; write --input NAME=FILE.npy"));
    if (files[i].size() != samples.size())
      throw value_error(text_of(model, ": input `", name, "` has ", files[i].size(), " files, and input `",
                                printable(p.at(p.inputs()[0]).name), "` ", samples.size(),
                                "; each sample needs all inputs"));
    for (std::size_t k = 0; k < samples.size(); ++k) samples[k].push_back(read_npy(files[i][k]));
  }
  return samples;
}

}  // namespace tool
