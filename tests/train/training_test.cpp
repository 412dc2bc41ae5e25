// Training step by step: results, messages, and that a failing step changes nothing.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

inline constexpr auto line = sequential(nn::linear{.in_features = 2, .out_features = 1});
inline constexpr auto classes = sequential(nn::linear{.in_features = 2, .out_features = 3});
inline constexpr auto remembers =
    sequential(nn::gru{.input_size = 1, .hidden_size = 8}, nn::linear{.in_features = 8, .out_features = 1});

using element_types = std::tuple<float, double>;

}  // namespace

BOOST_AUTO_TEST_SUITE(training_steps)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_line_is_found, T, element_types) {
  model<line, input<"N", 2>, policies<element<T>>> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  matrix<T> x{{1, 0}, {0, 1}, {1, 1}, {2, -1}}, y(4, 1);
  for (std::int64_t i = 0; i < 4; ++i)
    y.writable()[static_cast<std::size_t>(i)] =
        3 * x.data()[static_cast<std::size_t>(2 * i)] - 2 * x.data()[static_cast<std::size_t>(2 * i + 1)] + T(0.5);
  double first = step(x, y), last = 0;
  for (int i = 0; i < 1500; ++i) last = step(x, y);
  BOOST_TEST(last < 1e-5 * first);
  auto w = net.parameters().find("0.weight")->value().template elements<T>();
  BOOST_TEST(std::abs(w[0] - 3) < 0.01);
  BOOST_TEST(std::abs(w[1] + 2) < 0.01);
  BOOST_TEST(std::abs(net.parameters().find("0.bias")->value().template elements<T>()[0] - T(0.5)) < 0.01);
}

namespace {
constexpr auto cumulative = sequential(sublayer<"n">(nn::batch_norm1d{.num_features = 2, .cumulative = true}));
constexpr auto padded = sequential(
    sublayer<"e">(nn::embedding{.num_embeddings = 4, .embedding_dim = 2, .padding_idx = 1}), nn::reduce_sum{axes(1)});
}  // namespace

// Means over batches of their means and unbiased variances.
BOOST_AUTO_TEST_CASE(cumulative_statistics) {
  model<cumulative, input<"N", 2>, policies<element<double>>> net;
  training step(net, loss::mse{}, optim::sgd{.lr = 0});
  double means[2] = {}, variances[2] = {};
  const matrix<double> batches[] = {{{1, 2}, {3, 5}}, {{-1, 0.5}, {4, 7}, {2, -3}}, {{10, 20}, {30, 0}}};
  for (std::size_t b = 0; b < 3; ++b) {
    const auto& x = batches[b];
    const auto n = static_cast<double>(x.extent(0));
    step(x, x);
    const auto k = static_cast<double>(b + 1);
    const auto at = [&](std::string_view name) { return net.parameters().find(name)->value().elements<double>(); };
    BOOST_TEST(at("n.batches")[0] == k);
    for (std::int64_t c = 0; c < 2; ++c) {
      double mean = 0, variance = 0;
      for (std::int64_t i = 0; i < x.extent(0); ++i) mean += x(i, c) / n;
      for (std::int64_t i = 0; i < x.extent(0); ++i) variance += (x(i, c) - mean) * (x(i, c) - mean) / (n - 1);
      const auto at_c = static_cast<std::size_t>(c);
      means[at_c] += mean, variances[at_c] += variance;
      BOOST_TEST(std::abs(at("n.running_mean")[at_c] - means[at_c] / k) < 1e-12);
      BOOST_TEST(std::abs(at("n.running_var")[at_c] - variances[at_c] / k) < 1e-12);
    }
  }
}

// The row of `padding_idx` is zero and not trained.
BOOST_AUTO_TEST_CASE(padding_is_not_trained) {
  model<padded, port_input<"input", std::int64_t, "N", "T">> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  const matrix<std::int64_t> ids{{0, 1, 1}, {2, 1, 0}, {1, 1, 1}};
  const auto w = net.parameters().find("e.weight")->copy();
  const auto before = w.elements<float>();
  const matrix<float> y = net(ids);
  for (std::int64_t k = 0; k < 2; ++k) {
    const auto at = static_cast<std::size_t>(k);
    BOOST_TEST(y(0, k) == before[at]);
    BOOST_TEST(y(2, k) == 0);
  }
  step(ids, matrix<float>{{1, 2}, {3, 4}, {5, 6}});
  const auto after = net.parameters().find("e.weight")->value().elements<float>();
  for (std::size_t row = 0; row < 4; ++row) {
    const bool kept = before[2 * row] == after[2 * row] && before[2 * row + 1] == after[2 * row + 1];
    BOOST_TEST(kept == (row == 1 || row == 3), "row " << row);
  }
}

namespace {
constexpr auto two_heads =
    topology(sublayer<"body">(nn::linear{.in_features = 2, .out_features = 8}), sublayer<"act">(nn::tanh{}),
             sublayer<"where">(nn::linear{.in_features = 8, .out_features = 1}),
             sublayer<"what">(nn::linear{.in_features = 8, .out_features = 3}), connect<"x", "body.input">,
             connect<"body.output", "act.input">, connect<"act.output", "where.input">,
             connect<"act.output", "what.input">, connect<"where.output", "place">, connect<"what.output", "kind">);
}  // namespace

// Metrics for named outputs and targets.
BOOST_AUTO_TEST_CASE(metrics_of_several_outputs) {
  model<two_heads, port_input<"x", float, "N", 2>> net({.seed = 1});
  const matrix<float> x{{1, 0}, {0, 1}, {1, 1}, {2, -1}}, place{{1}, {2}, {3}, {0}};
  const lamina::vector<std::int64_t> kind{0, 1, 2, 1};
  const auto data = dataset::of_tensors(x, place, kind);
  const auto results = predict(net, data);
  metric::accuracy right;
  right.add(results[1], kind);
  metric::rmse off;
  off.add(results[0], place);
  BOOST_TEST(right.value() < 1);  // the net is untrained
  const auto found =
      evaluate(net, data, metric::of("kind", 1, metric::accuracy{}), metric::of(0, 0, metric::rmse{}), metric::rmse{},
               metric::of(1, 1, metric::of("largest", [](const auto& y, const auto&) { return y[0]; })));
  BOOST_TEST(found[0].name == "kind.accuracy");
  BOOST_TEST(found[0].value == right.value());
  BOOST_TEST(found[1].name == "0.rmse");
  BOOST_TEST(found[1].value == off.value());
  BOOST_TEST(found[2].name == "rmse");
  BOOST_TEST(found[2].value == off.value());
  BOOST_TEST(found[3].name == "1.largest");
  const any_tensor scores = results[1];
  BOOST_TEST(found[3].value == metric::numbers(scores)[0]);
  const auto message = [&](const auto& m) { return message_of([&] { evaluate(net, data, m); }); };
  BOOST_TEST(message(metric::of("sort", 1, metric::accuracy{})) ==
             "sort.accuracy: the net has no output `sort`; it has `place`, `kind`");
  BOOST_TEST(message(metric::of(2, 1, metric::accuracy{})) ==
             "2.accuracy: the net has no output 2; it has `place`, `kind`");
  BOOST_TEST(message(metric::of(-1, 1, metric::accuracy{})) ==
             "-1.accuracy: the net has no output -1; it has `place`, `kind`");
  BOOST_TEST(message(metric::of(1, 2, metric::accuracy{})) == "1.accuracy: samples have no target 2; expected 0 to 1");
  auto a = metric::of(1, 1, metric::accuracy{}), b = a;
  a.add(results[1], kind), b.add(results[1], kind);
  a.merge(b);
  BOOST_TEST(a.measure.samples == 8);
  a.reset();
  BOOST_TEST(a.value() == 0);
  static_assert(Metric<decltype(a)>);
}

// Several outputs and targets, also of other element types, with the bits of `fit`.
BOOST_AUTO_TEST_CASE_TEMPLATE(several_targets, T, element_types) {
  using net_type = model<two_heads, port_input<"x", T, "N", 2>, policies<element<T>>>;
  const matrix<T> x{{1, 0}, {0, 1}, {1, 1}, {2, -1}}, place{{1}, {2}, {3}, {0}};
  const lamina::vector<std::int64_t> kind{0, 1, 2, 1};
  const auto both = [](view<const value> y, view<const value> t) {
    return value(loss::mse{}(y[0], t[0]) + loss::cross_entropy{}(y[1], t[1]));
  };
  net_type net({.seed = 1}), other({.seed = 1});
  training step(net, both, optim::adam{.lr = 0.02});
  const double first = step(x, place, kind);
  double last = 0;
  for (int i = 1; i < 200; ++i) last = step(x, place, kind);
  BOOST_TEST(last < 0.05 * first);
  // One sample per batch, in the order of the data, as in `fit`.
  net_type a({.seed = 1});
  fit(a, dataset::of_tensors(x, place, kind), both, optim::sgd{.lr = 0.1}, {.epochs = 3, .batch = 1});
  training one(other, both, optim::sgd{.lr = 0.1});
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const auto i : permutation(4, 0, epoch)) {
      const matrix<T> row{{x(i, 0), x(i, 1)}}, at{{place(i, 0)}};
      one(row, at, lamina::vector<std::int64_t>{kind(i)});
    }
  for (const auto& p : a.parameters()) {
    const auto* q = other.parameters().find(p.name());
    BOOST_TEST(std::memcmp(p.value().data(), q->value().data(), p.value().bytes()) == 0, p.name());
  }
  // A loss of three operands, one output and two targets; and one that rejects its operands.
  model<line, input<"N", 2>, policies<element<T>>> of_line({.seed = 1});
  training weighted(of_line, loss::weighted{loss::mse{}}, optim::sgd{.lr = 0.1});
  matrix<T> y{{1}, {2}, {3}, {4}};
  lamina::vector<T> by{0, 0, 1, 0};
  for (int i = 0; i < 500; ++i) weighted(x, y, by);
  const matrix<T> found = of_line(x);
  BOOST_TEST(std::abs(found(2, 0) - 3) < 0.01);
  BOOST_TEST(std::abs(found(0, 0) - 1) > 0.01);
  BOOST_TEST(message_of([&] { weighted(x, y); }) ==
             "loss: it takes three operands; got 1 output(s) and 1 target(s); expected a loss of lists, as "
             "[](view<const value> outputs, view<const value> targets)");
}

BOOST_AUTO_TEST_CASE(the_rate_may_change) {
  model<line, input<"N", 2>> net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  matrix<float> x{{1, 0}, {0, 1}}, y{{1}, {2}};
  double a = step(x, y);
  step.rate(0);
  BOOST_TEST(step.rate() == 0);
  double b = step(x, y), c = step(x, y);
  BOOST_TEST(b < a);
  BOOST_TEST(b == c);
}

BOOST_AUTO_TEST_CASE(a_label_outside_the_classes_changes_nothing) {
  model<classes, input<"N", 2>> net({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::adam{.lr = 0.1});
  matrix<float> x{{1, 0}, {0, 1}};
  vector<std::int64_t> good(2), bad(2);
  good.writable()[1] = 2;
  bad.writable()[1] = 3;
  BOOST_TEST(std::isfinite(step(x, good)));
  std::vector<float> before(6);
  std::memcpy(before.data(), net.parameters().find("0.weight")->value().data(), 24);
  BOOST_TEST(message_of([&] { step(x, bad); }) ==
             "loss: cross_entropy: a label is outside 0..2 (3 classes): 3 of sample 1 (1 in total)");
  BOOST_TEST(std::memcmp(before.data(), net.parameters().find("0.weight")->value().data(), 24) == 0);
  step(x, good);
  BOOST_TEST(std::memcmp(before.data(), net.parameters().find("0.weight")->value().data(), 24) != 0);
}

// Early stopping keeps the best net and assigns it back: the planned step reads the new parameters, not the freed ones.
BOOST_AUTO_TEST_CASE(another_net_may_be_assigned_between_steps) {
  using net_type = model<line, input<"N", 2>>;
  const matrix<float> x{{1, 0}, {0, 1}}, y{{1}, {2}};
  const auto bits_of = [](const net_type& net) {
    const auto& w = net.parameters().find("0.weight")->value();
    std::vector<float> bits(2);
    std::memcpy(bits.data(), w.data(), 8);
    return bits;
  };
  net_type net({.seed = 1}), other({.seed = 2});
  const parameter_store& store = net.parameters();
  training step(net, loss::mse{}, optim::adam{.lr = 0.1});
  step(x, y), step(x, y);
  const net_type best = net;  // with the optimizer's slots
  const double next = step(x, y);
  const auto wanted = bits_of(net);
  step(x, y);
  net = best;
  BOOST_TEST(&net.parameters() == &store);
  BOOST_TEST(step(x, y) == next);  // as it continued then
  BOOST_TEST((bits_of(net) == wanted));
  // Assigns an untrained net: as at the start of its training.
  net = net_type({.seed = 2});
  training first(other, loss::mse{}, optim::adam{.lr = 0.1});
  for (int i = 0; i < 3; ++i) BOOST_TEST(step(x, y) == first(x, y));
  BOOST_TEST((bits_of(net) == bits_of(other)));
  // Two assignments in a row, and an assignment of the parameters alone; calls of the model use the new ones, too.
  net = best, net = net_type({.seed = 2}), net = best;
  BOOST_TEST(step(x, y) == next);
  net.parameters() = best.parameters();
  BOOST_TEST(net(x).data()[0] == net_type(best)(x).data()[0]);
  BOOST_TEST(step(x, y) == next);
  BOOST_TEST((bits_of(net) == wanted));
  // A model that was given away has no parameters.
  const net_type taken = std::move(net);
  BOOST_TEST(
      message_of([&] { step(x, y); }).starts_with("this model was given to a factory or moved to another model"));
  net = best;
  BOOST_TEST(step(x, y) == next);
}

// The loss of docs/training.md.
BOOST_AUTO_TEST_CASE(a_loss_of_ones_own) {
  model<line, input<"N", 2>> net({.seed = 1});
  auto huber = [](const value& results, const value& targets) {
    const value off = abs(results - targets);
    return reduce_mean(where(off < 1, square(off) * 0.5, off - 0.5));
  };
  training step(net, huber, optim::sgd{.lr = 0.1});
  const matrix<float> x{{1, 0}, {0, 1}}, y = net(x);
  matrix<float> near(2, 1), far(2, 1);
  for (std::size_t i = 0; i < 2; ++i) near.writable()[i] = y.data()[i] + 0.5f, far.writable()[i] = y.data()[i] - 3.f;
  step.rate(0);
  BOOST_TEST(std::abs(step(x, near) - 0.125) < 1e-6);
  BOOST_TEST(std::abs(step(x, far) - 2.5) < 1e-6);
}

// The loss is stored as a single number: other results are refused when the program is built.
BOOST_AUTO_TEST_CASE(a_loss_that_is_no_number_is_refused) {
  const matrix<float> x{{1, 0}, {0, 1}, {1, 1}}, y(3, 1);
  auto message = [&](auto loss) {
    model<line, input<"N", 2>> net({.seed = 1});
    training step(net, loss, optim::sgd{.lr = 0.1});
    return message_of([&] { step(x, y); });
  };
  const std::string rule = "loss: expected one number, float32[]; got ";
  BOOST_TEST(message([](const value& a, const value& b) { return value(a - b); }) ==
             rule + "float32[?x?]; average it, as in reduce_mean(x)");
  BOOST_TEST(message([](const value& a, const value&) { return value(cast<double>(reduce_sum(a))); }) ==
             rule + "float64[]");
  BOOST_TEST(message([](const value& a, const value&) { return value(reduce_sum(a) > 0); }) == rule + "bool[]");
  BOOST_TEST(message([](const value&, const value&) { return value(); }) == rule + "an empty value");
  BOOST_TEST(message([](const value& a, const value& b) { return value(reduce_sum(a - b)); }) == "");
}

// Targets that would broadcast: shapes are compared when the program is built and when its extents become known.
BOOST_AUTO_TEST_CASE(targets_of_another_shape_are_refused) {
  const model<line, input<"N", 2>> before({.seed = 1});
  const matrix<float> x{{1, 0}, {0, 1}, {1, 1}};
  auto refused = [&](const auto& loss, const std::string& name) {
    auto net = before;
    training step(net, loss, optim::sgd{.lr = 0.1});
    const std::string rule = "results and targets must have the same shape; a loss does not broadcast: ";
    BOOST_TEST(
        message_of([&] { step(x, vector<float>{1, 2, 3}); }) ==
        "loss: " + name +
            ": results and targets must have the same shape; a loss does not broadcast; `squeeze` removes the last "
            "axis of the results: [Nx1] [?]");
    BOOST_TEST(message_of([&] { step(x, scalar<float>(1)); }) == "loss: " + name + ": " + rule + "[Nx1] []");
    BOOST_TEST(message_of([&] { step(x, matrix<float>(3, 3)); }) == "loss: same_shape: " + rule + "[3x1] [3x3]");
    BOOST_TEST(message_of([&] { step(x, matrix<float>(1, 1)); }) == "loss: same_shape: " + rule + "[3x1] [1x1]");
    BOOST_TEST(std::memcmp(net.parameters().find("0.weight")->value().data(),
                           before.parameters().find("0.weight")->value().data(), 8) == 0);
    BOOST_TEST(std::isfinite(step(x, matrix<float>(3, 1))));
  };
  refused(loss::mse{}, "mse");
  refused(loss::l1{}, "l1_loss");
}

// No step is taken, and the parameters stay unchanged.
BOOST_AUTO_TEST_CASE(numbers_of_optimizers) {
  model<line, input<"N", 2>> net({.seed = 1});
  model<line, input<"N", 2>, policies<element<double>>> wide({.seed = 1});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  auto refused = [&](const auto& optimizer, const std::string& expected) {
    BOOST_TEST(message_of([&] { training(net, loss::mse{}, optimizer); }) == expected);
  };
  refused(optim::sgd{.lr = nan}, "training: `lr` is nan; expected a finite number >= 0");
  refused(optim::adam{.lr = -1}, "training: `lr` is -1; expected a finite number >= 0");
  refused(optim::sgd{.lr = infinite}, "training: `lr` is inf; expected a finite number >= 0");
  refused(optim::sgd{.lr = 1e300}, "training: `lr` is 1e300; expected a finite number >= 0 in float32");
  refused(optim::sgd{.momentum = nan}, "sgd: `momentum` is nan; expected a finite number >= 0");
  refused(optim::adam{.beta1 = 1}, "adam: `beta1` is 1; expected a finite number >= 0 and < 1");
  refused(optim::adamw{.weight_decay = -1}, "adamw: `weight_decay` is -1; expected a finite number >= 0");
  refused(optim::adagrad{.decay = nan}, "adagrad: `decay` is nan; expected a finite number >= 0");
  refused(optim::rmsprop{.decay = 1.5}, "rmsprop: `decay` is 1.5; expected a finite number >= 0 and <= 1");
  refused(optim::ftrl{.l1 = -1}, "ftrl: `l1` is -1; expected a finite number >= 0");
  refused(optim::lars{.epsilon = nan}, "lars: `epsilon` is nan; expected a finite number >= 0");
  refused(optim::momentum_sgd{.momentum = infinite}, "momentum_sgd: `momentum` is inf; expected a finite number >= 0");
  BOOST_TEST(message_of([&] { training(wide, loss::mse{}, optim::sgd{.lr = 1e300}); }) == "");
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  for (const auto& [rate, expected] : {std::pair(nan, "nan"), std::pair(-0.5, "-0.5"), std::pair(infinite, "inf")})
    BOOST_TEST(message_of([&] { step.rate(rate); }) ==
               "training: `lr` is " + std::string(expected) + "; expected a finite number >= 0");
  BOOST_TEST(step.rate() == 0.1);
}

BOOST_AUTO_TEST_CASE(a_recurrent_net_learns_to_remember) {
  // The output is the previous iteration's input.
  model<remembers, input<"T", "N", 1>> net({.seed = 2});
  training step(net, loss::mse{}, optim::adam{.lr = 0.02});
  tensor<float, extents<6, 8, 1>> x, y;
  double first = 0, last = 0;
  for (int k = 0; k < 300; ++k) {
    auto in = x.writable(), out = y.writable();
    for (std::size_t i = 0; i < 48; ++i) {
      in[i] = static_cast<float>((i * 7919u + static_cast<std::size_t>(k) * 104729u) % 1000u) / 500.f - 1.f;
      out[i] = i < 8 ? 0.f : in[i - 8];
    }
    last = step(x, y);
    if (k == 0) first = last;
  }
  BOOST_TEST(last < 0.1 * first);
}

BOOST_AUTO_TEST_SUITE_END()
