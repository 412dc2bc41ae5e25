// Losses against their formulas in plain loops in double, with every reduction, and their gradients against
// differences.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"
#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;
using nets_test::error_of;
using nets_test::holds;
using nets_test::random_tensor;

namespace {

using doubles = std::vector<double>;

template <class T> array elements_of(const T& x) { return from_tensor(any_tensor(x)); }
array narrowed(array a) {
  if (a.type.element == dtype::float64) {
    a.type.element = dtype::float32;
    for (double& x : a.values) x = static_cast<float>(x);
  }
  return a;
}
template <class L> array result(const L& loss, const std::vector<array>& in) {
  return result_of(in, [&](const std::vector<value>& v) -> value {
    if constexpr (requires { loss(v[0], v[1]); })
      if (v.size() == 2) return loss(v[0], v[1]);
    if constexpr (requires { loss(v[0], v[1], v[2]); }) return loss(v[0], v[1], v[2]);
    else return loss(v[0], v[1]);
  });
}

// Compares a loss per sample, its sum, and its sum over `divisor` as the mean, in double and float; checks the
// gradients of all three. Operands may have any element type.
template <class L, class... X> void agrees(L loss, const doubles& each, double divisor, const X&... x) {
  const std::vector<array> in{elements_of(x)...};
  std::vector<array> narrow;
  for (const auto& a : in) narrow.push_back(narrowed(a));
  double sum = 0;
  for (double l : each) sum += l;
  for (auto r : {loss_reduction::none, loss_reduction::sum, loss_reduction::mean}) {
    loss.reduction = r;
    const doubles expected = r == loss_reduction::none  ? each
                             : r == loss_reduction::sum ? doubles{sum}
                                                        : doubles{sum / divisor};
    const array wide = result(loss, in), single = result(loss, narrow);
    BOOST_TEST_REQUIRE(wide.values.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      BOOST_TEST(std::abs(wide.values[i] - expected[i]) <= 1e-12 * (1 + std::abs(expected[i])),
                 type_name<L>() << " at " << i << ": " << wide.values[i] << ", and the formula gives " << expected[i]);
      BOOST_TEST(std::abs(single.values[i] - expected[i]) <= 2e-5 * (1 + std::abs(expected[i])),
                 type_name<L>() << " in float at " << i << ": " << single.values[i] << ", and not " << expected[i]);
    }
    const auto report = gradcheck([&](const auto&... v) { return value(loss(v...)); }, x...);
    BOOST_TEST(report.message == "");
  }
}

const auto logits = random_tensor<matrix<double>>({5, 4}, 1);
const vector<std::int64_t> labels{2, 0, 3, 3, 1};
const doubles weights{0.5, 1, 2, 0.25};

doubles row(const matrix<double>& m, std::int64_t i) {
  doubles r;
  for (std::int64_t j = 0; j < m.shape()[1].code; ++j) r.push_back(m(i, j));
  return r;
}
doubles log_softmax_of(const doubles& x) {
  double sum = 0;
  for (double v : x) sum += std::exp(v);
  doubles r;
  for (double v : x) r.push_back(v - std::log(sum));
  return r;
}
matrix<double> log_softmax_rows(const matrix<double>& m) {
  auto r = matrix<double>(m.shape()[0].code, m.shape()[1].code);
  for (std::int64_t i = 0; i < m.shape()[0].code; ++i) {
    const auto l = log_softmax_of(row(m, i));
    for (std::size_t j = 0; j < l.size(); ++j) r.writable(i, static_cast<std::int64_t>(j)) = l[j];
  }
  return r;
}
// f of each sample's logits and class.
doubles each_sample(const std::function<double(const doubles&, std::size_t)>& f) {
  doubles all;
  for (std::int64_t i = 0; i < 5; ++i) all.push_back(f(row(logits, i), static_cast<std::size_t>(labels(i))));
  return all;
}
// f of each pair of elements of two tensors.
template <class A, class B>
doubles each_element(const A& a, const B& b, const std::function<double(double, double)>& f) {
  doubles all;
  for (std::size_t i = 0; i < a.data().size(); ++i)
    all.push_back(f(static_cast<double>(a.data()[i]), static_cast<double>(b.data()[i])));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(losses)

BOOST_AUTO_TEST_CASE(cross_entropy) {
  const auto plain = each_sample([](const doubles& x, std::size_t y) { return -log_softmax_of(x)[y]; });
  agrees(loss::cross_entropy{}, plain, 5, logits, labels);
  double mass = 0;
  for (auto y : labels.data()) mass += weights[static_cast<std::size_t>(y)];
  agrees(loss::cross_entropy{.weights = weights},
         each_sample([](const doubles& x, std::size_t y) { return -weights[y] * log_softmax_of(x)[y]; }), mass, logits,
         labels);
  const auto smoothed = [](double s, const doubles& w) {
    return [=](const doubles& x, std::size_t y) {
      const auto l = log_softmax_of(x);
      double all = 0;
      for (std::size_t c = 0; c < 4; ++c) all -= w[c] * l[c];
      return -(1 - s) * w[y] * l[y] + s / 4 * all;
    };
  };
  agrees(loss::cross_entropy{.label_smoothing = 0.2}, each_sample(smoothed(0.2, {1, 1, 1, 1})), 5, logits, labels);
  agrees(loss::cross_entropy{.weights = weights, .label_smoothing = 0.3}, each_sample(smoothed(0.3, weights)), mass,
         logits, labels);
}

BOOST_AUTO_TEST_CASE(ignored_targets) {
  const vector<std::int64_t> some{2, -100, 3, -100, 1};
  auto expected = each_sample([](const doubles& x, std::size_t y) { return -weights[y] * log_softmax_of(x)[y]; });
  expected[1] = expected[3] = 0;
  const double mass = weights[2] + weights[3] + weights[1];
  agrees(loss::cross_entropy{.weights = weights, .ignore_index = -100}, expected, mass, logits, some);
  agrees(loss::nll{.weights = weights, .ignore_index = -100}, expected, mass, log_softmax_rows(logits), some);
  auto plain = each_sample([](const doubles& x, std::size_t y) { return -log_softmax_of(x)[y]; });
  plain[1] = plain[3] = 0;
  agrees(loss::cross_entropy{.ignore_index = -100}, plain, 3, logits, some);
}

BOOST_AUTO_TEST_CASE(cross_entropy_of_probabilities) {
  auto targets = matrix<double>(5, 4);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 4; ++j) targets.writable(i, j) = 0.1 + 0.2 * static_cast<double>((i + j) % 3);
  doubles expected;
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto l = log_softmax_of(row(logits, i));
    double sum = 0;
    for (std::int64_t j = 0; j < 4; ++j) {
      const auto at = static_cast<std::size_t>(j);
      sum -= weights[at] * (0.9 * targets(i, j) + 0.1 / 4) * l[at];
    }
    expected.push_back(sum);
  }
  agrees(loss::cross_entropy{.weights = weights, .label_smoothing = 0.1}, expected, 5, logits, targets);
}

BOOST_AUTO_TEST_CASE(nll_and_log_loss) {
  const auto expected = each_sample([](const doubles& x, std::size_t y) { return -log_softmax_of(x)[y]; });
  agrees(loss::nll{}, expected, 5, log_softmax_rows(logits), labels);
  auto probabilities = log_softmax_rows(logits);
  for (double& p : probabilities.writable()) p = std::exp(p);
  agrees(loss::log_loss{}, expected, 5, probabilities, labels);
}

BOOST_AUTO_TEST_CASE(focal) {
  for (double gamma : {0.0, 0.5, 2.0})
    agrees(loss::focal{.gamma = gamma}, each_sample([=](const doubles& x, std::size_t y) {
             const double l = log_softmax_of(x)[y];
             return -std::pow(1 - std::exp(l), gamma) * l;
           }),
           5, logits, labels);
}

BOOST_AUTO_TEST_CASE(multi_margin) {
  for (int p : {1, 2})
    agrees(loss::multi_margin{.margin = 0.75, .p = p, .weights = weights},
           each_sample([=](const doubles& x, std::size_t y) {
             double sum = 0;
             for (std::size_t c = 0; c < 4; ++c)
               if (c != y) sum += weights[y] * std::pow(std::max(0.0, 0.75 - x[y] + x[c]), p);
             return sum / 4;
           }),
           5, logits, labels);
}

BOOST_AUTO_TEST_CASE(binary_cross_entropy) {
  auto soft = matrix<double>(5, 4);
  for (std::size_t i = 0; i < 20; ++i) soft.writable()[i] = static_cast<double>(i % 5) / 4;
  const auto formula = [](double w, double s) {
    return [=](double x, double y) {
      y = y * (1 - s) + s / 2;
      const double p = 1 / (1 + std::exp(-x));
      return -(w * y * std::log(p) + (1 - y) * std::log(1 - p));
    };
  };
  agrees(loss::binary_cross_entropy{}, each_element(logits, soft, formula(1, 0)), 20, logits, soft);
  agrees(loss::binary_cross_entropy{.pos_weight = {3}, .label_smoothing = 0.1},
         each_element(logits, soft, formula(3, 0.1)), 20, logits, soft);
  doubles by_column;
  for (std::size_t i = 0; i < 20; ++i)
    by_column.push_back(formula(weights[i % 4], 0)(logits.data()[i], soft.data()[i]));
  agrees(loss::binary_cross_entropy{.pos_weight = weights}, by_column, 20, logits, soft);
  // no overflow and no loss of digits far from 0
  const matrix<double> far{{-800.0, 800.0}};
  const matrix<std::int64_t> wrong{{1, 0}};
  const array y =
      result(loss::binary_cross_entropy{.reduction = loss_reduction::none}, {elements_of(far), elements_of(wrong)});
  BOOST_TEST(y.values == (doubles{800, 800}), boost::test_tools::per_element());

  auto p = logits.copy();
  for (double& x : p.writable()) x = 1 / (1 + std::exp(-x));
  agrees(loss::binary_log_loss{}, each_element(logits, soft, formula(1, 0)), 20, p, soft);
}

BOOST_AUTO_TEST_CASE(binary_focal) {
  auto hard = matrix<double>(5, 4);
  for (std::size_t i = 0; i < 20; ++i) hard.writable()[i] = i % 3 == 0 ? 1 : 0;
  for (double gamma : {0.0, 1.5, 2.0})
    agrees(loss::binary_focal{.gamma = gamma},
           each_element(logits, hard,
                        [=](double x, double y) {
                          const double p = 1 / (1 + std::exp(-x)), of_target = y * p + (1 - y) * (1 - p);
                          return -(y * 0.25 + (1 - y) * 0.75) * std::pow(1 - of_target, gamma) * std::log(of_target);
                        }),
           20, logits, hard);
}

BOOST_AUTO_TEST_CASE(hinges) {
  auto signs = matrix<double>(5, 4);
  auto whole = matrix<std::int64_t>(5, 4);
  for (std::size_t i = 0; i < 20; ++i) whole.writable()[i] = i % 3 == 0 ? 1 : -1;
  for (std::size_t i = 0; i < 20; ++i) signs.writable()[i] = i % 3 == 0 ? 1 : -1;
  agrees(loss::hinge{.margin = 0.7},
         each_element(logits, signs, [](double x, double y) { return std::max(0.0, 0.7 - y * x); }), 20, logits, signs);
  agrees(loss::hinge_embedding{.margin = 0.6},
         each_element(logits, signs, [](double x, double y) { return y == 1 ? x : std::max(0.0, 0.6 - x); }), 20,
         logits, whole);
}

BOOST_AUTO_TEST_CASE(numbers) {
  const auto targets = random_tensor<matrix<double>>({5, 4}, 2);
  agrees(loss::mse{}, each_element(logits, targets, [](double a, double b) { return (a - b) * (a - b); }), 20, logits,
         targets);
  agrees(loss::l1{}, each_element(logits, targets, [](double a, double b) { return std::fabs(a - b); }), 20, logits,
         targets);
  for (double delta : {0.3, 1.0})
    agrees(loss::huber{.delta = delta},
           each_element(logits, targets,
                        [=](double a, double b) {
                          const double d = std::fabs(a - b);
                          return d < delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
                        }),
           20, logits, targets);
  for (double beta : {0.0, 0.3, 1.0})
    agrees(loss::smooth_l1{.beta = beta},
           each_element(logits, targets,
                        [=](double a, double b) {
                          const double d = std::fabs(a - b);
                          return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
                        }),
           20, logits, targets);
}

BOOST_AUTO_TEST_CASE(kl_divergence) {
  const auto results = log_softmax_rows(logits), targets = log_softmax_rows(random_tensor<matrix<double>>({5, 4}, 3));
  auto q = targets.copy();
  for (double& x : q.writable()) x = std::exp(x);
  const auto expected = each_element(results, targets, [](double p, double t) { return std::exp(t) * (t - p); });
  agrees(loss::kl_divergence{}, expected, 5, results, q);
  agrees(loss::kl_divergence{.log_target = true}, expected, 5, results, targets);
  agrees(loss::kl_divergence{.over_elements = true}, expected, 20, results, q);
  // a target of 0 gives 0
  const array y = result(loss::kl_divergence{.reduction = loss_reduction::none},
                         {elements_of(matrix<double>{{-1, -2}}), elements_of(matrix<double>{{0, 1}})});
  BOOST_TEST(y.values == (doubles{0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(distillation) {
  const auto teacher = random_tensor<matrix<double>>({5, 4}, 3);
  const auto log_softmax_of = [](const matrix<double>& m, std::int64_t i, double temperature) {
    doubles r = row(m, i);
    double sum = 0;
    for (double& x : r) x /= temperature, sum += std::exp(x);
    for (double& x : r) x -= std::log(sum);
    return r;
  };
  for (double t : {1.0, 2.0, 5.0}) {
    doubles soft, mixed;
    for (std::int64_t i = 0; i < 5; ++i) {
      const doubles p = log_softmax_of(logits, i, t), q = log_softmax_of(teacher, i, t);
      double sum = 0;
      for (std::size_t c = 0; c < 4; ++c) sum += std::exp(q[c]) * (q[c] - p[c]);
      soft.push_back(t * t * sum);
      mixed.push_back(
          0.7 * soft.back() -
          0.3 * log_softmax_of(logits, i, 1)[static_cast<std::size_t>(labels.data()[static_cast<std::size_t>(i)])]);
    }
    agrees(loss::distillation{.temperature = t}, soft, 5, logits, teacher);
    agrees(loss::distillation{.temperature = t, .hard = 0.3}, mixed, 5, logits, teacher, labels);
  }
  const std::vector<array> in{elements_of(logits), elements_of(teacher)};
  const auto said = [&](const loss::distillation& l, const std::vector<array>& x) {
    return error_of([&] { result(l, x); });
  };
  BOOST_TEST(holds(said({.temperature = 0}, in), "distillation: `temperature` is 0"));
  BOOST_TEST(holds(said({.hard = 1.5}, in), "distillation: `hard` is 1.5"));
  BOOST_TEST(holds(said({}, {in[0], elements_of(matrix<double>(5, 3))}), "shape_error: "));
}

BOOST_AUTO_TEST_CASE(embeddings) {
  const auto a = random_tensor<matrix<double>>({5, 4}, 4), b = random_tensor<matrix<double>>({5, 4}, 5),
             c = random_tensor<matrix<double>>({5, 4}, 6);
  const auto distance = [](const matrix<double>& x, const matrix<double>& y, std::int64_t i, double p) {
    double sum = 0;
    for (std::int64_t j = 0; j < 4; ++j) sum += std::pow(std::fabs(x(i, j) - y(i, j) + 1e-6), p);
    return std::pow(sum, 1 / p);
  };
  for (double p : {1.0, 2.0, 3.0})
    for (bool swap : {false, true}) {
      doubles expected;
      for (std::int64_t i = 0; i < 5; ++i) {
        const double far = distance(a, c, i, p), other = distance(b, c, i, p);
        expected.push_back(std::max(0.0, distance(a, b, i, p) - (swap ? std::min(far, other) : far) + 0.4));
      }
      agrees(loss::triplet_margin{.margin = 0.4, .p = p, .swap = swap}, expected, 5, a, b, c);
    }
  const vector<std::int64_t> same{1, 0, 0, 1, 0}, signs{1, -1, -1, 1, -1};
  doubles pairs, cosines;
  for (std::int64_t i = 0; i < 5; ++i) {
    const double d = distance(a, b, i, 2), away = std::max(0.0, 1.8 - d);
    pairs.push_back(same(i) == 1 ? d * d / 2 : away * away / 2);
    double ab = 0, aa = 0, bb = 0;
    for (std::int64_t j = 0; j < 4; ++j) ab += a(i, j) * b(i, j), aa += a(i, j) * a(i, j), bb += b(i, j) * b(i, j);
    const double cosine = ab / std::sqrt((aa + 1e-12) * (bb + 1e-12));
    cosines.push_back(same(i) == 1 ? 1 - cosine : std::max(0.0, cosine + 0.3));
  }
  agrees(loss::contrastive{.margin = 1.8}, pairs, 5, a, b, same);
  agrees(loss::cosine_embedding{.margin = -0.3}, cosines, 5, a, b, signs);
}

BOOST_AUTO_TEST_CASE(weights_of_samples) {
  const vector<double> by_sample{1, 0, 2, 0.5, 3};
  auto plain = each_sample([](const doubles& x, std::size_t y) { return -log_softmax_of(x)[y]; });
  for (std::size_t i = 0; i < 5; ++i) plain[i] *= by_sample.data()[i];
  agrees(loss::weighted{loss::cross_entropy{}}, plain, 6.5, logits, labels, by_sample);
  const auto targets = random_tensor<matrix<double>>({5, 4}, 2);
  auto squares = each_element(logits, targets, [](double a, double b) { return (a - b) * (a - b); });
  for (std::size_t i = 0; i < 20; ++i) squares[i] *= by_sample.data()[i / 4];
  agrees(loss::weighted{loss::mse{}}, squares, 26, logits, targets, by_sample);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  const array x = elements_of(logits), y = elements_of(labels), other = elements_of(matrix<double>(5, 3));
  const auto refused = [](const auto& l, const std::vector<array>& in, std::string_view part) {
    BOOST_TEST(holds(error_of([&] { result(l, in); }), part));
  };
  refused(loss::cross_entropy{.weights = {1, 2}}, {x, y}, "`weights` has 2 numbers and [5x4] has 4 classes");
  refused(loss::cross_entropy{.weights = {1, -2, 1, 1}}, {x, y}, "`weights[1]` is -2; expected a finite number >= 0");
  refused(loss::cross_entropy{.label_smoothing = 1.5}, {x, y}, "`label_smoothing` is 1.5");
  refused(loss::cross_entropy{}, {x, elements_of(vector<std::int64_t>{2, 0, 4, 3, 1})}, "a label is outside 0..3");
  refused(loss::cross_entropy{}, {x, other}, "cross_entropy");
  refused(loss::cross_entropy{.ignore_index = 1}, {x, x}, "`ignore_index` is set, but the targets are probabilities");
  refused(loss::focal{}, {x, elements_of(vector<std::int64_t>{1, 2})}, "focal");
  refused(loss::huber{.delta = 0}, {x, x}, "huber: `delta` is 0; expected a finite number > 0");
  refused(loss::huber{}, {x, other}, "a loss does not broadcast");
  refused(loss::binary_cross_entropy{.pos_weight = {1, 2}}, {x, x}, "`pos_weight` has 2 numbers");
  refused(loss::binary_cross_entropy{}, {x, other}, "binary_cross_entropy");
  refused(loss::multi_margin{.p = 3}, {x, y}, "multi_margin: `p` is 3; expected 1 or 2");
  refused(loss::triplet_margin{}, {x, x, other}, "triplet_margin: embeddings must have one shape [..., D]");
  refused(loss::contrastive{}, {x, x, x}, "contrastive: targets must have the shape");
  refused(loss::cosine_embedding{.margin = 2}, {x, x, y}, "`margin` is 2; expected a number from -1 to 1");
  refused(loss::weighted{loss::mse{}}, {x, x, elements_of(vector<double>{1, 2})}, "weigh: weights must have the shape");
}

BOOST_AUTO_TEST_SUITE_END()

// ---- connectionist temporal classification --------------------------------------------------------------------------

namespace {

// The probability of a target: the sum over all C^T paths that give it when repeats and blanks are removed.
double by_alignments(const std::vector<doubles>& log_p, const std::vector<std::int64_t>& target, std::int64_t blank) {
  const std::size_t steps = log_p.size(), classes = steps ? log_p[0].size() : 1;
  std::size_t paths = 1;
  for (std::size_t t = 0; t < steps; ++t) paths *= classes;
  double sum = 0;
  for (std::size_t path = 0; path < paths; ++path) {
    std::size_t left = path;
    std::vector<std::int64_t> found;
    double log_path = 0;
    std::int64_t last = -1;
    for (std::size_t t = 0; t < steps; ++t, left /= classes) {
      const auto c = static_cast<std::int64_t>(left % classes);
      log_path += log_p[t][left % classes];
      if (c != last && c != blank) found.push_back(c);
      last = c;
    }
    if (found == target) sum += std::exp(log_path);
  }
  return -std::log(sum);
}

struct ctc_case {
  tensor<double, extents<dyn, dyn, dyn>> log_p;  // [N, T, C]
  matrix<std::int64_t> targets;
  vector<std::int64_t> input_lengths, target_lengths;
  std::int64_t blank = 0;
};
doubles losses_of(const ctc_case& c) {
  doubles all;
  for (std::int64_t n = 0; n < c.log_p.shape()[0].code; ++n) {
    std::vector<doubles> steps;
    for (std::int64_t t = 0; t < c.input_lengths(n); ++t) {
      doubles at;
      for (std::int64_t k = 0; k < c.log_p.shape()[2].code; ++k) at.push_back(c.log_p(n, t, k));
      steps.push_back(at);
    }
    std::vector<std::int64_t> target;
    for (std::int64_t s = 0; s < c.target_lengths(n); ++s) target.push_back(c.targets(n, s));
    all.push_back(by_alignments(steps, target, c.blank));
  }
  return all;
}
array ctc_result(const loss::ctc& o, const ctc_case& c, bool narrow = false) {
  const auto p = elements_of(c.log_p);
  return result_of(
      {narrow ? narrowed(p) : p, elements_of(c.targets), elements_of(c.input_lengths), elements_of(c.target_lengths)},
      [&](const std::vector<value>& v) { return o(v[0], v[1], v[2], v[3]); });
}
ctc_case some_sequences(std::int64_t blank) {
  ctc_case c{random_tensor<tensor<double, extents<dyn, dyn, dyn>>>({5, 6, 3}, 9),
             matrix<std::int64_t>(5, 3),
             {6, 5, 6, 4, 3},
             {2, 3, 0, 1, 2},
             blank};
  const std::int64_t a = (blank + 1) % 3, b = (blank + 2) % 3;
  // a repeated label needs a blank in between; numbers after a target's end are never read
  const std::int64_t targets[] = {a, b, 77, a, a, b, 0, 0, 0, b, -5, -5, a, b, 9};
  std::copy(std::begin(targets), std::end(targets), c.targets.writable().begin());
  auto p = c.log_p.writable();
  for (std::size_t i = 0; i < p.size(); i += 3) {
    const auto l = log_softmax_of({p[i], p[i + 1], p[i + 2]});
    std::copy(l.begin(), l.end(), p.begin() + i);
  }
  return c;
}

}  // namespace

namespace {
inline constexpr auto speller = sequential(nn::linear{.in_features = 2, .out_features = 8}, nn::tanh{},
                                           nn::linear{.in_features = 8, .out_features = 3}, nn::log_softmax{});
}

BOOST_AUTO_TEST_SUITE(ctc)

BOOST_AUTO_TEST_CASE(against_all_alignments) {
  for (std::int64_t blank : {0, 1, 2}) {
    const ctc_case c = some_sequences(blank);
    const doubles expected = losses_of(c);
    double mean = 0, sum = 0;
    for (std::size_t n = 0; n < 5; ++n) {
      sum += expected[n];
      mean += expected[n] / static_cast<double>(std::max<std::int64_t>(c.target_lengths.data()[n], 1)) / 5;
    }
    for (bool narrow : {false, true}) {
      const double tolerance = narrow ? 1e-5 : 1e-12;
      const auto each = ctc_result({.blank = blank, .reduction = loss_reduction::none}, c, narrow);
      for (std::size_t n = 0; n < 5; ++n)
        BOOST_TEST(std::abs(each.values[n] - expected[n]) < tolerance,
                   "blank " << blank << ", sample " << n << ": " << each.values[n] << ", not " << expected[n]);
      BOOST_TEST(std::abs(ctc_result({.blank = blank}, c, narrow).values[0] - mean) < tolerance);
      BOOST_TEST(std::abs(ctc_result({.blank = blank, .reduction = loss_reduction::sum}, c, narrow).values[0] - sum) <
                 5 * tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_against_differences) {
  const ctc_case c = some_sequences(0);
  for (auto r : {loss_reduction::none, loss_reduction::mean}) {
    const auto report = gradcheck([&](const auto& p, const auto& y, const auto& n,
                                      const auto& m) { return loss::ctc{.reduction = r}(p, y, n, m); },
                                  c.log_p, c.targets, c.input_lengths, c.target_lengths);
    BOOST_TEST(report.message == "");
  }
  // after a softmax, as in training
  const auto report = gradcheck(
      [&](const auto& x, const auto& y, const auto& n, const auto& m) { return loss::ctc{}(log_softmax(x), y, n, m); },
      random_tensor<tensor<double, extents<dyn, dyn, dyn>>>({5, 6, 3}, 10), c.targets, c.input_lengths,
      c.target_lengths);
  BOOST_TEST(report.message == "");
}

// Two equal labels need three steps.
BOOST_AUTO_TEST_CASE(impossible_targets) {
  ctc_case c = some_sequences(0);
  c.input_lengths = vector<std::int64_t>{6, 3, 6, 0, 0};
  c.target_lengths = vector<std::int64_t>{2, 3, 0, 1, 0};
  const auto infinite = ctc_result({.reduction = loss_reduction::none}, c).values,
             finite = ctc_result({.zero_infinity = true, .reduction = loss_reduction::none}, c).values;
  const double inf = std::numeric_limits<double>::infinity();
  BOOST_TEST(infinite[1] == inf);
  BOOST_TEST(infinite[3] == inf);
  BOOST_TEST(infinite[4] == 0);  // an empty target with no steps has probability 1
  BOOST_TEST(finite[1] == 0);
  BOOST_TEST(finite[3] == 0);
  BOOST_TEST(finite[0] == infinite[0]);
  const auto report = gradcheck([&](const auto& p, const auto& y, const auto& n,
                                    const auto& m) { return loss::ctc{.zero_infinity = true}(p, y, n, m); },
                                c.log_p, c.targets, c.input_lengths, c.target_lengths);
  BOOST_TEST(report.message == "");
}

// A log-probability of -inf gives no path and no NaN.
BOOST_AUTO_TEST_CASE(classes_that_cannot_be) {
  ctc_case c = some_sequences(0);
  for (std::int64_t t = 0; t < 6; ++t) c.log_p.writable(0, t, 0) = -std::numeric_limits<double>::infinity();
  const auto each = ctc_result({.reduction = loss_reduction::none}, c).values;
  BOOST_TEST(std::abs(each[0] - losses_of(c)[0]) < 1e-12);
}

BOOST_AUTO_TEST_CASE(layouts_and_padding) {
  const ctc_case c = some_sequences(0);
  const auto each = ctc_result({.reduction = loss_reduction::none}, c).values;
  const auto by_time = result_of(
      {elements_of(c.log_p), elements_of(c.targets), elements_of(c.input_lengths), elements_of(c.target_lengths)},
      [](const std::vector<value>& v) {
        return loss::ctc{.time_first = true, .reduction = loss_reduction::none}(permute(v[0], {1, 0, 2}), v[1], v[2],
                                                                                v[3]);
      });
  BOOST_TEST(by_time.values == each, boost::test_tools::per_element());
  // with two operands, a target ends at its first negative number
  matrix<std::int64_t> padded{{1, 2, -1}, {1, 1, 2}, {-1, 1, 2}, {2, -1, -1}, {1, 2, -1}};
  ctc_case whole = c;
  whole.input_lengths = vector<std::int64_t>{6, 6, 6, 6, 6};
  const auto expected = losses_of(whole);
  for (bool time_first : {false, true}) {
    const auto short_form = result_of({elements_of(c.log_p), elements_of(padded)}, [&](const std::vector<value>& v) {
      return loss::ctc{.time_first = time_first, .reduction = loss_reduction::none}(
          time_first ? value(permute(v[0], {1, 0, 2})) : v[0], v[1]);
    });
    for (std::size_t n = 0; n < 5; ++n) BOOST_TEST(std::abs(short_form.values[n] - expected[n]) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(extents_that_are_open) {
  const ctc_case c = some_sequences(0);
  small_graph g;
  const value p = g.open_input(elements_of(c.log_p), "p"), y = g.open_input(elements_of(c.targets), "y"),
              n = g.open_input(elements_of(c.input_lengths), "n"), m = g.open_input(elements_of(c.target_lengths), "m");
  g.output(loss::ctc{.reduction = loss_reduction::none}(p, y, n, m));
  const auto each = g.run()[0];
  for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(std::abs(each.values[i] - losses_of(c)[i]) < 1e-12);
}

// Large enough for several threads; the bits equal those of one.
BOOST_AUTO_TEST_CASE(any_number_of_threads) {
  const array x = random_array(dtype::float32, {16, 80, 40}, 1);
  array y = random_array(dtype::int64, {16, 30}, 2, 1, 40), n = array_of(dtype::int64, {16}, doubles(16, 80)), m = n;
  for (std::size_t i = 0; i < 16; ++i) m.values[i] = static_cast<double>(30 - i);
  small_graph g;
  const value logits_ = g.input(x, "x"), targets = g.input(y, "y"), steps = g.input(n, "n"), sizes = g.input(m, "m");
  const value l = loss::ctc{}(log_softmax(logits_), targets, steps, sizes);
  g.p.output("loss", l);
  const value by[] = {logits_};
  g.p.output("gradient", gradients(l, view<const value>(by, 1))[0]);
  const auto one = g.run();
  BOOST_TEST(std::isfinite(one[0].values[0]));
  for (int threads : {2, 3}) {
    const auto several = g.run({}, threads);
    BOOST_TEST(same_bits(several[0], one[0]));
    BOOST_TEST(same_bits(several[1], one[1]));
  }
}

// A net reads which of two numbers is larger at each step, and learns to output the changes.
BOOST_AUTO_TEST_CASE(a_net_learns_to_spell) {
  model<speller, input<"N", "T", 2>> net({.seed = 1});
  training step(net, loss::ctc{}, optim::adam{.lr = 0.05});
  tensor<float, extents<dyn, dyn, dyn>> x(8, 12, 2);
  matrix<std::int64_t> y(8, 6);
  for (std::int64_t n = 0; n < 8; ++n) {
    std::int64_t written = 0;
    for (std::int64_t s = 0; s < 6; ++s) y.writable(n, s) = -1;
    for (std::int64_t t = 0; t < 12; ++t) {
      const bool second = (t / (2 + n % 3)) % 2 == 1;
      x.writable(n, t, 0) = second ? 0.f : 1.f;
      x.writable(n, t, 1) = second ? 1.f : 0.f;
      if (t % (2 + n % 3) == 0) y.writable(n, written++) = second ? 2 : 1;
    }
  }
  const double first = step(x, y);
  double last = first;
  for (int k = 0; k < 100; ++k) last = step(x, y);
  BOOST_TEST(last < 0.2 * first, "from " << first << " to " << last);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  const auto refused = [](const auto& change, std::string_view part, loss::ctc o = {}) {
    ctc_case c = some_sequences(0);
    change(c);
    BOOST_TEST(holds(error_of([&] { ctc_result(o, c); }), part));
  };
  refused([](ctc_case& c) { c.input_lengths.writable(1) = 7; },
          "ctc_loss/input_lengths: pick: an index is outside 0..6");
  refused([](ctc_case& c) { c.target_lengths.writable(1) = 4; },
          "ctc_loss/target_lengths: pick: an index is outside 0..3");
  refused([](ctc_case& c) { c.target_lengths.writable(1) = -1; }, "outside");
  refused([](ctc_case& c) { c.targets.writable(0, 0) = 3; }, "outside");
  refused([](ctc_case& c) { c.targets = matrix<std::int64_t>(4, 3); }, "targets [N, S] and lengths [N] are expected");
  refused([](ctc_case&) {}, "`blank` is 3; expected a class of [6x5x3]", {.blank = 3});
}

BOOST_AUTO_TEST_SUITE_END()
