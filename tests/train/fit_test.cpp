// Training: that it learns, the order of samples, reports, stopping, and errors.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

const loss::cross_entropy by_entropy;

image_dataset empty() {
  return {image_dataset::images_type(0, 1, 6, 6), lamina::vector<std::int64_t>(0), {"a", "b", "c"}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training)

BOOST_AUTO_TEST_CASE(learns_in_float_and_in_double) {
  auto check = [](auto net) {
    auto data = squares(200, 1), test = squares(100, 2);
    auto before = evaluate(net, test, by_entropy);
    auto report = fit(net, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 6, .batch = 16, .validation = test});
    BOOST_REQUIRE(report.epochs.size() == 6u);
    BOOST_TEST(report.epochs.back().loss < 0.5 * report.epochs.front().loss);
    BOOST_TEST(report.epochs.back().accuracy > 0.9);
    auto after = evaluate(net, test, by_entropy);
    BOOST_TEST(after.accuracy > 0.9);
    BOOST_TEST(after.loss < 0.5 * before.loss);
    BOOST_TEST(*report.epochs.back().validation_accuracy == after.accuracy);
    BOOST_TEST(std::abs(*report.epochs.back().validation_loss - after.loss) < 1e-6);
    BOOST_TEST(!report.stopped);
    BOOST_TEST(report.images_per_second > 0.0);
    // `evaluate` agrees with the model's predictions.
    std::int64_t hits = 0;
    for (auto [image, label] : test)
      hits += item(argmax(net(evaluate(cast<typename decltype(net)::element_type>(image))))) == label;
    BOOST_TEST(static_cast<double>(hits) / 100 == after.accuracy);
  };
  check(plain_model({.seed = 1}));
  check(regular_model({.seed = 1}));
  check(model<plain_net, input<"N", 1, 6, 6>, policies<element<double>>>({.seed = 1}));
  check(model<regular_net, input<"N", 1, 6, 6>, policies<element<double>>>({.seed = 1}));
}

BOOST_AUTO_TEST_CASE(every_optimizer_learns) {
  auto check = [](const auto& optimizer, const optim::schedule& schedule) {
    plain_model net({.seed = 1});
    auto report = fit(net, squares(150, 1), by_entropy, optimizer, {.epochs = 8, .batch = 16, .schedule = schedule});
    BOOST_TEST(report.epochs.back().accuracy > 0.9);
  };
  check(optim::sgd{.lr = 0.1}, optim::constant{});
  check(optim::sgd{.lr = 0.03, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}, optim::cosine{.warm_up = 5});
  check(optim::adam{.lr = 0.02}, optim::one_cycle{});
  check(optim::adamw{.lr = 0.01}, optim::constant{});
}

BOOST_AUTO_TEST_CASE(the_first_step_is_that_of_the_formula) {
  // One batch of all samples: gradient descent along the mean gradient of the head's bias, softmax(y) - onehot.
  model<plain_net, input<"N", 1, 6, 6>, policies<element<double>>> net({.seed = 2});
  auto data = squares(7, 3);
  std::vector<double> expected(3);
  for (std::size_t c = 0; c < 3; ++c) expected[c] = net.parameters().find("head.bias")->value().elements<double>()[c];
  double mean = 0;
  for (auto [image, label] : data) {
    auto p = evaluate(softmax(net(evaluate(cast<double>(image)))));
    mean -= std::log(double(p(label))) / 7;
    for (std::int64_t c = 0; c < 3; ++c)
      expected[static_cast<std::size_t>(c)] -= 0.1 / 7 * (double(p(c)) - (c == label));
  }
  auto report = fit(net, data, by_entropy, optim::sgd{.lr = 0.1}, {.batch = 7});
  BOOST_TEST(std::abs(report.epochs[0].loss - mean) < 1e-12);
  auto now = net.parameters().find("head.bias")->value().elements<double>();
  for (std::size_t c = 0; c < 3; ++c) BOOST_TEST(std::abs(now[c] - expected[c]) < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_last_smaller_batch_counts) {
  std::vector<std::int64_t> batches;
  double rate_of_last = 0;
  plain_model net({.seed = 1});
  auto watch = [&](const training_progress& p) {
    if (!p.epoch_ended) batches.push_back(p.batch);
    BOOST_TEST(p.batches == 4);
    rate_of_last = p.learning_rate;
    return true;
  };
  fit(net, squares(31, 1), by_entropy, optim::sgd{.lr = 1},
      {.epochs = 2,
       .batch = 10,
       .schedule =
           [](double base, std::int64_t step, std::int64_t steps) {
             BOOST_TEST(steps == 8);
             return base * static_cast<double>(step + 1) * 1e-3;
           },
       .observer = watch});
  std::vector<std::int64_t> expected{1, 2, 3, 4, 1, 2, 3, 4};
  BOOST_TEST(batches == expected, boost::test_tools::per_element());
  BOOST_TEST(rate_of_last == 8e-3);

  // With a rate of 0 an epoch's loss is the mean over all 31 samples, for any batch size.
  auto whole = evaluate(net, squares(31, 1), by_entropy, 31), cut = evaluate(net, squares(31, 1), by_entropy, 10);
  auto report = fit(net, squares(31, 1), by_entropy, optim::sgd{.lr = 0}, {.batch = 10});
  BOOST_TEST(std::abs(whole.loss - cut.loss) < 1e-6);
  BOOST_TEST(std::abs(whole.loss - report.epochs[0].loss) < 1e-6);
  BOOST_TEST(whole.accuracy == report.epochs[0].accuracy);
  BOOST_TEST(whole.accuracy == cut.accuracy);
}

BOOST_AUTO_TEST_CASE(bits_depend_on_the_seeds_alone) {
  auto trained = [](std::int64_t seed, std::int64_t order, int threads, int fit_threads) {
    regular_model net({.seed = seed, .threads = threads});
    fit(net, squares(70, 1), by_entropy, optim::adam{.lr = 0.01},
        {.epochs = 2, .batch = 33, .seed = order, .threads = fit_threads});
    return net;
  };
  auto first = trained(1, 5, 1, 0);
  BOOST_TEST(same_bits(first.parameters(), trained(1, 5, 1, 0).parameters()));
  for (int threads : {2, 3}) {
    BOOST_TEST(same_bits(first.parameters(), trained(1, 5, threads, 0).parameters()),
               threads << " threads of the model");
    BOOST_TEST(same_bits(first.parameters(), trained(1, 5, 1, threads).parameters()), threads << " threads of fit");
  }
  BOOST_TEST(!same_bits(first.parameters(), trained(2, 5, 1, 0).parameters()));
  BOOST_TEST(!same_bits(first.parameters(), trained(1, 6, 1, 0).parameters()));
}

BOOST_AUTO_TEST_CASE(validation_changes_no_bit) {
  regular_model a({.seed = 1}), b({.seed = 1});
  fit(a, squares(40, 1), by_entropy, optim::adam{}, {.epochs = 3, .batch = 16});
  auto report =
      fit(b, squares(40, 1), by_entropy, optim::adam{}, {.epochs = 3, .batch = 16, .validation = squares(30, 2)});
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
  BOOST_TEST(report.epochs[2].validation_loss.has_value());
  evaluate(b, squares(30, 2), by_entropy, 7);
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
}

BOOST_AUTO_TEST_CASE(an_observer_ends_training_after_its_batch) {
  plain_model net({.seed = 1}), same({.seed = 1});
  int calls = 0;
  auto report = fit(net, squares(40, 1), by_entropy, optim::sgd{},
                    {.epochs = 5,
                     .batch = 10,
                     .observer = observers({[&](const training_progress&) { return ++calls < 6; },
                                            [](const training_progress&) { return true; }})});
  // Four batches, the end of the epoch, one batch.
  BOOST_TEST(calls == 6);
  BOOST_TEST(report.stopped);
  BOOST_TEST(report.epochs.size() == 2u);
  BOOST_TEST(net.parameters().find("optimizer.step")->value().elements<float>()[0] == 5.0f);
  fit(same, squares(40, 1), by_entropy, optim::sgd{},
      {.epochs = 5, .batch = 10, .observer = [&, n = 0](const training_progress& p) mutable {
         return p.epoch_ended || ++n < 5;
       }});
  BOOST_TEST(same_bits(net.parameters(), same.parameters()));
}

BOOST_AUTO_TEST_CASE(frozen_sublayers_stay) {
  model<regular_net, input<"N", 1, 6, 6>, policies<sub<"conv">(trainable(false))>> net({.seed = 1});
  auto before = net;
  fit(net, squares(40, 1), by_entropy, optim::adam{.weight_decay = 0.1}, {.batch = 16});
  for (auto name : {"conv.weight", "conv.bias"}) {
    BOOST_TEST(!net.parameters().find(name)->trainable());
    const auto &now = net.parameters().find(name)->value(), &then = before.parameters().find(name)->value();
    BOOST_TEST(std::memcmp(now.data(), then.data(), now.bytes()) == 0);
  }
  BOOST_TEST(std::memcmp(net.parameters().find("head.bias")->value().data(),
                         before.parameters().find("head.bias")->value().data(), 12) != 0);

  model<plain_net, input<"N", 1, 6, 6>, policies<trainable(false)>> stone;
  auto message = error_of([&] { fit(stone, squares(40, 1), by_entropy, optim::sgd{}); });
  BOOST_TEST(holds(message, "fit: no parameter of the model is trainable"));
}

BOOST_AUTO_TEST_CASE(labels_outside_the_classes) {
  // The data have three classes; here the last label is a fourth, which the model lacks.
  auto data = squares(20, 1);
  lamina::vector<std::int64_t> labels(20);
  labels.writable(17) = 3;
  image_dataset odd(data.bytes(), labels, {"a", "b", "c", "d"});
  regular_model net({.seed = 1});
  fit(net, data, by_entropy, optim::adam{}, {.batch = 20});  // creates all states
  auto before = net;
  auto message = error_of([&] { fit(net, odd, by_entropy, optim::adam{}, {.batch = 20}); });
  BOOST_TEST(message ==
             "value_error: fit: label 3 of image 17 of the training data is outside 0..2; the model has 3 classes");
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  message = error_of([&] { fit(net, data, by_entropy, optim::adam{}, {.batch = 20, .validation = odd}); });
  BOOST_TEST(message ==
             "value_error: fit: label 3 of image 17 of the validation data is outside 0..2; the model has 3 classes");
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  BOOST_TEST(error_of([&] { evaluate(net, odd, by_entropy); }) ==
             "value_error: evaluate: label 3 of image 17 of the data set is outside 0..2; the model has 3 classes");
  // A loss with fewer classes than the model fails at run time.
  auto of_two = [](const value& output, const value& labels) {
    return value(cross_entropy(slice(output, {.stop = 2, .axis = 1}), labels));
  };
  lamina::vector<std::int64_t> thirds(20);
  thirds.writable(17) = 2;
  message = error_of(
      [&] { fit(net, image_dataset(data.bytes(), thirds, {"a", "b", "c"}), of_two, optim::adam{}, {.batch = 20}); });
  BOOST_TEST(message ==
             "value_error: fit: sample 17 of the training data: class 2 is outside 0..1; the loss has 2 classes");
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  // The model can still be trained.
  fit(net, data, by_entropy, optim::adam{}, {.batch = 20});
  BOOST_TEST(!same_bits(net.parameters(), before.parameters()));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_names_the_layer) {
  // The extents of the image are open; planning the first batch finds the mismatch.
  model<regular_net, input<"N", 1, "H", "W">> net({.seed = 1});
  image_dataset large(image_dataset::images_type(4, 1, 8, 8), lamina::vector<std::int64_t>(4), {"a", "b", "c"});
  auto message = error_of([&] { fit(net, large, by_entropy, optim::adam{}, {.batch = 2}); });
  BOOST_TEST(holds(message, "shape_error: sublayer `head` (linear): linear expects"));
  BOOST_TEST(holds(message, "features but is given"));
  // A loss that these outputs do not support.
  auto by_rows = [](const value& output, const value& labels) {
    return value(reduce_mean(pick(reshape(output, {dyn, 1}), labels)));
  };
  message = error_of([&] { fit(net, squares(8, 1), by_rows, optim::adam{}, {.batch = 4}); });
  BOOST_TEST(
      holds(message, "shape_error: loss: pick: the index must have the shape of the operand without its last axis"));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite) {
  plain_model net({.seed = 1});
  auto message =
      error_of([&] { fit(net, squares(40, 1), by_entropy, optim::sgd{.lr = 1e30}, {.epochs = 5, .batch = 10}); });
  // The numbers of infinite and NaN elements depend on the order of sums.
  BOOST_TEST(
      holds(message,
            "value_error: fit: the loss is not finite in epoch 1, batch 2; a smaller learning rate may help (now "
            "1e30); the first non-finite result is from matmul in sublayer `head` (linear), "
            "float32[10x3] with "));
}

BOOST_AUTO_TEST_CASE(numbers_that_are_refused) {
  plain_model net({.seed = 1});
  const auto before = net;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  auto refused = [&](const auto& optimizer, const fit_options& o, const std::string& words) {
    BOOST_TEST(error_of([&] { fit(net, squares(20, 1), by_entropy, optimizer, o); }) == "value_error: " + words);
  };
  auto rates = [](double r, std::int64_t from) {
    return fit_options{
        .batch = 10, .schedule = [=](double base, std::int64_t step, std::int64_t) { return step < from ? base : r; }};
  };
  refused(optim::sgd{.lr = nan}, {}, "fit: `lr` is nan; expected a finite number >= 0");
  refused(optim::adam{.lr = infinite}, {}, "fit: `lr` is inf; expected a finite number >= 0");
  refused(optim::adam{.lr = -1}, {}, "fit: `lr` is -1; expected a finite number >= 0");
  refused(optim::sgd{.lr = 1e39}, {}, "fit: `lr` is 1e39; expected a finite number >= 0 in float32");
  refused(optim::sgd{}, rates(nan, 0), "fit: the schedule's rate for step 0 is nan; expected a finite number >= 0");
  refused(optim::sgd{}, rates(-0.5, 0), "fit: the schedule's rate for step 0 is -0.5; expected a finite number >= 0");
  refused(optim::sgd{}, {.schedule = optim::step{.gamma = -1}}, "step: `gamma` is -1; expected a finite number >= 0");
  refused(optim::sgd{.momentum = nan}, {}, "sgd: `momentum` is nan; expected a finite number >= 0");
  refused(optim::sgd{.weight_decay = infinite}, {}, "sgd: `weight_decay` is inf; expected a finite number >= 0");
  refused(optim::adam{.beta2 = nan}, {}, "adam: `beta2` is nan; expected a finite number >= 0 and < 1");
  refused(optim::adam{.epsilon = nan}, {}, "adam: `epsilon` is nan; expected a finite number >= 0");
  refused(optim::adamw{.beta1 = nan}, {}, "adamw: `beta1` is nan; expected a finite number >= 0 and < 1");
  refused(optim::adamw{.weight_decay = nan}, {}, "adamw: `weight_decay` is nan; expected a finite number >= 0");
  refused(optim::sgd{}, {.resume = true},
          "fit: `resume` is true and `checkpoint` is empty; expected the file to continue from");
  for (std::size_t i = 0; i < before.parameters().size(); ++i)
    BOOST_TEST(std::memcmp(net.parameters()[i].value().data(), before.parameters()[i].value().data(),
                           before.parameters()[i].value().bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(a_schedule_that_goes_wrong_later) {
  plain_model net({.seed = 1});
  const optim::schedule falls = [](double base, std::int64_t step, std::int64_t) {
    return base - 0.01 * static_cast<double>(step);
  };
  BOOST_TEST(error_of([&] {
               fit(net, squares(40, 1), by_entropy, optim::sgd{.lr = 0.015}, {.batch = 10, .schedule = falls});
             }) == "value_error: fit: the schedule's rate for step 2 is -0.005; expected a finite number >= 0");
}

BOOST_AUTO_TEST_CASE(a_last_update_that_ruins_the_parameters) {
  // One batch with a finite loss; no later batch shows the update's effect on the parameters.
  auto check = [](auto net, double rate) {
    auto message = error_of(
        [&] { fit(net, squares(10, 1), by_entropy, optim::sgd{.lr = rate, .weight_decay = 1e10}, {.batch = 10}); });
    BOOST_TEST(holds(message, "value_error: fit: parameter `hidden."));
    BOOST_TEST(holds(message, "is not finite after the last update of epoch 1; a smaller learning rate may help"));
  };
  check(plain_model({.seed = 1}), 1e38);
  check(model<plain_net, input<"N", 1, 6, 6>, policies<element<double>>>({.seed = 1}), 1.7e307);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained) {
  plain_model net({.seed = 1});
  auto before = net;
  auto refused = [&](const image_dataset& data, const fit_options& o) {
    return error_of([&] { fit(net, data, by_entropy, optim::sgd{}, o); });
  };
  BOOST_TEST(holds(refused(empty(), {}), "value_error: fit: the data set is empty"));
  BOOST_TEST(holds(refused(squares(10, 1), {.validation = empty()}),
                   "value_error: fit: the validation data are empty; expected a sample or more, or no `validation`"));
  for (const fit_options& o :
       {fit_options{.epochs = 0}, fit_options{.batch = 0}, fit_options{.epochs = -1}, fit_options{.batch = -64}})
    BOOST_TEST(holds(refused(squares(9, 1), o), "value_error: fit: epochs and batch must be positive"));
  image_dataset large(image_dataset::images_type(2, 1, 8, 8), lamina::vector<std::int64_t>(2), {"a"});
  BOOST_TEST(holds(refused(large, {}),
                   "shape_error: fit: the model takes [Nx1x6x6]; field 0 of the training data gives [Nx1x8x8]"));
  BOOST_TEST(holds(refused(squares(9, 1), {.validation = large}), "shape_error: "));
  BOOST_TEST(holds(error_of([&] { evaluate(net, large, by_entropy); }), "shape_error: "));
  BOOST_TEST(holds(error_of([&] { evaluate(net, squares(9, 1), by_entropy, 0); }),
                   "value_error: evaluate: batch must be positive"));
  BOOST_TEST(evaluate(net, empty(), by_entropy).loss == 0.0);
  for (std::size_t i = 0; i < before.parameters().size(); ++i)
    BOOST_TEST(std::memcmp(net.parameters()[i].value().data(), before.parameters()[i].value().data(),
                           before.parameters()[i].value().bytes()) == 0);
}

// An observer assigns the best net so far: training continues from there, without reading freed memory.
BOOST_AUTO_TEST_CASE(an_observer_assigns_another_net) {
  const auto data = squares(60, 1);
  const plain_model start({.seed = 1});
  for (const bool trained : {false, true}) {
    plain_model net({.seed = 1}), best({.seed = 1});
    int batches = 0;
    const auto report = fit(net, data, by_entropy, optim::adam{},
                            {.epochs = 2, .batch = 30, .validation = data, .observer = [&](const training_progress& p) {
                               if (p.epoch_ended) return true;
                               if (++batches == 1) best = net;
                               if (batches == 2)
                                 net = trained ? best : start;  // with the optimizer's slots, or without
                               return true;
                             }});
    BOOST_TEST(batches == 4);
    BOOST_TEST(report.epochs.size() == 2u);
    // The net at the start of the second epoch.
    plain_model again = trained ? best : start;
    BOOST_TEST(*report.epochs[0].validation_loss == evaluate(again, data, by_entropy).loss);
  }
}

BOOST_AUTO_TEST_CASE(fewer_examples_than_a_batch) {
  plain_model net({.seed = 1});
  auto report = fit(net, squares(1, 1), by_entropy, optim::sgd{}, {.epochs = 2, .batch = 64});
  BOOST_TEST(report.epochs.size() == 2u);
  BOOST_TEST(std::isfinite(report.epochs[1].loss));
}

// The 10000 test images of Fashion-MNIST, if its package is installed.
BOOST_AUTO_TEST_CASE(a_lenet_keeps_its_accuracy_in_bfloat16) {
  const char* const folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(std::string(folder) + "/train-images-idx3-ubyte.gz")) return;
  using trained_model = model<lenet, input<"N", 1, 28, 28>>;
  trained_model net({.seed = 1});
  fit(net, datasets::fashion_mnist(data_split::train, folder), by_entropy, optim::adam{.lr = 2e-3},
      {.epochs = 1, .batch = 64});
  const test_files::folder dir;
  save(net, (dir / "lenet.safetensors"));
  trained_model half({.passes = {.compute = dtype::bfloat16}});
  load(half, (dir / "lenet.safetensors"));
  const auto test = datasets::fashion_mnist(data_split::test, folder);
  const auto whole = evaluate(net, test, by_entropy), rounded = evaluate(half, test, by_entropy);
  BOOST_TEST(whole.accuracy > 0.75);
  BOOST_TEST(std::abs(rounded.accuracy - whole.accuracy) <= 0.003);
  BOOST_TEST(std::abs(rounded.loss - whole.loss) < 1e-2);
  BOOST_TEST(rounded.loss != whole.loss);
}

BOOST_AUTO_TEST_SUITE_END()
