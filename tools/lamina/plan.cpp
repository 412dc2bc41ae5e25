// lamina plan: prints the steps of a run of a net.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
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

namespace {

// Prints the operations of a run with the mean of their times, over runs of half a second or a hundred.
void print_measured(const plan_arguments& a, saved_net net) {
  const core_limits limits = measured_limits();
  const auto inputs = inputs_for(a.model, *net.program, {}, a.shapes);
  const auto note = note_on_extents(*net.program, a.shapes, "--shape");
  const signals noted;
  auto runs = ir::session::owning(net.program, std::move(net.states), nullptr, a.passes());
  std::vector<any_tensor> outputs;
  std::vector<timed_plan> times;
  {
    const stop_scope until(noted_signal{});
    with_note(note, [&] { times = timed_plans_of(runs, inputs, outputs); });
  }
  std::int64_t count = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  do {
    runs.run_timed(inputs, outputs, times);
    signals::check();
  } while (++count < 100 && std::chrono::steady_clock::now() < end);
  json report{{"isa", name_of(target_isa())}, {"runs", count}};
  print_operations(times, count, limits, a.json ? &report : nullptr);
  if (a.json) print_line(report);
}

}  // namespace

void plan(const plan_arguments& a) {
  auto read = load_with_extents(a.model, a);
  const auto& extents = read.extents;
  auto net = std::move(read.net).optimized();
  if (a.measure) return print_measured(a, std::move(net));
  const auto note = note_on_extents(*net.program, a.shapes, "--shape");
  const ir::session planned(net.program, {&net.states, nullptr}, nullptr, a.passes());
  const auto plans = with_note(note, [&] { return planned.plans(extents); });
  // Adds missed optimizations that were found while weights were precomputed, which the plans do not report again.
  std::vector<std::string> missed;
  for (const auto& p : plans) missed.insert(missed.end(), p->counters().missed.begin(), p->counters().missed.end());
  const auto again = static_cast<std::ptrdiff_t>(missed.size());
  for (const auto& why : net.missed)
    if (std::find(missed.begin(), missed.begin() + again, why) == missed.begin() + again) missed.push_back(why);
  auto recognized = std::move(net.recognized);
  for (const auto& p : plans)
    for (const auto& [name, times] : p->counters().recognized()) recognized[name] += times;
  if (!a.json) {
    std::fputs(planned.explain(extents).c_str(), stdout);
    const char* before = "recognized: ";
    for (const auto& [name, times] : recognized) {
      std::printf("%s%lld %s", before, static_cast<long long>(times), name.c_str());
      before = ", ";
    }
    if (!recognized.empty()) std::printf("\n");
    for (auto why = missed.begin() + again; why != missed.end(); ++why)
      std::printf("not recognized: %s\n", printable(*why, 1024).c_str());
    return;
  }
  // Segments after the first are planned for the maximum number of rows.
  json segments = json::array();
  for (const auto& p : plans) {
    json operations = json::array();
    for (const auto& line : p->lines()) operations.push_back(json_of(line));
    segments.push_back(
        {{"operations", operations}, {"bytes_arena", p->arena_bytes()}, {"bytes_scratch", p->scratch_bytes()}});
  }
  print_line({{"isa", name_of(target_isa())},
              {"shapes", json_of(extents)},
              {"segments", segments},
              {"recognized", recognized},
              {"not_recognized", missed}});
}

}  // namespace tool
