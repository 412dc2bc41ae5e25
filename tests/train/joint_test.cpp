// Optimizers that see all gradients of an update together: limits of their length, sharpness-aware steps, patterns of groups.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "message.h"
#include "nets.h"

#include "plane.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using namespace plane_test;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// The gradient of weights and bias as one vector, limited.
numbers limited(numbers g, double value, double norm, double p) {
  for (double& x : g)
    if (value > 0) x = std::min(std::max(x, -value), value);
  double size = 0;
  for (double x : g) size = std::isinf(p) ? std::max(size, std::fabs(x)) : size + std::pow(std::fabs(x), p);
  if (!std::isinf(p)) size = std::pow(size, 1 / p);
  if (norm > 0 && size > norm)
    for (double& x : g) x *= norm / size;
  return g;
}

// Trains by `fit`, also in shards, and by `training`; all have to follow a rule that is given weights and bias as one vector.
template <class O> void follows(const O& o, const std::function<void(numbers& w, int t)>& rule, int steps = 4) {
  const plane data{24};
  for (const std::int64_t shards : {1, 2, 8}) {
    wide_model net({.seed = 1});
    numbers w = weights_of(net);
    fit(net, data, squared, o, {.epochs = steps, .batch = 24, .shards = shards});
    for (int t = 1; t <= steps; ++t) rule(w, t);
    BOOST_TEST(distance(weights_of(net), w) < 1e-12, type_name<O>() << ", " << shards << " shards");
  }
  wide_model net({.seed = 1});
  numbers w = weights_of(net);
  training step(net, squared, o);
  const auto [x, y] = tensors_of(data);
  for (int t = 1; t <= steps; ++t) {
    step(x, y);
    rule(w, t);
    BOOST_TEST(distance(weights_of(net), w) < 1e-12, type_name<O>() << ", step " << t);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradients_together)

BOOST_AUTO_TEST_CASE(limits) {
  const optim::sgd inner{.lr = 0.1};
  const auto rule = [](double value, double norm, double p) {
    return [=](numbers& w, int) {
      const numbers g = limited(gradient(w, plane{24}), value, norm, p);
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * g[i];
    };
  };
  for (const double p : {1.0, 2.0, 3.0, infinite}) {
    follows(optim::clipped{.base = inner, .norm = 0.2, .p = p, .together = true}, rule(0, 0.2, p));
    follows(optim::clipped{.base = inner, .value = 0.3, .norm = 0.4, .p = p, .together = true}, rule(0.3, 0.4, p));
  }
  follows(optim::clipped{.base = inner, .value = 0.25, .together = true}, rule(0.25, 0, 2));
  follows(optim::clipped{.base = inner, .norm = 1e6, .together = true}, rule(0, 0, 2));
  // One in another, whatever is outside.
  follows(
      optim::averaged{optim::lookahead{.base = optim::clipped{.base = inner, .norm = 0.2, .together = true}, .k = 99}},
      rule(0, 0.2, 2));
  follows(optim::groups{optim::clipped{.base = inner, .norm = 0.2, .together = true}, {{"*.bias", {.rate_scale = 1}}}},
          rule(0, 0.2, 2));
  follows(optim::maximize{optim::clipped{.base = inner, .norm = 0.2, .together = true}}, [](numbers& w, int) {
    const numbers g = limited(gradient(w, plane{24}), 0, 0.2, 2);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += 0.1 * g[i];
  });
}

BOOST_AUTO_TEST_CASE(each_parameter_alone_is_another_limit) {
  follows(optim::clipped{.base = optim::sgd{.lr = 0.1}, .norm = 0.2}, [](numbers& w, int) {
    const numbers g = gradient(w, plane{24});
    const numbers weight = limited({g.begin(), g.end() - 1}, 0, 0.2, 2), bias = limited({g.back()}, 0, 0.2, 2);
    for (std::size_t i = 0; i < 3; ++i) w[i] -= 0.1 * weight[i];
    w[3] -= 0.1 * bias[0];
  });
}

BOOST_AUTO_TEST_CASE(nets_by_name) {
  const auto run = [](const auto& o, const numbers& step) {
    graph::model m("m", {.element = dtype::float64});
    graph::model::scope here(m);
    const value x = m.input("x", {dtype::float64, {2, 2}});
    const value y = graph::fc(x, 1, {.name = "f", .weight_fill = op::constant{0.5}});
    m.add_gradient_operators(reduce_sum(square(y)));
    m.add_updates(o);
    graph::workspace ws;
    ws.run_once(m.init());
    ws.feed("x", matrix<double>{{1, 2}, {3, 4}});
    ws.create(m.main());
    ws.run("m", 1);
    const auto w = ws.fetch_numbers<double>("f_w");
    BOOST_TEST(distance({w[0], w[1], ws.fetch_numbers<double>("f_b")[0]}, step) < 1e-12);
  };
  // y = 1.5, 3.5: the gradients are 2 (1.5 + 3 * 3.5) = 24, 2 (3 + 14) = 34 and 10.
  for (const double p : {1.0, 2.0, 3.0, infinite}) {
    const numbers g = limited({24, 34, 10}, 0, 0.25, p);
    run(optim::clipped{.base = optim::sgd{.lr = 1}, .norm = 0.25, .p = p, .together = true},
        {0.5 - g[0], 0.5 - g[1], -g[2]});
  }
  run(optim::clipped{.base = optim::sgd{.lr = 1}, .value = 12, .together = true}, {-11.5, -11.5, -10});
}

BOOST_AUTO_TEST_CASE(sam_goes_uphill_by_the_length_of_all) {
  numbers before;
  const auto rule = [&before](double limit) {
    return [&before, limit](numbers& w, int t) {
      const numbers g = gradient(w, plane{24});
      double size = 0;
      for (double x : g) size += x * x;
      if (t % 2 == 1) {
        before = w;
        for (std::size_t i = 0; i < w.size(); ++i) w[i] += 0.2 * g[i] / (std::sqrt(size) + 1e-12);
      } else {
        const numbers down = limited(g, 0, limit, 2);
        for (std::size_t i = 0; i < w.size(); ++i) w[i] = before[i] - 0.1 * down[i];
      }
    };
  };
  follows(optim::sam{optim::sgd{.lr = 0.1}, 0.2}, rule(0), 6);
  // The limit inside is one of the second gradient.
  follows(optim::sam{optim::clipped{.base = optim::sgd{.lr = 0.1}, .norm = 0.3, .together = true}, 0.2}, rule(0.3), 6);
  // The limit outside is one of both; a direction has no length.
  follows(optim::clipped{.base = optim::sam{optim::sgd{.lr = 0.1}, 0.2}, .norm = 0.3, .together = true}, rule(0.3), 6);
}

namespace {
// An optimizer of a user, which does not hand `prepare` on.
template <class O> struct forgetful {
  O base{};
  double lr = base.lr;
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const { return base.step(s, w, g); }
};
// One that centers all gradients around their mean of elements, and one that counts what it is shown.
struct centered {
  double lr = 0.1;
  void prepare(joint_update& all) const {
    ir::value sum = reduce_sum(all.gradients[0]);
    for (std::size_t i = 1; i < all.gradients.size(); ++i) sum = sum + reduce_sum(all.gradients[i]);
    for (auto& g : all.gradients) g = g - sum / 4;
    BOOST_TEST(all.parameters.size() == 2U);
    BOOST_TEST(all.parameters[0] == "line.weight");
    BOOST_TEST(all.weights[0].shape().size() == 3);
  }
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const { return w - s.rate(w) * g; }
};
}  // namespace

BOOST_AUTO_TEST_CASE(optimizers_of_users) {
  follows(centered{}, [](numbers& w, int) {
    numbers g = gradient(w, plane{24});
    double mean = 0;
    for (double x : g) mean += x / 4;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * (g[i] - mean);
  });
  wide_model net({.seed = 1});
  const auto said = [&](const auto& o) { return message_of([&] { fit(net, plane{8}, squared, o, {.batch = 8}); }); };
  const std::string why =
      ": it has to see all gradients together before parameter `line.weight` is updated; an optimizer made of it hands "
      "its `prepare` on";
  BOOST_TEST(said(forgetful{optim::sam{optim::sgd{}}}) == "sam" + why);
  BOOST_TEST(said(forgetful{optim::clipped{.base = optim::sgd{}, .norm = 1, .together = true}}) == "clipped" + why);
}

BOOST_AUTO_TEST_CASE(patterns_that_fit_nothing) {
  wide_model net({.seed = 1});
  const auto said = [&](const std::string& pattern) {
    return message_of([&] {
      fit(net, plane{8}, squared, optim::groups{optim::sgd{}, {{"*.bias", {.rate_scale = 2}}, {pattern, {}}}},
          {.batch = 8});
    });
  };
  BOOST_TEST(said("lime.weight")
                 .ends_with("groups: pattern `lime.weight` fits no parameter that is updated; there are `line.weight`, "
                            "`line.bias`; did you "
                            "mean `line.weight`?"));
  BOOST_TEST(said("head.*").ends_with("fits no parameter that is updated; there are `line.weight`, `line.bias`"));
  BOOST_TEST(said("line.*") == "");
  // The message stands before anything is trained.
  wide_model other({.seed = 1});
  const auto w = weights_of(other);
  BOOST_CHECK_THROW(fit(other, plane{8}, squared, optim::groups{optim::sgd{}, {{"nothing", {}}}}, {.batch = 8}),
                    value_error);
  BOOST_TEST(weights_of(other) == w, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
