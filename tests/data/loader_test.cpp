// Batches that threads load in advance: order, errors, reports.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

import lamina;

#include "message.h"
#include "steady_state.h"

using namespace lamina;
using engine_test::message_of;

namespace {

// Sample i: i % 5 copies of i, and the number i. Some take longer than others, and some cannot be read.
struct uneven {
  std::int64_t count = 60, broken = -1;
  std::int64_t size() const { return count; }
  std::pair<vector<float>, std::int64_t> operator[](std::int64_t i) const {
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (broken > 0 && i % broken == broken - 1) throw std::runtime_error("no such page");
    vector<float> x(i % 5);
    for (auto& e : x.writable()) e = static_cast<float>(i);
    return {x, i};
  }
};
// All elements of an epoch, in order.
std::vector<double> epoch_of(loader& l, std::int64_t e) {
  std::vector<double> all;
  for (const auto& b : l.epoch(e)) {
    all.push_back(1000 + static_cast<double>(b.type(0).dims.at(1)));
    for (float x : b.tensor(0).elements<float>()) all.push_back(static_cast<double>(x));
    for (auto y : b.tensor(1).elements<std::int64_t>()) all.push_back(static_cast<double>(y));
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_loader)

BOOST_AUTO_TEST_CASE(order_and_bits_do_not_depend_on_threads) {
  std::vector<double> expected[2];
  for (int threads : {0, 1, 2, 4})
    for (int ahead : {1, 3}) {
      loader l(uneven{}, {.batch = 7, .shuffle = true, .seed = 3, .threads = threads, .ahead = ahead});
      for (std::size_t e : {0u, 1u}) {
        const auto all = epoch_of(l, static_cast<std::int64_t>(e));
        if (expected[e].empty()) expected[e] = all;
        BOOST_TEST(all == expected[e], boost::test_tools::per_element());
      }
      BOOST_CHECK_EQUAL(l.report().batches, 18);
      BOOST_CHECK_EQUAL(l.report().samples, 120);
    }
  BOOST_CHECK(expected[0] != expected[1]);
}

BOOST_AUTO_TEST_CASE(an_epoch_has_each_sample_once_and_may_be_left) {
  loader l(uneven{}, {.batch = 7, .threads = 2, .ahead = 4});
  for (int round = 0; round < 3; ++round)
    for (const auto& b : l.epoch(0))
      if (b.indices()[0] >= 14) break;
  std::vector<std::int64_t> seen;
  for (const auto& b : l.epoch(1))
    for (auto i : b.indices()) seen.push_back(i);
  BOOST_REQUIRE_EQUAL(seen.size(), 60u);
  for (std::size_t i = 0; i < seen.size(); ++i) BOOST_CHECK_EQUAL(seen[i], static_cast<std::int64_t>(i));
  BOOST_CHECK(l.next() == nullptr);
  BOOST_CHECK(l.next() == nullptr);
}

BOOST_AUTO_TEST_CASE(an_error_names_the_sample_and_comes_in_order) {
  for (int threads : {0, 1, 3}) {
    loader l(uneven{60, 20}, {.batch = 6, .threads = threads, .ahead = 5});
    std::int64_t before = 0;
    const auto loop = [&] {
      for (const auto& b : l.epoch(0)) before += b.size();
    };
    BOOST_CHECK_EQUAL(message_of(loop), "loader: sample 19 cannot be read: no such page");
    BOOST_CHECK_EQUAL(before, 18);
    try {
      loop();
      BOOST_ERROR("an error is expected");
    } catch (const sample_error& e) {
      BOOST_CHECK_EQUAL(e.index(), 19);
      BOOST_CHECK_THROW(std::rethrow_exception(e.cause()), std::runtime_error);
    }
    BOOST_CHECK(l.next() == nullptr);
  }
}

BOOST_AUTO_TEST_CASE(samples_that_fail_are_skipped_and_counted) {
  for (int threads : {0, 2}) {
    loader l(uneven{60, 20}, {.batch = 6, .threads = threads, .on_error = sample_failure::skip});
    std::vector<std::int64_t> seen;
    for (const auto& b : l.epoch(0))
      for (auto y : b.tensor(1).elements<std::int64_t>()) seen.push_back(y);
    BOOST_CHECK_EQUAL(seen.size(), 57u);
    BOOST_CHECK_EQUAL(l.report().skipped, 3);
    loader none(uneven{10, 1}, {.batch = 4, .threads = threads, .on_error = sample_failure::skip});
    BOOST_CHECK(none.epoch(0).begin() == none.epoch(0).end());
  }
  // Without padding, a sample whose shape differs from the first one's is an error of the batch, or left out.
  loader strict(uneven{}, {.batch = 4, .pad = false});
  BOOST_CHECK_THROW(epoch_of(strict, 0), shape_error);
  loader alike(uneven{20}, {.batch = 10, .pad = false, .on_error = sample_failure::skip});
  std::vector<std::int64_t> kept;
  for (const auto& b : alike.epoch(0)) {
    BOOST_CHECK(b.type(0).dims == (shape{2, 0}));
    for (auto y : b.tensor(1).elements<std::int64_t>()) kept.push_back(y);
  }
  BOOST_TEST(kept == (std::vector<std::int64_t>{0, 5, 10, 15}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(alike.report().skipped, 16);
  BOOST_CHECK_EQUAL(alike.report().first_skipped, "sample 1: field 0 is [1], and [0] in sample 0");
}

BOOST_AUTO_TEST_CASE(waiting_is_counted) {
  const auto slow = std::vector<int>(8) | dataset::map([](int x) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                      return x;
                    });
  loader l(slow, {.batch = 2});
  for (const auto& b : l.epoch(0)) BOOST_CHECK_EQUAL(b.size(), 2);
  BOOST_CHECK_GT(l.report().waited, 0.004);
}

BOOST_AUTO_TEST_CASE(options_have_ranges) {
  BOOST_CHECK_EQUAL(message_of([] { loader l(uneven{}, {.batch = 0}); }).substr(0, 33),
                    "loader: batch is 0; expected 1 to");
  BOOST_CHECK_EQUAL(message_of([] { loader l(uneven{}, {.threads = -1}); }),
                    "loader: threads is -1; expected 0 to 1024");
  BOOST_CHECK_EQUAL(message_of([] { loader l(uneven{}, {.ahead = 0}); }), "loader: ahead is 0; expected 1 to 65536");
}

BOOST_AUTO_TEST_CASE(warm_batches_allocate_nothing) {
  if (!steady_state::observed) return;
  const auto data = dataset::of_tensors(matrix<float>(64, 8), vector<std::int64_t>(64));
  for (int threads : {0, 2}) {
    loader l(data, {.batch = 4, .threads = threads, .ahead = 2});
    float sum = 0;
    for (const auto& b : l.epoch(0)) sum += static_cast<const float*>(b.data(0))[0];
    auto epoch = l.epoch(1);
    const auto counts = steady_state::count([&] {
      for (const auto& b : epoch) sum += static_cast<const float*>(b.data(0))[0];
    });
    BOOST_CHECK_EQUAL(counts.allocations, 0);
    BOOST_CHECK_EQUAL(sum, 0);
  }
}

namespace {
// Sentences of different lengths in memory, with a number each.
struct kept {
  std::vector<float> words;
  std::uint8_t label = 0;
};
// Allocations for the batches of an epoch, after one batch was read.
template <class D> long allocated_by(const D& data, loader_options o) {
  loader l(data, o);
  double sum = 0;
  const auto look = [&](const sample_batch& b) {
    for (std::size_t f = 0; f < b.fields(); ++f)
      sum += static_cast<const char*>(b.data(f))[0] + double(b.lengths(f)[0]);
  };
  for (const auto& b : l.epoch(0)) look(b);
  auto epoch = l.epoch(0);
  long batches = 0;
  const auto counts = steady_state::count([&] {
    for (const auto& b : epoch) look(b), ++batches;
  });
  BOOST_TEST(batches >= 12);
  BOOST_TEST(std::isfinite(sum));
  return counts.allocations;
}
}  // namespace

BOOST_AUTO_TEST_CASE(warm_batches_of_samples_in_memory_allocate_nothing) {
  if (!steady_state::observed) return;
  std::vector<kept> sentences(100);
  for (std::size_t i = 0; i < sentences.size(); ++i)
    sentences[i] = {std::vector<float>(1 + i * 7 % 13, 1.F), static_cast<std::uint8_t>(i % 3)};
  const matrix<float> x(100, 8);
  const auto rows = dataset::of_tensors(x, vector<std::int64_t>(100));
  const std::size_t second_first[] = {1, 0};
  const auto swapped = source_of(rows).chosen(second_first),
             labels = source_of(rows).chosen(view<const std::size_t>(second_first, 1));
  const auto shared = std::make_shared<const std::vector<kept>>(sentences);
  for (const int threads : {0, 1, 3})
    for (const bool shuffle : {false, true}) {
      const loader_options o{.batch = 8, .shuffle = shuffle, .threads = threads, .ahead = 3};
      BOOST_TEST(allocated_by(rows, o) == 0);
      BOOST_TEST(allocated_by(dataset::split(rows, 0.99, 1).first | dataset::shuffle(3), o) == 0);
      BOOST_TEST(allocated_by(swapped, o) == 0);
      BOOST_TEST(allocated_by(labels, o) == 0);
      BOOST_TEST(allocated_by(shared, o) == 0);
      loader_options filled = o;
      filled.fill = {-1, 7};
      filled.bucket_by = [](std::int64_t i) { return i % 2; };
      BOOST_TEST(allocated_by(shared, filled) == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()
