// The tables of the sets: complete, each its own, usable before any code has run.
#include "kernel_test.h"

using namespace lamina::kernels;

BOOST_AUTO_TEST_SUITE(kernel_table)

#if defined(__x86_64__)
BOOST_AUTO_TEST_CASE(every_set_names_its_own_kernels) {
  const table* tables[isa_count];
  for (int i = 0; i < isa_count; ++i) {
    tables[i] = &kernels_of(static_cast<isa>(i));
    const table& t = *tables[i];
    BOOST_CHECK(t.set == static_cast<isa>(i));
    BOOST_REQUIRE(t.gemm[0] && t.gemm[1] && t.conv && t.elementwise && t.reduce);
    BOOST_CHECK(t.gemm[0] != t.gemm[1]);
    BOOST_CHECK_EQUAL(t.gemm[0]->panel_columns % lanes(t.set), 0);
    for (int j = 0; j < i; ++j) {
      BOOST_CHECK(t.gemm[0]->run != tables[j]->gemm[0]->run);
      BOOST_CHECK(t.conv != tables[j]->conv);
      BOOST_CHECK(t.elementwise != tables[j]->elementwise);
      BOOST_CHECK(t.reduce != tables[j]->reduce);
    }
  }
}
#endif

BOOST_AUTO_TEST_CASE(the_set_names_itself) {
  BOOST_CHECK(kernels_of(kernel_test::tested()).set == kernel_test::tested());
}

BOOST_AUTO_TEST_SUITE_END()
