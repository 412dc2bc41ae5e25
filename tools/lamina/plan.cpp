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
    return;
  }
  // Of segments after the first for as many rows as there can be.
  json segments = json::array();
  for (const auto& p : with_note(note, [&] { return planned.plans(extents); })) {
    json operations = json::array();
    for (const auto& line : p->lines()) operations.push_back(json_of(line));
    segments.push_back(
        {{"operations", operations}, {"bytes_arena", p->arena_bytes()}, {"bytes_scratch", p->scratch_bytes()}});
  }
  print_line({{"isa", name_of(target_isa())}, {"shapes", json_of(extents)}, {"segments", segments}});
}

}  // namespace tool
