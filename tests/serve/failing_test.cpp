// Failure of any allocation in a worker of a queue: callers get the error, and the queue continues to serve.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <new>
#include <vector>

#include "failing_allocations.h"

import lamina;

using namespace lamina;
using namespace std::chrono_literals;

namespace {

constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 8}, nn::relu{},
                                nn::linear{.in_features = 8, .out_features = 3});
using net_type = model<net, input<"N", 4>>;
using factory_type = reference_factory<net, input<"N", 4>>;
using queue_type = batching_queue<factory_type::traits>;

}  // namespace

BOOST_AUTO_TEST_SUITE(serving_failing)

BOOST_AUTO_TEST_CASE(a_worker_outlives_each_failed_allocation) {
  const net_type origin({.seed = 1});
  const factory_type factory(origin);
  const lamina::vector<float, 4> x{1, 2, 3, 4};
  const auto expected = factory.create()(x);
  int failed_rounds = 0;
  bool came = true;
  for (long k = 1; came; ++k) {
    queue_type queue(factory, {.workers = 1, .batch = 8, .delay = 500us});
    int good = 0, bad = 0;
    {
      const failing_allocations::failure_elsewhere one(k);
      for (int round = 0; round < 3; ++round) {
        std::vector<queue_type::answer_type> asked;
        for (int i = 0; i < 6; ++i) asked.push_back(queue.submit(x));
        for (auto& a : asked) {
          try {
            good += a.get()(1) == expected(1);
          } catch (const out_of_memory&) { ++bad; }
        }
      }
      came = one.came();
    }
    BOOST_TEST(good + bad == 18, "allocation " << k << ": " << good << " good, " << bad << " bad");
    BOOST_TEST((came || bad == 0));
    failed_rounds += bad > 0;
    BOOST_TEST(queue.submit(x).get()(2) == expected(2));
    const auto s = queue.statistics();
    BOOST_TEST(s.requests == 19);
    BOOST_TEST(s.answered == good + 1);
    BOOST_TEST(s.failed == bad);
    BOOST_TEST(s.waiting + s.running == 0);
  }
  BOOST_TEST(failed_rounds > 3);
}

BOOST_AUTO_TEST_SUITE_END()
