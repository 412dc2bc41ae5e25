// lamina doctor: reports the machine's features and which of them the library uses, and tests the kernels.
#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// y = tanh(x w + b) and a convolution, compared with plain loops in double.
struct self_test {
  static constexpr std::int64_t rows = 7, inner = 33, columns = 19, size = 9, kernel = 3, channels = 5;
  program p;
  std::vector<any_tensor> in;

  any_tensor numbers(const shape& dims, int seed) {
    any_tensor t(tensor_type{dtype::float32, dims});
    const philox stream(seed, 11);
    for (std::int64_t i = 0; i < dims.size(); ++i)
      reinterpret_cast<float*>(t.mutable_data())[i] =
          static_cast<float>(stream.uniform<double>(static_cast<std::uint64_t>(i)) - 0.5);
    return t;
  }
  value input(const char* name, const shape& dims) {
    in.push_back(numbers(dims, static_cast<int>(in.size())));
    return p.input(name, in.back().type());
  }
  self_test() {
    value x = input("x", {rows, inner}), w = input("w", {inner, columns}), b = input("b", {columns});
    p.output("dense", tanh(matmul(x, w) + b));
    value image = input("image", {1, channels, size, size}),
          weight = input("weight", {channels, channels, kernel, kernel});
    p.output("image", conv2d(image, weight));
  }
  double element(std::size_t tensor, std::int64_t i) const {
    return static_cast<double>(in[tensor].elements<float>()[static_cast<std::size_t>(i)]);
  }
  double dense(std::int64_t i) const {
    double sum = element(2, i % columns);
    for (std::int64_t k = 0; k < inner; ++k)
      sum += element(0, i / columns * inner + k) * element(1, k * columns + i % columns);
    return std::tanh(sum);
  }
  double image(std::int64_t i) const {
    constexpr std::int64_t out = size - kernel + 1;
    double sum = 0;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < kernel; ++y)
        for (std::int64_t x = 0; x < kernel; ++x)
          sum += element(3, (c * size + i / out % out + y) * size + i % out + x) *
                 element(4, ((i / (out * out) * channels + c) * kernel + y) * kernel + x);
    return sum;
  }
  /// Largest error of the kernels for an instruction set.
  double error(isa set) {
    std::vector<shape> extents;
    for (const auto& t : in) extents.push_back(t.shape());
    const auto out = executor(make_plan(p, extents, set), nullptr).run(in);
    double worst = 0;
    for (std::size_t o = 0; o < 2; ++o)
      for (std::int64_t i = 0; i < out[o].shape().size(); ++i) {
        const double e = std::abs(static_cast<double>(out[o].elements<float>()[static_cast<std::size_t>(i)]) -
                                  (o == 0 ? dense(i) : image(i)));
        worst = e <= worst ? worst : e;  // NaN counts as the worst
      }
    return worst;
  }
  std::vector<std::string> plan(isa set) const {
    std::vector<shape> extents;
    for (const auto& t : in) extents.push_back(t.shape());
    std::vector<std::string> lines;
    const auto made = make_plan(p, extents, set);
    for (const auto& l : made->lines()) lines.push_back(l.what);
    return lines;
  }
};

struct machine {
  std::vector<std::string> sets;
  double memory = 0, free = 0;  // MiB
};
machine this_machine() {
  machine m;
  for (auto set : instruction_sets)
    if (machine_has(set)) m.sets.emplace_back(name_of(set));
  const double page = static_cast<double>(::sysconf(_SC_PAGESIZE)), mega = 1024 * 1024;
  m.memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * page / mega;
  m.free = static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) * page / mega;
  return m;
}

// Self-test result for an instruction set.
struct tested {
  std::string set;
  double error;
  bool good() const { return error < 1e-5; }
};

json report(const machine& m, const std::vector<std::string>& kernels, const std::vector<tested>& results) {
  json tests = json::array();
  for (const auto& r : results) tests.push_back({{"isa", r.set}, {"ok", r.good()}, {"error", r.error}});
  return {{"version", LAMINA_VERSION},
          {"clang", text_of(__clang_major__, ".", __clang_minor__)},
          {"cli11", CLI11_VERSION},
          {"instruction_sets", m.sets},
          {"isa", name_of(target_isa())},
          {"cores", available_cores()},
          {"memory_mib", std::llround(m.memory)},
          {"free_mib", std::llround(m.free)},
          {"kernels", kernels},
          {"self_test", tests}};
}

void print(const machine& m, const std::vector<std::string>& kernels, const std::vector<tested>& results) {
  std::printf("lamina %s, compiled by Clang %d.%d, CLI11 %s\n", LAMINA_VERSION, __clang_major__, __clang_minor__,
              CLI11_VERSION);
  std::printf("instruction sets:");
  for (const auto& set : m.sets) std::printf(" %s", set.c_str());
  std::printf("\nin use: %s\ncores: %d\n", std::string(name_of(target_isa())).c_str(), available_cores());
  std::printf("memory: %.0f MiB, %.0f MiB free\n", m.memory, m.free);
  std::printf("kernels of a small net:\n");
  for (const auto& k : kernels) std::printf("  %s\n", k.c_str());
  std::printf("self-test:");
  for (const auto& r : results)
    std::printf(" %s %s (%s)", r.set.c_str(), r.good() ? "ok" : "WRONG", text_of(r.error).c_str());
  std::printf("\n");
}

}  // namespace

void doctor(const doctor_arguments& a) {
  const machine m = this_machine();
  self_test test;
  const auto kernels = test.plan(target_isa());
  std::vector<tested> results;
  for (auto set : instruction_sets)
    if (machine_has(set)) results.push_back({std::string(name_of(set)), test.error(set)});
  if (a.json) print_line(report(m, kernels, results));
  else print(m, kernels, results);
  for (const auto& r : results)
    if (!r.good()) throw std::runtime_error("the self-test found wrong results on this machine");
}

}  // namespace tool
