// lamina's product: weights packed once as in a plan, in the fastest format for this CPU.
#include <memory>

#include "families.h"
#include "int8.h"

namespace bench::int8 {

contender lamina(const product& p) {
  namespace k = ::lamina::kernels;
  const k::quantized_functions& all = k::quantized_of(program_isa);
  const k::quantized_products& products = all.products[all.form()];
  const auto floats = [](std::size_t bytes) { return static_cast<long>(bytes / sizeof(float)) + 1; };
  struct state {
    float one = 1;
    std::int8_t x_zero_point = -128, y_zero_point = 0;
    buffer packed, scratch{1};
  };
  const auto s = std::make_shared<state>(state{.packed = buffer(floats(products.linear_packed_bytes(p.n, p.k)))});
  auto* packed = reinterpret_cast<std::int8_t*>(s->packed.data());
  const k::quantized_linear_pack_args pack{p.n, p.k, 1, p.n, p.w, packed};
  products.linear_pack(&pack, nullptr);
  k::quantized_linear_args a{};
  a.rows = p.m, a.columns = p.n, a.depth = p.k;
  a.x = p.x, a.x_row = p.k, a.packed = packed, a.y = p.y, a.y_row = p.n;
  a.to = {&s->one, p.scale, &s->one, &s->x_zero_point, &s->y_zero_point, p.bias, 1, -128, 127};
  s->scratch = buffer(floats(products.linear_scratch_bytes(&a)));
  return {"lamina", "", program_isa_name, [s, a, run = products.linear] { run(&a, s->scratch.data()); }};
}

}  // namespace bench::int8
