// Plans of models and reference models share one cache: found by structure, shapes and options, within limits.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <malloc.h>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

constexpr auto pictures_net = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3, .padding = 1}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 4, .out_channels = 3, .kernel_size = 3, .padding = 1},
    nn::global_avg_pool2d{});
using pictures = tensor<float, extents<dyn, 1, dyn, dyn>>;
using net_type = model<pictures_net, input<"N", 1, "H", "W">>;
using factory_type = reference_factory<pictures_net, input<"N", 1, "H", "W">>;

plan_cache& cache_of(net_type& net) { return net.core().where()->slot<plan_cache>(); }
pictures picture(std::int64_t height, std::int64_t width) {
  return random_tensor<pictures>({1, 1, height, width}, static_cast<int>(height * 100 + width));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plans)

BOOST_AUTO_TEST_CASE(a_copy_of_a_model_finds_the_plans) {
  net_type net({.seed = 1}), copy(net);
  auto& cache = cache_of(net);
  const auto a = picture(8, 9), b = picture(10, 10);
  for (const auto* x : {&a, &b, &a}) net(*x);
  auto s = cache.statistics();
  BOOST_TEST(s.builds == 2u);
  BOOST_TEST(s.hits == 0u);  // the model reuses its executors without a lookup
  BOOST_TEST(s.entries == 2u);
  BOOST_TEST(s.bytes > 2 * sizeof(plan));
  BOOST_TEST(same_bits(copy(a), net(a)));
  BOOST_TEST(same_bits(copy(b), net(b)));
  s = cache.statistics();
  BOOST_TEST(s.builds == 2u);
  BOOST_TEST(s.hits == 2u);
  BOOST_CHECK_THROW(net(picture(1, 1)), shape_error);
  BOOST_TEST(cache.statistics().entries == 2u);  // failed plans are not cached
}

BOOST_AUTO_TEST_CASE(models_of_one_context_share_plans) {
  const auto where = std::make_shared<context>(2, target_isa());
  net_type one({.seed = 1, .where = where}), two({.seed = 2, .where = where}), alone({.seed = 2});
  const auto x = picture(8, 9);
  one(x);
  BOOST_TEST(same_bits(two(x), alone(x)));
  BOOST_TEST(where->slot<plan_cache>().statistics().builds == 1u);
  BOOST_TEST(where->slot<plan_cache>().statistics().hits == 1u);
}

BOOST_AUTO_TEST_CASE(a_key_is_all_that_a_plan_depends_on) {
  net_type net({.seed = 1});
  const program& p = net.core().inference();
  plan_cache cache;
  const shape one[] = {{1, 1, 8, 8}}, two[] = {{2, 1, 8, 8}};
  const auto set = target_isa();
  const auto first = cache.get(p, p.id(), one, set, {});
  BOOST_TEST(cache.get(p, p.id(), one, set, {}) == first);
  BOOST_TEST(cache.get(p, p.id(), two, set, {}) != first);
  BOOST_TEST(cache.get(p, p.id(), one, isa::sse2, {}) != (set == isa::sse2 ? nullptr : first));
  BOOST_TEST(cache.get(p, p.id(), one, set, {.fuse_elementwise = false}) != first);
  net_type other({.seed = 2});  // equal structure, other weights
  const program& q = other.core().inference();
  BOOST_TEST(cache.get(q, q.id(), one, set, {}) == first);
  cache.clear();
  BOOST_TEST(cache.statistics().entries == 0u);
  BOOST_TEST(cache.get(p, p.id(), one, set, {}) != first);
}

BOOST_AUTO_TEST_CASE(the_environment_sets_the_capacity) {
  const auto with = [](const char* text) {
    ::setenv("LAMINA_PLAN_CACHE", text, 1);
    struct after {
      ~after() { ::unsetenv("LAMINA_PLAN_CACHE"); }
    } reset;
    return plan_cache().limits().entries;
  };
  BOOST_TEST(with("12") == 12u);
  BOOST_TEST(with("0") == 0u);
  BOOST_TEST(with("-3") == 0u);
  BOOST_TEST(with("") == plan_cache::usual.entries);
  for (const char* odd : {"ten", "1.5", "12 "})
    BOOST_TEST(
        holds(error_of([&] { with(odd); }), "value_error: LAMINA_PLAN_CACHE: cache capacity: expected a whole number"));
  BOOST_TEST(holds(error_of([&] { with("99999999999999999999999"); }),
                   "value_error: LAMINA_PLAN_CACHE: cache capacity: expected at most "));
  net_type net({.seed = 1});
  cache_of(net).limit({.entries = 0});
  const auto x = picture(8, 8);
  const auto y = net(x);
  BOOST_TEST(cache_of(net).statistics().entries == 0u);
  net_type copy(net);
  BOOST_TEST(same_bits(copy(x), y));
  BOOST_TEST(cache_of(net).statistics().builds == 2u);
}

// 400 shapes in random order: correct results, and memory within the limits of plans and executors.
BOOST_AUTO_TEST_CASE(four_hundred_shapes_stay_under_the_cap) {
  net_type net({.seed = 1});
  constexpr std::size_t cap = std::size_t(1) << 20;
  cache_of(net).limit({.entries = 100, .bytes = cap});
  std::vector<pictures> x;
  std::vector<decltype(net(x[0]))> expected;
  for (std::int64_t h = 10; h < 30; ++h)
    for (std::int64_t w = 10; w < 30; ++w) {
      x.push_back(picture(h, w));
      net_type fresh(net);
      expected.push_back(fresh(x.back()));
      BOOST_REQUIRE(cache_of(net).statistics().bytes <= cap);
    }
  const auto before = memory::counters().current;
  philox order(1, 2);
  std::int64_t max = 0;
  for (std::uint64_t i = 0; i < 1200; ++i) {
    const auto at = static_cast<std::size_t>(order.uniform<double>(i) * 400);
    BOOST_REQUIRE(same_bits(net(x[at]), expected[at]));
    max = std::max(max, memory::counters().current - before);
  }
  const auto s = cache_of(net).statistics();
  BOOST_TEST(s.bytes <= cap);
  BOOST_TEST(s.entries <= 100u);
  BOOST_TEST(s.evictions > 0u);
  BOOST_TEST_MESSAGE("executors and their memory: " << max / 1024 << " KiB at most");
  BOOST_TEST(max < (std::int64_t(33) << 20));
}

// The process's heap, including plans, once the first shape has allocated the largest activations.
BOOST_AUTO_TEST_CASE(four_hundred_shapes_stay_under_the_cap_on_the_heap) {
  net_type net({.seed = 1});
  constexpr std::size_t cap = std::size_t(1) << 18;
  cache_of(net).limit({.entries = 20, .bytes = cap});
  net(picture(30, 30));
  memory::trim();
  const auto before = ::mallinfo2().uordblks;
  philox order(1, 3);
  std::size_t max = 0;
  for (std::uint64_t i = 0; i < 1200; ++i) {
    net(picture(10 + static_cast<std::int64_t>(order.uniform<double>(2 * i) * 20),
                10 + static_cast<std::int64_t>(order.uniform<double>(2 * i + 1) * 20)));
    if (const auto now = ::mallinfo2().uordblks; now > before) max = std::max(max, now - before);
  }
  BOOST_TEST_MESSAGE("plans and executors: " << max / 1024 << " KiB at most");
  BOOST_TEST(max < 3 * cap);  // of the cache, of the executors, and the allocator's overhead
  // A factory has the limits of its model.
  const factory_type factory(net);
  auto r = factory.create();
  BOOST_TEST(r.shared_part()->plans().limits().entries == 20u);
  BOOST_TEST(r.shared_part()->plans().limits().bytes == cap);
}

BOOST_AUTO_TEST_CASE(sixteen_threads_of_references_make_each_plan_once) {
  net_type net({.seed = 1});
  std::vector<pictures> x;
  std::vector<decltype(net(x[0]))> expected;
  for (std::int64_t h = 8; h < 24; ++h) {
    x.push_back(picture(h, 9));
    expected.push_back(net(x.back()));
  }
  const factory_type factory(net);
  std::atomic<int> wrong{0};
  parallel_workers(16, [&](int w) {
    auto r = factory.create();
    for (std::size_t i = 0; i < 3 * x.size(); ++i) {
      const auto at = (i * 5 + static_cast<std::size_t>(w)) % x.size();
      wrong += !same_bits(r(x[at]), expected[at]);
    }
  });
  BOOST_TEST(wrong == 0);
  const auto s = factory.create().shared_part()->plans().statistics();
  BOOST_TEST(s.builds == x.size());
  BOOST_TEST(s.hits + s.misses == 16 * x.size());
}

BOOST_AUTO_TEST_SUITE_END()
