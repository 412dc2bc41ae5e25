// Optimizers against their formulas in double, step by step, and tables of the schedules.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

import lamina;

#include "nets.h"
#include "stepper.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;
using train_test::stepper;

namespace {

// Compares an optimizer with plain loops: `formula` updates w[i] from g[i], the slots a[i] and b[i], the rate and the
// step.
using formula_type = std::function<void(double& w, double g, double& a, double& b, double rate, int t)>;

template <class O> void follows(const O& o, const formula_type& formula) {
  std::vector<double> w{0.5, -1.25, 2, 0, 3e-3, -7, 1}, a(7, 0), b(7, 0), g(7);
  stepper<double> wide(o, w);
  stepper<float> narrow(o, w);
  philox stream(11, 0);
  for (int t = 1; t <= 12; ++t) {
    const double rate = o.lr * (1 + 0.25 * (t % 3));
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = 2 * stream.uniform<double>(static_cast<std::uint64_t>(t) * 100 + i) - 1;
      if (t == 3) g[i] = 0;
      formula(w[i], g[i], a[i], b[i], rate, t);
    }
    auto in_double = wide(g, rate), in_float = narrow(g, rate);
    for (std::size_t i = 0; i < g.size(); ++i) {
      BOOST_TEST(std::abs(in_double[i] - w[i]) <= 1e-13 * (1 + std::abs(w[i])),
                 "step " << t << ", element " << i << ": " << in_double[i] << ", and the formula gives " << w[i]);
      BOOST_TEST(
          std::abs(in_float[i] - w[i]) <= 5e-5 * (1 + std::abs(w[i])),
          "step " << t << ", element " << i << " in float: " << in_float[i] << ", and the formula gives " << w[i]);
    }
  }
}

formula_type sgd_formula(double momentum, double decay, bool nesterov) {
  return [=](double& w, double g, double& m, double&, double rate, int) {
    g += decay * w;
    m = momentum * m + g;
    w -= rate * (nesterov ? g + momentum * m : m);
  };
}
formula_type adam_formula(double beta1, double beta2, double epsilon, double l2, double decoupled) {
  return [=](double& w, double g, double& m, double& v, double rate, int t) {
    g += l2 * w;
    w -= rate * decoupled * w;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w -= rate * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + epsilon);
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizers)

BOOST_AUTO_TEST_CASE(sgd) {
  follows(optim::sgd{.lr = 0.1}, sgd_formula(0, 0, false));
  follows(optim::sgd{.lr = 0.1, .momentum = 0.9}, sgd_formula(0.9, 0, false));
  follows(optim::sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, sgd_formula(0.9, 0, true));
  follows(optim::sgd{.lr = 0.05, .weight_decay = 0.01}, sgd_formula(0, 0.01, false));
  follows(optim::sgd{.lr = 0.05, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true},
          sgd_formula(0.8, 0.02, true));
}

BOOST_AUTO_TEST_CASE(adam) {
  follows(optim::adam{.lr = 0.01}, adam_formula(0.9, 0.999, 1e-8, 0, 0));
  follows(optim::adam{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3}, adam_formula(0.8, 0.95, 1e-3, 0, 0));
  follows(optim::adam{.lr = 0.01, .weight_decay = 0.1}, adam_formula(0.9, 0.999, 1e-8, 0.1, 0));
}

BOOST_AUTO_TEST_CASE(adamw) {
  follows(optim::adamw{.lr = 0.01}, adam_formula(0.9, 0.999, 1e-8, 0, 0.01));
  follows(optim::adamw{.lr = 0.01, .epsilon = 1e-4, .weight_decay = 0.3}, adam_formula(0.9, 0.999, 1e-4, 0, 0.3));
}

BOOST_AUTO_TEST_CASE(adagrad) {
  auto formula = [](double epsilon, double decay, double l2) {
    return [=](double& w, double g, double& h, double&, double rate, int) {
      g += l2 * w;
      h = decay * h + g * g;
      w -= rate * g / (std::sqrt(h) + epsilon);
    };
  };
  follows(optim::adagrad{.lr = 0.1}, formula(1e-4, 1, 0));
  follows(optim::adagrad{.lr = 0.1, .epsilon = 1e-2, .decay = 0.9, .weight_decay = 0.1}, formula(1e-2, 0.9, 0.1));
}

BOOST_AUTO_TEST_CASE(rmsprop) {
  auto formula = [](double decay, double momentum, double epsilon, double l2, bool inside) {
    return [=](double& w, double g, double& v, double& m, double rate, int) {
      g += l2 * w;
      v = decay * v + (1 - decay) * g * g;
      m = momentum * m + g / (inside ? std::sqrt(v + epsilon) : std::sqrt(v) + epsilon);
      w -= rate * m;
    };
  };
  follows(optim::rmsprop{.lr = 0.01, .epsilon = 1e-5}, formula(0.9, 0, 1e-5, 0, false));
  follows(optim::rmsprop{.lr = 0.01, .epsilon = 1e-5, .epsilon_inside = true}, formula(0.9, 0, 1e-5, 0, true));
  follows(optim::rmsprop{.lr = 0.01, .decay = 0.8, .momentum = 0.5, .epsilon = 1e-3, .weight_decay = 0.1},
          formula(0.8, 0.5, 1e-3, 0.1, false));
}

BOOST_AUTO_TEST_CASE(ftrl) {
  auto formula = [](double beta, double l1, double l2) {
    return [=](double& w, double g, double& n, double& z, double rate, int) {
      const double before = n;
      n += g * g;
      z += g - (std::sqrt(n) - std::sqrt(before)) / rate * w;
      w = std::fabs(z) <= l1 ? 0 : ((z > 0 ? l1 : -l1) - z) / ((beta + std::sqrt(n)) / rate + l2);
    };
  };
  follows(optim::ftrl{.lr = 0.1}, formula(1e-4, 0, 0));
  follows(optim::ftrl{.lr = 0.1, .beta = 1, .l1 = 0.5, .l2 = 0.1}, formula(1, 0.5, 0.1));
}

// A rate of 0 changes nothing, and later steps are unaffected.
BOOST_AUTO_TEST_CASE(ftrl_stands_still_at_a_rate_of_zero) {
  const optim::ftrl o{.beta = 1, .l1 = 0.1, .l2 = 0.1};
  stepper<float> step(o, {0.5, -1.25, 0}), other(o, {0.5, -1.25, 0});
  const std::vector<double> g{0.5, -0.25, 2};
  const auto before = step(g, 0.1);
  BOOST_TEST(step(g, 0) == before, boost::test_tools::per_element());
  other(g, 0.1);
  BOOST_TEST(step(g, 0.05) == other(g, 0.05), boost::test_tools::per_element());
  BOOST_TEST(stepper<double>(o, {0.5, 0, 3})(g, 0) == (std::vector<double>{0.5, 0, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(momentum_sgd) {
  auto formula = [](bool nesterov) {
    return [=](double& w, double g, double& m, double&, double rate, int) {
      const double before = m;
      m = 0.9 * m + rate * g;
      w -= nesterov ? 1.9 * m - 0.9 * before : m;
    };
  };
  follows(optim::momentum_sgd{.lr = 0.1}, formula(false));
  follows(optim::momentum_sgd{.lr = 0.1, .nesterov = true}, formula(true));
}

// The rate depends on the norms of the whole w and g.
BOOST_AUTO_TEST_CASE(lars) {
  const optim::lars o{.lr = 0.5, .momentum = 0.8, .weight_decay = 0.1, .trust = 0.02, .epsilon = 1e-3};
  std::vector<double> w{0.5, -1.25, 2}, m(3), g{0.3, -0.1, 0.7};
  stepper<double> step(o, w);
  auto length = [](const std::vector<double>& v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); };
  for (int t = 0; t < 6; ++t) {
    if (t == 4) g = {0, 0, 0};  // then the rate is lr
    const double local = length(g) > 0 ? 0.02 * length(w) / (length(g) + 0.1 * length(w) + 1e-3) : 1;
    const auto now = step(g, 0.5);
    for (std::size_t i = 0; i < 3; ++i) {
      m[i] = 0.8 * m[i] + 0.5 * local * (g[i] + 0.1 * w[i]);
      w[i] -= m[i];
    }
    for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(std::abs(now[i] - w[i]) <= 1e-13);
    for (auto& x : g) x = -1.5 * x + 0.01;
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_clipped_together) {
  graph::net n("n");
  auto a = n.external("a", {dtype::float64, {2}}), b = n.external("b", {dtype::float64, {1}});
  const value both[] = {a, b};
  const auto clipped = optim::clip_by_global_norm(view<const value>(both), 2);
  n.output("A", clipped[0]);
  n.output("B", clipped[1]);
  graph::workspace ws;
  ws.feed("a", vector<double>{1, 2});
  ws.feed("b", vector<double>{-2});  // joint norm 3
  ws.run_once(n);
  const auto A = ws.fetch_numbers<double>("A");
  BOOST_TEST(std::fabs(A[0] - 2.0 / 3) < 1e-15);
  BOOST_TEST(std::fabs(A[1] - 4.0 / 3) < 1e-15);
  BOOST_TEST(std::fabs(ws.fetch_numbers<double>("B")[0] + 4.0 / 3) < 1e-15);
  ws.feed("a", vector<double>{0.1, 0.2});  // joint norm below 2: unchanged
  ws.feed("b", vector<double>{0.5});
  ws.run_once(n);
  BOOST_TEST(ws.fetch_numbers<double>("A")[1] == 0.2);
  BOOST_CHECK_THROW(optim::clip_by_global_norm(view<const value>(both), 0), value_error);
}

BOOST_AUTO_TEST_CASE(regularizers) {
  graph::net n("n");
  auto w = n.external("w", {dtype::float64, {2, 2}}), g = n.external("g", {dtype::float64, {2, 2}});
  const optim::regularizer r{.l1 = 0.5, .l2 = 0.25, .max_norm = 2};
  n.output("gradient", r.gradient(w, g));
  n.output("projected", r.projected(w));
  graph::workspace ws;
  ws.feed("w", matrix<double>{{3, -4}, {0, 1}});
  ws.feed("g", matrix<double>{{1, 1}, {1, 1}});
  ws.run_once(n);
  const double gradient[] = {1 + 0.5 + 0.75, 1 - 0.5 - 1, 1, 1 + 0.5 + 0.25},
               projected[] = {1.2, -1.6, 0, 1};  // the first row has norm 5
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(std::fabs(ws.fetch_numbers<double>("gradient")[i] - gradient[i]) < 1e-15);
    BOOST_TEST(std::fabs(ws.fetch_numbers<double>("projected")[i] - projected[i]) < 1e-15);
  }
}

BOOST_AUTO_TEST_CASE(slots_have_names_and_roles) {
  auto names = [](const parameter_store& s) {
    std::string all;
    for (std::size_t i = 1; i < s.size(); ++i) {
      BOOST_TEST((s[i].role() == state_role::optimizer));
      all += s[i].name() + " ";
    }
    return all;
  };
  BOOST_TEST(names(stepper<float>(optim::sgd{}, {1}).store).empty());
  BOOST_TEST(names(stepper<float>(optim::sgd{.momentum = 0.9}, {1}).store) == "optimizer.w.momentum ");
  BOOST_TEST(names(stepper<float>(optim::adam{}, {1}).store) == "optimizer.w.first optimizer.w.second ");
  BOOST_TEST(names(stepper<float>(optim::ftrl{}, {1}).store) == "optimizer.w.square optimizer.w.linear ");
}

BOOST_AUTO_TEST_CASE(schedules) {
  BOOST_TEST(optim::constant{}(0.3, 7, 10) == 0.3);

  // PyTorch's OneCycleLR(max_lr = 0.1, total_steps = 10): a cosine from 0.004 to 0.1 at step 2, one to 4e-7 at step 9.
  const double one_cycle[] = {0.004,        0.052,        0.1,          0.0950484632, 0.0811745654,
                              0.0611262022, 0.0388741978, 0.0188258346, 0.0049519368, 4e-7};
  for (int i = 0; i < 10; ++i)
    BOOST_TEST(std::abs(optim::one_cycle{}(0.1, i, 10) - one_cycle[i]) < 1e-10,
               "one_cycle at " << i << ": " << optim::one_cycle{}(0.1, i, 10));
  BOOST_TEST(std::abs(optim::one_cycle{.warm_up = 0.5}(1, 0, 100) - 0.04) < 1e-15);
  BOOST_TEST(optim::one_cycle{.warm_up = 0.5}(1, 49, 100) == 1.0);
  for (std::int64_t steps : {1, 2, 3}) BOOST_TEST(std::isfinite(optim::one_cycle{}(0.1, steps - 1, steps)));

  const double pi = 3.141592653589793;
  for (int i = 0; i < 8; ++i)
    BOOST_TEST(std::abs(optim::cosine{}(0.2, i, 8) - 0.1 * (1 + std::cos(pi * i / 8))) < 1e-15);
  optim::cosine warm{.warm_up = 4, .floor = 0.1};
  for (int i = 0; i < 4; ++i) BOOST_TEST(std::abs(warm(0.2, i, 12) - 0.05 * (i + 1)) < 1e-15);
  for (int i = 4; i < 12; ++i)
    BOOST_TEST(std::abs(warm(0.2, i, 12) - (0.02 + 0.09 * (1 + std::cos(pi * (i - 4) / 8)))) < 1e-15);
}

BOOST_AUTO_TEST_SUITE_END()
