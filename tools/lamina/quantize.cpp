// lamina quantize: a net whose products are computed in int8.
#include <cstdio>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

void quantize(const quantize_arguments& a) {
  const saved_net net = load_model(a.model);
  const signals noted;  // both files are written, or none
  const stop_scope until(noted_signal{});
  const auto made = lamina::quantize(net, load_profile(a.profile),
                                     {.schema = quantization_schema_of(a.schema), .keep_float = a.keep_float});
  auto said = net.metadata;
  said["quantized"] = a.schema;
  signals::check();
  save_net(a.out, *made.program, made.states, said);
  const auto files = files_of_net(a.out);
  std::printf("%s%s\n%s\n", made.report.text().c_str(), printable(files.structure, 1024).c_str(),
              printable(files.weights, 1024).c_str());
}

}  // namespace tool
