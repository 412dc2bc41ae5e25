// lamina export: writes a net as an ONNX model.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

import lamina;
#ifdef LAMINA_ONNX
import lamina.onnx;
#endif

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;

void write_onnx(const export_arguments& a) {
  if (!a.out.ends_with(".onnx"))
    throw value_error(text_of(printable(a.out, 1024), ": is not a name of a model; expected NAME.onnx"));
#ifdef LAMINA_ONNX
  const saved_net net = load_model(a);
  const signals noted;  // the model is written completely, or not at all
  const std::int64_t opset = a.opset ? a.opset : onnx::written_opset(net);
  onnx::save(a.out, net, {.opset = opset, .external_above = static_cast<std::size_t>(a.external_above)});
  if (a.json) print_line({{"files", {a.out}}, {"opset", opset}});
  else std::printf("%s\n", printable(a.out, 1024).c_str());
#else
  throw unsupported_error(a.model + ": this program was built without protozero, which writes ONNX (libprotozero-dev)");
#endif
}

}  // namespace tool
