// lamina plan: what a run of a net does.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

void plan(const plan_arguments& a) {
  auto net = load_model(a.model);
  plan_runner runner(net.program, {&net.states, nullptr}, std::make_shared<context>(1, target_isa()), {});
  std::fputs(runner.explain(extents_of(a.model, *net.program, a.shapes)).c_str(), stdout);
}

}  // namespace tool
