// Kernels of integers without scales for one instruction set: products, and pooling and layout of int8 images. Programs
// that quantize nothing may need them, and link none of quantized.cpp.
#include "integer_product.h"
#include "quantized.h"
#include "quantized_images.h"

namespace lamina::kernels {

extern "C" {

void LAMINA_KERNEL(quantized_max_pool)(const void* args, void*) noexcept {
  quantized::max_pool(*static_cast<const pool_args*>(args));
}

#if defined(__AVX2__)

void LAMINA_KERNEL(quantized_to_blocked)(const void* args, void*) noexcept {
  quantized::plain_to_blocks(*static_cast<const reorder_args*>(args));
}
void LAMINA_KERNEL(quantized_from_blocked)(const void* args, void*) noexcept {
  quantized::blocks_to_plain(*static_cast<const reorder_args*>(args));
}
void LAMINA_KERNEL(quantized_max_pool_blocked)(const void* args, void*) noexcept {
  quantized::max_pool_of_blocks(*static_cast<const pool_args*>(args));
}

#endif

extern constinit const byte_image_functions LAMINA_KERNEL(byte_images) = {
    &LAMINA_KERNEL(quantized_max_pool),
#if defined(__AVX2__)
    &LAMINA_KERNEL(quantized_max_pool_blocked),
    &LAMINA_KERNEL(quantized_to_blocked),
    &LAMINA_KERNEL(quantized_from_blocked),
#else
    nullptr,
    nullptr,
    nullptr,
#endif
};

extern constinit const integer_functions LAMINA_KERNEL(integers) = [] {
  integer_functions all{};
  integer_products::add_all(all.product, std::make_integer_sequence<int, element_count>{});
  return all;
}();

}  // extern "C"

}  // namespace lamina::kernels
