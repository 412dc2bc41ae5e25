// Sampling from scores: frequencies, truncation (top-k, top-p), errors, and draws that depend only on seed and number.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> counts(const std::vector<double>& scores, const sampling& how, int draws) {
  sampler draw(how, {.seed = 5});
  std::vector<double> n(scores.size());
  for (int i = 0; i < draws; ++i) n[static_cast<std::size_t>(draw(scores))] += 1;
  return n;
}
std::vector<double> chances(const std::vector<double>& scores, double temperature) {
  std::vector<double> p;
  double total = 0;
  for (double s : scores) total += p.emplace_back(std::exp(s / temperature));
  for (double& v : p) v /= total;
  return p;
}
// Chi-square statistic of counts against expected probabilities.
double chi_square(const std::vector<double>& n, const std::vector<double>& p) {
  double draws = 0, sum = 0;
  for (double v : n) draws += v;
  for (std::size_t i = 0; i < n.size(); ++i)
    if (p[i] > 0) sum += (n[i] - draws * p[i]) * (n[i] - draws * p[i]) / (draws * p[i]);
    else BOOST_TEST(n[i] == 0);
  return sum;
}
std::set<std::int64_t> drawn(const std::vector<double>& scores, const sampling& how) {
  sampler draw(how, {.seed = 3});
  std::set<std::int64_t> seen;
  for (int i = 0; i < 400; ++i) seen.insert(draw(scores));
  return seen;
}
std::string message(auto f) {
  try {
    f();
  } catch (const value_error& e) { return e.what(); }
  return "nothing";
}
using all = std::set<std::int64_t>;

}  // namespace

BOOST_AUTO_TEST_SUITE(drawing_by_scores)

// With 5 degrees of freedom, chi-square exceeds 20.5 once in a thousand times; the draws are the same in every run.
BOOST_AUTO_TEST_CASE(frequencies_are_the_chances) {
  const std::vector<double> scores{0.5, -1, 2, 0, 1, -0.3};
  for (double temperature : {1.0, 0.6, 3.0})
    BOOST_TEST(chi_square(counts(scores, {.temperature = temperature}, 20000), chances(scores, temperature)) < 20.5);
  // the test detects other probabilities
  BOOST_TEST(chi_square(counts(scores, {.temperature = 1.1}, 20000), chances(scores, 1)) > 40);
}

BOOST_AUTO_TEST_CASE(what_is_cut_has_no_chance_and_the_rest_share) {
  const std::vector<double> scores{0.5, -1, 2, 0, 1, -0.3};
  const auto p = chances(scores, 1);
  const double three = p[2] + p[4] + p[0], two = p[2] + p[4];
  BOOST_TEST(chi_square(counts(scores, {.top_k = 3}, 20000), {p[0] / three, 0, p[2] / three, 0, p[4] / three, 0}) <
             13.8);
  // the smallest set whose probability reaches top_p, including the element that reaches it
  BOOST_TEST(chi_square(counts(scores, {.top_p = two + 1e-9}, 20000),
                        {p[0] / three, 0, p[2] / three, 0, p[4] / three, 0}) < 13.8);
  BOOST_TEST(chi_square(counts(scores, {.top_p = two - 1e-9}, 20000), {0, 0, p[2] / two, 0, p[4] / two, 0}) < 10.8);
  // top_p is relative to the elements kept by top_k
  BOOST_TEST((drawn(scores, {.top_k = 2, .top_p = p[2] / two - 1e-9}) == all{2}));
  BOOST_TEST((drawn(scores, {.top_k = 2, .top_p = p[2] / two + 1e-9}) == all{2, 4}));
  BOOST_TEST((drawn(scores, {.top_p = 1e-300}) == all{2}));
}

BOOST_AUTO_TEST_CASE(of_equal_scores_the_first_count) {
  const std::vector<double> scores{1, 3, 3, 1, 3, 1};
  BOOST_TEST((drawn(scores, {.temperature = 0}) == all{1}));
  BOOST_TEST((drawn(scores, {.top_k = 2}) == all{1, 2}));
  BOOST_TEST((drawn(scores, {.top_k = 4}) == all{0, 1, 2, 4}));
  BOOST_TEST((drawn({0, 0, 0, 0}, {.top_p = 0.5}) == all{0, 1}));
  BOOST_TEST((drawn({0, 0, 0, 0}, {.top_k = 9}) == all{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(extremes) {
  BOOST_TEST((drawn({-infinity, 5, -infinity, 5}, {}) == all{1, 3}));
  BOOST_TEST((drawn({-infinity, -infinity, 0}, {.temperature = 0}) == all{2}));
  BOOST_TEST((drawn({1e308, -1e308, 1e308}, {}) == all{0, 2}));
  BOOST_TEST((drawn({0, 1, 1 - 1e-9}, {.temperature = 1e-300}) == all{1}));
  BOOST_TEST((drawn({7}, {.top_k = 1, .top_p = 0.1}) == all{0}));
}

BOOST_AUTO_TEST_CASE(draws_depend_on_seed_and_number_alone) {
  const std::vector<float> scores(50);
  const sampling how{.top_k = 40, .top_p = 0.9};
  sampler first(how, {.seed = 9}), second(how, {.seed = 9}), other(how, {.seed = 10});
  std::vector<std::int64_t> a, b, c;
  for (int i = 0; i < 20; ++i) {
    a.push_back(first(scores));
    b.push_back(second(view<const float>(scores)));
    c.push_back(other(scores));
  }
  BOOST_TEST(a == b);
  BOOST_TEST(a != c);
  BOOST_TEST(first.random().step == 20);
  second.random({.seed = 9, .step = 5});
  BOOST_TEST(second(scores) == a[5]);
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
  const auto with = [](const sampling& how) { return message([&] { sampler draw(how); }); };
  BOOST_TEST(with({.temperature = -1}) == "sampling: `temperature`: expected 0 or more; got -1");
  BOOST_TEST(with({.temperature = infinity}) == "sampling: `temperature`: expected 0 or more; got inf");
  BOOST_TEST(with({.top_k = -2}) == "sampling: `top_k`: expected 1 or more, or 0 for all; got -2");
  for (double p : {0.0, 1.5, std::nan("")})
    BOOST_TEST(with({.top_p = p}).starts_with("sampling: `top_p`: expected above 0, up to 1; got "));
  sampler draw;
  const auto of = [&](const std::vector<double>& scores) { return message([&] { draw(scores); }); };
  BOOST_TEST(of({}) == "sample: there are no scores");
  BOOST_TEST(of({1, std::nan(""), 2}) == "sample: score 1 is NaN");
  BOOST_TEST(of({1, 2, infinity}) == "sample: score 2 is infinity");
  BOOST_TEST(of({-infinity, -infinity}) == "sample: every score is -infinity");
  BOOST_TEST(draw.random().step == 0);
}

BOOST_AUTO_TEST_SUITE_END()
