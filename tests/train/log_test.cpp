// Training logs as CSV and as JSON lines: the contents of a row, and no duplicate rows after resuming.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr std::int64_t batches = 5;
image_dataset data() { return squares(36, 1); }

// Numbers by column name; missing ones are left out.
using row = std::map<std::string, double>;
std::vector<std::string> split(const std::string& s, char at) {
  std::vector<std::string> all(1);
  for (char c : s)
    if (c == at) all.emplace_back();
    else all.back() += c;
  return all;
}
std::vector<row> rows_of_csv(const std::string& path) {
  auto lines = split(test_files::read_raw(path), '\n');
  BOOST_REQUIRE(lines.size() >= 2u);
  BOOST_TEST(lines.back() == "");
  lines.pop_back();
  const auto names = split(lines[0], ',');
  std::vector<row> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = split(lines[i], ',');
    BOOST_REQUIRE(cells.size() == names.size());
    row r;
    for (std::size_t k = 0; k < names.size(); ++k)
      if (!cells[k].empty()) r[names[k]] = std::stod(cells[k]);
    rows.push_back(r);
  }
  return rows;
}
std::vector<row> rows_of_json(const std::string& path) {
  std::istringstream in(test_files::read_raw(path));
  std::vector<row> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line).get<row>());
  return rows;
}

template <class Net> training_report train(Net& net, fit_options o) {
  o.batch = 8;
  o.schedule = optim::cosine{};
  o.validation = squares(9, 2);
  return fit(net, data(), loss::cross_entropy{}, optim::adam{.lr = 0.01}, o);
}
// Removes columns that depend on the clock.
std::vector<row> without_times(std::vector<row> rows) {
  for (auto& r : rows) {
    BOOST_TEST(r.erase("seconds") == 1u);
    BOOST_TEST(r.erase("images_per_second") == 1u);
    BOOST_TEST(r.erase("waited") == 1u);
  }
  return rows;
}
bool seconds_rise(const std::vector<row>& rows) {
  double last = 0;
  for (const auto& r : rows)
    if (r.at("seconds") < last) return false;
    else last = r.at("seconds");
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training_logs)

BOOST_AUTO_TEST_CASE(a_row_for_each_epoch) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  const auto report =
      train(net, {.epochs = 3, .observer = observers({csv_log(dir / "log.csv"), json_lines(dir / "log.jsonl")})});
  BOOST_TEST(test_files::read_raw(dir / "log.csv")
                 .starts_with("epoch,loss,accuracy,learning_rate,seconds,images_per_second,validation_loss,"
                              "validation_accuracy,waited,skipped\n1,"));
  for (const auto& rows : {rows_of_csv(dir / "log.csv"), rows_of_json(dir / "log.jsonl")}) {
    BOOST_REQUIRE(rows.size() == 3u);
    BOOST_TEST(seconds_rise(rows));
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& e = report.epochs[i];
      const row expected{{"epoch", double(i + 1)},
                         {"loss", e.loss},
                         {"accuracy", e.accuracy},
                         {"learning_rate", e.learning_rate},
                         {"validation_loss", *e.validation_loss},
                         {"validation_accuracy", *e.validation_accuracy},
                         {"skipped", 0}};
      BOOST_TEST((without_times({rows[i]})[0] == expected));  // equal bits
    }
  }
}

BOOST_AUTO_TEST_CASE(samples_that_were_waited_for_and_skipped) {
  test_files::folder dir;
  struct broken {
    image_dataset of = squares(20, 1);
    std::int64_t size() const { return of.size(); }
    std::pair<tensor<float, extents<1, 6, 6>>, std::int64_t> operator[](std::int64_t i) const {
      if (i % 7 == 3) throw std::runtime_error("its file is cut");
      tensor<float, extents<1, 6, 6>> x;
      const auto image = of.image(i);
      std::copy(image.data().begin(), image.data().end(), x.writable().begin());
      return {x, of.label(i)};
    }
  };
  plain_model net({.seed = 1});
  fit_options o{.epochs = 2, .batch = 5};
  o.on_error = sample_failure::skip;
  o.observer = observers(
      {csv_log(dir / "log.csv", {.every_batch = true}), json_lines(dir / "log.jsonl", {.every_batch = true})});
  const auto report = fit(net, broken{}, loss::cross_entropy{}, optim::sgd{}, o);
  for (const auto& rows : {rows_of_csv(dir / "log.csv"), rows_of_json(dir / "log.jsonl")}) {
    BOOST_REQUIRE(rows.size() == 10u);
    for (std::size_t e = 0; e < 2; ++e) {
      BOOST_TEST(rows[5 * e + 4].at("skipped") == 3);
      BOOST_TEST(rows[5 * e + 4].at("waited") == report.epochs[e].waited);
      BOOST_TEST(report.epochs[e].waited > 0);
      for (std::size_t b = 1; b < 4; ++b) {
        BOOST_TEST(rows[5 * e + b].at("skipped") >= rows[5 * e + b - 1].at("skipped"));
        BOOST_TEST(rows[5 * e + b].at("waited") >= rows[5 * e + b - 1].at("waited"));
      }
      BOOST_TEST(rows[5 * e + 3].at("skipped") == 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_there_is_left_out) {
  test_files::folder dir;
  struct numbers {
    std::int64_t size() const { return 8; }
    std::pair<std::vector<float>, std::vector<float>> operator[](std::int64_t i) const {
      return {std::vector<float>(4, float(i)), std::vector<float>(1, 1.0f)};
    }
  };
  static constexpr auto line = sequential(nn::linear{.in_features = 4, .out_features = 1});
  model<line, input<"N", 4>> net({.seed = 1});
  fit(net, numbers{}, loss::mse{}, optim::sgd{.lr = 1e-3},
      {.observer = observers({csv_log(dir / "log.csv"), json_lines(dir / "log.jsonl")})});
  for (const auto& rows : {rows_of_csv(dir / "log.csv"), rows_of_json(dir / "log.jsonl")}) {
    BOOST_REQUIRE(rows.size() == 1u);
    for (const char* name : {"accuracy", "validation_loss", "validation_accuracy"})
      BOOST_TEST(!rows[0].contains(name), name);
    BOOST_TEST(rows[0].contains("loss"));
  }
}

BOOST_AUTO_TEST_CASE(a_row_for_each_batch) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  std::vector<double> losses;
  const auto report = train(net, {.epochs = 2,
                                  .observer = observers({csv_log(dir / "log.csv", {.every_batch = true}),
                                                         json_lines(dir / "log.jsonl", {.every_batch = true}),
                                                         [&](const training_progress& p) {
                                                           if (!p.epoch_ended) losses.push_back(p.batch_loss);
                                                           return true;
                                                         }})});
  for (const auto& rows : {rows_of_csv(dir / "log.csv"), rows_of_json(dir / "log.jsonl")}) {
    BOOST_REQUIRE(rows.size() == 2u * (batches + 1));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t epoch = i / (batches + 1), batch = i % (batches + 1);
      BOOST_TEST(rows[i].at("epoch") == double(epoch + 1));
      if (batch < batches) {
        BOOST_TEST(rows[i].at("batch") == double(batch + 1));
        BOOST_TEST(rows[i].at("batch_loss") == losses[epoch * batches + batch]);
        BOOST_TEST(!rows[i].contains("validation_loss"));
      } else {
        BOOST_TEST(!rows[i].contains("batch"));
        BOOST_TEST(!rows[i].contains("batch_loss"));
        BOOST_TEST(rows[i].at("loss") == report.epochs[epoch].loss);
      }
    }
  }
}

// Training that ends within an epoch, at its end, or with a log newer than the checkpoint, and resumes.
BOOST_AUTO_TEST_CASE(training_that_goes_on_doubles_no_row) {
  for (bool every_batch : {false, true}) {
    const auto observed = [&](const test_files::folder& dir, observer more) {
      return observers({csv_log(dir / "log.csv", {.every_batch = every_batch}),
                        json_lines(dir / "log.jsonl", {.every_batch = every_batch}), std::move(more)});
    };
    test_files::folder whole;
    regular_model once({.seed = 1});
    train(once, {.epochs = 4, .observer = observed(whole, {})});
    const auto expected = without_times(rows_of_csv(whole / "log.csv"));
    BOOST_TEST(expected.size() == (every_batch ? 24u : 4u));
    for (int stop : {2, 7, 10, 11, 13}) {
      test_files::folder dir;
      regular_model first({.seed = 1}), second({.seed = 2});
      const auto until = [&](int batch) {
        return [batch, n = 0](const training_progress& p) mutable { return p.epoch_ended || ++n < batch; };
      };
      fit_options o{.epochs = 4, .observer = observed(dir, until(stop)), .checkpoint = dir / "now", .resume = true};
      train(first, o);
      // As after a later kill: the checkpoint is older than the log.
      std::filesystem::copy_file(dir / "now", dir / "then");
      o.observer = observed(dir, until(4));
      train(first, o);
      test_files::write_raw(dir / "log.csv", test_files::read_raw(dir / "log.csv") + "3,0.5");
      test_files::write_raw(dir / "log.jsonl", test_files::read_raw(dir / "log.jsonl") + "{\"epoch\": 3, \"lo");
      std::filesystem::copy_file(dir / "then", dir / "now", std::filesystem::copy_options::overwrite_existing);
      o.observer = observed(dir, {});
      train(second, o);
      for (const auto& rows : {rows_of_csv(dir / "log.csv"), rows_of_json(dir / "log.jsonl")}) {
        BOOST_TEST(seconds_rise(rows));
        const auto found = without_times(rows);
        BOOST_TEST(found.size() == expected.size(), "stopped after " << stop << " batches");
        for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
          for (const auto& [name, x] : expected[i])
            BOOST_TEST(std::abs(found[i].at(name) - x) < 1e-12, name << " of row " << i << ", stopped after " << stop);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_log_that_is_missing_begins_with_the_epochs_before) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  train(net, {.epochs = 2, .checkpoint = dir / "now", .resume = true});
  test_files::write_raw(dir / "empty.csv", "");
  const auto report = train(
      net,
      {.epochs = 3,
       .observer = observers({csv_log(dir / "log.csv"), csv_log(dir / "empty.csv"), json_lines(dir / "log.jsonl")}),
       .checkpoint = dir / "now",
       .resume = true});
  for (const auto& rows :
       {rows_of_csv(dir / "log.csv"), rows_of_csv(dir / "empty.csv"), rows_of_json(dir / "log.jsonl")}) {
    BOOST_REQUIRE(rows.size() == 3u);
    BOOST_TEST(seconds_rise(rows));
    for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(rows[i].at("loss") == report.epochs[i].loss);
  }
}

BOOST_AUTO_TEST_CASE(training_that_begins_writes_the_log_again) {
  test_files::folder dir;
  test_files::write_raw(dir / "log.csv", "of something else\n");
  plain_model net({.seed = 1});
  train(net, {.epochs = 2, .observer = csv_log(dir / "log.csv")});
  train(net, {.epochs = 1, .observer = csv_log(dir / "log.csv")});
  BOOST_TEST(rows_of_csv(dir / "log.csv").size() == 1u);
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_are_told_before_training) {
  test_files::folder dir;
  plain_model net({.seed = 1});
  int told = 0;
  const auto message = [&](observer o, bool resume = false) {
    return error_of([&] {
      train(net, {.epochs = 9,
                  .observer = observers({std::move(o), [&](const training_progress&) { return ++told < 7; }}),
                  .checkpoint = dir / "now",
                  .resume = resume});
    });
  };
  BOOST_TEST(
      holds(message(csv_log(dir / "no/log.csv")), "file_error: " + (dir / "no/log.csv") + ": cannot be written: "));
  BOOST_TEST(holds(message(json_lines("")), "file_error: the path is empty: cannot be written"));
  BOOST_TEST(told == 0);
  BOOST_TEST(message({}) == "");
  test_files::write_raw(dir / "log", "epoch,loss\n1,2\n");
  told = 0;
  BOOST_TEST(
      holds(message(csv_log(dir / "log"), true), "the first line is `epoch,loss`; expected `epoch,loss,accuracy,"));
  BOOST_TEST(holds(message(json_lines(dir / "log"), true), "line 1 is not a row of this log"));
  const std::string head =
      "epoch,loss,accuracy,learning_rate,seconds,images_per_second,validation_loss,validation_accuracy,waited,"
      "skipped\n";
  for (const char* line : {"1,2", "x,,,,,,,,,", "1,2,3,4,5,6,7,8,9,10,11", "-1,,,,,,,,,", "nan,,,,,,,,,", "",
                           ",,,,,,,,,", "1e300,,,,,,,,,"}) {
    test_files::write_raw(dir / "log", head + line + "\n");
    BOOST_TEST(holds(message(csv_log(dir / "log"), true), "line 2 is not a row of this log"), line);
  }
  for (const char* line : {"[1]", "{}", "{\"epoch\": 1.5}", "{\"epoch\": -3}", "1", "{\"epoch\": \"1\"}", "{"}) {
    test_files::write_raw(dir / "log", std::string(line) + "\n");
    BOOST_TEST(holds(message(json_lines(dir / "log"), true), "line 1 is not a row of this log"), line);
  }
  BOOST_TEST(told == 0);
}

BOOST_AUTO_TEST_SUITE_END()
