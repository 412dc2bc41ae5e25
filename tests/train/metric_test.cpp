// Metrics against numbers computed by hand or by definition; batches and merged parts against the whole.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using nets_test::error_of;
using nets_test::holds;
using nets_test::random_tensor;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

bool near(double a, double b) { return std::abs(a - b) <= 1e-13 * (1 + std::abs(b)); }

// Checks a metric's value over all samples at once, over batches, after merging, and after a reset.
template <class M, class X, class Y> void measures(const M& empty, const X& x, const Y& y, double expected) {
  M whole = empty;
  whole.add(x, y);
  BOOST_TEST(near(whole.value(), expected), whole.name() << ": " << whole.value() << ", not " << expected);
  M batches = empty, first = empty, second = empty;
  const std::int64_t n = y.shape()[0].code, cuts[] = {0, 1, 1, n / 2, n};
  for (int i = 0; i + 1 < 5; ++i) {
    const auto xs = x.rows(cuts[i], cuts[i + 1]);
    const auto ys = y.rows(cuts[i], cuts[i + 1]);
    batches.add(xs, ys);
    (i < 2 ? first : second).add(xs, ys);
  }
  BOOST_TEST(near(batches.value(), expected), batches.name() << " of batches: " << batches.value());
  first.merge(second);
  BOOST_TEST(near(first.value(), expected), first.name() << " of parts: " << first.value());
  M other = empty;
  other.merge(first);
  BOOST_TEST(near(other.value(), expected));
  whole.reset();
  whole.add(x, y);
  BOOST_TEST(near(whole.value(), expected));
}

const matrix<double> scores{{0.1, 0.7, 0.2}, {0.5, 0.3, 0.2}, {0.2, 0.2, 0.6},
                            {0.4, 0.4, 0.2}, {0.3, 0.1, 0.6}, {0.1, 0.8, 0.1}};
const vector<std::int64_t> labels{1, 0, 2, 1, 0, 2};  // found: 1 0 2 0 2 1

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_AUTO_TEST_CASE(accuracy) {
  measures(metric::accuracy{}, scores, labels, 0.5);
  measures(metric::accuracy{.ignore_index = 2}, scores, labels, 0.5);
  const vector<float> p{0.2f, 0.9f, 0.5f, 0.6f};
  const vector<std::int64_t> yes{0, 1, 1, 0};
  measures(metric::accuracy{}, p, yes, 0.5);
  measures(metric::accuracy{.threshold = 0.4}, p, yes, 0.75);
  measures(metric::accuracy{}, vector<std::int64_t>{5, -3, 1, 900}, vector<std::int64_t>{5, 3, 1, 900}, 0.75);
  metric::accuracy lists;  // with vectors of the standard library, too
  lists.add(std::vector<double>{0.3, 0.8}, std::vector<std::int64_t>{0, 1});
  BOOST_TEST(lists.value() == 1);
  BOOST_TEST(metric::accuracy{}.value() == 0);
}

BOOST_AUTO_TEST_CASE(top_k) {
  measures(metric::top_k{.k = 1}, scores, labels, 0.5);
  measures(metric::top_k{.k = 2}, scores, labels, 5.0 / 6);  // with equal scores, the first classes come first
  measures(metric::top_k{.k = 3}, scores, labels, 1);
}

BOOST_AUTO_TEST_CASE(scores_of_classes) {
  // label: right, found, there: 0: 1 2 2, 1: 1 2 2, 2: 1 2 2
  measures(metric::precision{}, scores, labels, 0.5);
  const vector<std::int64_t> there{1, 0, 2, 1, 1, 1}, found{1, 0, 1, 0, 1, 2};
  // 0: right 1, found 2, there 1; 1: right 2, found 3, there 4; 2: right 0, found 1, there 1
  const double p[] = {1.0 / 2, 2.0 / 3, 0}, r[] = {1, 0.5, 0}, f[] = {2.0 / 3, 4.0 / 7, 0}, u[] = {0.5, 0.4, 0};
  measures(metric::precision{.classes = 3}, found, there, (p[0] + p[1]) / 3);
  measures(metric::recall{.classes = 3}, found, there, (r[0] + r[1]) / 3);
  measures(metric::f1{.classes = 3}, found, there, (f[0] + f[1]) / 3);
  measures(metric::mean_iou{.classes = 3}, found, there, (u[0] + u[1]) / 3);
  measures(metric::mean_iou{.classes = 5}, found, there, (u[0] + u[1]) / 3);  // classes that never occur do not count
  measures(metric::f1{.classes = 5}, found, there, (f[0] + f[1]) / 3);
  measures(metric::precision{.classes = 5}, found, there, (p[0] + p[1]) / 3);
  measures(metric::recall{.classes = 5}, found, there, (r[0] + r[1]) / 3);
  // Of classes 0..4, 1 is only predicted, 3 only a target, 4 neither. Class 0: 1 right, 2 predicted, 2 targets; class
  // 2: 1, 1, 2.
  const vector<std::int64_t> some_there{0, 0, 2, 2, 3}, some_found{0, 1, 2, 1, 0};
  measures(metric::precision{.classes = 5}, some_found, some_there, (0.5 + 0 + 1 + 0) / 4);
  measures(metric::recall{.classes = 5}, some_found, some_there, (0.5 + 0 + 0.5 + 0) / 4);
  measures(metric::f1{.classes = 5}, some_found, some_there, (0.5 + 0 + 2.0 / 3 + 0) / 4);
  measures(metric::precision{.over = metric::average::micro, .classes = 3}, found, there, 0.5);
  measures(metric::f1{.over = metric::average::micro, .classes = 3}, found, there, 0.5);
  measures(metric::precision{.over = metric::average::weighted, .classes = 3}, found, there, (p[0] + 4 * p[1]) / 6);
  metric::recall each{.classes = 3};
  each.add(found, there);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(near(each.per_class()[i], r[i]));
  // binary: the probability of the second class only
  const vector<double> probability{0.9, 0.2, 0.7, 0.4, 0.8};
  const vector<std::int64_t> positive{1, 0, 0, 1, 1};
  measures(metric::precision{.over = metric::average::binary}, probability, positive, 2.0 / 3);
  measures(metric::recall{.over = metric::average::binary}, probability, positive, 2.0 / 3);
}

BOOST_AUTO_TEST_CASE(confusion_matrix) {
  measures(metric::confusion_matrix{}, scores, labels, 0.5);
  metric::confusion_matrix m;
  m.add(scores, labels);
  BOOST_TEST(m.at(0, 0) == 1);
  BOOST_TEST(m.at(0, 2) == 1);
  BOOST_TEST(m.at(1, 0) == 1);
  BOOST_TEST(m.at(2, 0) == 0);
  BOOST_TEST(m.print() ==
             "label \\ found  0  1  2\n"
             "0              1  0  1\n"
             "1              1  1  0\n"
             "2              0  1  1\n");
  const std::string names[] = {"cat", "dog", "a very long name"};
  BOOST_TEST(m.print(names) ==
             "label \\ found                  cat               dog  a very long name\n"
             "cat                              1                 0                 1\n"
             "dog                              1                 1                 0\n"
             "a very long name                 0                 1                 1\n");
}

BOOST_AUTO_TEST_CASE(perplexity) {
  const auto logits = random_tensor<matrix<double>>({6, 3}, 3);
  double sum = 0, some = 0;
  matrix<double> log_p(6, 3);
  for (std::int64_t i = 0; i < 6; ++i) {
    double all = 0;
    for (std::int64_t c = 0; c < 3; ++c) all += std::exp(logits(i, c));
    for (std::int64_t c = 0; c < 3; ++c) log_p.writable(i, c) = logits(i, c) - std::log(all);
    sum -= log_p(i, labels(i)) / 6;
    if (labels(i) != 0) some -= log_p(i, labels(i)) / 4;
  }
  measures(metric::perplexity{}, logits, labels, std::exp(sum));
  measures(metric::perplexity{.log_probabilities = true}, log_p, labels, std::exp(sum));
  measures(metric::perplexity{.ignore_index = 0}, logits, labels, std::exp(some));
}

// By definition, in loops over all samples: ordered pairs, and steps of the curve.
BOOST_AUTO_TEST_CASE(rankings) {
  vector<float> score(40);
  vector<std::int64_t> target(40);
  const philox random(4);
  for (std::int64_t i = 0; i < 40; ++i) {
    score.writable(i) =
        std::floor(12 * static_cast<float>(random.uniform(static_cast<std::uint64_t>(i))));  // with ties
    target.writable(i) = random.uniform(static_cast<std::uint64_t>(i) + 100) < 0.4 ? 1 : 0;
  }
  double in_order = 0, pairs = 0;
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t j = 0; j < 40; ++j)
      if (target(i) == 1 && target(j) == 0) {
        pairs += 1;
        in_order += score(i) > score(j) ? 1 : score(i) == score(j) ? 0.5 : 0;
      }
  measures(metric::roc_auc{}, score, target, in_order / pairs);
  double precision_sum = 0, recall = 0;
  for (double at = 12; at >= 0; --at) {
    double right = 0, found = 0, all = 0;
    for (std::int64_t i = 0; i < 40; ++i) {
      all += target(i) == 1;
      if (score(i) < at) continue;
      found += 1;
      right += target(i) == 1;
    }
    if (found > 0) precision_sum += (right / all - recall) * right / found;
    recall = right / all;
  }
  measures(metric::average_precision{}, score, target, precision_sum);
  metric::roc_auc one;
  one.add(std::vector<double>{1, 2}, std::vector<std::int64_t>{1, 1});
  BOOST_TEST(std::isnan(one.value()));
  // scikit-learn's example: 0.75 and 0.8333
  measures(metric::roc_auc{}, vector<double>{0.1, 0.4, 0.35, 0.8}, vector<std::int64_t>{0, 0, 1, 1}, 0.75);
  measures(metric::average_precision{}, vector<double>{0.1, 0.4, 0.35, 0.8}, vector<std::int64_t>{0, 0, 1, 1}, 5.0 / 6);
}

BOOST_AUTO_TEST_CASE(numbers_of_one_shape) {
  const vector<double> x{1, 2.5, -1, 4}, y{2, 2, 0, 8};
  measures(metric::mae{}, x, y, 6.5 / 4);
  measures(metric::rmse{}, x, y, std::sqrt(18.25 / 4));
  measures(metric::r2{}, x, y, 1 - 18.25 / 36);  // squared deviations of targets from their mean 3: 1 + 1 + 9 + 25
  // a large mean: sums of squares would lose all digits
  vector<double> far = x.copy(), off = y.copy();
  for (double& v : far.writable()) v += 1e9;
  for (double& v : off.writable()) v += 1e9;
  metric::r2 m;
  m.add(far, off);
  BOOST_TEST(std::abs(m.value() - (1 - 18.25 / 36)) < 1e-7);
  metric::r2 flat;
  flat.add(std::vector<double>{1, 2}, std::vector<double>{3, 3});
  BOOST_TEST(std::isnan(flat.value()));
}

BOOST_AUTO_TEST_CASE(sequences) {
  const std::vector<std::int64_t> kitten{1, 2, 3, 3, 4, 5}, sitting{6, 2, 3, 3, 2, 5, 7}, none;
  BOOST_TEST(metric::edit_distance(kitten, sitting) == 3);
  BOOST_TEST(metric::edit_distance(none, sitting) == 7);
  metric::token_error_rate tokens;
  tokens.add(kitten, sitting);
  BOOST_TEST(near(tokens.value(), 3.0 / 7));
  metric::word_error_rate words, more;
  words.add("the cat  sat on\tmat ", "the cat sat on the mat");
  BOOST_TEST(near(words.value(), 1.0 / 6));
  more.add("a b", "b");
  words.merge(more);
  BOOST_TEST(near(words.value(), 2.0 / 7));
  metric::character_error_rate letters;
  letters.add("gr\xc3\xbcn",
              "gr\xc3\xb6\xc3\x9f"
              "e");  // grün, größe: three of five characters
  BOOST_TEST(near(letters.value(), 3.0 / 5));
  letters.reset();
  BOOST_TEST(letters.value() == 0);
  static_assert(Metric<metric::token_error_rate>);
}

BOOST_AUTO_TEST_CASE(your_own) {
  auto bias = metric::of("bias", [](const metric::numbers& y, const metric::numbers& t) {
    double sum = 0;
    for (std::int64_t i = 0; i < t.size(); ++i) sum += y[i] - t[i];
    return t.size() ? sum / static_cast<double>(t.size()) : 0.0;
  });
  BOOST_TEST(bias.name() == "bias");
  measures(bias, vector<double>{1, 2.5, -1, 4}, vector<double>{2, 2, 0, 8}, -5.5 / 4);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  const auto refused = [](auto m, const auto& x, const auto& y, std::string_view part) {
    BOOST_TEST(holds(error_of([&] { m.add(x, y); }), part));
    decltype(m) unchanged = m;
    unchanged.reset();
    BOOST_TEST((std::isnan(m.value()) || m.value() == unchanged.value()));
  };
  auto broken = scores.copy();
  broken.writable(4, 2) = not_a_number;
  refused(metric::accuracy{}, broken, labels, "value_error: accuracy: the output at [4, 2] is nan");
  refused(metric::perplexity{}, broken, labels, "perplexity: the output at [4, 2] is nan");
  refused(metric::top_k{}, broken, labels, "top_k: the output at [4, 2] is nan");
  const vector<std::int64_t> high{1, 0, 2, 3, 0, 2}, low{1, 0, 2, -1, 0, 2};
  refused(metric::confusion_matrix{}, scores, high, "confusion_matrix: label 3 at [3] is outside 0..2 (3 classes)");
  refused(metric::f1{}, scores, low, "f1: label -1 at [3] is outside 0..2 (3 classes)");
  refused(metric::precision{.classes = 4}, scores, labels,
          "shape_error: precision: outputs are [6x3], but `classes` is 4");
  refused(metric::recall{.classes = 3}, high, labels, "recall: output 3 at [3] is outside 0..2");
  refused(metric::top_k{.k = 0}, scores, labels, "top_k: `k` is 0; expected 1 or more");
  refused(metric::accuracy{}, scores, vector<std::int64_t>{1, 2},
          "outputs must be scores [..., C] and targets classes");
  refused(metric::accuracy{}, scores, vector<double>{1, 2}, "targets are float64[2]; expected int64 classes");
  refused(metric::roc_auc{}, vector<double>{1, 2}, vector<std::int64_t>{1, 2},
          "the target at [1] is 2; expected 0 or 1");
  refused(metric::roc_auc{}, vector<double>{1, not_a_number}, vector<std::int64_t>{1, 0},
          "roc_auc: the output at [1] is nan");
  refused(metric::rmse{}, vector<double>{1, 2}, vector<double>{1, not_a_number}, "rmse: the target at [1] is nan");
  refused(metric::mae{}, vector<double>{1, 2}, vector<double>{1}, "outputs and targets must have one shape");
  refused(metric::confusion_matrix{.classes = 100000}, labels, labels, "`classes` is 100000; expected 0 to 16384");
  refused(metric::mae{}, any_tensor(), any_tensor(), "metric: a tensor has no memory");
  metric::f1 three, two;
  three.add(scores, labels);
  two.add(std::vector<double>{0.1, 0.9}, std::vector<std::int64_t>{0, 1});
  BOOST_TEST(holds(error_of([&] { three.merge(two); }), "f1: this batch has 2 classes; earlier batches had 3"));
}

BOOST_AUTO_TEST_SUITE_END()
