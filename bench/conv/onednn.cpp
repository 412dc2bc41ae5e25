// oneDNN's convolution in the layouts that it chooses, with fused bias and ReLU.
#include "conv.h"

#include "onednn.h"
#if LAMINA_BENCH_ONEDNN
#include <memory>
#endif

namespace bench::conv {
#if LAMINA_BENCH_ONEDNN
namespace {

struct state : bench::onednn::bound_primitive {
  dnnl::memory in, weight, bias, out;
};

bound bind(const problem& p) {
  using dnnl::memory;
  constexpr auto f32 = memory::data_type::f32;
  constexpr auto any = memory::format_tag::any;
  const bool grouped = p.groups > 1;
  const long ins = p.channels / p.groups, outs = p.out_channels / p.groups;
  const memory::dims in{1, p.channels, p.size, p.size}, bias{p.out_channels};
  const memory::dims out{1, p.out_channels, p.out_size(), p.out_size()};
  const memory::dims weight = grouped ? memory::dims{p.groups, outs, ins, p.kernel, p.kernel}
                                      : memory::dims{p.out_channels, ins, p.kernel, p.kernel};
  const auto s = std::make_shared<state>();
  const auto chosen =
      bench::onednn::convolution(s->engine, {in, f32, any}, {weight, f32, any}, {bias, f32, memory::format_tag::x},
                                 {out, f32, any}, {p.stride, p.stride}, {p.padding, p.padding});
  s->primitive = dnnl::convolution_forward(chosen);
  const auto reorder = [&s](const memory::dims& dims, memory::format_tag tag, const float* plain, memory& to) {
    memory from({dims, memory::data_type::f32, tag}, s->engine, const_cast<float*>(plain));
    dnnl::reorder(from, to).execute(s->stream, from, to);
    s->stream.wait();
  };
  s->in = memory(chosen.src_desc(), s->engine);
  s->weight = memory(chosen.weights_desc(), s->engine);
  s->bias = memory(chosen.bias_desc(), s->engine);
  s->out = memory(chosen.dst_desc(), s->engine);
  reorder(in, memory::format_tag::nchw, p.in, s->in);
  reorder(weight, grouped ? memory::format_tag::goihw : memory::format_tag::oihw, p.weight, s->weight);
  reorder(bias, memory::format_tag::x, p.bias, s->bias);
  s->arguments = {
      {DNNL_ARG_SRC, s->in}, {DNNL_ARG_WEIGHTS, s->weight}, {DNNL_ARG_BIAS, s->bias}, {DNNL_ARG_DST, s->out}};
  return {[s] { s->run(); },
          [s, out](float* plain) {
            memory to({out, memory::data_type::f32, memory::format_tag::nchw}, s->engine, plain);
            dnnl::reorder(s->out, to).execute(s->stream, s->out, to);
            s->stream.wait();
          }};
}

}  // namespace

library onednn() { return {"oneDNN", bench::onednn::version(), bench::onednn::isa(), bind}; }
#else
library onednn() { return {"oneDNN", "", "", {}}; }
#endif

}  // namespace bench::conv
