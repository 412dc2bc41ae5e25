// Batching queues: batches, capacity, deadlines, errors, shutdown.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;
using namespace std::chrono_literals;

namespace {

constexpr auto tiny = sequential(nn::linear{.in_features = 4, .out_features = 3}, nn::tanh{});
using tiny_factory = reference_factory<tiny, input<"N", 4>>;
using rows = matrix<float, dyn, 4>;

// Small images take microseconds; a large one keeps a worker busy as long as a test needs.
constexpr auto convolutions =
    sequential(nn::conv2d{.in_channels = 2, .out_channels = 32, .kernel_size = 3, .padding = 1}, nn::relu{},
               nn::conv2d{.in_channels = 32, .out_channels = 32, .kernel_size = 3, .padding = 1},
               nn::global_avg_pool2d{}, nn::flatten{});
using image_factory = reference_factory<convolutions, input<"N", 2, "H", "W">>;
using image = tensor<float, extents<2, dyn, dyn>>;
image picture(std::int64_t side, int seed) { return random_tensor<image>({2, side, side}, seed); }
constexpr std::int64_t slow = 400, quick = 5;

constexpr auto both =
    topology(sublayer<"sum">(nn::add{}), sublayer<"difference">(nn::subtract{}), connect<"x", "sum.lhs">,
             connect<"y", "sum.rhs">, connect<"x", "difference.lhs">, connect<"y", "difference.rhs">,
             connect<"sum.output", "a">, connect<"difference.output", "b">);
using both_factory = reference_factory<both, port_input<"x", float, "N", 2>, port_input<"y", float, "N", 2>>;

constexpr auto table = sequential(nn::embedding{5, 4});
using table_factory = reference_factory<table, port_input<"input", std::int64_t, "N", 2>>;

constexpr auto from_long = sequential(nn::linear{.in_features = 60000, .out_features = 2});
using long_factory = reference_factory<from_long, input<"N", 60000>>;

template <class Factory> Factory made() { return Factory(typename Factory::model_type({.seed = 3})); }

template <class Queue> void wait_for_work(const Queue& queue) {
  while (queue.statistics().running == 0) std::this_thread::sleep_for(100us);
}

static_assert(!std::is_copy_constructible_v<answer<vector<float, 3>>> &&
              std::is_nothrow_move_constructible_v<answer<vector<float, 3>>>);
static_assert(std::same_as<batching_queue<tiny_factory::traits>::result_type, vector<float, 3>>);

}  // namespace

BOOST_AUTO_TEST_SUITE(serving)

BOOST_AUTO_TEST_CASE(a_full_batch_leaves_at_once) {
  auto factory = made<tiny_factory>();
  auto x = random_tensor<rows>({4, 4}, 1);
  auto expected = factory.create()(x);
  batching_queue queue(factory, {.batch = 4, .delay = 60s});
  std::vector<answer<vector<float, 3>>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(queue.submit(x[i]));
  BOOST_TEST(!answers[0].wait_for(20ms));
  BOOST_TEST(queue.statistics().waiting == 3);
  answers.push_back(queue.submit(x[3]));
  for (int i = 0; i < 4; ++i) {
    auto y = answers[static_cast<std::size_t>(i)].get();
    BOOST_TEST(same_bits(y, expected[i]));
    y.writable(0) = 1;  // the caller owns the result
  }
  const auto s = queue.statistics();
  BOOST_TEST(s.batches == 1);
  BOOST_TEST(s.batch_sizes[4] == 1);
}

BOOST_AUTO_TEST_CASE(the_caller_may_write_to_a_sample_at_once) {
  auto factory = made<tiny_factory>();
  vector<float, 4> x{1, 2, 3, 4};
  auto expected = factory.create()(x);
  batching_queue queue(factory, {.batch = 2, .delay = 60s});
  auto first = queue.submit(x);
  x.writable(0) = 7;
  auto second = queue.submit(x);
  BOOST_TEST(same_bits(first.get(), expected));
  BOOST_TEST(!same_bits(second.get(), expected));
}

BOOST_AUTO_TEST_CASE(any_number_of_samples_gives_the_same_bits) {
  auto factory = made<tiny_factory>();
  auto x = random_tensor<rows>({80, 4}, 1);
  auto expected = factory.create()(x);
  for (std::int64_t max : {1, 5, 64, 100})
    for (std::int64_t n : {1, 2, 5, 7, 17, 31, 63, 80}) {
      batching_queue queue(factory, {.batch = max, .delay = 2ms});
      std::vector<answer<vector<float, 3>>> answers;
      for (std::int64_t i = 0; i < n; ++i) answers.push_back(queue.submit(x[i]));
      for (std::int64_t i = 0; i < n; ++i)
        BOOST_TEST(same_bits(answers[static_cast<std::size_t>(i)].get(), expected[i]));
    }
}

BOOST_AUTO_TEST_CASE(several_inputs_and_outputs) {
  auto factory = made<both_factory>();
  batching_queue queue(factory, {.batch = 3, .delay = 1ms});
  std::vector<decltype(queue)::answer_type> answers;
  for (int i = 0; i < 7; ++i)
    answers.push_back(queue.submit(vector<float, 2>{float(i), 1}, vector<float, 2>{10, float(i)}));
  for (int i = 0; i < 7; ++i) {
    auto [a, b] = answers[static_cast<std::size_t>(i)].get();
    BOOST_TEST((a(0) == float(i) + 10 && a(1) == 1 + float(i) && b(0) == float(i) - 10 && b(1) == 1 - float(i)));
  }
}

BOOST_AUTO_TEST_CASE(samples_of_different_extents_go_in_batches_of_their_own) {
  auto factory = made<image_factory>();
  auto ref = factory.create();
  batching_queue queue(factory, {.workers = 2, .batch = 4, .delay = 1ms});
  std::vector<image> pictures;
  std::vector<decltype(queue)::answer_type> answers;
  for (int i = 0; i < 24; ++i) {
    pictures.push_back(picture(4 + i * i % 3, i));
    answers.push_back(queue.submit(pictures.back()));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) BOOST_TEST(same_bits(answers[i].get(), ref(pictures[i])));
  auto message = error_of([&] { queue.submit(tensor<float, extents<dyn, dyn, dyn>>(3, 5, 5)); });
  BOOST_TEST(message == "shape_error: submit: a sample for input 0 is [2xHxW]; got [3x5x5]");
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses_or_lets_wait) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 1, .delay = 0us, .capacity = 2});
  auto busy = queue.submit(picture(slow, 1));
  wait_for_work(queue);
  auto a = queue.submit(picture(quick, 1)), b = queue.submit(picture(quick, 2));
  BOOST_TEST(!queue.try_submit(picture(quick, 3)).has_value());
  auto late = queue.submit_within(1ms, picture(quick, 4));
  BOOST_CHECK_THROW(late.get(), deadline_error);
  BOOST_TEST(!busy.ready());
  auto c = queue.submit(picture(quick, 5));  // waits for capacity
  BOOST_TEST(busy.ready());
  auto d = queue.try_submit_within(60s, picture(quick, 6));
  auto ref = factory.create();
  BOOST_TEST(same_bits(a.get(), ref(picture(quick, 1))));
  BOOST_TEST(same_bits(b.get(), ref(picture(quick, 2))));
  BOOST_TEST(same_bits(c.get(), ref(picture(quick, 5))));
  if (d) BOOST_TEST(same_bits(d->get(), ref(picture(quick, 6))));
  const auto s = queue.statistics();
  BOOST_TEST(s.refused == (d ? 1 : 2));
  BOOST_TEST(s.expired == 1);
}

BOOST_AUTO_TEST_CASE(deadlines) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 4, .delay = 50ms});
  // A deadline in the past.
  auto past = queue.submit_within(-1s, picture(quick, 1));
  auto message = error_of([&] { past.get(); });
  BOOST_TEST(message == "error: the deadline passed before the request was computed");
  // A batch is run before the deadlines in it.
  batching_queue patient(factory, {.batch = 4, .delay = 60s});
  auto soon = patient.submit_within(30s, picture(quick, 1));
  BOOST_TEST(same_bits(soon.get(), factory.create()(picture(quick, 1))));
  auto one = patient.submit(picture(quick, 2));
  BOOST_TEST(!one.wait_for(5ms));
  auto hurry = patient.submit_within(30s, picture(quick, 3));  // and the other request with it
  hurry.get();
  one.get();
  BOOST_TEST(patient.statistics().batch_sizes[2] == 1);
  // The worker is busy until the deadline has passed; the requests before and after are computed.
  auto busy = queue.submit(picture(slow, 1));
  wait_for_work(queue);
  auto before = queue.submit(picture(quick, 1)), late = queue.submit_within(100us, picture(quick, 2)),
       after = queue.submit_within(60s, picture(quick, 3));
  BOOST_CHECK_THROW(late.get(), deadline_error);
  before.get();
  after.get();
  busy.get();
  const auto s = queue.statistics();
  BOOST_TEST(s.expired == 2);
  BOOST_TEST(s.answered == 3);
}

// A deadline needs no worker: waiting for the answer ends when the time is over.
BOOST_AUTO_TEST_CASE(a_deadline_holds_while_the_worker_is_busy) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 4});
  auto busy = queue.submit(picture(2 * slow, 1));
  wait_for_work(queue);
  auto late = queue.submit_within(10ms, picture(quick, 2)), polled = queue.submit_within(10ms, picture(quick, 3));
  BOOST_CHECK_THROW(late.get(), deadline_error);
  while (!polled.wait_for(0ns)) std::this_thread::sleep_for(1ms);
  BOOST_CHECK_THROW(polled.get(), deadline_error);
  BOOST_TEST(!busy.ready());
  const auto before = queue.statistics();
  BOOST_TEST(before.expired == 2);
  BOOST_TEST(before.waiting == 0);
  BOOST_TEST(before.running == 1);
  busy.get();
  auto next = queue.submit(picture(quick, 4));
  next.get();
  const auto s = queue.statistics();
  BOOST_TEST(s.requests == 4);
  BOOST_TEST(s.answered == 2);
  BOOST_TEST(s.expired == 2);
}

BOOST_AUTO_TEST_CASE(who_asks_is_told_when_the_answer_is_there) {
  auto factory = made<image_factory>();
  std::atomic<int> told{0};
  {
    batching_queue queue(factory, {.batch = 4});
    auto y = queue.submit(picture(quick, 1));
    y.on_ready([&] { ++told; });
    y.get();
    while (told == 0) std::this_thread::sleep_for(1ms);
    auto busy = queue.submit(picture(slow, 1));
    wait_for_work(queue);
    auto late = queue.submit_within(5ms, picture(quick, 2));
    late.on_ready([&] { told += 10; });
    BOOST_CHECK_THROW(late.get(), deadline_error);
    BOOST_TEST(told == 11);
    auto again = queue.submit(picture(quick, 2));
    busy.wait();
    again.wait();
    again.on_ready([&] { told += 100; });  // immediately
    BOOST_TEST(told == 111);
    auto dropped = queue.submit(picture(slow, 1));
    wait_for_work(queue);
    auto stopped = queue.submit(picture(quick, 2));
    stopped.on_ready([&] { told += 1000; });
    queue.shutdown_now();
    BOOST_CHECK_THROW(stopped.get(), stopped_error);
  }
  BOOST_TEST(told == 1111);
}

// Threads do not survive a fork: a queue reports it, a pool works without them.
BOOST_AUTO_TEST_CASE(in_a_forked_child) {
  auto factory = made<tiny_factory>();
  const auto x = random_tensor<rows>({1, 4}, 1);
  const auto expected = factory.create()(x);
  batching_queue queue(factory, {.batch = 64, .delay = 60s});
  auto before = queue.submit(x[0]);
  thread_pool pool(3);
  std::atomic<int> ran{0};
  const auto count = [](void* of, std::size_t, int) { ++*static_cast<std::atomic<int>*>(of); };
  pool.run(10, count, &ran);
  std::optional<batching_queue<tiny_factory::traits>> second(std::in_place, factory);
  std::optional<thread_pool> second_pool(std::in_place, 2);

  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(20);  // ends a wait for a thread of the parent
    int wrong = 0;
    const auto refused = [&](auto f, const std::string& message = "used in a forked child") {
      try {
        f();
        return false;
      } catch (const state_error& e) { return std::string(e.what()).find(message) != std::string::npos; } catch (...) {
        return false;
      }
    };
    if (!refused([&] { queue.submit(x[0]); },
                 "submit: used in a forked child of the process that made the queue; threads do not survive a fork, so "
                 "make the queue after it"))
      wrong |= 1;
    if (!refused([&] { queue.try_submit_within(2s, x[0]); })) wrong |= 1;
    if (!refused([&] { before.wait(); })) wrong |= 2;
    if (!refused([&] { queue.shutdown(); })) wrong |= 4;
    ran = 0;
    pool.run(10, count, &ran);
    if (ran != 10) wrong |= 8;
    second.reset();
    second_pool.reset();
#if !__has_feature(thread_sanitizer)  // it does not support threads after a fork
    batching_queue own(factory, {.batch = 1});
    if (!same_bits(own.submit_within(10s, x[0]).get(), expected[0])) wrong |= 16;
    own.shutdown();
#endif
    ::_exit(wrong);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
  queue.shutdown();
  BOOST_TEST(same_bits(before.get(), expected[0]));
}

BOOST_AUTO_TEST_CASE(the_longest_time_is_no_deadline) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 1});
  const auto longest = std::chrono::nanoseconds::max();
  auto y = queue.submit_within(longest, picture(quick, 1));
  BOOST_TEST(y.wait_for(longest));
  BOOST_TEST(same_bits(y.get(), factory.create()(picture(quick, 1))));
  auto z = queue.try_submit_within(longest, picture(quick, 1));
  BOOST_REQUIRE(z.has_value());
  BOOST_TEST(z->wait_until(std::chrono::steady_clock::time_point::max()));
  z->get();
  auto past = queue.submit_within(std::chrono::nanoseconds::min(), picture(quick, 1));
  BOOST_CHECK_THROW(past.get(), deadline_error);
}

// out_of_memory keeps its numbers when it reaches the caller, for the process's limit and for a pool's.
BOOST_AUTO_TEST_CASE(a_lack_of_memory_is_told_in_numbers) {
  const image_factory::model_type net({.seed = 3});
  const std::size_t planned = image_factory(net).create().planned({{1, 2, 100, 100}});
  auto check = [&](const image_factory& factory, std::int64_t limit) {
    batching_queue queue(factory, {.batch = 1});
    auto y = queue.submit(picture(100, 1));
    try {
      y.get();
      BOOST_ERROR("no error");
    } catch (const out_of_memory& e) {
      BOOST_TEST(e.requested() > 1000000u);
      BOOST_TEST(e.limit() == limit);
      BOOST_TEST(e.used() >= 0);
      BOOST_TEST(e.planned() == planned);
      BOOST_TEST_CONTEXT(e.what()) BOOST_TEST((std::string(e.what()).find("the plan needs ") != std::string::npos));
    }
  };
  check(image_factory(net, {.arenas = std::make_shared<arena_pool>(1000000)}), 1000000);
  const auto limit = memory::counters().current + 1500000;
  memory::limit(limit);
  check(image_factory(net), limit);
  check(image_factory(net, {.arenas = std::make_shared<arena_pool>()}), limit);
  memory::limit(0);
}

// Without memory for the batch itself, the error names the batch's plan, too.
BOOST_AUTO_TEST_CASE(a_batch_without_memory_names_its_plan) {
  auto factory = made<long_factory>();
  const auto x = random_tensor<vector<float, 60000>>({60000}, 1);
  batching_queue queue(factory, {.batch = 1});
  const auto expected = queue.submit(x).get();  // everything but the batch is allocated now
  const std::size_t planned = factory.create().planned({{1, 60000}});
  const auto limit = memory::counters().current + 100000;
  memory::limit(limit);
  BOOST_CHECK_EXCEPTION(queue.submit(x).get(), out_of_memory, [&](const out_of_memory& e) {
    return e.requested() >= 60000 * sizeof(float) && e.limit() == limit && e.planned() == planned &&
           std::string(e.what()).find("; the plan of the batch needs ") != std::string::npos;
  });
  memory::limit(0);
  BOOST_TEST(same_bits(queue.submit(x).get(), expected));
}

BOOST_AUTO_TEST_CASE(errors_of_a_run_reach_the_callers_of_its_batch) {
  auto factory = made<table_factory>();
  batching_queue queue(factory, {.batch = 2, .delay = 60s});
  std::vector<decltype(queue)::answer_type> answers;
  for (std::int64_t i : {0, 1, 2, 9, 3, 4}) answers.push_back(queue.submit(vector<std::int64_t, 2>{0, i}));
  auto ref = factory.create();
  for (std::size_t i : {0u, 1u, 4u, 5u}) {
    const std::int64_t at[] = {0, 1, 2, 9, 3, 4};
    BOOST_TEST(same_bits(answers[i].get(), ref(vector<std::int64_t, 2>{0, at[i]})));
  }
  for (std::size_t i : {2u, 3u}) {
    auto message = error_of([&] { answers[i].get(); });
    BOOST_TEST(message ==
               "value_error: sublayer `0` (embedding): gather: a position is outside -5..4: 9 at [1, 1] (1 in total)");
  }
  const auto s = queue.statistics();
  BOOST_TEST(s.failed == 2);
  BOOST_TEST(s.answered == 4);
}

BOOST_AUTO_TEST_CASE(shutdown_answers_everything) {
  auto factory = made<image_factory>();
  auto ref = factory.create();
  std::optional<batching_queue<image_factory::traits>> queue(std::in_place, factory,
                                                             queue_options{.workers = 2, .batch = 4, .delay = 60s});
  std::vector<std::remove_cvref_t<decltype(*queue)>::answer_type> answers;
  for (int i = 0; i < 11; ++i) answers.push_back(queue->submit(picture(quick, i)));
  parallel_workers(3, [&](int) { queue->shutdown(); });
  for (int i = 0; i < 11; ++i)
    BOOST_TEST(same_bits(answers[static_cast<std::size_t>(i)].get(), ref(picture(quick, i))));
  auto message = error_of([&] { queue->submit(picture(quick, 1)); });
  BOOST_TEST(message == "error: submit: the queue was stopped");
  BOOST_CHECK_THROW(queue->try_submit(picture(quick, 1)), stopped_error);
  queue.emplace(factory, queue_options{.batch = 4, .delay = 60s});
  auto last = queue->submit(picture(quick, 1));
  queue.reset();
  BOOST_TEST(same_bits(last.get(), ref(picture(quick, 1))));  // answers outlive the queue
}

BOOST_AUTO_TEST_CASE(shutdown_at_once_says_so) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 1, .delay = 0us, .capacity = 2});
  auto busy = queue.submit(picture(slow, 1));
  wait_for_work(queue);
  auto a = queue.submit(picture(quick, 1)), b = queue.submit(picture(quick, 2));
  std::thread blocked([&] { BOOST_CHECK_THROW(queue.submit(picture(quick, 3)), stopped_error); });
  std::this_thread::sleep_for(2ms);
  queue.shutdown_now();
  blocked.join();
  BOOST_TEST(busy.ready());
  busy.get();
  BOOST_CHECK_THROW(a.get(), stopped_error);
  auto message = error_of([&] { b.get(); });
  BOOST_TEST(message == "error: the queue was stopped before the request was computed");
  BOOST_TEST(queue.statistics().stopped == 2);
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_canceled_leaves_its_batch) {
  auto factory = made<image_factory>();
  batching_queue queue(factory, {.batch = 1, .delay = 0us, .capacity = 2});
  queue.submit(picture(slow, 1)).get();  // caches the plan
  auto busy = queue.submit(picture(slow, 1));
  wait_for_work(queue);
  auto waiting = queue.submit(picture(quick, 1));
  queue.cancel();
  BOOST_TEST(busy.ready());
  const auto message = error_of([&] { busy.get(); });
  BOOST_TEST(holds(message, "the run was stopped"));
  BOOST_TEST(error_of([&] { waiting.get(); }) == "error: the queue was stopped before the request was computed");
  const auto s = queue.statistics();
  BOOST_TEST((s.requests == 3 && s.answered == 1 && s.stopped == 2 && s.failed == 0 && s.running == 0));
  BOOST_CHECK_THROW(queue.submit(picture(quick, 1)), stopped_error);
}

BOOST_AUTO_TEST_CASE(threads_submit_while_the_queue_is_shut_down) {
  auto factory = made<tiny_factory>();
  auto x = random_tensor<rows>({16, 4}, 1);
  auto expected = factory.create()(x);
  for (bool at_once : {false, true})
    for (int round = 0; round < 5; ++round) {
      batching_queue queue(factory, {.workers = 2, .batch = 8, .delay = 50us, .capacity = 16});
      std::atomic<int> answered = 0, dropped = 0, wrong = 0;
      parallel_workers(5, [&](int w) {
        if (w == 4) {
          std::this_thread::sleep_for(1ms);
          at_once ? queue.shutdown_now() : queue.shutdown();
          return;
        }
        for (;;) {
          std::vector<decltype(queue)::answer_type> open;
          bool over = false;
          try {
            for (int i = 0; i < 16; ++i) open.push_back(queue.submit(x[i]));
          } catch (const stopped_error&) { over = true; }
          for (std::size_t i = 0; i < open.size(); ++i) {
            try {
              wrong += !same_bits(open[i].get(), expected[static_cast<std::int64_t>(i)]);
              ++answered;
            } catch (const stopped_error&) { ++dropped; }
          }
          if (over) return;
        }
      });
      const auto s = queue.statistics();
      BOOST_TEST(wrong == 0);
      BOOST_TEST(s.answered == answered);
      BOOST_TEST(s.stopped == dropped);
      BOOST_TEST(s.requests == answered + dropped);
      if (!at_once) BOOST_TEST(dropped == 0);
    }
}

BOOST_AUTO_TEST_CASE(options_and_answers) {
  auto factory = made<tiny_factory>();
  auto refused = [&](queue_options o) { return error_of([&] { batching_queue queue(factory, o); }); };
  BOOST_TEST(refused({.workers = 0}) == "value_error: batching_queue: `workers` must be 1 to 1024; got 0");
  BOOST_TEST(refused({.batch = 0}) == "value_error: batching_queue: `batch` must be 1 to 32768; got 0");
  BOOST_TEST(refused({.delay = 61s}) ==
             "value_error: batching_queue: `delay` must be 0 to 60000000 microseconds; got 61000000");
  BOOST_TEST(holds(refused({.capacity = 0}), "`capacity` must be 1 to"));
  batching_queue queue(factory, {.batch = 64, .delay = 0us, .capacity = 3});
  BOOST_TEST(queue.options().capacity == 3);
  auto a = queue.submit(vector<float, 4>{1, 2, 3, 4});
  BOOST_TEST(a.valid());
  a.wait();
  BOOST_TEST(a.ready());
  auto moved = std::move(a);
  BOOST_TEST(!a.valid());
  moved.get();
  BOOST_TEST(!moved.valid());
  auto message = error_of([&] { moved.get(); });
  BOOST_TEST(message == "error: answer: there is none; it was taken already, or nothing was submitted");
  BOOST_CHECK_THROW(answer<float>().wait(), state_error);
  queue.submit(vector<float, 4>{1, 2, 3, 4});  // the answer is discarded
  queue.shutdown();
  BOOST_TEST(queue.statistics().answered == 2);
}

BOOST_AUTO_TEST_SUITE_END()
