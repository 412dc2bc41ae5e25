// A schedule that observes: resumed training continues with its rates, and replicas use those of rank 0.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <barrier>
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
constexpr std::int64_t epochs = 8;

// Reduces the rate after each epoch whose loss is not below a third of the best; follows a linear warm-up of 10 steps.
void observe_with(fit_options& o, const optim::plateau& p) {
  o.schedule = optim::warm_up{.steps = 10, .then = p, .start = 0.5};
  o.observer = [p, other = o.observer](const training_progress& now) {
    if (now.epoch_ended) p.observe(*now.validation_loss);
    return other(now);
  };
}
optim::plateau falling() { return optim::plateau({.factor = 0.5, .patience = 0, .threshold = 0.7, .cooldown = 1}); }

struct work {
  image_dataset data = squares(60, 1), check = squares(20, 2);
  fit_options options{.epochs = epochs, .batch = 8, .validation = check};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(schedules_that_observe)

BOOST_FIXTURE_TEST_CASE(training_goes_on_as_if_it_had_not_ended, work) {
  const optim::adam optimizer{.lr = 0.01};
  regular_model whole({.seed = 1});
  const optim::plateau at_once = falling();
  observe_with(options, at_once);
  const auto expected = fit(whole, data, by_entropy, optimizer, options);
  BOOST_TEST(at_once.factor() < 0.3);
  const test_files::folder dir;
  // Ended by its number of epochs, at the end of an epoch, and within one; rates have been reduced by then.
  for (const int how : {0, 1, 2}) {
    fit_options o{.epochs = how == 0 ? 5 : epochs, .batch = 8, .validation = check};
    o.checkpoint = dir / ("now" + std::to_string(how));
    if (how > 0)
      o.observer = [how](const training_progress& p) {
        return !(p.epoch == 5 && (how == 1 ? p.epoch_ended : p.batch == 3));
      };
    regular_model net({.seed = 1});
    const optim::plateau before = falling(), after = falling();
    observe_with(o, before);
    fit(net, data, by_entropy, optimizer, o);
    BOOST_TEST(before.factor() < 1);
    o.epochs = epochs, o.resume = true, o.observer = {};
    observe_with(o, after);
    regular_model again({.seed = 7});
    const auto report = fit(again, data, by_entropy, optimizer, o);
    BOOST_TEST(after.factor() == at_once.factor());
    BOOST_TEST(same_bits(again.parameters(), whole.parameters()), "ended in way " << how);
    for (std::size_t e = 0; e < expected.epochs.size(); ++e)
      BOOST_TEST(report.epochs[e].learning_rate == expected.epochs[e].learning_rate);
  }
}

BOOST_FIXTURE_TEST_CASE(replicas_have_the_rates_of_rank_0, work) {
  const optim::adam optimizer{.lr = 0.01};
  options.shards = 4;
  regular_model alone({.seed = 1});
  const optim::plateau at_once = falling();
  fit_options one = options;
  observe_with(one, at_once);
  const auto expected = fit(alone, data, by_entropy, optimizer, one);
  BOOST_TEST(at_once.factor() < 0.3);
  for (const int count : {1, 2, 4}) {
    std::vector<training_report> reports;
    const auto nets = trained_by<regular_model>(optimizer, regular_model({.seed = 1}), count, data, options, nullptr,
                                                &reports, {}, by_entropy, [](fit_options& o, int rank) {
                                                  observe_with(o, falling());
                                                  if (rank != 0) o.observer = {};
                                                });
    for (std::size_t i = 0; i < nets.size(); ++i) {
      BOOST_TEST(same_bits(nets[i].parameters(), alone.parameters()), "rank " << i << " of " << count);
      BOOST_TEST(reports[i].epochs.back().learning_rate == expected.epochs.back().learning_rate);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_rate_of_rank_0_that_is_wrong_ends_all, work) {
  std::string why;
  trained_by<plain_model>(optim::sgd{}, plain_model({.seed = 1}), 2, data, options, &why, nullptr, {}, by_entropy,
                          [](fit_options& o, int rank) {
                            o.schedule = [rank](double base, std::int64_t step, std::int64_t) {
                              return rank == 0 && step == 3 ? -1 : base;
                            };
                          });
  BOOST_TEST(why == "fit: the schedule's rate for step 3 is -1; expected a finite number >= 0");
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_is_written_where_the_observer_fails, work) {
  const test_files::folder dir;
  plain_model net({.seed = 1});
  options.checkpoint = dir / "now";
  options.observer = [](const training_progress& p) {
    if (p.epoch_ended && p.epoch == 2) throw std::runtime_error("enough");
    return true;
  };
  BOOST_CHECK_THROW(fit(net, data, by_entropy, optim::sgd{}, options), std::runtime_error);
  plain_model again({.seed = 2});
  fit(again, data, by_entropy, optim::sgd{}, {.epochs = 1, .batch = 8});
  BOOST_TEST(load_checkpoint(again.parameters(), options.checkpoint).epoch == 2);
}

BOOST_AUTO_TEST_SUITE_END()
