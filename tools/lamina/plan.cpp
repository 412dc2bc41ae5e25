// lamina plan: what a run of a net does.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

void add_plan(CLI::App& app) {
  auto* command = app.add_subcommand("plan", "what a run does: operations, layouts, flops, bytes, memory");
  auto model = std::make_shared<std::string>();
  auto shapes = std::make_shared<std::vector<std::string>>();
  add_model(*command, *model);
  add_shapes(*command, *shapes);
  command->callback([=] {
    about(*model, [&] {
      auto net = load_model(*model);
      lamina::plan_runner runner(net.program, {&net.states, nullptr},
                                 std::make_shared<lamina::context>(1, lamina::target_isa()), {});
      std::fputs(runner.explain(extents_of(*model, *net.program, *shapes)).c_str(), stdout);
    });
  });
}

}  // namespace tool
