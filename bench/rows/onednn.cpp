// oneDNN's softmax and layer normalization primitives.
#include "onednn.h"

#include "rows.h"
#if LAMINA_BENCH_ONEDNN
#include <memory>
#endif

namespace bench::rows {
#if LAMINA_BENCH_ONEDNN
namespace {

call bind(kind of, const operands& o) {
  using dnnl::memory;
  const memory::desc matrix({o.count, o.length}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc row({o.length}, memory::data_type::f32, memory::format_tag::a);
  const auto s = std::make_shared<bench::onednn::bound_primitive>();
  if (of == kind::softmax) s->primitive = dnnl::softmax_forward(bench::onednn::softmax(s->engine, matrix, 1));
  else
    s->primitive = dnnl::layer_normalization_forward(
        bench::onednn::layer_normalization(s->engine, matrix, static_cast<float>(epsilon)));
  const auto at = [&s](const memory::desc& layout, const float* data) {
    return memory(layout, s->engine, const_cast<float*>(data));
  };
  s->arguments = {{DNNL_ARG_SRC, at(matrix, o.in)}, {DNNL_ARG_DST, at(matrix, o.out)}};
  if (of == kind::layer_norm)
    s->arguments.insert({{DNNL_ARG_SCALE, at(row, o.gain)}, {DNNL_ARG_SHIFT, at(row, o.bias)}});
  return [s] { s->run(); };
}

}  // namespace

library onednn() { return {"oneDNN", bench::onednn::version(), bench::onednn::isa(), bind}; }
#else
library onednn() { return {"oneDNN", "", "", {}}; }
#endif

}  // namespace bench::rows
