// Optimizers against their published formulas in double, 50 steps each, and optimizers composed of them.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "nets.h"
#include "stepper.h"

using namespace lamina;
using namespace lamina::ir;
using nets_test::error_of;
using nets_test::holds;
using train_test::stepper;

namespace {

using list = std::vector<double>;

// Slots by name, initially zeros.
class slots {
 public:
  explicit slots(std::size_t n) : n_(n) {}
  list& operator[](const std::string& name) { return all_.try_emplace(name, n_, 0.0).first->second; }
  double& number(const std::string& name) { return (*this)[name][0]; }

 private:
  std::size_t n_;
  std::map<std::string, list> all_;
};
using formula = std::function<void(list& w, const list& g, slots& s, double rate, int t)>;
// An elementwise formula applied to all elements.
formula each(const std::function<void(double& w, double g, slots& s, std::size_t i, double rate, int t)>& f) {
  return [=](list& w, const list& g, slots& s, double rate, int t) {
    for (std::size_t i = 0; i < w.size(); ++i) f(w[i], g[i], s, i, rate, t);
  };
}
double length(const list& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

const list begin{0.5, -1.25, 2, 0, 3e-3, -7, 1, 0.25, -0.75, 1.5, 4, -0.1};

list gradient_of(const list& w, int t, bool signs) {
  const philox stream(11, 0);
  list g(w.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    g[i] = 2 * stream.uniform<double>(static_cast<std::uint64_t>(t) * 100 + i) - 1;
    if (!signs && t == 3) g[i] = 0;
  }
  return g;
}

// Compares an optimizer with the formula, in double and in float, with a varying rate.
template <class O> void follows(const O& o, const formula& f, std::optional<shape> dims = {}, double in_float = 2e-4,
                                double in_double = 1e-11) {
  list w = begin;
  slots s(w.size());
  stepper<double> wide(o, w, dims);
  stepper<float> narrow(o, w, dims);
  for (int t = 1; t <= 50; ++t) {
    const double rate = o.lr * (1 + 0.25 * (t % 3));
    const list g = gradient_of(w, t, false);
    f(w, g, s, rate, t);
    const list a = wide(g, rate), b = narrow(g, rate);
    for (std::size_t i = 0; i < w.size(); ++i) {
      BOOST_TEST_REQUIRE(std::abs(a[i] - w[i]) <= in_double * (1 + std::abs(w[i])),
                         type_name<O>() << ", step " << t << ", element " << i << ": " << a[i] << ", not " << w[i]);
      BOOST_TEST_REQUIRE(
          std::abs(b[i] - w[i]) <= in_float * (1 + std::abs(w[i])),
          type_name<O>() << " in float, step " << t << ", element " << i << ": " << b[i] << ", not " << w[i]);
    }
  }
}

formula adam_like(double l2, double decoupled, bool amsgrad, bool caffe2, double epsilon = 1e-8) {
  return each([=](double& w, double g, slots& s, std::size_t i, double rate, int t) {
    g += l2 * w;
    w -= rate * decoupled * w;
    double &m = s["m"][i], &v = s["v"][i], &top = s["top"][i];
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    top = amsgrad ? std::max(top, v) : v;
    const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.999, t);
    if (caffe2) w -= rate * std::sqrt(c2) / c1 * m / (std::sqrt(top) + epsilon);
    else w -= rate * (m / c1) / (std::sqrt(top) / std::sqrt(c2) + epsilon);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(adaptive)

BOOST_AUTO_TEST_CASE(adam_and_adamw) {
  follows(optim::adam{.lr = 0.01}, adam_like(0, 0, false, false));
  follows(optim::adam{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}, adam_like(0.1, 0, true, false));
  follows(optim::adam{.lr = 0.01, .epsilon = 1e-3, .caffe2_epsilon = true}, adam_like(0, 0, false, true, 1e-3));
  follows(optim::adamw{.lr = 0.01, .weight_decay = 0.2, .amsgrad = true}, adam_like(0, 0.2, true, false));
}

BOOST_AUTO_TEST_CASE(sgd_with_dampening) {
  for (bool nesterov : {false, true})
    follows(optim::sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov, .dampening = 0.3},
            each([=](double& w, double g, slots& s, std::size_t i, double rate, int t) {
              g += 0.01 * w;
              double& m = s["m"][i];
              m = t == 1 ? g : 0.9 * m + 0.7 * g;
              w -= rate * (nesterov ? g + 0.9 * m : m);
            }));
}

BOOST_AUTO_TEST_CASE(nadam) {
  follows(optim::nadam{.lr = 0.01, .weight_decay = 0.05},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int t) {
            g += 0.05 * w;
            double &m = s["m"][i], &v = s["v"][i], &product = s["product"][i];
            const double mu = 0.9 * (1 - 0.5 * std::pow(0.96, t * 4e-3)),
                         next = 0.9 * (1 - 0.5 * std::pow(0.96, (t + 1) * 4e-3));
            product = (t == 1 ? 1 : product) * mu;
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            const double root = std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8;
            w -= rate * (1 - mu) / (1 - product) * g / root;
            w -= rate * next / (1 - product * next) * m / root;
          }));
}

BOOST_AUTO_TEST_CASE(radam) {
  for (double beta2 : {0.999, 0.9})
    follows(optim::radam{.lr = 0.01, .beta2 = beta2},
            each([=](double& w, double g, slots& s, std::size_t i, double rate, int t) {
              double &m = s["m"][i], &v = s["v"][i];
              m = 0.9 * m + 0.1 * g;
              v = beta2 * v + (1 - beta2) * g * g;
              const double mean = m / (1 - std::pow(0.9, t)), power = std::pow(beta2, t), max = 2 / (1 - beta2) - 1,
                           rho = max - 2 * t * power / (1 - power);
              if (rho > 5) {
                const double part = std::sqrt((rho - 4) * (rho - 2) * max / ((max - 4) * (max - 2) * rho));
                w -= rate * mean * part * std::sqrt(1 - power) / (std::sqrt(v) + 1e-8);
              } else w -= rate * mean;
            }));
}

BOOST_AUTO_TEST_CASE(adadelta) {
  follows(optim::adadelta{.lr = 0.5, .weight_decay = 0.1},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int) {
            g += 0.1 * w;
            double &v = s["v"][i], &u = s["u"][i];
            v = 0.9 * v + 0.1 * g * g;
            const double d = std::sqrt(u + 1e-6) / std::sqrt(v + 1e-6) * g;
            u = 0.9 * u + 0.1 * d * d;
            w -= rate * d;
          }));
}

BOOST_AUTO_TEST_CASE(adamax) {
  follows(optim::adamax{.lr = 0.01}, each([](double& w, double g, slots& s, std::size_t i, double rate, int t) {
            double &m = s["m"][i], &u = s["u"][i];
            m = 0.9 * m + 0.1 * g;
            u = std::max(0.999 * u, std::fabs(g) + 1e-8);
            w -= rate / (1 - std::pow(0.9, t)) * m / u;
          }));
}

BOOST_AUTO_TEST_CASE(asgd) {
  const optim::asgd o{.lr = 0.1, .lambda = 0.02, .t0 = 20, .weight_decay = 0.01};
  slots last(begin.size());
  follows(o, [&](list& w, const list& g, slots& s, double rate, int t) {
    const double eta = rate / std::pow(1 + 0.02 * rate * (t - 1), 0.75), mu = 1 / std::max(1.0, t - 1 - 20.0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double d = g[i] + 0.01 * w[i];
      w[i] *= 1 - 0.02 * eta;
      w[i] -= eta * d;
      s["average"][i] += (w[i] - s["average"][i]) * mu;
    }
    last["average"] = s["average"];
  });
  // the average that replaces the weights after training
  stepper<double> step(o, begin);
  for (int t = 1; t <= 50; ++t) step(gradient_of(begin, t, false), o.lr * (1 + 0.25 * (t % 3)));
  const auto average = step.store.find("optimizer.w.average")->value().elements<double>();
  for (std::size_t i = 0; i < begin.size(); ++i) BOOST_TEST(std::abs(average[i] - last["average"][i]) < 1e-11);
}

BOOST_AUTO_TEST_CASE(rprop) {
  follows(optim::rprop{.lr = 0.01, .max_step = 0.05},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int t) {
            double &before = s["g"][i], &size = s["size"][i];
            if (t == 1) size = rate;
            const double agree = g * before;
            size = std::min(std::max(size * (agree > 0 ? 1.2 : agree < 0 ? 0.5 : 1), 1e-6), 0.05);
            if (agree < 0) g = 0;
            w -= size * (g > 0 ? 1 : g < 0 ? -1 : 0);
            before = g;
          }));
}

BOOST_AUTO_TEST_CASE(lamb) {
  follows(optim::lamb{.lr = 0.02, .weight_decay = 0.1}, [](list& w, const list& g, slots& s, double rate, int t) {
    list d(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      double &m = s["m"][i], &v = s["v"][i];
      m = 0.9 * m + 0.1 * g[i];
      v = 0.999 * v + 0.001 * g[i] * g[i];
      d[i] = m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-6) + 0.1 * w[i];
    }
    const double trust = length(w) > 0 && length(d) > 0 ? length(w) / length(d) : 1;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * trust * d[i];
  });
}

BOOST_AUTO_TEST_CASE(lion) {
  follows(optim::lion{.lr = 0.01, .weight_decay = 0.1},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int) {
            double& m = s["m"][i];
            const double c = 0.9 * m + 0.1 * g;
            w *= 1 - rate * 0.1;
            w -= rate * (c > 0 ? 1 : c < 0 ? -1 : 0);
            m = 0.99 * m + 0.01 * g;
          }));
}

BOOST_AUTO_TEST_CASE(adagrad_with_falling_rate) {
  follows(optim::adagrad{.lr = 0.1, .epsilon = 1e-10, .lr_decay = 0.1},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int t) {
            double& h = s["h"][i];
            h += g * g;
            if (h > 0) w -= rate / (1 + (t - 1) * 0.1) * g / (std::sqrt(h) + 1e-10);
          }));
}

BOOST_AUTO_TEST_CASE(rmsprop_centered) {
  follows(optim::rmsprop{.lr = 0.01, .decay = 0.95, .momentum = 0.5, .centered = true},
          each([](double& w, double g, slots& s, std::size_t i, double rate, int) {
            double &v = s["v"][i], &mean = s["mean"][i], &m = s["m"][i];
            v = 0.95 * v + 0.05 * g * g;
            mean = 0.95 * mean + 0.05 * g;
            m = 0.5 * m + g / (std::sqrt(v - mean * mean) + 1e-8);
            w -= rate * m;
          }),
          {}, 5e-3);  // differences of squares, which lose digits in float
}

// Vectors have a second moment for each element, matrices a product of row and column moments.
BOOST_AUTO_TEST_CASE(adafactor) {
  const auto f = [](std::size_t rows, std::size_t columns, double epsilon, bool factored) {
    return [=](list& w, const list& g, slots& s, double rate, int t) {
      const double part = std::pow(t, -0.8), n = static_cast<double>(w.size());
      list second(w.size()), d(w.size());
      if (factored) {
        list &r = s["r"], &c = s["c"];
        double mean = 0;
        for (std::size_t i = 0; i < rows; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < columns; ++j) sum += g[i * columns + j] * g[i * columns + j];
          r[i] += (sum / static_cast<double>(columns) - r[i]) * part;
          mean += r[i] / static_cast<double>(rows);
        }
        for (std::size_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < rows; ++i) sum += g[i * columns + j] * g[i * columns + j];
          c[j] += (sum / static_cast<double>(rows) - c[j]) * part;
        }
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < columns; ++j) second[i * columns + j] = r[i] * c[j] / std::max(mean, epsilon);
      } else
        for (std::size_t i = 0; i < w.size(); ++i) {
          s["v"][i] += (g[i] * g[i] - s["v"][i]) * part;
          second[i] = s["v"][i];
        }
      for (std::size_t i = 0; i < w.size(); ++i) d[i] = g[i] / std::sqrt(std::max(second[i], epsilon * epsilon));
      const double alpha = std::max(1e-3, length(w) / std::sqrt(n)) * std::min(rate, 1 / std::sqrt(t)),
                   by = std::max(1.0, length(d) / std::sqrt(n));
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] *= 1 - rate * 0.1;
        w[i] -= alpha / by * d[i];
      }
    };
  };
  const optim::adafactor o{.lr = 0.05, .epsilon1 = 1e-6, .weight_decay = 0.1};
  follows(o, f(1, 12, 1e-6, false));
  follows(o, f(3, 4, 1e-6, true), shape{3, 4});
}

// A matrix whose singular values are moved toward 1.
BOOST_AUTO_TEST_CASE(muon) {
  const auto f = [](std::size_t rows, std::size_t columns) {
    return [=](list& w, const list& g, slots& s, double rate, int) {
      const std::size_t n = std::min(rows, columns), k = std::max(rows, columns);
      list x(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) {
        s["m"][i] = 0.95 * s["m"][i] + 0.05 * g[i];
        const double d = 0.05 * g[i] + 0.95 * s["m"][i];
        x[rows > columns ? i % columns * rows + i / columns : i] = d;  // transposed if there are more rows than columns
      }
      const double size = std::max(length(x), 1e-7);
      for (double& v : x) v /= size;
      for (int turn = 0; turn < 5; ++turn) {
        list a(n * n), b(n * n), next(x.size());
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j)
            for (std::size_t c = 0; c < k; ++c) a[i * n + j] += x[i * k + c] * x[j * k + c];
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j) {
            b[i * n + j] = -4.775 * a[i * n + j];
            for (std::size_t c = 0; c < n; ++c) b[i * n + j] += 2.0315 * a[i * n + c] * a[c * n + j];
          }
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t c = 0; c < k; ++c) {
            next[i * k + c] = 3.4445 * x[i * k + c];
            for (std::size_t j = 0; j < n; ++j) next[i * k + c] += b[i * n + j] * x[j * k + c];
          }
        x = next;
      }
      const double scale = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] *= 1 - rate * 0.1;
        w[i] -= rate * scale * x[rows > columns ? i % columns * rows + i / columns : i];
      }
    };
  };
  const optim::muon o{.lr = 0.02};
  follows(o, f(3, 4), shape{3, 4}, 1e-3, 1e-9);
  follows(o, f(6, 2), shape{6, 2}, 1e-3, 1e-9);
  follows(o, f(3, 4), shape{3, 2, 2}, 1e-3, 1e-9);  // filters are rows
  follows(optim::muon{.lr = 0.01, .weight_decay = 0.2, .vector_rate = 0.5},
          [](list& w, const list& g, slots& s, double rate, int t) {
            adam_like(0, 0.2, false, false)(w, g, s, rate / 2, t);
          });
}

BOOST_AUTO_TEST_CASE(yellow_fin) {
  for (bool nesterov : {false, true})
    for (bool debias : {true, false})
      follows(
          optim::yellow_fin{
              .lr = 0.05, .momentum = 0.1, .beta = 0.9, .window = 5, .nesterov = nesterov, .zero_debias = debias},
          [=](list& w, const list& g, slots& s, double rate_given, int t) {
            const double factor = debias ? 1 / (1 - std::pow(0.9, t)) : 1;
            const auto moved = [&](double& slot, double v) { return (slot = 0.9 * slot + 0.1 * v) * factor; };
            if (t == 1) s.number("rate") = rate_given, s.number("mu") = 0.1;
            const double mu = s.number("mu"), rate = s.number("rate");
            double norm2 = 0, inner = 0;
            for (std::size_t i = 0; i < w.size(); ++i) {
              const double m = s["m"][i];
              s["m"][i] = mu * m + rate * g[i];
              w[i] -= nesterov ? (1 + mu) * s["m"][i] - mu * m : s["m"][i];
              norm2 += g[i] * g[i];
              const double mean = moved(s["g"][i], g[i]);
              inner += mean * mean;
            }
            norm2 = std::max(norm2, 1e-6);
            const double norm2_mean = moved(s.number("norm2"), norm2);
            moved(s.number("norm"), std::sqrt(norm2));
            list& window = s["window"];  // in a ring buffer, as in Caffe2
            window[static_cast<std::size_t>((t - 1) % 5)] = std::log(norm2);
            const auto end = window.begin() + std::min(t, 5);
            const double low = std::max(std::exp(moved(s.number("low"), *std::min_element(window.begin(), end))), 1e-6),
                         high =
                             std::max(std::exp(moved(s.number("high"), *std::max_element(window.begin(), end))), 1e-6);
            const double variance = std::max(norm2_mean - inner, 1e-6),
                         distance = moved(s.number("distance"), s.number("norm") / s.number("norm2"));
            if (t == 1) return;
            const double ratio = std::sqrt(high / low), least = (ratio - 1) / (ratio + 1),
                         p = distance * low * distance * low / (2 * variance),
                         w3 = (-std::sqrt(p * p + 4.0 / 27 * p * p * p) - p) / 2, v = -std::cbrt(-w3),
                         root = v - p / 3 / v + 1;
            const double now = std::max(root * root, least * least);
            s.number("mu") = 0.9 * s.number("mu") + 0.1 * now;
            s.number("rate") = 0.9 * s.number("rate") + 0.1 * std::pow(1 - std::sqrt(now), 2) / low;
          },
          {}, 1e-3, 1e-9);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- optimizers made of optimizers ----------------------------------------------------------------------------------

namespace {
inline constexpr auto net_of_two = sequential(nn::linear{.in_features = 3, .out_features = 8}, nn::tanh{},
                                              nn::linear{.in_features = 8, .out_features = 2});
}

BOOST_AUTO_TEST_SUITE(composed)

BOOST_AUTO_TEST_CASE(maximize) {
  follows(optim::maximize{optim::adam{.lr = 0.01, .weight_decay = 0.1}},
          [](list& w, list g, slots& s, double rate, int t) {
            for (double& x : g) x = -x;
            adam_like(0.1, 0, false, false)(w, g, s, rate, t);
          });
}

BOOST_AUTO_TEST_CASE(limits_of_gradients) {
  const auto f = [](double limit, double norm, double p) {
    return [=](list& w, list g, slots& s, double rate, int t) {
      double size = 0;
      for (double& x : g) {
        if (limit > 0) x = std::min(std::max(x, -limit), limit);
        size = std::isinf(p) ? std::max(size, std::fabs(x)) : size + std::pow(std::fabs(x), p);
      }
      if (!std::isinf(p)) size = std::pow(size, 1 / p);
      if (norm > 0 && size > norm)
        for (double& x : g) x *= norm / size;
      adam_like(0, 0, false, false)(w, g, s, rate, t);
    };
  };
  const optim::adam inner{.lr = 0.01};
  const double infinite = std::numeric_limits<double>::infinity();
  follows(optim::clipped{inner, 0.25}, f(0.25, 0, 2));
  follows(optim::clipped{.base = inner, .norm = 1.5}, f(0, 1.5, 2));
  follows(optim::clipped{.base = inner, .value = 0.9, .norm = 2.5, .p = 1}, f(0.9, 2.5, 1));
  follows(optim::clipped{.base = inner, .norm = 2, .p = 3}, f(0, 2, 3));
  follows(optim::clipped{.base = inner, .norm = 0.5, .p = infinite}, f(0, 0.5, infinite));
}

BOOST_AUTO_TEST_CASE(groups) {
  const optim::groups o{
      optim::adamw{.lr = 0.01, .weight_decay = 0.1},
      {{"*.bias", {.weight_decay = 0}}, {"head.*", {.rate_scale = 3}}, {"stem.?.weight", {.frozen = true}}}};
  const auto end = [&](const auto& optimizer, const std::string& name) {
    stepper<double> step(optimizer, begin, {}, name, false);  // without the check for unmatched patterns
    list w;
    for (int t = 1; t <= 5; ++t) w = step(gradient_of(begin, t, true), 0.01);
    return w;
  };
  const auto like = [&](double rate_scale, double decay) {
    list w = begin;
    slots s(w.size());
    for (int t = 1; t <= 5; ++t)
      adam_like(0, decay, false, false)(w, gradient_of(begin, t, true), s, 0.01 * rate_scale, t);
    return w;
  };
  const auto same = [](const list& a, const list& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::abs(a[i] - b[i]) > 1e-12 * (1 + std::abs(b[i]))) return false;
    return true;
  };
  BOOST_TEST(same(end(o, "body.weight"), like(1, 0.1)));
  BOOST_TEST(same(end(o, "body.bias"), like(1, 0)));
  BOOST_TEST(same(end(o, "head.bias"), like(1, 0)));  // the first matching pattern applies
  BOOST_TEST(same(end(o, "head.weight"), like(3, 0.1)));
  BOOST_TEST(end(o, "stem.0.weight") == begin, boost::test_tools::per_element());
  BOOST_TEST(same(end(o, "stem.10.weight"), like(1, 0.1)));
  BOOST_TEST(same(end(optim::groups{optim::adamw{.weight_decay = 0.1}, {{"*a*b*", {.rate_scale = 2}}}}, "xxaxbabc"),
                  like(2, 0.1)));
}

BOOST_AUTO_TEST_CASE(averages) {
  const auto mean_of = [](double decay, int start, int every) {
    return [=](list& w, const list& g, slots& s, double rate, int t) {
      adam_like(0, 0, false, false)(w, g, s, rate, t);
      const int counted = t - start;
      for (std::size_t i = 0; i < w.size(); ++i) {
        double& a = s["average"][i];
        if (counted <= every) a = w[i];
        else if (counted % every == 0) a += (w[i] - a) * (decay > 0 ? 1 - decay : 1.0 / (counted / every));
      }
    };
  };
  const auto kept = [&](double decay, int start, int every) {
    const optim::averaged o{optim::adam{.lr = 0.01}, decay, start, every};
    stepper<double> step(o, begin);
    list w = begin, now;
    slots s(w.size());
    for (int t = 1; t <= 50; ++t) {
      const list g = gradient_of(w, t, false);
      mean_of(decay, start, every)(w, g, s, 0.01, t);
      now = step(g, 0.01);
      const auto average = step.store.find("optimizer.w.average")->value().elements<double>();
      for (std::size_t i = 0; i < w.size(); ++i) {
        BOOST_TEST_REQUIRE(std::abs(now[i] - w[i]) < 1e-12);
        BOOST_TEST_REQUIRE(std::abs(average[i] - s["average"][i]) < 1e-12,
                           "step " << t << ", element " << i << ": " << average[i] << ", not " << s["average"][i]);
      }
    }
    // swapped, and back
    BOOST_TEST(swap_averages(step.store) == 1);
    const auto exchanged = step.store.find("w")->value().elements<double>();
    for (std::size_t i = 0; i < w.size(); ++i) BOOST_TEST(std::abs(exchanged[i] - s["average"][i]) < 1e-12);
    BOOST_TEST(swap_averages(step.store) == 1);
    const auto back = step.store.find("w")->value().elements<double>();
    BOOST_TEST(list(back.begin(), back.end()) == now, boost::test_tools::per_element());
  };
  kept(0.9, 0, 1);
  kept(0.5, 10, 3);
  kept(0, 0, 1);
  kept(0, 20, 5);
  parameter_store none;
  BOOST_TEST(swap_averages(none) == 0);
}

BOOST_AUTO_TEST_CASE(lookahead) {
  follows(optim::lookahead{optim::adam{.lr = 0.01}, 4, 0.3}, [](list& w, const list& g, slots& s, double rate, int t) {
    if (t == 1) s["slow"] = w;
    adam_like(0, 0, false, false)(w, g, s, rate, t);
    if (t % 4 == 0)
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = s["slow"][i] += 0.3 * (w[i] - s["slow"][i]);
  });
}

BOOST_AUTO_TEST_CASE(sam) {
  follows(optim::sam{optim::adam{.lr = 0.01}, 0.2}, [](list& w, const list& g, slots& s, double rate, int t) {
    if (t % 2 == 1) {
      s["before"] = w;
      for (std::size_t i = 0; i < w.size(); ++i) w[i] += 0.2 * g[i] / (length(g) + 1e-12);
    } else {
      w = s["before"];
      adam_like(0, 0, false, false)(w, g, s, rate, t / 2);
    }
  });
}

BOOST_AUTO_TEST_CASE(one_in_another) {
  const optim::averaged o{optim::lookahead{optim::clipped{optim::lion{.lr = 0.01}, 1.0}}};
  stepper<float> step(o, begin);
  step(gradient_of(begin, 1, true), 0.01);
  std::string names;
  for (const auto& p : step.store) names += p.name() + " ";
  BOOST_TEST(names == "w optimizer.w.first optimizer.w.slow optimizer.w.average ");
  static_assert(Optimizer<std::remove_const_t<decltype(o)>>);
  static_assert(RowOptimizer<decltype(optim::maximize{optim::sgd{}})>);
  static_assert(!RowOptimizer<decltype(optim::lookahead{optim::sgd{}})>);
}

// Each update is one pass over parameter, gradient and slots; values that depend only on the step are computed once.
BOOST_AUTO_TEST_CASE(updates_are_one_kernel) {
  const auto passes = [](const auto& o) {
    stepper<float> step(o, list(4096, 1.0));
    const std::string all = step.plan->explain();
    int n = 0;
    for (std::size_t at = all.find("float32[4096]"); at != all.npos; at = all.find("float32[4096]", at + 1)) ++n;
    BOOST_TEST_MESSAGE(all);
    return n;
  };
  BOOST_TEST(passes(optim::adam{}) == 1);
  BOOST_TEST(passes(optim::adamw{}) == 1);
  BOOST_TEST(passes(optim::lion{}) == 1);
  BOOST_TEST(passes(optim::nadam{}) == 1);
  BOOST_TEST(passes(optim::sgd{.momentum = 0.9, .nesterov = true}) == 1);
}

// Each optimizer lowers the loss of a net.
BOOST_AUTO_TEST_CASE(each_of_them_trains) {
  const auto x = nets_test::random_tensor<matrix<float>>({32, 3}, 1);
  matrix<float> y(32, 2);
  for (std::int64_t i = 0; i < 32; ++i) {
    y.writable(i, 0) = x(i, 0) - 2 * x(i, 1);
    y.writable(i, 1) = std::tanh(x(i, 2));
  }
  const auto learns = [&](const auto& o, double part = 0.5) {
    model<net_of_two, input<"N", 3>> net({.seed = 3});
    training step(net, loss::mse{}, o);
    const double first = step(x, y);
    double last = first;
    for (int k = 0; k < 200; ++k) last = step(x, y);
    BOOST_TEST(last < part * first, type_name<decltype(o)>() << ": from " << first << " to " << last);
    return net;
  };
  learns(optim::nadam{.lr = 0.01});
  learns(optim::radam{.lr = 0.01});
  learns(optim::adadelta{});
  learns(optim::adamax{.lr = 0.01});
  learns(optim::asgd{.lr = 0.05});
  learns(optim::rprop{});
  learns(optim::lamb{.lr = 0.02});
  learns(optim::lion{.lr = 0.005});
  learns(optim::adafactor{.lr = 0.05});
  learns(optim::muon{.lr = 0.02});
  learns(optim::yellow_fin{.lr = 0.05});
  learns(optim::lookahead{optim::adam{.lr = 0.02}});
  learns(optim::sam{optim::adam{.lr = 0.02}});
  learns(optim::clipped{optim::sgd{.lr = 0.1}, 0.5});
  auto averaged = learns(optim::averaged{optim::adam{.lr = 0.02}, 0.9});
  BOOST_TEST(swap_averages(averaged.parameters()) == 4);
  const model<net_of_two, input<"N", 3>> before({.seed = 3});
  const auto frozen = learns(optim::groups{optim::adam{.lr = 0.02}, {{"0.*", {.frozen = true}}}}, 0.9);
  const auto bits = [](const auto& net, std::string_view name) {
    const auto w = net.parameters().find(name)->value().template elements<float>();
    return std::vector<float>(w.begin(), w.end());
  };
  BOOST_TEST(bits(frozen, "0.weight") == bits(before, "0.weight"), boost::test_tools::per_element());
  BOOST_TEST(bits(frozen, "2.weight") != bits(before, "2.weight"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(mistakes) {
  const auto refused = [](const auto& o, std::string_view part) {
    BOOST_TEST(holds(error_of([&] { stepper<float>(o, {1, 2}); }) + error_of([&] { o.check(); }), part));
  };
  refused(optim::nadam{.beta1 = 1}, "nadam: `beta1` is 1; expected a finite number >= 0 and < 1");
  refused(optim::radam{.beta2 = -1}, "radam: `beta2` is -1");
  refused(optim::lion{.weight_decay = -1}, "lion: `weight_decay` is -1");
  refused(optim::adadelta{.rho = 2}, "adadelta: `rho` is 2; expected a finite number >= 0 and <= 1");
  refused(optim::adafactor{.clip = 0}, "adafactor: `clip` is 0; expected a finite number > 0");
  refused(optim::rprop{.down = 1}, "rprop: `down` is 1, `up` 1.2");
  refused(optim::yellow_fin{.window = 0}, "yellow_fin: `window` is 0");
  refused(optim::sgd{.momentum = 0.9, .dampening = 2}, "sgd: `dampening` is 2");
  refused(optim::averaged{optim::sgd{}, 1}, "averaged: `decay` is 1; expected a finite number >= 0 and < 1");
  refused(optim::averaged{optim::sgd{.momentum = -1}}, "sgd: `momentum` is -1");
  refused(optim::lookahead{optim::sgd{}, 0}, "lookahead: `k` is 0");
  refused(optim::sam{optim::sgd{}, 0}, "sam: `rho` is 0");
  refused(optim::clipped{optim::sgd{}, -1}, "clipped: `value` is -1");
  refused(optim::groups{optim::rprop{}, {{"*.bias", {.weight_decay = 0.1}}}},
          "groups, `*.bias`: `weight_decay` is set, but the optimizer has none");
  refused(optim::groups{optim::sgd{}, {{"*.bias", {.rate_scale = -2}}}}, "groups, `*.bias`: `rate_scale` is -2");
}

BOOST_AUTO_TEST_SUITE_END()
