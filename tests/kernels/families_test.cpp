// Kernel families of each instruction set: distinct per set, and usable before any code has run.
#include "kernel_test.h"

using namespace lamina::kernels;

BOOST_AUTO_TEST_SUITE(kernel_families)

#if defined(__x86_64__)
BOOST_AUTO_TEST_CASE(every_set_has_its_own_kernels) {
  const auto each_its_own = [](auto of) {
    for (int i = 0; i < isa_count; ++i) {
      BOOST_REQUIRE(of(static_cast<isa>(i)) != nullptr);
      for (int j = 0; j < i; ++j) BOOST_CHECK(of(static_cast<isa>(i)) != of(static_cast<isa>(j)));
    }
  };
  each_its_own([](isa set) { return gemm_of(set, element::f32).run; });
  each_its_own([](isa set) { return gemm_of(set, element::f64).run; });
  each_its_own([](isa set) { return conv_of(set).to_blocked; });
  each_its_own([](isa set) { return elementwise_of(set).chain; });
  each_its_own([](isa set) { return map_relu_of(set).of[0]; });
  each_its_own([](isa set) { return reduce_of(set).spread[0]; });
  each_its_own([](isa set) { return reduce_sum_of(set).of[0]; });
  each_its_own([](isa set) { return softmax_of(set).softmax[0]; });
  each_its_own([](isa set) { return copies_of(set).copy; });
  each_its_own([](isa set) { return random_of(set).uniform[0]; });
  each_its_own([](isa set) { return &cell_of(set); });
  each_its_own([](isa set) { return rows_of(set).gather; });
  each_its_own([](isa set) { return order_of(set).of[0]; });
  each_its_own([](isa set) { return &sample_of(set); });
  each_its_own([](isa set) { return normalize_of(set).normalize[0]; });
  each_its_own([](isa set) { return attention_of(set).attention[0]; });
  each_its_own([](isa set) { return position_of(set).rotate[0]; });
  each_its_own([](isa set) { return quantized_of(set).quantize; });
  each_its_own([](isa set) { return byte_images_of(set).max_pool; });
  each_its_own([](isa set) { return integers_of(set).product[static_cast<int>(element::i32)]; });
  each_its_own([](isa set) { return bfloat_of(set).round_to_half; });
}
#endif

BOOST_AUTO_TEST_CASE(panels_are_registers) {
  const isa set = kernel_test::tested();
  BOOST_CHECK_EQUAL(gemm_of(set, element::f32).panel_columns % lanes(set), 0);
  BOOST_CHECK(gemm_of(set, element::f32).run != gemm_of(set, element::f64).run);
}

BOOST_AUTO_TEST_SUITE_END()
