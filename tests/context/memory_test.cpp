// The allocator: alignment, counters, limits, and the memory that threads keep.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;

BOOST_AUTO_TEST_SUITE(memory_of_tensors)

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_as_large_as_asked) {
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 4096u, 1u << 20, (1u << 20) + 1, 5'000'000u}) {
    void* p = memory::allocate(bytes);
    BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
    std::memset(p, 1, bytes);
    memory::release(p, bytes);
  }
  memory::release(nullptr, 100);
}

BOOST_AUTO_TEST_CASE(counters_follow_what_is_in_use) {
  auto before = memory::counters();
  memory::reset_peak();
  BOOST_CHECK_EQUAL(memory::counters().peak, before.current);
  void* small = memory::allocate(1000);
  void* large = memory::allocate(3'000'000);
  auto during = memory::counters();
  BOOST_CHECK_GE(during.current - before.current, 3'001'000);
  BOOST_CHECK_LE(during.current - before.current, 3'001'200);
  BOOST_CHECK_EQUAL(during.allocations - before.allocations, 2);
  memory::release(large, 3'000'000);
  memory::release(small, 1000);
  auto after = memory::counters();
  BOOST_CHECK_EQUAL(after.current, before.current);
  BOOST_CHECK_EQUAL(after.peak, during.current);
}

BOOST_AUTO_TEST_CASE(small_blocks_are_kept_and_given_again_until_trimmed) {
  memory::trim();
  auto empty = memory::counters().cached;
  void* p = memory::allocate(1000);
  memory::release(p, 1000);
  BOOST_CHECK_EQUAL(memory::counters().cached - empty, 1024);
  void* q = memory::allocate(900);
  BOOST_CHECK(q == p);
  BOOST_CHECK_EQUAL(memory::counters().cached, empty);
  memory::release(q, 900);
  memory::trim();
  BOOST_CHECK_EQUAL(memory::counters().cached, empty);
}

BOOST_AUTO_TEST_CASE(a_thread_keeps_no_more_than_a_few_mebibytes_of_a_size) {
  memory::trim();
  auto empty = memory::counters().cached;
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(memory::allocate(1 << 20));
  for (void* p : blocks) memory::release(p, 1 << 20);
  BOOST_CHECK_LE(memory::counters().cached - empty, 4 << 20);
  memory::trim();
}

BOOST_AUTO_TEST_CASE(a_thread_that_ends_leaves_nothing_cached) {
  memory::trim();
  auto empty = memory::counters().cached;
  std::thread([] { memory::release(memory::allocate(5000), 5000); }).join();
  BOOST_CHECK_EQUAL(memory::counters().cached, empty);
}

BOOST_AUTO_TEST_CASE(memory_may_be_released_by_another_thread) {
  auto before = memory::counters().current;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(memory::allocate(256));
  std::thread([&] { for (void* p : blocks) memory::release(p, 256); }).join();
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_CASE(a_limit_is_kept_and_told) {
  auto before = memory::counters();
  memory::limit(before.current + 1'000'000);
  BOOST_CHECK_EXCEPTION(memory::allocate(2'000'000), out_of_memory, [&](const error& e) {
    std::string what = e.what();
    return what.find("2000000 bytes requested") != what.npos && what.find("limit " + std::to_string(before.current + 1'000'000)) != what.npos;
  });
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  BOOST_CHECK_THROW((matrix<float>(1000, 1000)), out_of_memory);
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  memory::limit(0);
  matrix<float> fits(1000, 1000);
  BOOST_CHECK_GE(memory::counters().current - before.current, 4'000'000);
}

BOOST_AUTO_TEST_CASE(what_the_system_refuses_is_told_and_not_counted) {
  auto before = memory::counters();
  auto refused = [](const error& e) { return std::string(e.what()).starts_with("out of memory"); };
  // One that no machine has, and those that a rounding would turn into little.
  for (std::size_t bytes : {std::size_t(1) << 62, ~std::size_t(0) - 100, ~std::size_t(0)})
    BOOST_CHECK_EXCEPTION(memory::allocate(bytes), out_of_memory, refused);
  BOOST_CHECK_EXCEPTION(memory::allocate(std::size_t(1) << 62), out_of_memory,
                        [](const error& e) { return e.what() == std::string("out of memory: 4611686018427387904 bytes requested"); });
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  BOOST_CHECK_EQUAL(memory::counters().peak, before.peak);
  BOOST_CHECK_EQUAL(memory::counters().allocations, before.allocations);
}

BOOST_AUTO_TEST_SUITE_END()
