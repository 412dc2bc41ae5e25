// Runs leave the threads of a pool unused while those make them slower, with the same bits.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;
using namespace lamina::ir;

namespace {

// Threads whose processors another program may occupy: each call to them then takes longer than all of its work.
struct shared_machine {
  bool* taken;
  long* calls;
  int concurrency() const { return 2; }
  template <class F> void bulk(std::size_t n, const F& f) const {
    ++*calls;
    for (std::size_t i = 0; i < n; ++i) f(i);
    std::this_thread::sleep_for(std::chrono::milliseconds(*taken ? 3 : 0));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(threads_in_use)

BOOST_AUTO_TEST_CASE(runs_are_alone_while_other_programs_have_the_processors) {
  bool taken = false;
  long calls = 0;
  const auto where = std::make_shared<context>(shared_machine{&taken, &calls});
  program p;
  const value x = p.input("x", {dtype::float32, {256, 256}});
  p.output("y", matmul(matmul(x, x), x));
  session s(std::make_shared<const program>(std::move(p)), {}, where);
  matrix<float> numbers(256, 256);
  for (std::size_t i = 0; auto& v : numbers.writable()) v = static_cast<float>(i++ % 13) - 6;
  const std::vector<any_tensor> in{numbers};
  std::vector<any_tensor> out;
  s.run(in, out);
  const any_tensor first = out[0].copy();
  const auto run = [&](int count) {
    const long before = calls;
    for (int i = 0; i < count; ++i) {
      s.run(in, out);
      BOOST_TEST(std::memcmp(out[0].data(), first.data(), first.bytes()) == 0);
    }
    return calls - before;
  };
  const long each = run(1);
  BOOST_TEST_REQUIRE(each > 0);
  run(20);
  taken = true;
  const long disturbed = run(300);
  BOOST_TEST(disturbed < 100 * each, disturbed << " calls in 300 runs, " << each << " in each that is shared");
  // Runs use one thread for half a second at most; then some try the threads again.
  taken = false;
  const long before = calls;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       calls == before && std::chrono::steady_clock::now() < end;)
    run(10);
  BOOST_TEST(calls > before);
}

BOOST_AUTO_TEST_SUITE_END()
