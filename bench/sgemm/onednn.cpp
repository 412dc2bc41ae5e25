// oneDNN's product.
#include "onednn.h"

#include "sgemm.h"

namespace bench::sgemm {

library onednn() {
#if LAMINA_BENCH_ONEDNN
  const auto bind = [](const product& p) -> call {
    return [p] { dnnl_sgemm('N', 'N', p.m, p.n, p.k, 1.f, p.a, p.k, p.b, p.n, 0.f, p.c, p.n); };
  };
  return {"oneDNN", bench::onednn::version(), bench::onednn::isa(), bind};
#else
  return {"oneDNN", "", "", {}};
#endif
}

}  // namespace bench::sgemm
