// lamina plan: prints the steps of a run of a net.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
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

void plan(const plan_arguments& a) {
  auto read = load_with_extents(a.model, a);
  const auto& extents = read.extents;
  auto net = std::move(read.net).optimized();
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
