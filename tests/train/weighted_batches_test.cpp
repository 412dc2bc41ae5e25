// Losses other than a mean over samples (class weights, ignored targets, sums) with batches, shards and replicas.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "files.h"

import lamina;

#include "message.h"
#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using namespace nets_test;
using namespace replicas_test;

namespace {

constexpr std::int64_t none = -1;
inline constexpr auto classes = sequential(sublayer<"head">(nn::linear{.in_features = 3, .out_features = 3}));
using class_model = model<classes, input<"N", 3>, policies<element<double>>>;
using list = std::vector<double>;

struct marked {
  tensor<double, extents<3>> x;
  std::int64_t label = 0;
};
// Points of three classes; every third one, and all from `blank_from` to `blank_to`, have none.
struct points {
  std::int64_t count = 0, blank_from = 0, blank_to = 0;
  std::int64_t size() const { return count; }
  marked operator[](std::int64_t i) const {
    marked p{tensor<double, extents<3>>::uninitialized({3}), 0};
    const philox random(7);
    auto x = p.x.writable();
    for (std::size_t k = 0; k < 3; ++k) x[k] = random.uniform<double>(static_cast<std::uint64_t>(3 * i) + k);
    p.label = i % 3 == 2 || (i >= blank_from && i < blank_to) ? none : x[0] > x[1] ? 0 : x[1] > x[2] ? 1 : 2;
    return p;
  }
};

const loss::cross_entropy uneven{.weights = {1, 5, 0.25}, .ignore_index = none};

// Sums of weighted losses, weights, hits and targets over the given samples, in plain loops.
struct by_hand {
  double loss = 0, weight = 0;
  std::int64_t hits = 0, targets = 0;
  list gradient = list(12);  // of the sum
  by_hand(const list& w, const points& data, const std::vector<std::int64_t>& samples,
          const list& weights = uneven.weights) {
    for (const auto i : samples) {
      const marked p = data[i];
      list z(3), e(3);
      for (std::size_t c = 0; c < 3; ++c) {
        z[c] = w[9 + c];
        for (std::size_t k = 0; k < 3; ++k) z[c] += w[3 * c + k] * p.x.data()[k];
      }
      double all = 0;
      for (std::size_t c = 0; c < 3; ++c) all += e[c] = std::exp(z[c]);
      if (p.label == none) continue;
      const auto label = static_cast<std::size_t>(p.label);
      loss += weights[label] * (std::log(all) - z[label]);
      weight += weights[label];
      hits += std::max_element(z.begin(), z.end()) - z.begin() == p.label;
      ++targets;
      for (std::size_t c = 0; c < 3; ++c) {
        const double g = weights[label] * (e[c] / all - (c == label ? 1.0 : 0.0));
        for (std::size_t k = 0; k < 3; ++k) gradient[3 * c + k] += g * p.x.data()[k];
        gradient[9 + c] += g;
      }
    }
  }
};
template <class Model> list weights_of(const Model& net) {
  list all;
  for (const auto* name : {"head.weight", "head.bias"})
    for (double x : net.parameters().find(name)->value().template elements<double>()) all.push_back(x);
  return all;
}
double distance(const list& a, const list& b) {
  double max = 0;
  for (std::size_t i = 0; i < a.size(); ++i) max = std::fmax(max, std::fabs(a[i] - b[i]));
  return max;
}
std::vector<std::int64_t> range(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (; first < end; ++first) all.push_back(first);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batches_under_weights)

BOOST_AUTO_TEST_CASE(evaluation_is_that_of_one_batch) {
  const points data{50, 10, 21};
  class_model net({.seed = 1});
  const by_hand all(weights_of(net), data, range(0, 50)), plain(weights_of(net), data, range(0, 50), {1, 1, 1});
  const double accuracy = static_cast<double>(all.hits) / static_cast<double>(all.targets);
  for (const std::int64_t batch : {1, 3, 7, 50, 256}) {
    const auto weighted = evaluate(net, data, uneven, batch);
    BOOST_TEST(std::fabs(weighted.loss - all.loss / all.weight) < 1e-13, "batches of " << batch);
    BOOST_TEST(std::fabs(weighted.accuracy - accuracy) < 1e-15);
    const auto left_out = evaluate(net, data, loss::cross_entropy{.ignore_index = none}, batch);
    BOOST_TEST(std::fabs(left_out.loss - plain.loss / plain.weight) < 1e-13);
    BOOST_TEST(left_out.accuracy == weighted.accuracy);
    const auto sum =
        evaluate(net, data, loss::focal{.gamma = 0, .ignore_index = none, .reduction = loss_reduction::sum}, batch);
    BOOST_TEST(std::fabs(sum.loss - plain.loss) < 1e-11);
  }
  // Without any counted target, loss and accuracy are 0.
  const auto nothing = evaluate(net, points{6, 0, 6}, uneven, 4);
  BOOST_TEST(nothing.loss == 0);
  BOOST_TEST(nothing.accuracy == 0);
}

BOOST_AUTO_TEST_CASE(losses_say_their_weights) {
  const auto check = [](const auto& loss, const points& data) {
    class_model net({.seed = 2});
    const auto once = evaluate(net, data, loss, 64);
    BOOST_TEST(std::isfinite(once.loss));
    for (const std::int64_t batch : {1, 5})
      BOOST_TEST(std::fabs(evaluate(net, data, loss, batch).loss - once.loss) < 1e-13 * std::fmax(1, once.loss));
  };
  const points data{40, 0, 7};
  const std::vector<double> w{3, 1, 0.5};
  check(loss::cross_entropy{.weights = w, .label_smoothing = 0.2, .ignore_index = none}, data);
  check(loss::focal{.weights = w, .ignore_index = none}, data);
  check(loss::focal{.ignore_index = none, .reduction = loss_reduction::sum}, data);
  const auto log_probabilities = [](const auto& of) {
    struct after_softmax {
      std::remove_cvref_t<decltype(of)> loss;
      loss_reduction reduction = loss.reduction;
      std::optional<std::int64_t> ignore_index = loss.ignore_index;
      value operator()(const value& x, const value& y) const { return loss(log_softmax(x), y); }
      value weight(const value& x, const value& y) const { return loss.weight(x, y); }
    };
    return after_softmax{of};
  };
  check(log_probabilities(loss::nll{.weights = w, .ignore_index = none}), data);
  // The divisor is a number for a weighted mean, and otherwise empty.
  const loss::cross_entropy plain;
  program p;
  const value x = p.input("x", {dtype::float32, {dim("N"), 3}}), y = p.input("y", {dtype::int64, {dim("N")}});
  BOOST_TEST(plain.weight(x, y).empty());
  BOOST_TEST(uneven.weight(x, y).type().dims.rank == 0);
  const loss::cross_entropy summed{.weights = w, .reduction = loss_reduction::sum};
  BOOST_TEST(summed.weight(x, y).empty());
}

// Sample weights as a second target.
BOOST_AUTO_TEST_CASE(weights_of_samples) {
  const auto weighted = points{30} | dataset::map([](const marked& p, std::int64_t i) {
                          auto target = tensor<double, extents<3>>::uninitialized({3});
                          std::fill(target.writable().begin(), target.writable().end(), 0.1 * static_cast<double>(i));
                          return std::tuple(p.x, target, i % 4 == 0 ? 0.0 : static_cast<double>(i));
                        });
  class_model net({.seed = 1});
  const auto once = evaluate(net, weighted, loss::weighted{loss::mse{}}, 30);
  BOOST_TEST(once.loss > 1);
  for (const std::int64_t batch : {1, 4})
    BOOST_TEST(std::fabs(evaluate(net, weighted, loss::weighted{loss::mse{}}, batch).loss - once.loss) < 1e-12);
}

// Updates by hand, with batches of twelve in the order of training.
BOOST_AUTO_TEST_CASE(updates_are_those_of_one_batch) {
  const points data{42, 9, 20};
  constexpr std::int64_t batch = 12, epochs = 3;
  for (const bool sum : {false, true}) {
    loss::cross_entropy of = uneven;
    if (sum) of.reduction = loss_reduction::sum;
    const double rate = sum ? 0.01 : 0.3;
    list w = weights_of(class_model({.seed = 1}));
    double last_loss = 0, last_weight = 0;
    std::int64_t hits = 0, targets = 0;
    for (std::int64_t e = 0; e < epochs; ++e) {
      last_loss = last_weight = 0, hits = targets = 0;
      const auto order = permutation(data.count, 5, e);
      for (std::int64_t first = 0; first < data.count; first += batch) {
        const std::int64_t n = std::min(batch, data.count - first);
        const by_hand found(w, data, {order.begin() + first, order.begin() + first + n});
        for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * found.gradient[i] / (sum ? 1 : found.weight);
        last_loss += found.loss * (sum ? static_cast<double>(n) : 1.0);
        last_weight += sum ? static_cast<double>(n) : found.weight;
        hits += found.hits, targets += found.targets;
      }
    }
    for (const auto& [size, shards, accumulate] :
         {std::tuple(12, 1, 1), {12, 4, 1}, {12, 16, 1}, {6, 1, 2}, {3, 2, 4}}) {
      class_model net({.seed = 1});
      fit_options o{.epochs = epochs, .batch = size, .seed = 5, .shards = shards};
      o.accumulate = accumulate;
      const auto report = fit(net, data, of, optim::sgd{.lr = rate}, o);
      BOOST_TEST(distance(weights_of(net), w) < 1e-12, shards << " shards, " << accumulate << " batches");
      BOOST_TEST(std::fabs(report.epochs.back().loss - last_loss / last_weight) < 1e-12);
      BOOST_TEST(report.epochs.back().accuracy == static_cast<double>(hits) / static_cast<double>(targets));
    }
  }
}

BOOST_AUTO_TEST_CASE(step_by_step) {
  const points data{24, 5, 13};
  const auto batches = [&](std::int64_t size) {
    std::vector<std::pair<matrix<double>, tensor<std::int64_t, extents<dyn>>>> all;
    for (std::int64_t first = 0; first < data.count; first += size) {
      all.emplace_back(matrix<double>::uninitialized({size, 3}),
                       tensor<std::int64_t, extents<dyn>>::uninitialized({size}));
      for (std::int64_t i = 0; i < size; ++i) {
        const marked p = data[first + i];
        std::copy(p.x.data().begin(), p.x.data().end(), all.back().first.writable().begin() + 3 * i);
        all.back().second.writable()[static_cast<std::size_t>(i)] = p.label;
      }
    }
    return all;
  };
  class_model one({.seed = 1}), several({.seed = 1});
  training whole(one, uneven, optim::adam{.lr = 0.1});
  training parts(several, uneven, optim::adam{.lr = 0.1}, {.accumulate = 4});
  for (int n = 0; n < 5; ++n) {
    const list before = weights_of(one);
    for (const auto& [x, y] : batches(24)) whole(x, y);
    std::int64_t first = 0;
    for (const auto& [x, y] : batches(6)) {
      const by_hand of(before, data, range(first, first + 6));
      first += 6;
      BOOST_TEST(std::fabs(parts(x, y) - (of.weight == 0 ? 0 : of.loss / of.weight)) < 1e-10);
    }
    BOOST_TEST(distance(weights_of(one), weights_of(several)) < 1e-10);
  }
}

BOOST_AUTO_TEST_CASE(a_batch_without_targets_changes_nothing) {
  const points data{12, 0, 12};
  for (const std::int64_t shards : {1, 2}) {
    class_model net({.seed = 1});
    const list before = weights_of(net);
    const auto report = fit(net, data, uneven, optim::sgd{.lr = 0.5, .momentum = 0.9},
                            {.epochs = 2, .batch = 4, .validation = data, .shards = shards});
    BOOST_TEST(distance(weights_of(net), before) == 0);
    BOOST_TEST(report.epochs.back().loss == 0);
    BOOST_TEST(*report.epochs.back().validation_loss == 0);
  }
  class_model net({.seed = 1});
  // The report covers the other batches: 4 of 12 samples are blank.
  const points some{12, 4, 8};
  const auto report = fit(net, some, uneven, optim::sgd{.lr = 0}, {.batch = 4});
  const by_hand all(weights_of(net), some, range(0, 12));
  BOOST_TEST(std::fabs(report.epochs[0].loss - all.loss / all.weight) < 1e-13);
  BOOST_TEST(report.epochs[0].weight == all.weight);
  BOOST_TEST(report.epochs[0].ignored == 12 - all.targets);
}

// Replicas, shards and batches of one update give the same bits, also with statistics across shards.
BOOST_AUTO_TEST_CASE(the_same_bits_for_any_number_of_replicas) {
  const auto data = squares(70, 1), test = squares(30, 2);
  const loss::cross_entropy loss{.weights = {1, 7, 0.5}, .ignore_index = 2};
  const auto check = [&](const auto& net, fit_options o) {
    using net_type = std::remove_cvref_t<decltype(net)>;
    o.epochs = 2, o.validation = test;
    auto alone = net;
    const auto expected = fit(alone, data, loss, optim::adam{.lr = 0.01}, o);
    BOOST_TEST(expected.epochs[1].ignored > 0);
    BOOST_TEST(expected.epochs[1].loss < expected.epochs[0].loss);
    for (const int count : {1, 2, 4}) {
      std::vector<training_report> reports;
      const auto nets = trained_by<net_type>(optim::adam{.lr = 0.01}, net, count, data, o, nullptr, &reports, {}, loss);
      for (std::size_t i = 0; i < nets.size(); ++i) {
        BOOST_TEST((o.shard_optimizer || same_bits(nets[i].parameters(), alone.parameters())));
        BOOST_TEST(nets[i].parameters()[0].value().template elements<float>()[0] ==
                   alone.parameters()[0].value().template elements<float>()[0]);
        BOOST_TEST(reports[i].epochs[1].loss == expected.epochs[1].loss);
        BOOST_TEST(reports[i].epochs[1].accuracy == expected.epochs[1].accuracy);
        BOOST_TEST(*reports[i].epochs[1].validation_loss == *expected.epochs[1].validation_loss);
      }
    }
  };
  check(regular_model({.seed = 1}), {.batch = 16, .shards = 4});
  check(regular_model({.seed = 1}), {.batch = 8, .shards = 4, .accumulate = 3});
  check(regular_model({.seed = 1}), {.batch = 16, .shards = 4, .shard_optimizer = true});
  check(across_model({.seed = 1}), {.batch = 16, .shards = 4});
  regular_model large({.seed = 1}), small({.seed = 1});
  fit(large, data, loss, optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 14, .shards = 4});
  fit(small, data, loss, optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 7, .shards = 2, .accumulate = 2});
  BOOST_TEST(same_bits(large.parameters(), small.parameters()));
}

BOOST_AUTO_TEST_CASE(training_goes_on_within_an_epoch) {
  const points data{60, 20, 40};
  test_files::folder dir;
  class_model whole({.seed = 1});
  const fit_options o{.epochs = 2, .batch = 8, .seed = 3};
  const auto expected = fit(whole, data, uneven, optim::adam{.lr = 0.1}, o);
  fit_options part = o;
  part.checkpoint = dir / "now";
  part.observer = [](const training_progress& p) { return !(p.epoch == 2 && p.batch == 4); };
  class_model first({.seed = 1}), second({.seed = 1});
  BOOST_TEST(fit(first, data, uneven, optim::adam{.lr = 0.1}, part).stopped);
  part.observer = {}, part.resume = true;
  const auto report = fit(second, data, uneven, optim::adam{.lr = 0.1}, part);
  BOOST_TEST(same_bits(second.parameters(), whole.parameters()));
  for (std::size_t e = 0; e < 2; ++e) {
    BOOST_TEST(std::fabs(report.epochs[e].loss - expected.epochs[e].loss) < 1e-13);
    BOOST_TEST(report.epochs[e].accuracy == expected.epochs[e].accuracy);
    BOOST_TEST(std::fabs(report.epochs[e].weight - expected.epochs[e].weight) < 1e-13);
    BOOST_TEST(report.epochs[e].ignored == expected.epochs[e].ignored);
  }
}

BOOST_AUTO_TEST_CASE(gradients_for_an_observer) {
  const points data{24, 3, 9};
  for (const std::int64_t shards : {1, 4}) {
    class_model net({.seed = 1});
    std::function<std::vector<named_tensor>()> gradients;
    struct watching {
      std::function<std::vector<named_tensor>()>* gradients;
      bool operator()(const training_progress&) const { return true; }
      void began(const training_start& s) const { *gradients = s.gradients; }
    };
    int told = 0;
    const observer look = [&](const training_progress& p) {
      if (p.epoch_ended) return true;
      const by_hand all(weights_of(net), data, range(0, 24));
      list found;
      for (const auto& g : gradients())
        for (double x : g.value.elements<double>()) found.push_back(x);
      for (std::size_t i = 0; i < 12; ++i) BOOST_TEST(std::fabs(found[i] - all.gradient[i] / all.weight) < 1e-12);
      ++told;
      return true;
    };
    fit(net, data, uneven, optim::sgd{.lr = 0.1},
        {.epochs = 2, .batch = 24, .observer = observers({watching{&gradients}, look}), .shards = shards});
    BOOST_TEST(told == 2);
  }
}

BOOST_AUTO_TEST_CASE(mistakes) {
  struct wrong {
    dtype element = dtype::float64;
    value operator()(const value& x, const value& y) const { return uneven(x, y); }
    value weight(const value& x, const value& y) const {
      return element == dtype::float64 ? x : value(reduce_sum(cast<float>(y)));
    }
  };
  class_model net({.seed = 1});
  BOOST_TEST(message_of([&] {
               fit(net, points{6}, wrong{}, optim::sgd{});
             }).find("loss: expected a weight of one number, float64[]; got float64[") == 0u);
  BOOST_TEST(message_of([&] { fit(net, points{6}, wrong{dtype::float32}, optim::sgd{}); }) ==
             "loss: expected a weight of one number, float64[]; got float32[]");
  // An ignored class may be any number; other invalid classes are still refused.
  const auto data = squares(9, 1);
  plain_model small({.seed = 1});
  BOOST_TEST(std::isfinite(evaluate(small, data, loss::cross_entropy{.ignore_index = 7}).loss));
}

BOOST_AUTO_TEST_SUITE_END()
