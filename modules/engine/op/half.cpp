// Kernels of products that round their operands to bfloat16 or float16.
module;
#include "../kernels/bfloat.h"
module lamina:op.half;
import :context;
import :core;
import :product_type;
import lamina.std;

namespace lamina {

struct half_kernels {
  const kernels::bfloat_functions& (*of)(isa set);
};
constinit const half_kernels half_products{
    [](isa set) -> const kernels::bfloat_functions& { return kernels::bfloat_of(set); }};

namespace detail {
/// Products of numbers rounded to bfloat16, with the kernels for this machine.
const kernels::bfloat_products& bfloat_products(product_type to, isa set) {
  const auto& family = to.kernels_->of(set);
  return family.products[family.form()];
}
/// The kernel that rounds numbers and stores them as float32.
kernels::kernel rounding_of(product_type to, isa set) {
  const auto& family = to.kernels_->of(set);
  return to == dtype::float16 ? family.round_to_half : family.round_to_bfloat;
}
}  // namespace detail

}  // namespace lamina
