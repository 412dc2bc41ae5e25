// Optimizers that see all gradients of an update together: global norms, sharpness-aware steps, patterns of groups.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
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

// The gradient of weights and bias as one vector, clipped.
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

// Trains by `fit`, also in shards, and by `training`; compares with a rule on weights and bias as one vector.
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
  // Nested in other optimizers.
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
  const numbers own = limited({24, 34}, 0, 0.25, 2);
  run(
      optim::clipped{
          .base = optim::groups{optim::sgd{.lr = 1}, {{"f_b", {.frozen = true}}}}, .norm = 0.25, .together = true},
      {0.5 - own[0], 0.5 - own[1], 0});
}

// Both steps of SAM with the gradient function `of`.
template <class F> void sam_step(numbers& w, F of, double rate, double rho, double limit_at_first, double limit) {
  const auto length = [](const numbers& g) {
    double size = 0;
    for (double x : g) size += x * x;
    return std::sqrt(size);
  };
  const numbers before = w, first = limited(of(w), 0, limit_at_first, 2);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] += rho * first[i] / (length(first) + 1e-12);
  const numbers down = limited(of(w), 0, limit, 2);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = before[i] - rate * down[i];
}

BOOST_AUTO_TEST_CASE(sam_goes_uphill_by_the_length_of_all) {
  const auto rule = [](double limit_at_first, double limit) {
    return [=](numbers& w, int) {
      sam_step(w, [](const numbers& at) { return gradient(at, plane{24}); }, 0.1, 0.2, limit_at_first, limit);
    };
  };
  follows(optim::sam{optim::sgd{.lr = 0.1}, 0.2}, rule(0, 0), 6);
  // An inner limit applies to the second gradient.
  follows(optim::sam{optim::clipped{.base = optim::sgd{.lr = 0.1}, .norm = 0.3, .together = true}, 0.2}, rule(0, 0.3),
          6);
  // An outer limit applies to both gradients; the ascent direction is normalized.
  follows(optim::clipped{.base = optim::sam{optim::sgd{.lr = 0.1}, 0.2}, .norm = 0.3, .together = true}, rule(0.3, 0.3),
          6);
}

// A frozen group does not count in the norm of all gradients.
BOOST_AUTO_TEST_CASE(frozen_groups_do_not_count_in_limits) {
  const auto rule = [](numbers& w, int) {
    const numbers g = gradient(w, plane{24}), own = limited({g.begin(), g.begin() + 3}, 0, 0.3, 2);
    for (std::size_t i = 0; i < 3; ++i) w[i] -= 0.1 * own[i];
  };
  const auto frozen = [](const auto& o) { return optim::groups{o, {{"*.bias", {.frozen = true}}}}; };
  const auto limits = [](const auto& o) { return optim::clipped{.base = o, .norm = 0.3, .together = true}; };
  follows(frozen(limits(optim::sgd{.lr = 0.1})), rule);
  follows(limits(frozen(optim::sgd{.lr = 0.1})), rule);
  follows(optim::maximize{limits(frozen(optim::maximize{optim::sgd{.lr = 0.1}}))}, rule);
  const auto uphill = [](numbers& w, int) {
    numbers part(w.begin(), w.begin() + 3);
    sam_step(
        part,
        [&w](const numbers& at) {
          const numbers g = gradient({at[0], at[1], at[2], w[3]}, plane{24});
          return numbers(g.begin(), g.begin() + 3);
        },
        0.1, 0.2, 0, 0);
    std::copy(part.begin(), part.end(), w.begin());
  };
  follows(optim::sam{frozen(optim::sgd{.lr = 0.1}), 0.2}, uphill);
  // A pattern that matches no parameter is refused, also if it freezes.
  wide_model net({.seed = 1});
  const optim::groups wrong{optim::sgd{}, {{"line.bias", {.frozen = true}}, {"*.bios", {.frozen = true}}}};
  BOOST_TEST(message_of([&] { fit(net, plane{24}, squared, wrong); }).find("`*.bios`") != std::string::npos);
}

// Both gradients of an update use the same batch, also with shards or several batches.
BOOST_AUTO_TEST_CASE(sam_takes_each_batch_twice) {
  const plane data{42};
  const std::int64_t batch = 12, epochs = 13;
  const auto order_of = [&](std::int64_t epoch) { return permutation(data.count, 5, epoch); };
  wide_model by_hand({.seed = 1});
  numbers w = weights_of(by_hand);
  int steps = 0;
  for (std::int64_t e = 0; e < epochs; ++e) {
    const auto order = order_of(e);
    for (std::int64_t first = 0; first < data.count; first += batch, ++steps) {
      const std::int64_t n = std::min(batch, data.count - first);
      const auto of = [&](const numbers& at) {
        numbers g(4);
        for (std::int64_t i = 0; i < n; ++i) {
          const numbers one = gradient(at, plane{1, order[static_cast<std::size_t>(first + i)]});
          for (std::size_t k = 0; k < 4; ++k) g[k] += one[k] / static_cast<double>(n);
        }
        return g;
      };
      sam_step(w, of, 0.05, 0.1, 0, 0);
    }
  }
  BOOST_TEST(steps > 50);
  const optim::sam rule{optim::sgd{.lr = 0.05}, 0.1};
  for (const auto& [size, shards, accumulate] : {std::tuple(12, 1, 1), {12, 4, 1}, {6, 1, 2}, {3, 2, 4}}) {
    wide_model net({.seed = 1});
    fit_options o{.epochs = epochs, .batch = size, .seed = 5, .shards = shards};
    o.accumulate = accumulate;
    fit(net, data, squared, rule, o);
    BOOST_TEST(distance(weights_of(net), w) < 1e-12, shards << " shards, " << accumulate << " batches");
    BOOST_TEST(net.parameters().find("optimizer.step")->value().elements<float>()[0] == static_cast<float>(2 * steps));
  }
}

// An update of two gradients is all or nothing, and starts with the first gradient whatever came before.
BOOST_AUTO_TEST_CASE(sam_that_fails_half_way_leaves_the_weights) {
  const plane data{24};
  for (const std::int64_t shards : {1, 2}) {
    wide_model net({.seed = 1});
    const numbers before = weights_of(net);
    // At the ascended weights the loss overflows.
    const optim::sam far{optim::adam{.lr = 0.1}, 1e200};
    BOOST_CHECK_THROW(fit(net, data, squared, far, {.batch = 24, .shards = shards}), not_finite_error);
    BOOST_TEST(distance(weights_of(net), before) == 0);
    BOOST_TEST(net.parameters().find("optimizer.step")->value().elements<float>()[0] == 0.f);
    fit(net, data, squared, optim::sgd{.lr = 0}, {.epochs = 3, .batch = 24});  // an odd number of updates
    BOOST_CHECK_THROW(fit(net, data, squared, far, {.batch = 24, .shards = shards}), not_finite_error);
    BOOST_TEST(net.parameters().find("optimizer.step")->value().elements<float>()[0] == 3.f);
  }
  wide_model one({.seed = 1}), other({.seed = 1});
  for (auto* net : {&one, &other}) {
    const int steps = net == &one ? 1 : 2;  // an odd and an even number of steps that change nothing
    fit(*net, data, squared, optim::sgd{.lr = 0}, {.epochs = steps, .batch = 24});
    fit(*net, data, squared, optim::sam{optim::sgd{.lr = 0.1}, 0.2}, {.epochs = 3, .batch = 24});
  }
  BOOST_TEST(distance(weights_of(one), weights_of(other)) == 0);
}

BOOST_AUTO_TEST_CASE(what_takes_two_gradients_is_refused_where_it_cannot_be) {
  const plane data{24};
  wide_model net({.seed = 1});
  const optim::sam rule{optim::sgd{.lr = 0.1}};
  const auto message = [](const auto& f) { return message_of(f); };
  const std::string takes = "takes 2 gradients per batch; ";
  BOOST_TEST(message([&] { fit(net, data, squared, rule, {.scaling = loss_scaling{}}); }).find(takes + "`scaling`") !=
             std::string::npos);
  BOOST_TEST(message([&] { training(net, squared, rule, {.accumulate = 2}); }).find(takes + "`accumulate`") !=
             std::string::npos);
  BOOST_TEST(message([&] { fit(net, data, squared, optim::averaged{rule}); }) ==
             "averaged: the inner optimizer takes 2 gradients per batch, and the parameters between them must not "
             "be kept; put `averaged` inside it");
  BOOST_TEST(message([&] { fit(net, data, squared, optim::lookahead{optim::maximize{rule}}); }).find("lookahead: ") ==
             0u);
  fit(net, data, squared, optim::sam{optim::averaged{optim::sgd{.lr = 0.1}}}, {.batch = 24});
  static_assert(optim::sam<optim::sgd>::gradients_per_batch == 2);
  static_assert(optim::clipped<optim::sam<optim::sgd>>::gradients_per_batch == 2);
}

namespace {
// A user-defined optimizer that does not forward `prepare`.
template <class O> struct forgetful {
  O base{};
  double lr = base.lr;
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const { return base.step(s, w, g); }
};
// Centers all gradients around their mean; the second one counts its calls.
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
  const auto message = [&](const auto& o) { return message_of([&] { fit(net, plane{8}, squared, o, {.batch = 8}); }); };
  const std::string why =
      ": `prepare` did not run before the update of parameter `line.weight`; an optimizer that wraps it must call "
      "its `prepare`";
  BOOST_TEST(message(forgetful{optim::sam{optim::sgd{}}}) == "sam" + why);
  BOOST_TEST(message(forgetful{optim::clipped{.base = optim::sgd{}, .norm = 1, .together = true}}) == "clipped" + why);
}

BOOST_AUTO_TEST_CASE(patterns_that_fit_nothing) {
  wide_model net({.seed = 1});
  const auto message = [&](const std::string& pattern) {
    return message_of([&] {
      fit(net, plane{8}, squared, optim::groups{optim::sgd{}, {{"*.bias", {.rate_scale = 2}}, {pattern, {}}}},
          {.batch = 8});
    });
  };
  BOOST_TEST(
      message("lime.weight")
          .ends_with("groups: pattern `lime.weight` matches no parameter that is updated; there are `line.weight`, "
                     "`line.bias`; did you "
                     "mean `line.weight`?"));
  BOOST_TEST(message("head.*").ends_with("matches no parameter that is updated; there are `line.weight`, `line.bias`"));
  BOOST_TEST(message("line.*") == "");
  // The message comes before any training.
  wide_model other({.seed = 1});
  const auto w = weights_of(other);
  BOOST_CHECK_THROW(fit(other, plane{8}, squared, optim::groups{optim::sgd{}, {{"nothing", {}}}}, {.batch = 8}),
                    value_error);
  BOOST_TEST(weights_of(other) == w, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
