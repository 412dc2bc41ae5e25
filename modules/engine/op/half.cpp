// Kernels of products that round their operands to bfloat16 or float16.
module;
#include "../kernels/bfloat.h"
module lamina:op.half;
import :context;
import :core;
import :op.switches;
import :product_type;
import lamina.std;

namespace lamina {

struct half_kernels {
  const kernels::bfloat_functions& (*of)(isa set);
};
constinit const half_kernels half_products{
    [](isa set) -> const kernels::bfloat_functions& { return kernels::bfloat_of(set); }};

namespace detail {
/// Products of numbers rounded to bfloat16, with the fastest kernels for this machine; if LAMINA_AMX is 0, without AMX.
const kernels::bfloat_products& bfloat_products(product_type to, isa set) {
  static const bool without_amx = is_switched_off("LAMINA_AMX");
  // Found once: to ask the processor takes longer than to emit a product.
  static std::array<std::atomic<int>, kernels::isa_count> found;
  const auto& family = to.kernels_->of(set);
  auto& known = found.at(static_cast<std::size_t>(set));
  if (known == 0) known = 1 + (without_amx ? family.form_without_amx() : family.form());
  return family.products[known - 1];
}
/// The kernel that rounds numbers and stores them as float32.
kernels::kernel rounding_of(product_type to, isa set) {
  const auto& family = to.kernels_->of(set);
  return to == dtype::float16 ? family.round_to_half : family.round_to_bfloat;
}
}  // namespace detail

}  // namespace lamina
