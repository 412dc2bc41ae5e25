// Streams: batches from ranges of unknown size.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

struct sample {
  std::vector<float> x;
  std::int64_t label;
};

/// A single-pass range without a size; counts the numbers that are taken.
class counting {
 public:
  counting(std::int64_t count, std::int64_t* taken) : count_(count), taken_(taken) {}
  struct iterator {
    const counting* of;
    std::int64_t at;
    sample operator*() const {
      ++*of->taken_;
      return {{static_cast<float>(at), static_cast<float>(at) + 0.5f}, at};
    }
    iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(const iterator& o) const { return at != o.at; }
  };
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, count_}; }

 private:
  std::int64_t count_;
  std::int64_t* taken_;
};

std::vector<std::int64_t> labels_of(const sample_stream_options& o, std::int64_t count,
                                    std::vector<std::int64_t>* sizes = nullptr) {
  std::int64_t taken = 0;
  std::vector<std::int64_t> all;
  for (auto& b : dataset::stream(counting(count, &taken), o)) {
    if (sizes) sizes->push_back(b.size());
    const any_tensor labels = b.tensor(1);
    for (const auto l : labels.elements<std::int64_t>()) all.push_back(l);
  }
  BOOST_TEST(taken == count);
  return all;
}
template <class F> std::string message_of(F f) {
  try {
    f();
  } catch (const error& e) { return e.what(); }
  return "";
}

inline constexpr auto line = sequential(nn::linear{.in_features = 2, .out_features = 3});

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE(samples_come_once_and_in_order) {
  std::vector<std::int64_t> sizes;
  const auto all = labels_of({.batch = 4}, 10, &sizes);
  BOOST_TEST(sizes == (std::vector<std::int64_t>{4, 4, 2}), boost::test_tools::per_element());
  for (std::int64_t i = 0; i < 10; ++i) BOOST_TEST(all[static_cast<std::size_t>(i)] == i);
  sizes.clear();
  BOOST_TEST(labels_of({.batch = 4, .drop_last = true}, 10, &sizes).size() == 8u);
  BOOST_TEST(labels_of({.batch = 4}, 0).empty());
}

// No more is taken from the range than batch and window need.
BOOST_AUTO_TEST_CASE(the_range_is_read_when_a_batch_is_due) {
  std::int64_t taken = 0;
  auto s = dataset::stream(counting(1000, &taken), {.batch = 5, .shuffle = 20});
  s.next();
  BOOST_TEST(taken == 24);
  s.next();
  BOOST_TEST(taken == 29);
}

BOOST_AUTO_TEST_CASE(a_window_shuffles_by_its_seed) {
  const auto a = labels_of({.batch = 8, .shuffle = 50, .seed = 3}, 200),
             again = labels_of({.batch = 8, .shuffle = 50, .seed = 3}, 200),
             other_batch = labels_of({.batch = 32, .shuffle = 50, .seed = 3}, 200),
             other_seed = labels_of({.batch = 8, .shuffle = 50, .seed = 4}, 200);
  BOOST_TEST((a == again));
  BOOST_TEST((a == other_batch));
  BOOST_TEST((a != other_seed));
  BOOST_TEST(std::set<std::int64_t>(a.begin(), a.end()).size() == 200u);
  BOOST_TEST(!std::is_sorted(a.begin(), a.end()));
  // A sample comes at most 50 positions early: the size of the window.
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(a[i] < static_cast<std::int64_t>(i) + 50);
}

BOOST_AUTO_TEST_CASE(words_of_a_stream_of_text_are_padded) {
  std::istringstream text("one three fourteen");
  struct words {
    std::istringstream* from;
    auto begin() const { return std::istream_iterator<std::string>(*from); }
    auto end() const { return std::istream_iterator<std::string>(); }
  };
  std::vector<std::string> all;
  for (auto& b : dataset::stream(words{&text}, {.batch = 2}))
    for (const auto& w : b.strings(0)) all.push_back(w);
  BOOST_TEST(all == (std::vector<std::string>{"one", "three", "fourteen"}), boost::test_tools::per_element());
  const std::vector<std::vector<std::int64_t>> lists{{1}, {2, 3, 4}, {5, 6}};
  for (auto& b : dataset::stream(lists, {.batch = 3, .fill = {-7}})) {
    const any_tensor t = b.tensor(0);
    BOOST_TEST((t.shape() == shape{3, 3}));
    BOOST_TEST(t.elements<std::int64_t>()[1] == -7);
  }
}

BOOST_AUTO_TEST_CASE(steps_and_fit_take_what_a_stream_gives) {
  std::int64_t taken = 0;
  model<line, lamina::input<"N", 2>> net({.seed = 1}), other({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::sgd{.lr = 0.01});
  const auto of_three = [](std::int64_t n) {
    std::vector<sample> all;
    for (std::int64_t i = 0; i < n; ++i) all.push_back({{static_cast<float>(i % 7), 1}, i % 3});
    return all;
  };
  double first = 0, last = 0;
  for (int e = 0; e < 20; ++e)
    for (auto& b : dataset::stream(of_three(60), {.batch = 16, .shuffle = 30, .seed = e})) {
      last = step(b);
      if (first == 0) first = last;
    }
  BOOST_TEST(last < first);
  const auto report = fit(other, dataset::collect(of_three(60)), loss::cross_entropy{}, optim::sgd{.lr = 0.01},
                          {.epochs = 2, .batch = 16});
  BOOST_TEST(report.epochs.size() == 2u);
  BOOST_TEST(dataset::collect(counting(9, &taken)).size() == 9);
}

BOOST_AUTO_TEST_CASE(errors_name_the_sample_of_the_stream) {
  std::vector<sample> all;
  for (std::int64_t i = 0; i < 10; ++i) all.push_back({{1, 2}, i == 7 ? 3 : i % 3});
  model<line, lamina::input<"N", 2>> net({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::sgd{.lr = 0.01});
  const std::string why = message_of([&] {
    for (auto& b : dataset::stream(all, {.batch = 4})) step(b);
  });
  BOOST_TEST(why.find("sample 7 of a stream") != std::string::npos, why);
  BOOST_TEST(message_of([&] { dataset::stream(all, {.batch = 0}); }) ==
             "stream: `batch` is 0; expected 1 sample or more");
  BOOST_TEST(message_of([&] { dataset::stream(all, {.shuffle = 0}); }) == "stream: `shuffle` is 0; expected 1 or more");
}

BOOST_AUTO_TEST_SUITE_END()
