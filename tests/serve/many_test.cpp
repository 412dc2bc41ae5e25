// A million requests from eight threads: none is lost, duplicated or mixed up with another.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr auto tiny = sequential(nn::linear{.in_features = 4, .out_features = 3}, nn::tanh{});

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define INSTRUMENTED 1
#endif
#endif
#ifndef INSTRUMENTED
#define INSTRUMENTED 0
#endif

// LAMINA_SERVE_REQUESTS overrides the number.
std::int64_t requests() {
  if (const char* given = std::getenv("LAMINA_SERVE_REQUESTS")) return std::atoll(given);
  return INSTRUMENTED ? 40000 : 1000000;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(serving)

BOOST_AUTO_TEST_CASE(a_million_requests_from_eight_threads) {
  constexpr int threads = 8;
  const std::int64_t each = requests() / threads, all = each * threads;
  model<tiny, input<"N", 4>> net({.seed = 3});
  auto x = random_tensor<matrix<float, dyn, 4>>({all, 4}, 1);
  auto expected = net(x);  // all samples differ, so that swapped answers are detected
  reference_factory<tiny, input<"N", 4>> factory(std::move(net));
  batching_queue queue(factory, {.workers = 2, .batch = 64, .delay = std::chrono::microseconds(100), .capacity = 1000});
  std::vector<std::int64_t> wrong(threads, 0), right(threads, 0), refused(threads, 0);
  parallel_workers(threads, [&](int w) {
    const auto me = static_cast<std::size_t>(w);
    const std::int64_t window = 200 + 10 * w, first = w * each, last = first + each;
    std::vector<std::pair<std::int64_t, decltype(queue)::answer_type>> open;
    for (std::int64_t at = first; at < last;) {
      open.clear();
      for (; at < last && static_cast<std::int64_t>(open.size()) < window; ++at) {
        if (w % 2 == 0) {
          open.emplace_back(at, queue.submit(x[at]));
          continue;
        }
        if (auto a = queue.try_submit(x[at])) {
          open.emplace_back(at, std::move(*a));
          continue;
        }
        ++refused[me];
        open.emplace_back(at, queue.submit(x[at]));
      }
      for (auto& [i, a] : open) (same_bits(a.get(), expected[i]) ? right : wrong)[me] += 1;
    }
  });
  std::int64_t answers = 0, turned_away = 0;
  for (std::size_t w = 0; w < threads; ++w) {
    BOOST_TEST(wrong[w] == 0);
    answers += right[w];
    turned_away += refused[w];
  }
  BOOST_TEST(answers == all);
  const auto s = queue.statistics();
  BOOST_TEST(s.requests == all);
  BOOST_TEST(s.answered == all);
  BOOST_TEST(s.refused == turned_away);
  BOOST_TEST(s.failed + s.expired + s.stopped + s.waiting + s.running == 0);
  std::int64_t batches = 0, samples = 0, timed = 0;
  for (std::size_t n = 0; n < s.batch_sizes.size(); ++n) {
    batches += s.batch_sizes[n];
    samples += s.batch_sizes[n] * static_cast<std::int64_t>(n);
  }
  for (auto n : s.latency.counts) timed += n;
  BOOST_TEST(batches == s.batches);
  BOOST_TEST(samples == all);
  BOOST_TEST(timed == all);
  BOOST_TEST(s.latency.sum > 0);
  BOOST_TEST(s.batches < all / 4);
}

BOOST_AUTO_TEST_CASE(weights_are_exchanged_while_a_queue_serves) {
  constexpr int threads = 3, rounds = 200;
  using net_type = model<tiny, input<"N", 4>>;
  net_type old_net({.seed = 3}), new_net({.seed = 4});
  auto x = random_tensor<matrix<float, dyn, 4>>({32, 4}, 1);
  const auto before = old_net(x), after = new_net(x);
  reference_factory<tiny, input<"N", 4>> factory(old_net);
  batching_queue queue(factory, {.workers = 2, .batch = 8, .delay = std::chrono::microseconds(50)});
  std::vector<int> wrong(threads + 1, 0);
  parallel_workers(threads + 1, [&](int w) {
    if (w == threads) {
      for (int round = 0; round < 20; ++round) factory.update(round % 2 ? old_net : new_net);
      factory.update(new_net);
      return;
    }
    std::vector<decltype(queue)::answer_type> open;
    for (int round = 0; round < rounds; ++round) {
      open.clear();
      for (int i = 0; i < 32; ++i) open.push_back(queue.submit(x[i]));
      for (int i = 0; i < 32; ++i) {
        auto y = open[static_cast<std::size_t>(i)].get();
        wrong[static_cast<std::size_t>(w)] += !same_bits(y, before[i]) && !same_bits(y, after[i]);
      }
    }
  });
  for (int n : wrong) BOOST_TEST(n == 0);
  BOOST_TEST(same_bits(queue.submit(x[5]).get(), after[5]));
}

BOOST_AUTO_TEST_SUITE_END()
