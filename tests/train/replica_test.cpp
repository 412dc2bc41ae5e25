// Batches in shards, and threads that train one model together: the bits of one process for any number of threads.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace nets_test;
using namespace replicas_test;

namespace {

const loss::cross_entropy by_entropy;

template <class Model> std::vector<Model> trained(const Model& net, int count, const image_dataset& data,
                                                  const fit_options& options, std::string* why = nullptr,
                                                  std::vector<training_report>* reports = nullptr) {
  return trained_by(optim::adam{.lr = 0.01}, net, count, data, options, why, reports);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training_in_shards)

BOOST_AUTO_TEST_CASE(shards_have_the_gradient_of_the_batch) {
  const auto data = squares(90, 1);
  const auto loss_after = [&](std::int64_t shards, std::int64_t batch) {
    model<plain_net, input<"N", 1, 6, 6>, policies<element<double>>> net({.seed = 1});
    const auto report = fit(net, data, by_entropy, optim::sgd{.lr = 0.1, .momentum = 0.9},
                            {.epochs = 3, .batch = batch, .shards = shards});
    return std::pair(report.epochs.back().loss, report.epochs.back().accuracy);
  };
  for (const std::int64_t batch : {16, 90, 3}) {
    const auto [loss, accuracy] = loss_after(1, batch);
    for (const std::int64_t shards : {2, 4, 8, 32}) {
      const auto found = loss_after(shards, batch);
      BOOST_TEST(std::abs(found.first - loss) < 1e-10);
      BOOST_TEST(found.second == accuracy);
    }
  }
}

BOOST_AUTO_TEST_CASE(any_number_of_replicas_has_the_same_bits) {
  const auto data = squares(101, 1), test = squares(60, 2);
  const auto check = [&](const auto& net, std::int64_t accumulate = 1) {
    fit_options options{.epochs = 3, .batch = 16, .schedule = optim::one_cycle{}, .validation = test, .shards = 8};
    options.accumulate = accumulate;
    auto alone = net;
    const auto report = fit(alone, data, by_entropy, optim::adam{.lr = 0.01}, options);
    for (const int count : {1, 2, 4, 8}) {
      std::vector<training_report> reports;
      options.shards = 0;
      const auto nets = trained(net, count, data, options, nullptr, &reports);
      for (std::size_t i = 0; i < nets.size(); ++i) {
        BOOST_TEST(same_bits(nets[i].parameters(), alone.parameters()));
        for (std::size_t e = 0; e < report.epochs.size(); ++e) {
          BOOST_TEST(reports[i].epochs[e].loss == report.epochs[e].loss);
          BOOST_TEST(reports[i].epochs[e].accuracy == report.epochs[e].accuracy);
          BOOST_TEST(*reports[i].epochs[e].validation_loss == *report.epochs[e].validation_loss);
        }
      }
    }
  };
  check(plain_model({.seed = 1}));
  check(regular_model({.seed = 1}), 3);
  check(regular_model({.seed = 1}));  // random numbers, and batch statistics
  check(model<regular_net, input<"N", 1, 6, 6>, policies<element<double>>>({.seed = 3}));
}

BOOST_AUTO_TEST_CASE(gradients_are_exchanged_in_parts) {
  const auto data = squares(32, 1);
  regular_model alone({.seed = 1});
  fit(alone, data, by_entropy, optim::adam{.lr = 0.01}, {.batch = 16, .shards = 4});
  // Running statistics, then the gradients of the last layer: its bias, 3 numbers, and its weight, 192.
  const auto sums_with = [&](std::int64_t bytes) {
    meeting one(1);
    const auto self = std::make_shared<thread_replicas>(one, 0);
    regular_model net({.seed = 1});
    fit(net, data, by_entropy, optim::adam{.lr = 0.01},
        {.batch = 16, .shards = 4, .replicas = self, .bucket_bytes = bytes});
    BOOST_TEST(same_bits(net.parameters(), alone.parameters()));
    return self->begun() / 2;  // per step
  };
  BOOST_TEST(sums_with(0) == 2);  // the gradients; the loss with the hits
  BOOST_TEST(sums_with(1) == 9);  // six parameters and two statistics
  BOOST_TEST(sums_with(1 << 20) == 2);
  BOOST_TEST(sums_with(700) > 2);
  BOOST_TEST(sums_with(700) < 9);
  for (const int count : {1, 2, 4})
    for (const std::int64_t bytes : {1, 700})
      for (const auto& n :
           trained(regular_model({.seed = 1}), count, data, {.batch = 16, .shards = 4, .bucket_bytes = bytes}))
        BOOST_TEST(same_bits(n.parameters(), alone.parameters()));
  // Fewer samples than shards: the last shard of a process is empty.
  const auto few = squares(19, 1);
  regular_model whole({.seed = 1});
  fit(whole, few, by_entropy, optim::adam{.lr = 0.01}, {.batch = 16, .shards = 16});
  for (const auto& n : trained(regular_model({.seed = 1}), 4, few, {.batch = 16, .shards = 16, .bucket_bytes = 1}))
    BOOST_TEST(same_bits(n.parameters(), whole.parameters()));
}

BOOST_AUTO_TEST_CASE(training_goes_on_with_another_number_of_replicas) {
  const auto data = squares(70, 1);
  const std::string path = (std::filesystem::temp_directory_path() / "lamina-replica-checkpoint").string();
  std::filesystem::remove(path);
  regular_model whole({.seed = 1});
  fit_options options{.epochs = 4, .batch = 16, .shards = 8};
  fit(whole, data, by_entropy, optim::adam{.lr = 0.01}, options);
  options.checkpoint = path;
  options.resume = true;
  int batches = 0;
  options.observer = [&](const training_progress&) { return ++batches != 7; };
  trained(regular_model({.seed = 1}), 4, data, options);
  BOOST_TEST(batches == 7);
  options.observer = {};
  const auto nets = trained(regular_model({.seed = 9}), 2, data, options);
  for (const auto& n : nets) BOOST_TEST(same_bits(n.parameters(), whole.parameters()));
  // Another number of shards is another training.
  regular_model other({.seed = 1});
  options.shards = 4;
  BOOST_CHECK_EXCEPTION(fit(other, data, by_entropy, optim::adam{.lr = 0.01}, options), value_error,
                        [](const value_error& e) {
                          return std::string(e.what()).find(
                                     "written with 8 shards per batch; this training "
                                     "has 4") != std::string::npos;
                        });
  std::filesystem::remove(path);
}

// Only rank 0 has an observer; all replicas receive the weights that it restores.
BOOST_AUTO_TEST_CASE(the_best_weights_reach_all_replicas) {
  const auto data = squares(70, 1);
  const auto ruinous = [](double base, std::int64_t step, std::int64_t) { return step < 10 ? base : 300 * base; };
  fit_options options{
      .epochs = 4, .batch = 16, .schedule = ruinous, .observer = keep_best{.of = monitored::loss}, .shards = 8};
  regular_model whole({.seed = 1});
  const auto report = fit(whole, data, by_entropy, optim::adam{.lr = 0.01}, options);
  BOOST_TEST(report.best_epoch > 0);
  BOOST_TEST(report.best_epoch < 4);
  for (const auto& n : trained(regular_model({.seed = 1}), 2, data, options))
    BOOST_TEST(same_bits(n.parameters(), whole.parameters()));
}

BOOST_AUTO_TEST_CASE(what_fails_on_one_ends_all) {
  const auto data = squares(70, 1);
  std::string why;
  fit_options options{.epochs = 2, .batch = 16};
  options.observer = [](const training_progress& p) -> bool {
    if (p.batch == 3) throw std::runtime_error("the disk is full");
    return true;
  };
  trained(plain_model({.seed = 1}), 4, data, options, &why);
  BOOST_TEST(why == "the disk is full");
}

BOOST_AUTO_TEST_CASE(numbers_that_do_not_fit_are_refused) {
  const auto data = squares(20, 1);
  plain_model net({.seed = 1});
  const auto message = [&](const fit_options& o) -> std::string {
    try {
      fit(net, data, by_entropy, optim::sgd{}, o);
    } catch (const value_error& e) { return e.what(); }
    return {};
  };
  BOOST_TEST(message({.shards = 3}) == "fit: `shards` is 3; expected a power of two up to 4096");
  BOOST_TEST(message({.shards = -1}) == "fit: `shards` is -1; expected a power of two up to 4096");
  BOOST_TEST(message({.bucket_bytes = -1}) == "fit: `bucket_bytes` is -1; expected 0 or more");
  meeting three(3), four(4);
  BOOST_TEST(message({.replicas = std::make_shared<thread_replicas>(three, 0)}) ==
             "fit: 3 replicas cannot share 8 shards; expected a power of two, up to the number of shards");
  BOOST_TEST(message({.shards = 2, .replicas = std::make_shared<thread_replicas>(four, 0)}) ==
             "fit: 4 replicas cannot share 2 shards; expected a power of two, up to the number of shards");
}

BOOST_AUTO_TEST_SUITE_END()
