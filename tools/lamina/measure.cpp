// Times of single operations, beside what one core does at most.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "json.h"
#include "measure.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// Generated values: in [0, 1), or zeros for integers, which may be positions.
any_tensor made_up(const tensor_type& type) {
  any_tensor t(type);
  const philox stream(1, 1);
  with_type(type.element, [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      for (std::int64_t i = 0; i < type.dims.size(); ++i)
        reinterpret_cast<T*>(t.mutable_data())[i] =
            static_cast<T>(stream.uniform<double>(static_cast<std::uint64_t>(i)));
  });
  return t;
}

// ---- limits of a core -----------------------------------------------------------------------------------------------

template <int Lanes> using lanes_of = float __attribute__((vector_size(Lanes * sizeof(float))));

// The compiler keeps what is computed into it.
void keep(float x) {
  volatile float kept = x;
  static_cast<void>(kept);
}

// As many independent chains as hide the latency of a multiply-add; two operations without an instruction for it.
template <int Lanes, int Chains, bool Fused> [[gnu::always_inline]] inline double multiply_adds(long turns) {
  lanes_of<Lanes> sum[Chains], a = lanes_of<Lanes>{} + 0.999f, b = lanes_of<Lanes>{} + 0.001f;
  for (int i = 0; i < Chains; ++i) sum[i] = lanes_of<Lanes>{} + static_cast<float>(i);
  for (long t = 0; t < turns; ++t) {
#pragma clang loop unroll(full)
    for (int i = 0; i < Chains; ++i) sum[i] = Fused ? __builtin_elementwise_fma(sum[i], a, b) : sum[i] * a + b;
  }
  for (int i = 1; i < Chains; ++i) sum[0] += sum[i];
  keep(sum[0][0]);
  return 2.0 * Lanes * Chains * static_cast<double>(turns);
}
#if defined(__aarch64__)
[[gnu::noinline]] double multiply_adds_of(isa, long turns) { return multiply_adds<4, 24, true>(turns); }
#else
[[gnu::target("avx512f"), gnu::noinline]] double multiply_adds_avx512(long turns) {
  return multiply_adds<16, 24, true>(turns);
}
[[gnu::target("avx2,fma"), gnu::noinline]] double multiply_adds_avx2(long turns) {
  return multiply_adds<8, 12, true>(turns);
}
[[gnu::noinline]] double multiply_adds_sse2(long turns) { return multiply_adds<4, 12, false>(turns); }
double multiply_adds_of(isa set, long turns) {
  return set == isa::avx512 ? multiply_adds_avx512(turns)
         : set == isa::avx2 ? multiply_adds_avx2(turns)
                            : multiply_adds_sse2(turns);
}
#endif

// The least time of some calls, in seconds.
template <class F> double least_seconds(int calls, F f) {
  using clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int i = 0; i < calls; ++i) {
    const auto begin = clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(clock::now() - begin).count());
  }
  return least;
}

std::string share(double part, double whole) {
  return whole > 0 ? text_of(static_cast<std::int64_t>(100 * part / whole + 0.5)) : "";
}

// The lines of all segments with their mean times, and what runs take beside them.
struct line_times {
  std::vector<plan_line> lines;
  std::vector<double> nanoseconds;
  double rest = 0, all = 0;
  line_times(const std::vector<timed_plan>& plans, std::int64_t runs) {
    const auto mean = [&](std::int64_t ns) { return static_cast<double>(ns) / static_cast<double>(runs); };
    for (const auto& t : plans) {
      lines.insert(lines.end(), t.lines().begin(), t.lines().end());
      std::transform(t.nanoseconds.begin(), t.nanoseconds.end() - 1, std::back_inserter(nanoseconds), mean);
      rest += mean(t.nanoseconds.back());
    }
    all = std::accumulate(nanoseconds.begin(), nanoseconds.end(), rest);
  }
};

void add_operations(const line_times& times, const std::optional<core_limits>& limits, json& report) {
  json operations = json::array();
  for (std::size_t i = 0; i < times.lines.size(); ++i) {
    operations.push_back(json_of(times.lines[i]));
    operations.back()["ns"] = std::llround(times.nanoseconds[i]);
  }
  report["operations"] = std::move(operations);
  report["rest_ns"] = std::llround(times.rest);
  if (limits)
    report["limits"] = {{"flops_per_second", limits->flops_per_second}, {"bytes_per_second", limits->bytes_per_second}};
}

}  // namespace

std::vector<any_tensor> inputs_for(const std::string& model, const program& p, const std::vector<std::string>& files,
                                   std::vector<std::string> shapes) {
  for (auto i : p.inputs())
    if (const node& n = p.at(i); !n.results[0].is_tensor())
      throw unsupported_error(
          text_of(model, ": input `", printable(n.name), "` is ", n.results[0], ", but generated inputs are tensors"));
  auto inputs = inputs_of(model, p, files);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || inputs[i].shape().rank == 0) continue;
    std::string option = p.at(p.inputs()[i]).name;
    for (int k = 0; k < inputs[i].shape().rank; ++k) option += text_of(k ? "x" : "=", inputs[i].shape()[k]);
    shapes.push_back(std::move(option));
  }
  const auto extents = extents_of(model, p, shapes);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i]) inputs[i] = made_up({p.at(p.inputs()[i]).results[0].element, extents[i]});
  return inputs;
}

std::vector<timed_plan> timed_plans_of(session& net, const std::vector<any_tensor>& inputs,
                                       std::vector<any_tensor>& outputs) {
  std::vector<timed_plan> plans;
  net.run_timed(inputs, outputs, plans);
  for (auto& t : plans) std::fill(t.nanoseconds.begin(), t.nanoseconds.end(), 0);
  return plans;
}

core_limits measured_limits() {
  constexpr long turns = 40'000;
  const auto run = [] { return multiply_adds_of(target_isa(), turns); };
  const double flops = run(), seconds = least_seconds(10, run);
  // Four times the last cache, from 128 MiB to 1 GiB.
  const auto cache = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  const auto count = std::clamp<std::int64_t>(cache, std::int64_t(32) << 20, std::int64_t(256) << 20) / 64 * 64;
  const any_tensor numbers(tensor_type{dtype::float32, shape{count}});
  const auto* from = reinterpret_cast<const float*>(numbers.data());
  const double reading = least_seconds(5, [&] {
    lanes_of<4> sum[16]{};
    for (std::int64_t i = 0; i < count; i += 64)
      for (std::int64_t k = 0; k < 16; ++k) sum[k] += *reinterpret_cast<const lanes_of<4>*>(from + i + 4 * k);
    for (const auto& s : sum) keep(s[0]);
  });
  return {flops / seconds, static_cast<double>(count) * sizeof(float) / reading};
}

void print_operations(const std::vector<timed_plan>& plans, std::int64_t runs, const std::optional<core_limits>& limits,
                      json* report) {
  const line_times times(plans, runs);
  if (report) return add_operations(times, limits, *report);
  std::vector<std::vector<std::string>> table{
      {"operation", "where", "result", "layout", "kernel", "ns", "%", "flops", "bytes"}};
  if (limits) table[0].insert(table[0].end(), {"% of fma", "% of memory"});
  for (std::size_t i = 0; i < times.lines.size(); ++i) {
    const plan_line& l = times.lines[i];
    const double ns = times.nanoseconds[i], bytes = static_cast<double>(l.bytes);
    table.push_back({l.what, l.where, text_of(l.result), layout_of(l), l.kernel, text_of(static_cast<std::int64_t>(ns)),
                     share(ns, times.all), counted(l.flops), counted(bytes)});
    if (limits) {
      table.back().push_back(share(l.flops, limits->flops_per_second * ns * 1e-9));
      table.back().push_back(share(bytes, limits->bytes_per_second * ns * 1e-9));
    }
  }
  if (times.rest > 0) {
    table.push_back({"copies", "", "", "", "", text_of(static_cast<std::int64_t>(times.rest)),
                     share(times.rest, times.all), "", ""});
    if (limits) table.back().insert(table.back().end(), {"", ""});
  }
  print_table(table, 5);
  if (limits)
    std::printf("one core: %.1f GFLOP/s by multiply-adds, %.1f GB/s read from memory\n",
                limits->flops_per_second * 1e-9, limits->bytes_per_second * 1e-9);
}

}  // namespace tool
