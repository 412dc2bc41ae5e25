// Observers that compare epochs: early stopping, best weights, checkpoints; and the events they receive.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

const loss::cross_entropy by_entropy;

// The number of epochs until an observer ends training, for these validation losses.
std::size_t epochs_with(const observer& o, const std::vector<double>& losses, std::vector<epoch_report> before = {}) {
  plain_model net({.seed = 1});
  const auto earlier = static_cast<std::int64_t>(before.size());
  o.began({.net = net.core(),
           .epochs = 100,
           .batches = 1,
           .whole_epochs = earlier,
           .before = std::move(before),
           .validates = true,
           .has_accuracy = true});
  for (std::size_t i = 0; i < losses.size(); ++i) {
    training_progress p;
    p.epoch = earlier + static_cast<std::int64_t>(i) + 1;
    BOOST_TEST(o(p));  // after a batch
    p.epoch_ended = true;
    p.validation_loss = losses[i];
    p.validation_accuracy = 1 - losses[i];
    p.loss = losses[i];
    if (!o(p)) return i + 1;
  }
  return 0;
}

// A rate that trains well for some batches and ruins the net afterwards.
struct ruinous {
  std::int64_t good;  // batches
  double operator()(double base, std::int64_t step, std::int64_t) const { return step < good ? base : 300 * base; }
};
constexpr std::int64_t batches = 5;
image_dataset data() { return squares(36, 1); }

// Compares the parameters and running statistics, which inference uses.
bool same_served(const parameter_store& a, const parameter_store& b) {
  for (const auto& p : a)
    if ((p.role() == state_role::parameter || p.role() == state_role::statistic) &&
        std::memcmp(p.value().data(), b.find(p.name())->value().data(), p.value().bytes()) != 0)
      return false;
  return true;
}

// A copy of the net at the end of each epoch.
struct recorded {
  std::shared_ptr<std::vector<regular_model>> nets = std::make_shared<std::vector<regular_model>>();
  const regular_model* net = nullptr;
  bool operator()(const training_progress& p) const {
    if (p.epoch_ended) nets->push_back(*net);
    return true;
  }
};
std::size_t best_of(const training_report& r) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < r.epochs.size(); ++i)
    if (*r.epochs[i].validation_loss < *r.epochs[best].validation_loss) best = i;
  return best;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(observing)

BOOST_AUTO_TEST_CASE(early_stopping_counts_epochs_without_a_gain) {
  const std::vector<double> falls{5, 4, 3, 2, 1}, flat{5, 4, 4, 4, 4, 4}, waves{5, 6, 4, 5, 3.9, 4, 4.1, 3.95, 1};
  BOOST_TEST(epochs_with(stop_early{.patience = 1}, falls) == 0u);
  BOOST_TEST(epochs_with(stop_early{.patience = 1}, flat) == 3u);
  BOOST_TEST(epochs_with(stop_early{.patience = 3}, flat) == 5u);
  BOOST_TEST(epochs_with(stop_early{.patience = 1}, waves) == 2u);
  BOOST_TEST(epochs_with(stop_early{.patience = 2}, waves) == 7u);
  BOOST_TEST(epochs_with(stop_early{.patience = 3}, waves) == 8u);
  // 3.9 does not improve on 4 by enough, so 4 stays the best.
  BOOST_TEST(epochs_with(stop_early{.patience = 2, .min_delta = 0.5}, waves) == 5u);
  BOOST_TEST(epochs_with(stop_early{.patience = 2, .from_epoch = 3}, flat) == 5u);
  BOOST_TEST(epochs_with(stop_early{.patience = 1, .of = monitored::validation_accuracy}, flat) == 3u);
  BOOST_TEST(epochs_with(stop_early{.patience = 1, .of = monitored::validation_accuracy}, falls) == 0u);
  BOOST_TEST(epochs_with(stop_early{.patience = 1, .of = monitored::loss}, flat) == 3u);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(epochs_with(stop_early{.patience = 2}, {nan, 5, nan, 4, nan, nan}) == 6u);
  BOOST_TEST(epochs_with(stop_early{.patience = 2}, {nan, nan}) == 2u);
  // The same observer starts over with each training.
  const observer again = stop_early{.patience = 2};
  BOOST_TEST(epochs_with(again, flat) == 4u);
  BOOST_TEST(epochs_with(again, flat) == 4u);
}

BOOST_AUTO_TEST_CASE(early_stopping_counts_epochs_before_a_checkpoint) {
  std::vector<epoch_report> before(3);
  const double losses[] = {2, 1, 3};
  for (std::size_t i = 0; i < 3; ++i)
    before[i].epoch = static_cast<std::int64_t>(i) + 1, before[i].validation_loss = losses[i];
  BOOST_TEST(epochs_with(stop_early{.patience = 3}, {2, 2, 0.5}, before) == 2u);
  BOOST_TEST(epochs_with(stop_early{.patience = 3}, {2, 0.5, 2, 2}, before) == 0u);
}

BOOST_AUTO_TEST_CASE(fit_stops_early) {
  plain_model net({.seed = 1});
  const auto report =
      fit(net, data(), by_entropy, optim::sgd{.lr = 0},
          {.epochs = 50, .batch = 8, .validation = squares(9, 2), .observer = stop_early{.patience = 4}});
  BOOST_TEST(report.stopped);
  BOOST_TEST(report.epochs.size() == 5u);  // the first one is the best
  BOOST_TEST(report.best_epoch == 0);
}

BOOST_AUTO_TEST_CASE(a_training_that_was_stopped_early_is_done) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  std::int64_t trained = 0;
  const auto options = [&](std::int64_t patience) {
    const observer count = [&](const training_progress& p) {
      trained += !p.epoch_ended;
      return true;
    };
    return fit_options{.epochs = 9,
                       .batch = 8,
                       .validation = squares(9, 2),
                       .observer = observers({count, stop_early{.patience = patience}}),
                       .checkpoint = dir / "now",
                       .resume = true};
  };
  const auto first = fit(net, data(), by_entropy, optim::sgd{.lr = 0}, options(2));
  BOOST_TEST(first.epochs.size() == 3u);
  plain_model again({.seed = 2});
  fit(again, data(), by_entropy, optim::sgd{.lr = 0}, {.batch = 8});  // creates the slots
  const auto position = load_checkpoint(again.parameters(), dir / "now");
  BOOST_TEST(position.ended);
  BOOST_TEST(position.epoch == 3);
  for (int i = 0; i < 2; ++i) {
    trained = 0;
    plain_model other({.seed = 3});
    const auto report = fit(other, data(), by_entropy, optim::sgd{.lr = 0.1}, options(2));
    BOOST_TEST(trained == 0);
    BOOST_TEST(report.stopped);
    BOOST_TEST(report.epochs.size() == 3u);
    BOOST_TEST(*report.epochs[2].validation_loss == *first.epochs[2].validation_loss);
    BOOST_TEST(same_served(other.parameters(), net.parameters()));
  }
  // With more patience training continues: the fifth epoch is the fourth one without improvement.
  const auto more = fit(net, data(), by_entropy, optim::sgd{.lr = 0}, options(4));
  BOOST_TEST(trained == 2 * batches);
  BOOST_TEST(more.epochs.size() == 5u);
  // Training that ends with its last epoch was not ended by an observer.
  fit(net, data(), by_entropy, optim::sgd{.lr = 0}, {.epochs = 1, .batch = 8, .checkpoint = dir / "whole"});
  BOOST_TEST(!load_checkpoint(again.parameters(), dir / "whole").ended);
}

BOOST_AUTO_TEST_CASE(the_best_epoch_goes_on_from_the_checkpoint) {
  test_files::folder dir;
  const auto options = [&](observer with, bool checkpoint) {
    fit_options o{.epochs = 7, .batch = 8, .schedule = ruinous{2 * batches}, .validation = squares(9, 2)};
    o.observer = std::move(with);
    if (checkpoint) o.checkpoint = dir / "now", o.resume = true;
    return o;
  };
  regular_model whole({.seed = 1});
  const auto all = fit(whole, data(), by_entropy, optim::sgd{.lr = 0.05}, options(keep_best{}, false));
  BOOST_TEST(all.best_epoch > 0);
  BOOST_TEST(all.best_epoch <= 3);
  // Stopped at the end of an epoch, and within one.
  for (const bool within : {false, true}) {
    std::filesystem::remove(dir / "now");
    const observer ends = [=](const training_progress& p) {
      return p.epoch < 4 || (within ? p.batch < 3 : !p.epoch_ended);
    };
    regular_model first({.seed = 1}), second({.seed = 1}), third({.seed = 1});
    BOOST_TEST(
        fit(first, data(), by_entropy, optim::sgd{.lr = 0.05}, options(observers({keep_best{}, ends}), true)).stopped);
    const std::string before = test_files::read_raw(dir / "now");
    const auto report = fit(second, data(), by_entropy, optim::sgd{.lr = 0.05}, options(keep_best{}, true));
    BOOST_TEST(report.best_epoch == all.best_epoch);
    BOOST_TEST(same_served(second.parameters(), whole.parameters()));
    // The best epoch by another number is chosen among those of this call.
    test_files::write_raw(dir / "now", before);
    const auto other =
        fit(third, data(), by_entropy, optim::sgd{.lr = 0.05}, options(keep_best{.of = monitored::loss}, true));
    BOOST_TEST(other.best_epoch >= 4);
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_a_training_lacks_are_refused) {
  plain_model net({.seed = 1});
  const auto message = [&](observer o) {
    return error_of([&] { fit(net, data(), by_entropy, optim::sgd{}, {.batch = 8, .observer = std::move(o)}); });
  };
  BOOST_TEST(message(stop_early{}) ==
             "value_error: stop_early: `of` is the validation loss, but `fit` has no validation data");
  BOOST_TEST(message(observers({progress_bar(), keep_best{.of = monitored::validation_accuracy}})) ==
             "value_error: keep_best: `of` is the validation accuracy, but `fit` has no validation data");
  BOOST_TEST(message(stop_early{.patience = 0, .of = monitored::loss}) ==
             "value_error: stop_early: `patience` is 0; expected 1 or more");
  BOOST_TEST(message(stop_early{.min_delta = -1, .of = monitored::loss}) ==
             "value_error: stop_early: `min_delta` is -1; expected a finite number >= 0");
  test_files::folder dir;
  BOOST_TEST(holds(message(keep_checkpoints{.folder = dir / "a", .last = 0}), "there is nothing to write"));
  BOOST_TEST(holds(message(keep_checkpoints{.folder = dir / "a", .every = 0}), "`every` 0"));
  BOOST_TEST(dir.count() == 0);
  // A net without classes has no accuracy.
  struct numbers {
    std::int64_t size() const { return 8; }
    std::pair<std::vector<float>, std::vector<float>> operator[](std::int64_t i) const {
      return {std::vector<float>(36, float(i)), std::vector<float>(3, 1.0f)};
    }
  };
  static constexpr auto line = sequential(nn::linear{.in_features = 36, .out_features = 3});
  model<line, input<"N", 36>> other({.seed = 1});
  BOOST_TEST(holds(error_of([&] {
                     fit(other, numbers{}, loss::mse{}, optim::sgd{},
                         {.observer = keep_best{.of = monitored::accuracy}});
                   }),
                   "`of` is the accuracy, but this training has none"));
}

BOOST_AUTO_TEST_CASE(the_best_weights_are_put_back) {
  regular_model net({.seed = 1});
  recorded seen{.net = &net};
  test_files::folder dir;
  const auto report = fit(net, data(), by_entropy, optim::sgd{.lr = 0.1, .momentum = 0.5},
                          {.epochs = 6,
                           .batch = 8,
                           .schedule = ruinous{3 * batches},
                           .validation = squares(30, 2),
                           .observer = observers({seen, keep_best{.path = dir / "best"}})});
  const std::size_t best = best_of(report);
  BOOST_REQUIRE(seen.nets->size() == 6u);
  BOOST_TEST(best < 5u);
  BOOST_TEST(report.best_epoch == static_cast<std::int64_t>(best) + 1);
  BOOST_TEST(same_served(net.parameters(), (*seen.nets)[best].parameters()));
  BOOST_TEST(!same_served(net.parameters(), seen.nets->back().parameters()));
  // The optimizer's slots stay those of the last step.
  const auto slot = [](const regular_model& of) -> const parameter& { return *of.parameters().find("optimizer.step"); };
  BOOST_TEST(slot(net).value().elements<float>()[0] == 30.0f);
  BOOST_TEST(std::abs(evaluate(net, squares(30, 2), by_entropy).loss - *report.epochs[best].validation_loss) < 1e-6);
  // The file is loadable as a model.
  regular_model served({.seed = 5});
  load(served, dir / "best");
  BOOST_TEST(same_served(served.parameters(), net.parameters()));
}

BOOST_AUTO_TEST_CASE(the_best_weights_are_those_of_the_last_epoch_where_all_were_gains) {
  regular_model net({.seed = 1});
  recorded seen{.net = &net};
  const auto report = fit(net, data(), by_entropy, optim::sgd{.lr = 0.02},
                          {.epochs = 3, .batch = 8, .observer = observers({keep_best{.of = monitored::loss}, seen})});
  BOOST_TEST(report.best_epoch == 3);
  BOOST_TEST(same_bits(net.parameters(), seen.nets->back().parameters()));
}

// An epoch that another observer ends early does not count.
BOOST_AUTO_TEST_CASE(the_best_weights_come_back_from_within_an_epoch) {
  regular_model net({.seed = 1});
  recorded seen{.net = &net};
  const auto report =
      fit(net, data(), by_entropy, optim::sgd{.lr = 0.02},
          {.epochs = 9,
           .batch = 8,
           .observer = observers({keep_best{.of = monitored::loss}, seen,
                                  [](const training_progress& p) { return p.epoch < 3 || p.batch < 2; }})});
  BOOST_TEST(report.stopped);
  BOOST_TEST(report.epochs.size() == 3u);
  BOOST_TEST(report.best_epoch == 2);
  BOOST_TEST(same_served(net.parameters(), seen.nets->back().parameters()));
}

BOOST_AUTO_TEST_CASE(the_best_weights_outlive_the_process) {
  test_files::folder dir;
  regular_model first({.seed = 1});
  recorded seen{.net = &first};
  fit_options o{.epochs = 6,
                .batch = 8,
                .schedule = ruinous{2 * batches},
                .validation = squares(30, 2),
                .observer = observers({keep_best{.path = dir / "best"}, seen,
                                       [](const training_progress& p) { return !(p.epoch_ended && p.epoch == 3); }}),
                .checkpoint = dir / "now",
                .resume = true};
  const auto cut = fit(first, data(), by_entropy, optim::sgd{.lr = 0.1}, o);
  const std::size_t best = best_of(cut);
  BOOST_REQUIRE(best < 2u);
  regular_model second({.seed = 8});
  o.observer = keep_best{.path = dir / "best"};
  const auto report = fit(second, data(), by_entropy, optim::sgd{.lr = 0.1}, o);
  BOOST_TEST(report.epochs.size() == 6u);
  BOOST_REQUIRE(best_of(report) == best);
  BOOST_TEST(report.best_epoch == static_cast<std::int64_t>(best) + 1);
  BOOST_TEST(same_served(second.parameters(), (*seen.nets)[best].parameters()));
  // Without the file, only epochs of this call count.
  regular_model third({.seed = 8});
  o.observer = keep_best{};
  o.epochs = 7;
  BOOST_TEST(fit(third, data(), by_entropy, optim::sgd{.lr = 0.1}, o).best_epoch == 7);
}

BOOST_AUTO_TEST_CASE(checkpoints_of_the_last_and_the_best_epochs) {
  test_files::folder dir;
  test_files::write_raw(dir / "epoch-0099.safetensors", "of another training");
  const auto in = [&](std::string_view name) { return std::filesystem::exists(dir / name); };
  regular_model net({.seed = 1}), whole({.seed = 1});
  const fit_options plain{
      .epochs = 6, .batch = 8, .schedule = ruinous{3 * batches}, .validation = squares(30, 2), .seed = 3};
  auto with = plain;
  with.observer = keep_checkpoints{.folder = dir / "", .last = 2, .best = true};
  const auto all = fit(whole, data(), by_entropy, optim::adam{.lr = 0.01}, plain);
  const auto report = fit(net, data(), by_entropy, optim::adam{.lr = 0.01}, with);
  BOOST_TEST(same_bits(net.parameters(), whole.parameters()));
  BOOST_TEST(in("epoch-0006.safetensors"));
  BOOST_TEST(in("epoch-0005.safetensors"));
  BOOST_TEST(in("epoch-0099.safetensors"));
  BOOST_TEST(in("best.safetensors"));
  BOOST_TEST(dir.count() == 4);
  const auto epoch_of = [&](const std::string& path) {
    return std::stoll(read_safetensors(path).metadata.at("epoch"));
  };
  BOOST_TEST(epoch_of(dir / "epoch-0005.safetensors") == 5);
  BOOST_TEST(epoch_of(dir / "best.safetensors") == static_cast<std::int64_t>(best_of(report)) + 1);
  // Training resumes from either file, to the same bits.
  for (const char* name : {"epoch-0005.safetensors", "best.safetensors"}) {
    regular_model next({.seed = 7});
    auto o = plain;
    o.checkpoint = dir / "copy";
    o.resume = true;
    std::filesystem::copy_file(dir / name, o.checkpoint, std::filesystem::copy_options::overwrite_existing);
    fit(next, data(), by_entropy, optim::adam{.lr = 0.01}, o);
    BOOST_TEST(same_bits(next.parameters(), whole.parameters()), name);
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_of_every_other_epoch_go_on_with_those_before) {
  test_files::folder dir;
  const auto names = [&] {
    std::string all;
    for (int e = 1; e <= 9; ++e)
      if (std::filesystem::exists(dir / ("epochs/epoch-000" + std::to_string(e) + ".safetensors")))
        all += std::to_string(e);
    return all;
  };
  plain_model net({.seed = 1});
  fit_options o{.epochs = 5,
                .batch = 8,
                .observer = keep_checkpoints{.folder = dir / "epochs", .last = 2, .every = 2},
                .checkpoint = dir / "now",
                .resume = true};
  fit(net, data(), by_entropy, optim::sgd{}, o);
  BOOST_TEST(names() == "24");
  o.epochs = 7;
  o.observer = keep_checkpoints{.folder = dir / "epochs", .last = 2, .every = 2};
  fit(net, data(), by_entropy, optim::sgd{}, o);
  BOOST_TEST(names() == "46");
}

BOOST_AUTO_TEST_CASE(an_old_checkpoint_stays_where_a_new_one_cannot_be_written) {
  test_files::folder dir;
  std::filesystem::create_directories(dir / "epoch-0003.safetensors");  // a folder with the checkpoint's name
  plain_model net({.seed = 1});
  const auto message = error_of([&] {
    fit(net, data(), by_entropy, optim::sgd{},
        {.epochs = 5, .batch = 8, .observer = keep_checkpoints{.folder = dir / "", .last = 1}});
  });
  BOOST_TEST(holds(message, "file_error: "));
  BOOST_TEST(holds(message, "epoch-0003.safetensors"));
  BOOST_TEST(std::filesystem::is_regular_file(dir / "epoch-0002.safetensors"));
  BOOST_TEST(dir.count() == 2);
  test_files::write_raw(dir / "file", "");
  BOOST_TEST(holds(error_of([&] {
                     fit(net, data(), by_entropy, optim::sgd{},
                         {.observer = keep_checkpoints{.folder = dir / "file/in"}});
                   }),
                   "file_error: " + (dir / "file/in") + ": cannot be created: "));
}

BOOST_AUTO_TEST_CASE(observers_are_told_of_begin_and_end) {
  struct watcher {
    std::string* log;
    std::function<void(const std::string&)> write{};
    void began(const training_start& s) {
      *log += "began " + std::to_string(s.whole_epochs) + "+" + std::to_string(s.batches_done) + " of " +
              std::to_string(s.epochs) + "x" + std::to_string(s.batches) + ", " + std::to_string(s.before.size()) +
              " before\n";
      write = s.write_checkpoint;
    }
    bool operator()(const training_progress& p) {
      if (p.epoch_ended) *log += "epoch " + std::to_string(p.epoch) + "\n";
      else if (p.batch == 1) *log += error_of([&] { write("nowhere"); }) + "\n";
      return p.epoch_ended || p.epoch < 2 || p.batch < 3;
    }
    void ended(training_report& r) { *log += "ended after " + std::to_string(r.epochs.size()) + "\n"; }
  };
  test_files::folder dir;
  plain_model net({.seed = 1});
  std::string log;
  fit_options o{
      .epochs = 3, .batch = 8, .observer = observers({watcher{&log}}), .checkpoint = dir / "now", .resume = true};
  fit(net, data(), by_entropy, optim::sgd{}, o);
  const std::string refused = "error: write_checkpoint: call it from an observer at the end of an epoch\n";
  BOOST_TEST(log == "began 0+0 of 3x5, 0 before\n" + refused + "epoch 1\n" + refused + "ended after 2\n");
  log.clear();
  fit(net, data(), by_entropy, optim::sgd{}, o);
  BOOST_TEST(log == "began 1+3 of 3x5, 1 before\nended after 2\n");
}

BOOST_AUTO_TEST_CASE(the_loss_of_a_batch_is_told) {
  plain_model net({.seed = 1});
  double sum = 0, mean = 0;
  fit(net, data(), by_entropy, optim::sgd{.lr = 0.1}, {.batch = 8, .observer = [&](const training_progress& p) {
                                                         if (!p.epoch_ended)
                                                           sum += p.batch_loss * (p.batch == p.batches ? 4 : 8),
                                                               mean = p.loss;
                                                         return true;
                                                       }});
  BOOST_TEST(std::abs(sum / 36 - mean) < 1e-12);
}

BOOST_AUTO_TEST_SUITE_END()
