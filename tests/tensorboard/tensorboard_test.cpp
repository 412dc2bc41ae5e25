// Event files: their bytes, and the events of a training.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "events.h"
#include "files.h"

import lamina;
import lamina.tensorboard;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

const loss::cross_entropy by_entropy;
constexpr std::int64_t batches = 5;
image_dataset data() { return squares(36, 1); }

// The files of a folder, sorted by name.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& f : std::filesystem::directory_iterator(folder)) all.push_back(f.path().string());
  std::sort(all.begin(), all.end());
  return all;
}
events::contents only_file(const std::string& folder) {
  const auto all = files_of(folder);
  BOOST_REQUIRE(all.size() == 1u);
  return events::read(test_files::read_raw(all[0]));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(event_files)

BOOST_AUTO_TEST_CASE(checksums_are_those_of_the_standard) {
  BOOST_TEST(events::crc32c("123456789") == 0xe3069283u);  // RFC 3720, B.4 has more
  BOOST_TEST(events::crc32c(std::string(32, '\0')) == 0x8a9136aau);
}

BOOST_AUTO_TEST_CASE(numbers_and_histograms_are_read_back) {
  test_files::folder dir;
  event_file f(dir / "a/b");
  BOOST_TEST(std::filesystem::path(f.path()).filename().string().starts_with("events.out.tfevents."));
  f.scalar("loss", 0.1, 1);
  f.scalar("loss", -2e10, std::int64_t(1) << 40);
  f.scalar("größe", std::numeric_limits<double>::infinity(), 0);
  const std::vector<float> numbers{-1, 0, 0.5f, 1, 3, std::numeric_limits<float>::quiet_NaN()};
  f.histogram("h", histogram_of(numbers, 4), 7);
  const auto c = events::read(test_files::read_raw(f.path()));  // while the file is open
  BOOST_TEST(c.scalars.at("loss").at(1) == 0.1f);
  BOOST_TEST(c.scalars.at("loss").at(std::int64_t(1) << 40) == -2e10f);
  BOOST_TEST(std::isinf(c.scalars.at("größe").at(0)));
  BOOST_TEST(c.starts_at == 0);
  BOOST_TEST(c.first_time > 1.6e9);
  const auto& h = c.histograms.at("h").at(7);
  BOOST_TEST(h.min == -1);
  BOOST_TEST(h.max == 3);
  BOOST_TEST(h.count == 5);
  BOOST_TEST(h.sum == 3.5);
  BOOST_TEST(h.squares == 11.25);
  BOOST_TEST(h.limits == (std::vector<double>{0, 1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(h.counts == (std::vector<double>{2, 2, 0, 1}), boost::test_tools::per_element());
  // A second file in the folder gets another name.
  event_file other(dir / "a/b", 12);
  BOOST_TEST(other.path() != f.path());
  BOOST_TEST(events::read(test_files::read_raw(other.path())).starts_at == 12);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_told) {
  test_files::folder dir;
  test_files::write_raw(dir / "file", "");
  BOOST_TEST(holds(error_of([&] { event_file f(dir / "file/in"); }),
                   "file_error: " + (dir / "file/in") + ": cannot be created: "));
  event_file f(dir / "a");
  BOOST_TEST(holds(error_of([&] { f.scalar("", 1, 1); }), "value_error: event_file: the tag is empty"));
  BOOST_TEST(holds(error_of([&] { f.scalar("a\xff", 1, 1); }), "value_error: event_file: the tag `a"));
  BOOST_TEST(
      holds(error_of([&] { f.histogram("h", {}, 1); }), "value_error: event_file: the histogram `h` has no numbers"));
  BOOST_TEST(events::read(test_files::read_raw(f.path())).scalars.empty());
  plain_model net({.seed = 1});
  const auto message = [&](observer o) {
    return error_of([&] { fit(net, data(), by_entropy, optim::sgd{}, {.batch = 8, .observer = std::move(o)}); });
  };
  BOOST_TEST(holds(message(tensorboard(dir / "file")), "file_error: "));
  BOOST_TEST(
      holds(message(tensorboard(dir / "b", {.every_batches = -1})), "value_error: tensorboard: `every_batches` is -1"));
  BOOST_TEST(holds(message(tensorboard(dir / "b", {.every_epochs = 0})), "and `every_epochs` 0"));
  BOOST_TEST(holds(message(tensorboard(dir / "b", {.ranges = 0})), "`ranges` is 0"));
}

BOOST_AUTO_TEST_CASE(a_training_is_written) {
  test_files::folder dir;
  regular_model net({.seed = 1}), plain({.seed = 1});
  std::map<std::int64_t, double> losses;
  const fit_options o{.epochs = 3, .batch = 8, .schedule = optim::cosine{}, .validation = squares(9, 2)};
  auto with = o;
  with.observer =
      observers({tensorboard(dir / "run",
                             {.every_batches = 2, .every_epochs = 2, .weights = true, .gradients = true, .ranges = 10}),
                 [&](const training_progress& p) {
                   if (!p.epoch_ended) losses[(p.epoch - 1) * batches + p.batch] = p.batch_loss;
                   return true;
                 }});
  const auto report = fit(net, data(), by_entropy, optim::adam{.lr = 0.01}, with);
  fit(plain, data(), by_entropy, optim::adam{.lr = 0.01}, o);
  BOOST_TEST(same_bits(net.parameters(), plain.parameters()));
  const auto train = only_file(dir / "run/train"), validation = only_file(dir / "run/validation");
  BOOST_TEST(train.scalars.size() == 6u);
  BOOST_TEST(validation.scalars.size() == 2u);
  for (std::int64_t e = 1; e <= 3; ++e) {
    const auto& r = report.epochs[static_cast<std::size_t>(e - 1)];
    const std::int64_t step = e * batches;
    BOOST_TEST(train.scalars.at("loss").at(step) == float(r.loss));
    BOOST_TEST(train.scalars.at("accuracy").at(step) == float(r.accuracy));
    BOOST_TEST(train.scalars.at("learning_rate").at(step) == float(r.learning_rate));
    BOOST_TEST(train.scalars.at("images_per_second").at(step) == float(r.images_per_second));
    BOOST_TEST(validation.scalars.at("loss").at(step) == float(*r.validation_loss));
    BOOST_TEST(validation.scalars.at("accuracy").at(step) == float(*r.validation_accuracy));
  }
  BOOST_TEST(train.scalars.at("batch/loss").size() == 7u);
  for (const auto& [step, x] : train.scalars.at("batch/loss")) {
    BOOST_TEST(step % 2 == 0);
    BOOST_TEST(x == float(losses.at(step)));
  }
  // Histograms at the end of epoch 2: parameters, statistics, and gradients.
  BOOST_TEST(train.histograms.size() == 6u + 2 + 6);
  for (const auto& [tag, steps] : train.histograms) {
    BOOST_REQUIRE(steps.size() == 1u);
    const auto& [step, h] = *steps.begin();
    BOOST_TEST(step == 2 * batches);
    double sum = 0;
    for (double c : h.counts) sum += c;
    BOOST_TEST(sum == h.count);
    BOOST_TEST(h.limits.back() == h.max);
    const auto name = tag.substr(tag.find('/') + 1);
    BOOST_TEST(h.count == double(net.parameters().find(name)->value().shape().size()), tag);
  }
  BOOST_TEST(train.histograms.contains("gradients/conv.weight"));
  BOOST_TEST(train.histograms.contains("weights/norm.running_mean"));
}

BOOST_AUTO_TEST_CASE(a_training_that_goes_on_drops_what_is_done_again) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  fit_options o{.epochs = 3, .batch = 8, .checkpoint = dir / "now", .resume = true};
  o.observer =
      observers({tensorboard(dir / "run"), [](const training_progress& p) { return p.epoch < 2 || p.batch < 3; }});
  fit(net, data(), by_entropy, optim::sgd{}, o);
  o.observer = tensorboard(dir / "run");
  fit(net, data(), by_entropy, optim::sgd{}, o);
  const auto files = files_of(dir / "run/train");
  BOOST_REQUIRE(files.size() == 2u);
  const auto first = events::read(test_files::read_raw(files[0])),
             second = events::read(test_files::read_raw(files[1]));
  BOOST_TEST(first.starts_at == 0);
  BOOST_TEST(second.starts_at == 9);
  BOOST_TEST(first.scalars.at("loss").size() == 1u);
  BOOST_TEST(second.scalars.at("loss").begin()->first == 10);
  BOOST_TEST(second.scalars.at("loss").size() == 2u);
  BOOST_TEST(!std::filesystem::exists(dir / "run/validation"));
}

BOOST_AUTO_TEST_SUITE_END()
