// Training with half-precision products and scaled losses: close to float32, equal bits for threads, shards and after a
// checkpoint; skipped steps.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "files.h"
#include "message.h"
#include "nets.h"

#include "nets_of_squares.h"
#include "plane.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

const loss::cross_entropy by_entropy;
inline constexpr auto perceptron =
    sequential(nn::flatten{}, sublayer<"hidden">(nn::linear{.in_features = 36, .out_features = 96}), nn::tanh{},
               sublayer<"out">(nn::linear{.in_features = 96, .out_features = 3}));
using perceptron_model = model<perceptron, input<"N", 1, 6, 6>>;

double relative_difference(const parameter_store& a, const parameter_store& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].role() != state_role::parameter) continue;
    const auto x = a[i].value().elements<float>(), y = b.find(a[i].name())->value().elements<float>();
    for (std::size_t k = 0; k < x.size(); ++k) {
      off += (x[k] - y[k]) * (x[k] - y[k]);
      all += y[k] * y[k];
    }
  }
  return std::sqrt(off / all);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(precision)

BOOST_AUTO_TEST_CASE(half_types_train_as_well_as_float32) {
  const auto data = nets_test::squares(200, 1), unseen = nets_test::squares(100, 2);
  perceptron_model whole({.seed = 1});
  const auto wanted = fit(whole, data, by_entropy, optim::adam{.lr = 3e-3}, {.epochs = 12, .batch = 20});
  for (const dtype half : {dtype::bfloat16, dtype::float16}) {
    perceptron_model net({.seed = 1});
    const auto found = fit(net, data, by_entropy, optim::adam{.lr = 3e-3},
                           {.epochs = 12,
                            .batch = 20,
                            .compute = half,
                            .scaling = half == dtype::float16 ? std::optional(loss_scaling{}) : std::nullopt});
    BOOST_TEST(std::fabs(found.epochs.back().loss - wanted.epochs.back().loss) < 0.05 * wanted.epochs[0].loss);
    BOOST_TEST(std::fabs(evaluate(net, unseen, by_entropy).accuracy - evaluate(whole, unseen, by_entropy).accuracy) <
               0.04);
    BOOST_TEST(relative_difference(net.parameters(), whole.parameters()) < 0.1);
    BOOST_TEST(relative_difference(net.parameters(), whole.parameters()) > 1e-6);
    // Parameters and slots are float32.
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      BOOST_TEST((net.parameters()[i].role() != state_role::parameter ||
                  net.parameters()[i].value().element() == dtype::float32));
  }
}

BOOST_AUTO_TEST_CASE(bits_depend_on_neither_threads_nor_where_training_was_cut) {
  const auto data = nets_test::squares(70, 1);
  const test_files::folder dir;
  int number = 0;
  for (const dtype half : {dtype::bfloat16, dtype::float16})
    for (const std::int64_t shards : {1, 4}) {
      fit_options o{.epochs = 3, .batch = 16, .shards = shards, .compute = half, .scaling = loss_scaling{1024, 4}};
      const auto trained = [&](int threads) {
        nets_test::regular_model net({.seed = 1});
        o.threads = threads;
        const auto report =
            fit(net, data, by_entropy, optim::clipped{.base = optim::adam{.lr = 0.01}, .norm = 1, .together = true}, o);
        BOOST_TEST(report.loss_scale == 1024.0 * 8);  // 15 steps
        BOOST_TEST(report.skipped_updates == 0);
        return net;
      };
      const auto once = trained(1);
      for (int threads = 2; threads <= 4; ++threads)
        BOOST_TEST(nets_test::same_bits(once.parameters(), trained(threads).parameters()));
      o.threads = 1;
      o.checkpoint = dir / ("checkpoint" + std::to_string(number++));
      o.resume = true;
      nets_test::regular_model cut({.seed = 1});
      int updates = 0;
      o.observer = [&](const training_progress&) { return ++updates != 7; };
      const optim::clipped by{.base = optim::adam{.lr = 0.01}, .norm = 1, .together = true};
      fit(cut, data, by_entropy, by, o);
      BOOST_TEST(!nets_test::same_bits(cut.parameters(), once.parameters()));
      o.observer = {};
      const auto report = fit(cut, data, by_entropy, by, o);
      BOOST_TEST(nets_test::same_bits(cut.parameters(), once.parameters()));
      BOOST_TEST(report.loss_scale == 1024.0 * 8);
    }
}

// A power of two changes no bit unless numbers underflow or overflow.
BOOST_AUTO_TEST_CASE(a_scale_changes_no_bit_in_float32) {
  const auto data = nets_test::squares(48, 1);
  for (const std::int64_t shards : {1, 2})
    for (const std::int64_t accumulate : {1, 2}) {
      perceptron_model plain({.seed = 1}), scaled({.seed = 1});
      const optim::clipped by{.base = optim::sgd{.lr = 0.1}, .norm = 0.5, .together = true};
      fit(plain, data, by_entropy, by, {.epochs = 2, .batch = 12, .shards = shards, .accumulate = accumulate});
      const auto report = fit(
          scaled, data, by_entropy, by,
          {.epochs = 2, .batch = 12, .shards = shards, .accumulate = accumulate, .scaling = loss_scaling::fixed(256)});
      BOOST_TEST(report.loss_scale == 256);
      for (const auto& p : plain.parameters())
        if (p.role() == state_role::parameter)
          BOOST_TEST(std::memcmp(p.value().data(), scaled.parameters().find(p.name())->value().data(),
                                 p.value().bytes()) == 0);
    }
}

// The initial scale is too large for float32: steps are skipped until it fits.
BOOST_AUTO_TEST_CASE(steps_with_gradients_that_are_not_finite_change_nothing) {
  using line_model = model<plane_test::line, input<"N", 3>>;
  const auto squared = [](const value& y, const value& t) {
    return reduce_mean(square((reshape(y, t.shape()) - t) * 1e10));
  };
  line_model net({.seed = 1});
  training step(net, squared, optim::adam{.lr = 0.01}, {.scaling = loss_scaling{0x1p80, 3}});
  matrix<float> x(4, 3);
  vector<float> y(4);
  for (std::size_t i = 0; i < 12; ++i) x.writable()[i] = static_cast<float>(i) / 12;
  for (std::size_t i = 0; i < 4; ++i) y.writable()[i] = static_cast<float>(i) - 1;
  step(x, y);
  BOOST_TEST(step.skipped_updates() == 1);
  BOOST_TEST(step.loss_scale() == 0x1p79);
  const parameter_store first = net.parameters();
  std::int64_t done = 0;
  double scale = step.loss_scale();
  while (step.skipped_updates() < 100 && done == 0) {
    const auto skipped = step.skipped_updates();
    step(x, y);
    if (step.skipped_updates() == skipped) ++done;
    else {
      BOOST_TEST(step.loss_scale() == scale / 2);
      for (const auto& p : net.parameters())
        if (!p.name().starts_with("optimizer.loss_scale"))
          BOOST_TEST(std::memcmp(p.value().data(), first.find(p.name())->value().data(), p.value().bytes()) == 0);
    }
    scale = step.loss_scale();
  }
  BOOST_TEST(step.skipped_updates() > 5);
  BOOST_TEST(net.parameters().find("optimizer.step")->value().elements<float>()[0] == 1);
  step(x, y);
  BOOST_TEST(step.loss_scale() == scale);
  step(x, y);  // the third finite step in a row
  BOOST_TEST(step.loss_scale() == 2 * scale);
}

// Without scaling, such gradients are 0 in float16.
BOOST_AUTO_TEST_CASE(scaling_keeps_small_gradients) {
  const auto tiny = [](const value& y, const value& t) { return by_entropy(y, t) * 1e-7; };
  const auto data = nets_test::squares(40, 1);
  const auto moved = [&](std::optional<loss_scaling> scaling) {
    perceptron_model net({.seed = 1}), same({.seed = 1});
    fit(net, data, tiny, optim::sgd{.lr = 1e5}, {.batch = 20, .compute = dtype::float16, .scaling = scaling});
    return relative_difference(net.parameters(), same.parameters());
  };
  BOOST_TEST(moved(loss_scaling{}) > 4 * moved({}));
}

BOOST_AUTO_TEST_CASE(mistakes) {
  perceptron_model net({.seed = 1});
  const auto data = nets_test::squares(8, 1);
  const auto message = [&](const fit_options& o) {
    return message_of([&] { fit(net, data, by_entropy, optim::sgd{}, o); });
  };
  BOOST_TEST(message({.compute = dtype::int8}) == "fit: `compute` is int8; expected float32, bfloat16 or float16");
  BOOST_TEST(
      message({.scaling = loss_scaling{1000}}).starts_with("fit: `scaling.scale` is 1000; expected a power of two"));
  BOOST_TEST(message({.scaling = loss_scaling{1024, -1}}).starts_with("fit: `scaling.growth_steps` is -1"));
  plane_test::wide_model wide({.seed = 1});
  BOOST_TEST(message_of([&] { training(wide, plane_test::squared, optim::sgd{}, {.compute = dtype::bfloat16}); }) ==
             "training: `compute` is bfloat16 and the model is float64; expected a model of float32");
}

BOOST_AUTO_TEST_SUITE_END()
