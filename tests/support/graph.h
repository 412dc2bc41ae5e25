// Small programs for tests: inputs and states with their data, built, planned and run in a line. Elements are stored as
// double, whatever their type. Include it after `import lamina;` and <functional>, <memory>, <string>, <vector>.
#pragma once

#include "message.h"

extern "C++" {  // in a module unit too: functions that are defined elsewhere belong to no module
namespace engine_test {

/// A tensor of any element type, with its elements as doubles.
struct array {
  lamina::tensor_type type;
  std::vector<double> values;
  const lamina::shape& shape() const { return type.dims; }
};

array array_of(lamina::dtype element, const lamina::shape& dims, std::vector<double> values);
/// Numbers in [low, high) that depend only on the seed and the position; whole numbers for integers, 0 or 1 for bool.
array random_array(lamina::dtype element, const lamina::shape& dims, int seed, double low = -2, double high = 2);
lamina::any_tensor to_tensor(const array& a);
array from_tensor(const lamina::any_tensor& t);

/// Equal types and equal bits; every NaN counts as the same.
bool same_bits(const array& a, const array& b);
/// Whole numbers drawn one after the other from a stream.
struct draws {
  lamina::philox stream;
  std::uint64_t at = 0;
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream.bits(at++) % n); }
};

/// Largest |a - b| / max(1, |a|, |b|); infinite where shapes or NaNs differ.
double distance(const array& a, const array& b);

/// How many of n random or repeated cases to run: all, or a fifth under a sanitizer that makes each slow.
constexpr int random_cases(int n) {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return n / 5;
#else
  return n;
#endif
}

/// Lines of a plan that name an operation.
inline std::size_t lines_with(const lamina::plan& p, std::string_view word) {
  std::size_t n = 0;
  for (const auto& l : p.lines()) n += l.what.find(word) != std::string::npos;
  return n;
}

/// Every pass off.
inline const lamina::pass_options no_passes{false, false, false, false, false, false};

class small_graph {
 public:
  lamina::ir::program p;
  lamina::parameter_store store;
  std::shared_ptr<const lamina::plan> plan;  // plan of the last run

  lamina::ir::value input(const array& a, std::string_view name = "x");
  /// An input with only element type and rank known until a plan is made.
  lamina::ir::value open_input(const array& a, std::string_view name = "x");
  lamina::ir::value state(std::string_view name, const array& a);
  void output(const lamina::ir::value& v) { p.output("y", v); }
  std::shared_ptr<const lamina::plan> make(const lamina::pass_options& options = {}) const;
  /// Plans and runs once, from the given data; states keep the values that the run assigns.
  std::vector<array> run(const lamina::pass_options& options = {}, int threads = 1);
  array now(std::string_view state) const;
  std::vector<array> data;  // data of the inputs
};

using builder = std::function<std::vector<lamina::ir::value>(const std::vector<lamina::ir::value>&)>;

/// Runs a program over inputs and returns its results.
std::vector<array> results_of(const std::vector<array>& in, const builder& build,
                              const lamina::pass_options& options = {});
inline array result_of(const std::vector<array>& in,
                       const std::function<lamina::ir::value(const std::vector<lamina::ir::value>&)>& build,
                       const lamina::pass_options& options = {}) {
  return results_of(
      in, [&](const std::vector<lamina::ir::value>& v) { return std::vector<lamina::ir::value>{build(v)}; },
      options)[0];
}

}  // namespace engine_test
}
