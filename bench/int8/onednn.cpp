// oneDNN's product of unsigned and signed bytes, with weights in the layout that it chooses. x is converted to unsigned
// bytes by adding 128.
#include "onednn.h"

#include "int8.h"
#if LAMINA_BENCH_ONEDNN
#include <memory>
#include <vector>
#endif

namespace bench::int8 {
#if LAMINA_BENCH_ONEDNN
namespace {

struct packed_product : bench::onednn::bound_primitive {
  std::vector<std::uint8_t> x;
  std::vector<float> bias, scale;

  explicit packed_product(const product& p) {
    using dnnl::memory;
    using type = memory::data_type;
    constexpr auto rows = memory::format_tag::ab;
    const auto columns = static_cast<std::size_t>(p.n);
    for (long i = 0; i < p.m * p.k; ++i) x.push_back(static_cast<std::uint8_t>(p.x[i] + 128));
    scale.assign(p.scale, p.scale + columns);
    for (std::size_t j = 0; j < columns; ++j)
      bias.push_back(static_cast<float>(p.bias[j]) * (bench::onednn::scales_before_bias ? scale[j] : 1.f));
    const auto chosen = bench::onednn::scaled_matmul(engine, {{p.m, p.k}, type::u8, rows},
                                                     {{p.k, p.n}, type::s8, memory::format_tag::any},
                                                     {{1, p.n}, type::f32, rows}, {{p.m, p.n}, type::s8, rows}, scale);
    primitive = dnnl::matmul(chosen);
    memory from({{p.k, p.n}, type::s8, rows}, engine, const_cast<std::int8_t*>(p.w));
    memory to(chosen.weights_desc(), engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    arguments = {{DNNL_ARG_SRC, memory(chosen.src_desc(), engine, x.data())},
                 {DNNL_ARG_WEIGHTS, to},
                 {DNNL_ARG_BIAS, memory({{1, p.n}, type::f32, rows}, engine, bias.data())},
                 {DNNL_ARG_DST, memory(chosen.dst_desc(), engine, p.y)}};
    if (bench::onednn::scales_before_bias)
      arguments.insert(
          {bench::onednn::weight_scales, memory({{p.n}, type::f32, memory::format_tag::a}, engine, scale.data())});
  }
};

}  // namespace

/// Absent on AVX2 without VNNI: there oneDNN adds products in saturating 16-bit arithmetic, so its sums differ.
contender onednn(const product& p) {
  contender made{"oneDNN", bench::onednn::version(), bench::onednn::isa(), {}};
  if (made.isa != "avx2") made.run = [s = std::make_shared<packed_product>(p)] { s->run(); };
  return made;
}
#else
contender onednn(const product&) { return {"oneDNN", "", "", {}}; }
#endif

}  // namespace bench::int8
