// lamina bench: measures the run time of a net.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "json.h"
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

// The inputs of a net, from files or generated.
std::vector<any_tensor> inputs_for(const bench_arguments& o, const program& p) {
  for (auto i : p.inputs())
    if (const node& n = p.at(i); !n.results[0].is_tensor())
      throw unsupported_error(text_of(o.model, ": input `", printable(n.name), "` is ", n.results[0],
                                      ", but generated inputs are tensors"));
  auto inputs = inputs_of(o.model, p, o.inputs);
  auto shapes = o.shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || inputs[i].shape().rank == 0) continue;
    std::string option = p.at(p.inputs()[i]).name;
    for (int k = 0; k < inputs[i].shape().rank; ++k) option += text_of(k ? "x" : "=", inputs[i].shape()[k]);
    shapes.push_back(std::move(option));
  }
  const auto extents = extents_of(o.model, p, shapes);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i]) inputs[i] = made_up({p.at(p.inputs()[i]).results[0].element, extents[i]});
  return inputs;
}

// Resident set size of this process in bytes; 0 if the system does not report it.
std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu %zu", &all, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Prints the time of each operation, from as many separate runs; segments of a net follow one another.
void print_operations(const std::vector<timed_plan>& times, const bench_arguments& o, json& report) {
  std::vector<plan_line> lines;
  std::vector<std::int64_t> spent;
  std::int64_t copies = 0;
  for (const auto& t : times) {
    lines.insert(lines.end(), t.lines().begin(), t.lines().end());
    spent.insert(spent.end(), t.nanoseconds.begin(), t.nanoseconds.end() - 1);
    copies += t.nanoseconds.back();
  }
  spent.push_back(copies);
  std::int64_t all = 0;
  for (auto ns : spent) all += ns;
  const auto mean = [&](std::size_t i) { return static_cast<double>(spent[i]) / static_cast<double>(o.repeat); };
  if (o.json) {
    json operations = json::array();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      operations.push_back(json_of(lines[i]));
      operations.back()["ns"] = std::llround(mean(i));
    }
    report["operations"] = std::move(operations);
    report["rest_ns"] = std::llround(mean(lines.size()));
    return;
  }
  std::vector<std::vector<std::string>> table{{"operation", "where", "result", "ns", "%", "flops", "bytes"}};
  const auto share = [&](std::size_t i) {
    return text_of(
        all ? static_cast<std::int64_t>(100.0 * static_cast<double>(spent[i]) / static_cast<double>(all) + 0.5) : 0);
  };
  for (std::size_t i = 0; i < lines.size(); ++i)
    table.push_back({lines[i].what, lines[i].where, text_of(lines[i].result),
                     text_of(static_cast<std::int64_t>(mean(i))), share(i), counted(lines[i].flops),
                     counted(static_cast<double>(lines[i].bytes))});
  if (spent.back())
    table.push_back(
        {"copies", "", "", text_of(static_cast<std::int64_t>(mean(lines.size()))), share(lines.size()), "", ""});
  std::printf("\n");
  print_table(table, 3);
}

}  // namespace

void bench(const bench_arguments& o) {
  using clock = std::chrono::steady_clock;
  const std::size_t before = resident_bytes();
  auto begin = clock::now();
  saved_net net = std::move(load_with_extents(o.model, o).net).optimized();
  clock::duration first = clock::now() - begin;
  const program& p = *net.program;
  const std::vector<any_tensor> in = inputs_for(o, p);
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
    print_operations(spent, o, report);
  }
  if (o.json) print_line(report);
}

}  // namespace tool
