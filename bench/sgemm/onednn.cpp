// oneDNN's product.
#include "onednn.h"

#include "sgemm.h"
#if LAMINA_BENCH_ONEDNN
#include <memory>
#endif

namespace bench::sgemm {
#if LAMINA_BENCH_ONEDNN
namespace {

/// A product with weights in the layout that oneDNN chooses.
struct packed_product : bench::onednn::bound_primitive {
  dnnl::memory a, b, c;

  explicit packed_product(const product& p) {
    using dnnl::memory;
    constexpr auto f32 = memory::data_type::f32;
    constexpr auto rows = memory::format_tag::ab;
    const memory::desc plain({p.k, p.n}, f32, rows);
    const auto chosen = bench::onednn::matmul(engine, {{p.m, p.k}, f32, rows},
                                              {{p.k, p.n}, f32, memory::format_tag::any}, {{p.m, p.n}, f32, rows});
    primitive = dnnl::matmul(chosen);
    a = memory(chosen.src_desc(), engine, const_cast<float*>(p.a));
    b = memory(chosen.weights_desc(), engine);
    c = memory(chosen.dst_desc(), engine, p.c);
    memory from(plain, engine, const_cast<float*>(p.b));
    dnnl::reorder(from, b).execute(stream, from, b);
    stream.wait();
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  }
};

}  // namespace
#endif

library onednn() {
#if LAMINA_BENCH_ONEDNN
  const auto bind = [](const product& p) -> call {
    if (p.prepacked) return [s = std::make_shared<packed_product>(p)] { s->run(); };
    return [p] { dnnl_sgemm('N', 'N', p.m, p.n, p.k, 1.f, p.a, p.k, p.b, p.n, 0.f, p.c, p.n); };
  };
  return {"oneDNN", bench::onednn::version(), bench::onednn::isa(), bind};
#else
  return {"oneDNN", "", "", {}};
#endif
}

}  // namespace bench::sgemm
