// Handles that share memory between several threads.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <vector>

import lamina;

using namespace lamina;

BOOST_AUTO_TEST_SUITE(tensor_threads)

BOOST_AUTO_TEST_CASE(threads_copy_read_and_drop_handles_of_one_memory) {
  auto before = memory::counters().current;
  {
    matrix<float> m(8, 8);
    m.writable(3, 4) = 2;
    std::atomic<int> wrong{0};
    parallel_workers(4, [&](int) {
      for (int i = 0; i < 500; ++i) {
        auto mine = static_cast<const matrix<float>&>(m);
        const auto row = mine[3];
        wrong += row(4) != 2;
        mine.detach();
        mine.writable(0, 0) = 1;
      }
    });
    BOOST_CHECK_EQUAL(wrong, 0);
    BOOST_CHECK_EQUAL(m(0, 0), 0);
    m.writable(0, 0) = 3;  // the only handle again
  }
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_SUITE_END()
