// lamina plan: what a run of a net does.
#include <nlohmann/json.hpp>

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
  const ir::session planned(net.program, {&net.states, nullptr});
  if (!a.json) {
    std::fputs(with_note(note, [&] { return planned.explain(extents); }).c_str(), stdout);
    for (const auto& why : net.missed) std::printf("not recognized: %s\n", printable(why, 1024).c_str());
    return;
  }
  // Of segments after the first for as many rows as there can be.
  json segments = json::array(), missed = net.missed;
  for (const auto& p : with_note(note, [&] { return planned.plans(extents); })) {
    json operations = json::array();
    for (const auto& line : p->lines()) operations.push_back(json_of(line));
    for (const auto& why : p->counters().missed) missed.push_back(why);
    segments.push_back(
        {{"operations", operations}, {"bytes_arena", p->arena_bytes()}, {"bytes_scratch", p->scratch_bytes()}});
  }
  print_line({{"isa", name_of(target_isa())},
              {"shapes", json_of(extents)},
              {"segments", segments},
              {"not_recognized", missed}});
}

}  // namespace tool
