// The allocator: alignment, counters, limits, and the memory cached by threads.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

import lamina;

#include "steady_state.h"

using namespace lamina;

namespace {

struct owned_block {
  void* at;
  std::size_t bytes;
};
// Allocates and releases blocks of many sizes, each filled with a distinct number; returns whether all were intact.
class churn {
 public:
  explicit churn(int seed) : stream_(seed, 7) {}
  ~churn() {
    while (!blocks_.empty()) drop();
  }
  void step() {
    if (blocks_.size() > 40 || (!blocks_.empty() && stream_.bits(at_++) % 2)) return drop();
    const auto size = stream_.bits(at_++), kind = stream_.bits(at_++) % 4;
    const std::size_t bytes = 8 + size % (kind ? 3000 : 300'000);
    auto* p = static_cast<std::byte*>(memory::allocate(bytes));
    const auto mark = static_cast<unsigned char>(bytes);
    p[0] = p[bytes - 1] = std::byte{mark};
    blocks_.push_back({p, bytes});
  }
  bool intact() const { return intact_; }

 private:
  void drop() {
    const auto i = stream_.bits(at_++) % blocks_.size();
    std::swap(blocks_[i], blocks_.back());
    const auto [at, bytes] = blocks_.back();
    blocks_.pop_back();
    const auto* p = static_cast<const std::byte*>(at);
    intact_ &= p[0] == std::byte{static_cast<unsigned char>(bytes)} && p[bytes - 1] == p[0];
    memory::release(at, bytes);
  }
  philox stream_;
  std::uint64_t at_ = 0;
  std::vector<owned_block> blocks_;
  bool intact_ = true;
};

// Makes the system refuse membarrier(2) to this process and its children.
bool refuse_membarrier() {
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{std::size(steps), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}
constexpr const char* refused_here = "LAMINA_TEST_NO_MEMBARRIER";

// Resident memory of this process.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_of_tensors)

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_as_large_as_asked) {
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 4096u, (128u << 10) - 1, 128u << 10, 1u << 20, (1u << 20) + 1,
                            (4u << 20) - 1, 4u << 20, 5'000'000u}) {
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
  std::thread([&] {
    for (void* p : blocks) memory::release(p, 256);
  }).join();
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_CASE(a_limit_is_kept_and_told) {
  auto before = memory::counters();
  memory::limit(before.current + 1'000'000);
  BOOST_CHECK_EXCEPTION(memory::allocate(2'000'000), out_of_memory, [&](const error& e) {
    std::string what = e.what();
    return what.find("2000000 bytes requested") != what.npos &&
           what.find("limit " + std::to_string(before.current + 1'000'000)) != what.npos;
  });
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  BOOST_CHECK_THROW((matrix<float>(1000, 1000)), out_of_memory);
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  memory::limit(0);
  matrix<float> fits(1000, 1000);
  BOOST_CHECK_GE(memory::counters().current - before.current, 4'000'000);
}

BOOST_AUTO_TEST_CASE(an_error_holds_its_numbers) {
  auto before = memory::counters().current;
  memory::limit(before + 5000);
  BOOST_CHECK_EXCEPTION(memory::allocate(6000), out_of_memory, [&](const out_of_memory& e) {
    return e.requested() == 6000 && e.used() == before && e.limit() == before + 5000;
  });
  memory::limit(0);
  BOOST_CHECK_EXCEPTION(memory::allocate(std::size_t(1) << 60), out_of_memory, [&](const out_of_memory& e) {
    return e.requested() == std::size_t(1) << 60 && e.used() == before && e.limit() == 0;
  });
}

// Bytes that a thread has counted locally and not yet reported count toward the limit, too.
BOOST_AUTO_TEST_CASE(a_limit_knows_what_other_threads_have_gathered) {
  std::latch allocated(1), over(1);
  std::thread other([&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 30; ++i) blocks.push_back(memory::allocate(1000));
    allocated.count_down();
    over.wait();
    for (void* p : blocks) memory::release(p, 1000);
  });
  allocated.wait();
  auto before = memory::counters().current;
  memory::limit(before + 1023);
  BOOST_CHECK_THROW(memory::allocate(1000), out_of_memory);
  memory::limit(before + 1024);
  memory::release(memory::allocate(1000), 1000);
  BOOST_CHECK_THROW(memory::release(memory::allocate(1025), 1025), out_of_memory);
  memory::limit(0);
  over.count_down();
  other.join();
  BOOST_CHECK_EQUAL(memory::counters().current, before - 30 * 1024);
}

BOOST_AUTO_TEST_CASE(a_limit_below_nothing_is_refused) {
  const auto now = memory::counters().current;
  memory::limit(now + 5000);
  for (std::int64_t odd : {std::int64_t(-1), std::numeric_limits<std::int64_t>::min()})
    BOOST_CHECK_EXCEPTION(memory::limit(odd), value_error, [&](const value_error& e) {
      return e.what() == "memory::limit: `bytes` is " + std::to_string(odd) + "; expected 0 or more; 0 is no limit";
    });
  BOOST_CHECK_THROW(memory::allocate(6000), out_of_memory);  // the limit is unchanged
  memory::limit(0);
}

BOOST_AUTO_TEST_CASE(threads_together_never_cross_a_limit) {
  auto before = memory::counters().current;
  memory::reset_peak();
  const auto limit = before + 2'000'000;
  memory::limit(limit);
  std::atomic<int> refused{0}, crossed{0};
  parallel_workers(4, [&](int w) {
    churn c(w);
    for (int i = 0; i < 5000; ++i) {
      try {
        c.step();
      } catch (const out_of_memory& e) {
        ++refused;
        if (e.used() > limit) ++crossed;
      }
      if (i % 50 == 0 && memory::counters().current > limit) ++crossed;
    }
  });
  BOOST_CHECK_GT(refused, 0);
  BOOST_CHECK_EQUAL(crossed, 0);
  BOOST_CHECK_LE(memory::counters().peak, limit);
  BOOST_CHECK_GE(memory::counters().peak, limit - 300'000);
  BOOST_CHECK_EQUAL(memory::counters().current, before);
  memory::limit(0);
}

BOOST_AUTO_TEST_CASE(the_peak_is_right_but_for_what_threads_gather) {
  memory::reset_peak();
  auto before = memory::counters().current;
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(memory::allocate(1000));
  for (void* p : blocks) memory::release(p, 1000);
  BOOST_CHECK_GE(memory::counters().peak - before, 1'024'000 - 65536);
  BOOST_CHECK_LE(memory::counters().peak - before, 1'024'000 + 65536);
}

// ---- memory that all threads keep -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(memory_that_idle_threads_keep_goes_back_to_the_system) {
  memory::trim_all();
  constexpr int threads = 8, blocks = 40, bytes = 100'000;
  std::latch kept(threads), over(1);
  std::vector<std::thread> idle;
  for (int t = 0; t < threads; ++t)
    idle.emplace_back([&] {
      std::vector<void*> all;
      for (int i = 0; i < blocks; ++i) all.push_back(std::memset(memory::allocate(bytes), 1, bytes));
      for (void* p : all) memory::release(p, bytes);
      kept.count_down();
      over.wait();
      memory::release(memory::allocate(bytes), bytes);  // its cache works as before
    });
  kept.wait();
  const auto cached = memory::counters().cached, resident = resident_bytes();
  BOOST_CHECK_GE(cached, threads * blocks * bytes);
  memory::trim_all();
  BOOST_CHECK_EQUAL(memory::counters().cached, 0);
  if (steady_state::observed) BOOST_CHECK_LE(resident_bytes(), resident - cached * 3 / 4);
  over.count_down();
  for (auto& t : idle) t.join();
}

BOOST_AUTO_TEST_CASE(memory_is_trimmed_under_threads_that_use_it) {
  memory::trim_all();
  const auto before = memory::counters();
  std::atomic<bool> over{false};
  std::atomic<int> broken{0}, trims{0};
  std::thread trimmer([&] {
    for (; !over; ++trims) memory::trim_all();
  });
  parallel_workers(8, [&](int w) {
    churn c(100 + w);
    for (int i = 0; i < 4000; ++i) c.step();
    if (!c.intact()) ++broken;
  });
  while (trims == 0) std::this_thread::yield();
  over = true;
  trimmer.join();
  BOOST_CHECK_EQUAL(broken, 0);
  memory::trim_all();
  const auto after = memory::counters();
  BOOST_CHECK_EQUAL(after.current, before.current);
  BOOST_CHECK_EQUAL(after.cached, 0);
  // The same work allocates as many blocks without any trimming.
  for (int w = 0; w < 8; ++w) {
    churn c(100 + w);
    for (int i = 0; i < 4000; ++i) c.step();
  }
  const auto steps = memory::counters().allocations - after.allocations;
  BOOST_CHECK_EQUAL(after.allocations - before.allocations, steps);
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
}

BOOST_AUTO_TEST_CASE(where_membarrier_is_refused_threads_trim_themselves) {
  if (!std::getenv(refused_here)) {  // reruns this and other tests in a child process
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv(refused_here, "1", 1);
      if (!refuse_membarrier()) ::_exit(3);
      ::execl("/proc/self/exe", "context_test",
              "--run_test=memory_of_tensors/"
              "where_membarrier*,*counters_follow*,*a_limit_knows*,*threads_together*,*under_threads*",
              nullptr);
      ::_exit(4);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    BOOST_CHECK_EQUAL(status, 0);
    return;
  }
  BOOST_REQUIRE_EQUAL(::syscall(SYS_membarrier, 0, 0, 0), -1);
  std::latch kept(1), trimmed(1);
  std::thread other([&] {
    memory::release(memory::allocate(5000), 5000);
    kept.count_down();
    trimmed.wait();
    BOOST_CHECK_EQUAL(memory::counters().cached, 5120);
    void* small = memory::allocate(64);
    BOOST_CHECK_EQUAL(memory::counters().cached, 0);
    memory::release(small, 64);
  });
  memory::release(memory::allocate(700), 700);
  kept.wait();
  memory::trim_all();
  trimmed.count_down();
  other.join();
}

BOOST_AUTO_TEST_CASE(what_the_system_refuses_is_told_and_not_counted) {
  auto before = memory::counters();
  auto refused = [](const error& e) { return std::string(e.what()).starts_with("out of memory"); };
  // More than any machine has, and sizes whose rounding up would overflow.
  for (std::size_t bytes : {std::size_t(1) << 62, ~std::size_t(0) - 100, ~std::size_t(0)})
    BOOST_CHECK_EXCEPTION(memory::allocate(bytes), out_of_memory, refused);
  BOOST_CHECK_EXCEPTION(memory::allocate(std::size_t(1) << 62), out_of_memory, [](const error& e) {
    return e.what() == std::string("out of memory: 4611686018427387904 bytes requested");
  });
  BOOST_CHECK_EQUAL(memory::counters().current, before.current);
  BOOST_CHECK_EQUAL(memory::counters().peak, before.peak);
  BOOST_CHECK_EQUAL(memory::counters().allocations, before.allocations);
}

BOOST_AUTO_TEST_SUITE_END()
