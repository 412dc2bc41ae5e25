// lamina quantize: converts a net to int8 products.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;

void quantize(const quantize_arguments& a) {
  const auto files = files_to_write(a.out);
  const saved_net net = load_model(a);
  const signals noted;  // all files are written, or none
  const stop_scope until(noted_signal{});
  const auto samples =
      a.inputs.empty() ? std::vector<std::vector<any_tensor>>() : samples_of(a.model, *net.program, a.inputs);
  const auto made = lamina::quantize(net, load_profile(a.profile),
                                     {.schema = quantization_schema_of(a.schema),
                                      .keep_float = a.keep_float,
                                      .calibration = calibration_of(a.calibration),
                                      .percentile = a.percentile,
                                      .weight_bits = a.weight_bits,
                                      .largest_error = a.largest_error},
                                     samples);
  auto extended = net.metadata;
  extended["quantized"] = a.schema;
  signals::check();
  write_net(a.out, {made.program, made.states, extended});
  if (a.json) {
    json products = json::array();
    for (const auto& p : made.report.products) {
      products.push_back({{"name", p.name}, {"operation", p.operation}, {"quantized", p.quantized}});
      if (!p.quantized) products.back()["why"] = p.why;
      if (p.error) products.back()["error"] = *p.error;
    }
    json outputs = json::object();
    for (const auto& [name, error] : made.report.outputs) outputs[name] = error;
    print_line({{"files", files}, {"products", products}, {"output_errors", outputs}});
    return;
  }
  std::printf("%s", made.report.text().c_str());
  for (const auto& file : files) std::printf("%s\n", printable(file, 1024).c_str());
}

}  // namespace tool
