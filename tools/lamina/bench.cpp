// lamina bench: measures the run time of a net.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
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
using namespace lamina::ir;

namespace {

// Resident set size of this process in bytes; 0 if the system does not report it.
std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu %zu", &all, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void bench(const bench_arguments& o) {
  using clock = std::chrono::steady_clock;
  const std::size_t before = resident_bytes();
  auto begin = clock::now();
  saved_net net = std::move(load_with_extents(o.model, o).net).optimized();
  clock::duration first = clock::now() - begin;
  const program& p = *net.program;
  const std::vector<any_tensor> in = inputs_for(o.model, p, o.inputs, o.shapes);
  std::vector<shape> extents;
  for (const auto& x : in) extents.push_back(x.shape());
  std::vector<any_tensor> out;
  auto known = o.shapes;
  known.insert(known.end(), o.inputs.begin(), o.inputs.end());
  const signals noted;  // checked between runs: a `stop_scope` would add to the measured time
  begin = clock::now();
  auto runs = session::owning(net.program, std::move(net.states), std::make_shared<context>(o.threads, target_isa()),
                              o.passes());
  // One mandatory run, which allocates the outputs; a net in segments continues with it.
  with_note(note_on_extents(p, known, "--shape"), [&] { runs.run(in, out); });
  first += clock::now() - begin;
  const std::size_t after = resident_bytes();
  executor* bound = runs.in_segments() ? nullptr : &runs.at(extents);
  const auto run = [&] {
    if (bound) bound->run();
    else runs.run(in, out);
  };
  for (int i = 0; i < 2; ++i) run();
  std::vector<double> times;
  for (std::int64_t i = 0; i < o.repeat; ++i) {
    signals::check();
    begin = clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::nano>(clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  const double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  std::size_t weights = 0;
  for (auto s : p.states()) weights += p.at(s).results[0].bytes();
  std::size_t arena = 0;
  for (const auto& plan : runs.plans(extents)) arena += plan->arena_bytes();
  const std::string set(name_of(target_isa()));
  json report{{"isa", set},
              {"threads", o.threads},
              {"repeat", o.repeat},
              {"first_ns", std::chrono::nanoseconds(first).count()},
              {"min_ns", std::llround(times[0])},
              {"median_ns", std::llround(median)},
              {"bytes_arena", arena},
              {"bytes_weights", weights},
              {"bytes_resident", after - std::min(before, after)}};
  if (!o.json)
    for (const auto& [name, value] : report.items())
      std::printf("%-14s %s\n", name.c_str(), value.is_string() ? set.c_str() : value.dump().c_str());
  if (o.per_operation) {
    std::vector<timed_plan> spent;
    for (std::int64_t i = 0; i < o.repeat; ++i) {
      signals::check();
      runs.run_timed(in, out, spent);
    }
    if (!o.json) std::printf("\n");
    print_operations(spent, o.repeat, std::nullopt, o.json ? &report : nullptr);
  }
  if (o.json) print_line(report);
}

}  // namespace tool
