// Data sets composed of other data sets, and batches of them.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "message.h"
#include "steady_state.h"

using namespace lamina;
using engine_test::message_of;

namespace {

std::vector<std::int64_t> numbers(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}
template <class D> std::vector<std::int64_t> all_of(const D& d) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < d.size(); ++i) all.push_back(d[i]);
  return all;
}
// Sample i: i % 4 copies of i, and the number i.
struct growing {
  std::int64_t count = 10;
  std::int64_t size() const { return count; }
  std::pair<vector<float>, std::int64_t> operator[](std::int64_t i) const {
    vector<float> x(i % 4);
    for (auto& e : x.writable()) e = static_cast<float>(i);
    return {x, i};
  }
};
image_dataset images(std::int64_t n) {
  image_dataset::images_type bytes(n, 1, 2, 2);
  vector<std::int64_t> labels(n);
  auto to = bytes.writable();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::uint8_t>(i);
  for (std::int64_t i = 0; i < n; ++i) labels.writable()[static_cast<std::size_t>(i)] = i % 3;
  return {bytes, labels, {"a", "b", "c"}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_compose)

BOOST_AUTO_TEST_CASE(pipes_and_functions_select_samples) {
  const auto data = numbers(10);
  const auto piped = data | dataset::filter([](std::int64_t x) { return x % 2 == 1; }) | dataset::skip(1) |
                     dataset::map([](std::int64_t x) { return 10 * x; }) | dataset::take(3);
  BOOST_TEST(all_of(piped) == (std::vector<std::int64_t>{30, 50, 70}), boost::test_tools::per_element());
  BOOST_TEST(all_of(dataset::concat(dataset::take(data, 2), dataset::subset(data, {7, 7}))) ==
                 (std::vector<std::int64_t>{0, 1, 7, 7}),
             boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(dataset::take(data, 99).size(), 10);
  BOOST_CHECK_EQUAL(dataset::skip(data, 99).size(), 0);
  const auto indexed =
      data | dataset::skip(5) | dataset::map([](std::int64_t x, std::int64_t i) { return 100 * x + i; });
  BOOST_TEST(all_of(indexed) == (std::vector<std::int64_t>{500, 601, 702, 803, 904}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(functions_take_fields_and_zip_joins_them) {
  const auto both = dataset::zip(growing{}, numbers(10), std::vector<std::string>(10, "s"));
  const auto [x, y, z, s] = both[3];
  BOOST_CHECK_EQUAL(x.size(), 3);
  BOOST_CHECK_EQUAL(y, 3);
  BOOST_CHECK_EQUAL(z, 3);
  BOOST_CHECK_EQUAL(s, "s");
  const auto lengths =
      growing{} | dataset::map([](const vector<float>& v, std::int64_t i) { return v.size() + 100 * i; });
  BOOST_CHECK_EQUAL(lengths[6], 602);
}

BOOST_AUTO_TEST_CASE(samples_without_fields_are_selected_and_mapped) {
  struct recording {
    waveform sound;
    std::int64_t label = 0;
  };
  static_assert(!Dataset<std::vector<recording>> && !Dataset<std::vector<std::vector<std::string>>>);
  std::vector<recording> all;
  for (std::int64_t i = 0; i < 8; ++i) all.push_back({{matrix<float>(1, i + 1), 8000}, i});
  const auto [first, second] = dataset::split(all, 0.5, 1);
  BOOST_CHECK_EQUAL(first.size() + second.size(), 8);
  const auto kept =
      all | dataset::skip(2) | dataset::cache() | dataset::filter([](const recording& r) { return r.label != 3; });
  const auto by_sample =
      kept | dataset::map([](const recording& r) { return std::pair(r.sound.frames(), r.label); }) | dataset::take(3);
  const auto by_field = kept | dataset::map([](const waveform& w, std::int64_t label) { return w.frames() + label; });
  static_assert(Dataset<decltype(by_sample)> && Dataset<decltype(by_field)>);
  BOOST_CHECK((by_sample[1] == std::pair<std::int64_t, std::int64_t>(5, 4)));
  BOOST_CHECK_EQUAL(by_field[1], 9);
  const std::vector<std::vector<std::string>> texts{{"a", "b"}, {"c"}};
  const auto counts =
      texts | dataset::map([](const std::vector<std::string>& t) { return static_cast<std::int64_t>(t.size()); });
  BOOST_CHECK_EQUAL(counts[0], 2);
}

BOOST_AUTO_TEST_CASE(shuffle_and_split_have_each_sample_once) {
  const auto data = numbers(1000);
  const auto shuffled = all_of(data | dataset::shuffle(7));
  BOOST_TEST(shuffled == permutation(1000, 7, 0), boost::test_tools::per_element());
  const auto [train, test] = dataset::split(data, 0.8, 3);
  BOOST_CHECK_EQUAL(train.size(), 800);
  std::set<std::int64_t> seen;
  for (auto i : all_of(train)) seen.insert(i);
  for (auto i : all_of(test)) seen.insert(i);
  BOOST_CHECK_EQUAL(seen.size(), 1000u);
}

BOOST_AUTO_TEST_CASE(folds_validate_each_sample_once) {
  for (const std::int64_t k : {2, 3, 7, 20}) {
    const auto pairs = dataset::folds(numbers(20), k, 5);
    BOOST_CHECK_EQUAL(pairs.size(), static_cast<std::size_t>(k));
    std::vector<std::int64_t> validated;
    for (const auto& [train, validation] : pairs) {
      BOOST_CHECK(validation.size() == 20 / k || validation.size() == 20 / k + 1);
      const auto held = all_of(validation), rest = all_of(train);
      validated.insert(validated.end(), held.begin(), held.end());
      std::set<std::int64_t> both(held.begin(), held.end());
      both.insert(rest.begin(), rest.end());
      BOOST_CHECK_EQUAL(both.size(), 20u);
      BOOST_CHECK_EQUAL(held.size() + rest.size(), 20u);
    }
    BOOST_TEST(validated == permutation(20, 5, 0), boost::test_tools::per_element());
  }
  const auto piped = numbers(6) | dataset::folds(2, 1);
  BOOST_CHECK_EQUAL(piped[1].first.size(), 3);
  BOOST_CHECK(all_of(piped[0].second) != all_of((numbers(6) | dataset::folds(2, 2))[0].second));
}

// 13 of class 4, 7 of class 0 and 2 of class -1, in three folds.
BOOST_AUTO_TEST_CASE(folds_by_classes_have_as_many_of_each) {
  std::vector<std::int64_t> classes(22, 4);
  for (std::size_t i = 0; i < 7; ++i) classes[3 * i] = 0;
  classes[1] = classes[20] = -1;
  const view<const std::int64_t> of(classes.data(), classes.size());
  const auto pairs = dataset::folds(numbers(22), 3, 5, of);
  std::set<std::int64_t> validated;
  for (const auto& [train, validation] : pairs) {
    BOOST_CHECK(validation.size() == 7 || validation.size() == 8);
    std::map<std::int64_t, int> count{{4, 0}, {0, 0}, {-1, 0}};
    const auto held = all_of(validation), rest = all_of(train);
    for (auto i : held) ++count[classes[static_cast<std::size_t>(i)]];
    BOOST_CHECK(count[4] == 4 || count[4] == 5);
    BOOST_CHECK(count[0] == 2 || count[0] == 3);
    BOOST_CHECK(count[-1] == 0 || count[-1] == 1);
    validated.insert(held.begin(), held.end());
    std::set<std::int64_t> both(held.begin(), held.end());
    both.insert(rest.begin(), rest.end());
    BOOST_CHECK_EQUAL(both.size(), 22u);
    BOOST_CHECK_EQUAL(held.size() + rest.size(), 22u);
  }
  BOOST_CHECK_EQUAL(validated.size(), 22u);
  BOOST_CHECK(all_of(pairs[0].second) != all_of(dataset::folds(numbers(22), 3, 6, of)[0].second));
  BOOST_CHECK_EQUAL(message_of([&] { dataset::folds(numbers(21), 3, 5, of); }),
                    "dataset::folds: there are 22 classes and 21 samples; expected one class per sample");
}

BOOST_AUTO_TEST_CASE(a_cache_makes_each_sample_once) {
  std::atomic<int> made = 0;
  const auto data = numbers(64) | dataset::map([&made](std::int64_t x) {
                      ++made;
                      return x + 1;
                    }) |
                    dataset::cache();
  for (int epoch = 0; epoch < 3; ++epoch) BOOST_CHECK_EQUAL(data[5], 6);
  BOOST_CHECK_EQUAL(made, 1);
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> sum = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (auto x : all_of(data)) sum += x;
    });
  for (auto& t : threads) t.join();
  BOOST_CHECK_EQUAL(sum, 4 * 65 * 32);
}

BOOST_AUTO_TEST_CASE(errors_say_what_is_wrong) {
  const auto data = numbers(4);
  BOOST_CHECK_EQUAL(message_of([&] { dataset::subset(data, {0, 4}); }),
                    "dataset::subset: index 4 at position 1 is outside 0..3");
  BOOST_CHECK_EQUAL(message_of([&] { dataset::take(data, -1); }),
                    "dataset::take: the count is -1; expected at least 0");
  BOOST_CHECK_EQUAL(message_of([&] { dataset::split(data, 1.5, 0); }), "dataset::split: ratio is 1.5; expected 0 to 1");
  for (const std::int64_t k : {1, 5})
    BOOST_CHECK_EQUAL(
        message_of([&] { dataset::folds(data, k, 0); }),
        "dataset::folds: k is " + std::to_string(k) + " with 4 samples; expected 2 to the number of samples");
  BOOST_CHECK_EQUAL(message_of([&] { dataset::zip(data, numbers(3)); }),
                    "dataset::zip: the data sets have 4 and 3 samples; expected equal sizes; dataset::take(n) "
                    "shortens one");
  BOOST_CHECK_EQUAL(message_of([&] { static_cast<void>(dataset::take(data, 2)[2]); }),
                    "data set: index 2 is outside 0..1");
  BOOST_CHECK_EQUAL(message_of([&] { dataset::batches(data, {.batch = 0}); }),
                    "batches: batch is 0; expected at least 1");
}

BOOST_AUTO_TEST_CASE(images_keep_their_way_to_read) {
  const auto data = images(200) | dataset::shuffle(1) | dataset::take(150);
  auto range = dataset::batches(data, {.batch = 150});
  const sample_batch& b = *range.begin();
  BOOST_CHECK(b.type(0) == (tensor_type{dtype::float32, {150, 1, 2, 2}}));
  const auto x = b.tensor(0).elements<float>();
  const auto y = b.tensor(1).elements<std::int64_t>();
  for (std::int64_t i = 0; i < 150; ++i) {
    const auto e = data[i];
    BOOST_REQUIRE_EQUAL(y[static_cast<std::size_t>(i)], e.label);
    for (std::size_t j = 0; j < 4; ++j) BOOST_REQUIRE_EQUAL(x[static_cast<std::size_t>(4 * i) + j], e.image.data()[j]);
  }
}

BOOST_AUTO_TEST_CASE(batches_pad_and_count_lengths) {
  auto range = dataset::batches(growing{}, {.batch = 4});
  BOOST_CHECK_EQUAL(range.size(), 3);
  std::vector<shape> shapes;
  for (const auto& b : range) shapes.push_back(b.type(0).dims);
  BOOST_CHECK(shapes == (std::vector<shape>{{4, 3}, {4, 3}, {2, 1}}));
  const sample_batch& b = *range.begin();
  const auto x = b.tensor(0).elements<float>();
  const std::vector<float> expected{0, 0, 0, 1, 0, 0, 2, 2, 0, 3, 3, 3};
  BOOST_CHECK_EQUAL_COLLECTIONS(x.begin(), x.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(b.lengths(0)[2], 2);
  BOOST_CHECK_EQUAL(dataset::batches(growing{}, {.batch = 4, .drop_last = true}).size(), 2);
  auto strict = dataset::batches(growing{}, {.batch = 4, .pad = false});
  BOOST_CHECK_EQUAL(message_of([&] { static_cast<void>(*strict.begin()); }),
                    "batches: field 0 is [0] in sample 0 and [1] in sample 1; {.pad = true} pads the shorter ones");
}

BOOST_AUTO_TEST_CASE(buckets_have_samples_of_one_length) {
  std::vector<std::int64_t> order;
  for (const auto& b :
       dataset::batches(growing{}, {.batch = 2, .pad = false, .bucket_by = [](std::int64_t i) { return i % 4; }}))
    for (auto i : b.indices()) order.push_back(i);
  BOOST_TEST(order == (std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7, 8, 9}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_tensor_of_a_batch_keeps_its_elements) {
  auto range = dataset::batches(numbers(4), {.batch = 2});
  auto at = range.begin();
  const any_tensor first = (*at).tensor(0);
  ++at;
  static_cast<void>(*at);
  BOOST_CHECK_EQUAL(first.elements<std::int64_t>()[1], 1);
}

BOOST_AUTO_TEST_CASE(warm_batches_allocate_nothing) {
  if (!steady_state::observed) return;
  const auto source = source_of(images(64) | dataset::shuffle(1));
  const batch_plan plan(64, {.batch = 16});
  sample_batch b;
  b.read(source, plan[0]);
  const auto counts = steady_state::count([&] {
    for (std::int64_t i = 0; i < plan.size(); ++i) b.read(source, plan[i]);
  });
  BOOST_CHECK_EQUAL(counts.allocations, 0);
}

BOOST_AUTO_TEST_SUITE_END()
