// oneDNN's elementwise primitives.
#include "onednn.h"

#include "math.h"
#if LAMINA_BENCH_ONEDNN
#include <memory>
#include <unordered_map>
#endif

namespace bench::math {
#if LAMINA_BENCH_ONEDNN
namespace {

struct state {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::memory in, out;
  dnnl::eltwise_forward primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  long n = 0;
};

function find(const std::string& name) {
  const auto algorithm = name == "exp" ? dnnl::algorithm::eltwise_exp : dnnl::algorithm::eltwise_tanh;
  return [s = std::make_shared<state>(), algorithm](const float* in, float* out, long n) {
    if (s->n != n) {
      const dnnl::memory::desc layout({n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
      s->n = n;
      s->primitive = dnnl::eltwise_forward(bench::onednn::elementwise(s->engine, algorithm, layout));
      s->in = dnnl::memory(layout, s->engine, nullptr);
      s->out = dnnl::memory(layout, s->engine, nullptr);
      s->arguments = {{DNNL_ARG_SRC, s->in}, {DNNL_ARG_DST, s->out}};
    }
    s->in.set_data_handle(const_cast<float*>(in));
    s->out.set_data_handle(out);
    s->primitive.execute(s->stream, s->arguments);
  };
}

}  // namespace

library onednn() { return {"oneDNN", bench::onednn::version(), bench::onednn::isa(), find}; }
#else
library onednn() { return {"oneDNN", "", "", {}}; }
#endif

}  // namespace bench::math
