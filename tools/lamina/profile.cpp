// lamina profile: records the value ranges of a net on samples, for lamina quantize.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;

void profile(const profile_arguments& a) {
  const auto& file = a.out;
  check_writable(file);
  const saved_net net = load_model(a);
  const signals noted;
  const stop_scope until(noted_signal{});
  const auto ranges = lamina::profile(net, samples_of(a.model, *net.program, a.inputs), {.bins = a.bins});
  save_profile(file, ranges);
  if (a.json) {
    print_line({{"files", {file}}, {"values", ranges.values.size()}, {"samples", ranges.samples}});
    return;
  }
  std::printf("%s: the ranges of %zu values on %s\n", printable(file, 1024).c_str(), ranges.values.size(),
              text_of(ranges.samples, ranges.samples == 1 ? " sample" : " samples").c_str());
}

}  // namespace tool
