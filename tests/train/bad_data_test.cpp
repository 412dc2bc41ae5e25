// Training on partly invalid data: errors name file, row and field; skipped samples are counted, and nothing else is
// lost.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../io/files.h"

import lamina;
import lamina.pictures;

#include "../support/message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

constexpr auto line = sequential(sublayer<"line">(nn::linear{.in_features = 2, .out_features = 3}));
using classifier = model<line, input<"N", 2>>;
constexpr auto regression = sequential(sublayer<"line">(nn::linear{.in_features = 2, .out_features = 1}));
using regressor = model<regression, input<"N", 2>>;

// Sample i: numbers and the class i % 3; sample `wrong` has class `label`.
struct classes {
  std::int64_t count = 30, wrong = -1, label = 3;
  std::int64_t size() const { return count; }
  std::pair<std::array<float, 2>, std::int64_t> operator[](std::int64_t i) const {
    return {{static_cast<float>(i % 7) / 7, static_cast<float>(i % 5) / 5}, i == wrong ? label : i % 3};
  }
  std::string location(std::int64_t i) const { return "row " + std::to_string(i); }
};

bool holds(const std::string& whole, std::string_view part) {
  if (whole.find(part) != whole.npos) return true;
  BOOST_TEST_MESSAGE(whole);
  return false;
}

std::string table_of(std::int64_t rows, std::int64_t wrong, const std::string& row) {
  std::string s = "a,b,kind\n";
  for (std::int64_t i = 0; i < rows; ++i)
    s += i == wrong ? row + "\n"
                    : std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 3) + "\n";
  return s;
}
csv_table read(const std::string& text, const csv_options& o) { return datasets::csv_text(text, "t.csv", o); }
const csv_options with_kind{.targets = {"kind"}, .kinds = {{"kind", column_kind::integer}}};

// A picture of one color as a PNM file.
std::string ppm(int width, int height, char color) {
  return "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
         std::string(static_cast<std::size_t>(3 * width * height), color);
}
// A folder of two classes with `each` pictures of 4 x 4 pixels.
void write_pictures(const test_files::folder& dir, int each) {
  for (const std::string name : {"cat", "dog"}) {
    std::filesystem::create_directories(dir / name);
    for (int i = 0; i < each; ++i)
      test_files::write_raw(dir / (name + "/" + std::to_string(i) + ".ppm"),
                            ppm(4, 4, name == "cat" ? '\x20' : '\x60'));
  }
}
constexpr auto picture_net = sequential(nn::flatten{}, nn::linear{.in_features = 48, .out_features = 2});
using picture_classifier = model<picture_net, input<"N", 3, 4, 4>>;

}  // namespace

BOOST_AUTO_TEST_SUITE(bad_data)

BOOST_AUTO_TEST_CASE(a_class_that_there_is_not_names_its_sample) {
  const classes data{.wrong = 17};
  for (const int readers : {0, 2})
    for (const std::int64_t shards : {1, 2}) {
      classifier net({.seed = 1});
      const auto train = [&] {
        fit(net, data, loss::cross_entropy{}, optim::sgd{},
            {.batch = 8, .seed = 3, .read_threads = readers, .shards = shards});
      };
      BOOST_TEST(message_of(train) ==
                 "fit: sample 17 of the training data (row 17): class 3 is outside 0..2; the "
                 "loss has 3 classes");
      try {
        train();
        BOOST_ERROR("an error is expected");
      } catch (const sample_error& e) {
        BOOST_TEST(e.index() == 17);
        BOOST_TEST(e.location() == "row 17");
        BOOST_CHECK_THROW(std::rethrow_exception(e.cause()), value_error);
      }
    }
  classifier net({.seed = 1});
  BOOST_TEST(message_of([&] { fit(net, classes{}, loss::cross_entropy{}, optim::sgd{}, {.validation = data}); }) ==
             "fit: sample 17 of the validation data (row 17): class 3 is outside 0..2; the loss has 3 classes");
  BOOST_TEST(message_of([&] { evaluate(net, data, loss::cross_entropy{}, {.batch = 8}); }) ==
             "evaluate: sample 17 (row 17): class 3 is outside 0..2; the loss has 3 classes");
  // `ignore_index` is accepted as a class only where it is set.
  classifier with({.seed = 1}), without({.seed = 1});
  fit(with, classes{.wrong = 17, .label = -100}, loss::cross_entropy{.ignore_index = -100}, optim::sgd{}, {.batch = 8});
  BOOST_TEST(message_of([&] {
               fit(without, data, loss::cross_entropy{.ignore_index = -100}, optim::sgd{}, {.batch = 8});
             }) == "fit: sample 17 of the training data (row 17): class 3 is outside 0..2; the loss has 3 classes");
}

BOOST_AUTO_TEST_CASE(what_data_sets_are_made_of_is_named) {
  const auto named = [](const auto& data, std::int64_t i) { return source_of(data).location(i); };
  const classes data;
  BOOST_TEST(named(data, 4) == "row 4");
  BOOST_TEST(named(data | dataset::skip(3) | dataset::cache(), 4) == "row 7");
  BOOST_TEST(named(dataset::subset(data, {9, 2}), 1) == "row 2");
  BOOST_TEST(named(dataset::shuffle(data, 1), 0) == "row " + std::to_string(permutation(30, 1, 0)[0]));
  BOOST_TEST(named(dataset::map(data, [](const auto& s) { return s; }), 5) == "row 5");
  BOOST_TEST(named(dataset::filter(data, [](const auto& s) { return s.second == 2; }), 1) == "row 5");
  BOOST_TEST(named(dataset::concat(data, data), 31) == "row 1");
  BOOST_TEST(named(dataset::zip(data, std::vector<float>(30)), 3) == "row 3");
  BOOST_TEST(named(dataset::split(data, 0.5, 1).second, 0) == "row " + std::to_string(permutation(30, 1, 0)[15]));
  BOOST_TEST(named(std::vector<float>(3), 0) == "");
  const auto table = read(table_of(4, -1, {}), with_kind);
  BOOST_TEST(named(table, 2) == "t.csv:4");
  const auto part = source_of(table | dataset::skip(1) | dataset::cache());
  BOOST_TEST(part.location(1, 0, 1) == "t.csv:4, column `b`");
  BOOST_TEST(part.location(1, 1, 0) == "t.csv:4, column `kind`");
  BOOST_TEST(source_of(dataset::concat(table, table)).location(5, 0, 0) == "t.csv:3, column `a`");
  BOOST_TEST(source_of(datasets::lines_of("x\n\ny\n", {.skip_empty = true}, "notes.txt")).location(1) == "notes.txt:3");
}

BOOST_AUTO_TEST_CASE(a_row_of_a_table_is_named) {
  classifier net({.seed = 1});
  BOOST_TEST(message_of([&] {
               fit(net, read(table_of(30, 11, "1,2,7"), with_kind) | dataset::skip(2), loss::cross_entropy{},
                   optim::sgd{}, {.batch = 8});
             }) ==
             "fit: sample 9 of the training data (t.csv:13, column `kind`): class 7 is outside 0..2; the loss "
             "has 3 classes");
  // A hand-written training loop.
  training step(net, loss::cross_entropy{}, optim::sgd{});
  double sum = 0;
  BOOST_TEST(message_of([&] {
               for (const auto& b : dataset::batches(read(table_of(30, 11, "1,2,7"), with_kind), {.batch = 8}))
                 sum += step(b);
             }) == "training: sample 11 (t.csv:13, column `kind`): class 7 is outside 0..2; the loss has 3 classes");
  BOOST_TEST(sum > 0);
  // NaN in a table: a missing number, or the caller's replacement for it.
  BOOST_TEST(message_of([] {
               read(table_of(30, 11, "1,nan,2"), with_kind);
             }).starts_with("t.csv:13: column `b`: the value is missing"));
  csv_options filled = with_kind;
  filled.missing = missing_rule::number;
  filled.missing_number = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(holds(message_of([&] {
                     fit(net, read(table_of(30, 11, "1,nan,2"), filled), loss::cross_entropy{}, optim::sgd{},
                         {.batch = 8});
                   }),
                   "has 1 NaN element, first in sample 11 (t.csv:13, column `b`)"));
  filled.targets = {"b"};
  filled.kinds = {{"kind", column_kind::number}};
  regressor other({.seed = 1});
  BOOST_TEST(holds(message_of([&] {
                     fit(other, read(table_of(30, 11, "1,nan,2"), filled), loss::mse{}, optim::sgd{}, {.batch = 8});
                   }),
                   "input `targets` has 1 NaN element, first in sample 11 (t.csv:13, column `b`)"));
}

BOOST_AUTO_TEST_CASE(positions_of_inputs_are_checked) {
  static constexpr auto words =
      sequential(sublayer<"words">(nn::embedding{.num_embeddings = 5, .embedding_dim = 2}),
                 nn::reduce_mean{.axes = axes(1)}, nn::linear{.in_features = 2, .out_features = 3});
  model<words, port_input<"input", std::int64_t, "N", "T">> net({.seed = 1});
  const auto data = dataset::map(classes{.count = 12}, [](const auto& s, std::int64_t i) {
    return std::pair(std::vector<std::int64_t>{1, i == 7 ? 9 : 2, 3}, s.second);
  });
  BOOST_TEST(message_of([&] { fit(net, data, loss::cross_entropy{}, optim::sgd{}, {.batch = 4}); }) ==
             "fit: sample 7 of the training data (row 7): position 9 is outside -5..4 in sublayer `words` (embedding)");
  BOOST_TEST(message_of([&] { predict(net, data); }) ==
             "evaluate: sample 7 (row 7): position 9 is outside -5..4 in sublayer `words` (embedding)");
}

BOOST_AUTO_TEST_CASE(a_picture_of_another_size_is_named) {
  const test_files::folder dir;
  write_pictures(dir, 6);
  test_files::write_raw(dir / "dog/3.ppm", ppm(4, 3, 1));
  const pictures::folder files(dir.path.string());
  picture_classifier net({.seed = 1});
  BOOST_TEST(message_of([&] { fit(net, files, loss::cross_entropy{}, optim::sgd{}, {.batch = 4}); }) ==
             "fit: sample 9 of the training data (" + (dir / "dog/3.ppm") +
                 "): field 0 is [3x3x4]; expected [Nx3x4x4]");
  BOOST_TEST(message_of([&] {
               for (const auto& b : dataset::batches(files, {.batch = 4, .pad = false})) static_cast<void>(b.size());
             }) == "batches: field 0 is [3x4x4] in sample 8 (" + (dir / "dog/2.ppm") + ") and [3x3x4] in sample 9 (" +
                       (dir / "dog/3.ppm") + "); {.pad = true} pads the shorter ones");
  // A truncated file is named once.
  test_files::write_raw(dir / "dog/3.ppm", ppm(4, 4, 1).substr(0, 30));
  const std::string cut = message_of([&] { fit(net, files, loss::cross_entropy{}, optim::sgd{}, {.batch = 4}); });
  BOOST_TEST(holds(cut, "fit: sample 9 of the training data cannot be read: " + (dir / "dog/3.ppm") + ": "));
}

// ---- samples that are left out ---------------------------------------------------------------------------------------

namespace {
// 30 samples with every kind of error: reading, class, shape.
struct mixed {
  std::int64_t size() const { return 30; }
  std::pair<std::vector<float>, std::int64_t> operator[](std::int64_t i) const {
    if (i == 3) throw std::runtime_error("its file is cut");
    if (i == 11) return {{1, 2, 3}, 0};
    if (i == 12) return {{1}, 0};
    if (i == 20) return {{1, std::numeric_limits<float>::quiet_NaN()}, 0};
    const auto [x, label] = classes{}[i];
    return {{x[0], x[1]}, i == 8 ? 3 : i == 9 ? -1 : label};
  }
};
// The valid samples of `mixed`.
const auto right =
    dataset::map(dataset::subset(classes{},
                                 [] {
                                   std::vector<std::int64_t> all;
                                   for (std::int64_t i = 0; i < 30; ++i)
                                     if (i != 3 && i != 8 && i != 9 && i != 11 && i != 12 && i != 20) all.push_back(i);
                                   return all;
                                 }()),
                 [](const auto& s) { return std::pair(std::vector<float>{s.first[0], s.first[1]}, s.second); });
std::vector<float> weights_of(const model_core& net) {
  const auto w = net.parameters().find("line.weight")->value();
  return {w.elements<float>().begin(), w.elements<float>().end()};
}
bool near(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) < 1e-5F)) return false;
  return a.size() == b.size();
}
}  // namespace

BOOST_AUTO_TEST_CASE(all_kinds_of_wrong_samples_are_left_out_and_counted) {
  classifier alone({.seed = 1});
  fit(alone, right, loss::cross_entropy{}, optim::sgd{.lr = 0.5}, {.batch = 30});
  for (const int readers : {0, 2})
    for (const std::int64_t shards : {1, 2}) {
      classifier net({.seed = 1});
      const auto report = fit(net, mixed{}, loss::cross_entropy{}, optim::sgd{.lr = 0.5},
                              {.batch = 30,
                               .validation = mixed{},
                               .read_threads = readers,
                               .on_error = sample_failure::skip,
                               .shards = shards});
      BOOST_TEST(report.epochs[0].skipped == 6);
      BOOST_TEST(report.epochs[0].validation_skipped == 6);
      BOOST_TEST(std::isfinite(*report.epochs[0].validation_loss));
      BOOST_TEST(near(weights_of(net.core()), weights_of(alone.core())));
    }
  // Batches of one update that lose different numbers of samples.
  classifier several({.seed = 1});
  fit(several, mixed{}, loss::cross_entropy{}, optim::sgd{.lr = 0.5},
      {.batch = 10, .on_error = sample_failure::skip, .accumulate = 3});
  BOOST_TEST(near(weights_of(several.core()), weights_of(alone.core())));
  const auto found = evaluate(alone, mixed{}, loss::cross_entropy{}, {.on_error = sample_failure::skip});
  BOOST_TEST(found.skipped == 6);
  BOOST_TEST(std::abs(found.loss - evaluate(alone, right, loss::cross_entropy{}).loss) < 1e-5);
  // Real targets.
  const auto real = dataset::map(classes{}, [](const auto& s, std::int64_t i) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return std::pair(s.first, std::array<float, 1>{i == 4   ? std::numeric_limits<float>::quiet_NaN()
                                                   : i == 5 ? -infinity
                                                            : s.first[0]});
  });
  regressor line_net({.seed = 1});
  const auto report = fit(line_net, real, loss::mse{}, optim::sgd{},
                          {.epochs = 2, .batch = 10, .validation = real, .on_error = sample_failure::skip});
  BOOST_TEST(report.epochs[1].skipped == 2);
  BOOST_TEST(report.epochs[1].validation_skipped == 2);
  BOOST_TEST(std::isfinite(report.epochs[1].loss));
  BOOST_TEST(evaluate(line_net, real, {.on_error = sample_failure::skip}, metric::rmse{}).left_out.size() == 2U);
}

BOOST_AUTO_TEST_CASE(predictions_say_what_they_are_of) {
  classifier net({.seed = 1});
  const auto found = predict(net, mixed{}, {.batch = 7, .on_error = sample_failure::skip});
  // Prediction ignores classes.
  BOOST_REQUIRE(found.samples.size() == 26U);
  BOOST_TEST((found.outputs[0].shape() == shape{26, 3}));
  BOOST_REQUIRE(found.left_out.size() == 4U);
  const std::int64_t left_out[] = {3, 11, 12, 20};
  for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(found.left_out[k].index == left_out[k]);
  BOOST_TEST(found.left_out[0].why == "sample 3 cannot be read: its file is cut");
  BOOST_TEST(found.left_out[1].why == "sample 11: field 0 is [3]; expected [Nx2]");
  BOOST_TEST(found.left_out[3].why == "sample 20: field 0 has a NaN");
  const auto all = predict(net, classes{})[0];
  for (std::size_t r = 0; r < found.samples.size(); ++r)
    for (std::size_t c = 0; c < 3; ++c)
      BOOST_TEST(std::abs(found.outputs[0].elements<float>()[3 * r + c] -
                          all.elements<float>()[3 * static_cast<std::size_t>(found.samples[r]) + c]) < 1e-6F);
  BOOST_TEST(message_of([&] { predict(net, mixed{}); }) == "evaluate: sample 3 cannot be read: its file is cut");
}

BOOST_AUTO_TEST_CASE(metrics_name_and_leave_out_samples) {
  classifier net({.seed = 1});
  const classes wrong{.wrong = 17};
  BOOST_TEST(holds(message_of([&] { evaluate(net, wrong, metric::accuracy{}, metric::confusion_matrix{}); }),
                   "evaluate: sample 17 (row 17): accuracy: label 3"));
  const auto report = evaluate(net, mixed{}, {.batch = 8, .on_error = sample_failure::skip}, metric::accuracy{},
                               metric::confusion_matrix{});
  BOOST_REQUIRE(report.left_out.size() == 6U);
  BOOST_TEST(report.left_out[1].index == 8);
  BOOST_TEST(report.left_out[5].index == 20);
  const auto expected = evaluate(net, right, metric::accuracy{}, metric::confusion_matrix{});
  for (std::size_t k = 0; k < 2; ++k) {
    BOOST_TEST(report.values[k].name == expected[k].name);
    BOOST_TEST(std::abs(report.values[k].value - expected[k].value) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(a_training_without_any_sample_ends_with_an_error) {
  const auto none = dataset::map(classes{}, [](const auto& s) { return std::pair(s.first, s.second + 3); });
  for (const std::int64_t shards : {1, 2}) {
    classifier net({.seed = 1});
    const auto before = weights_of(net.core());
    const std::string why = message_of([&] {
      fit(net, none, loss::cross_entropy{}, optim::sgd{},
          {.epochs = 3, .batch = 8, .on_error = sample_failure::skip, .shards = shards});
    });
    BOOST_TEST(
        holds(why, "fit: no sample of the training data can be used: all 30 were left out, the first was sample"));
    BOOST_TEST(holds(why, "is outside 0..2; the loss has 3 classes"));
    BOOST_TEST((weights_of(net.core()) == before));
  }
  classifier net({.seed = 1});
  BOOST_TEST(holds(message_of([&] {
                     fit(net, classes{}, loss::cross_entropy{}, optim::sgd{},
                         {.validation = none, .on_error = sample_failure::skip});
                   }),
                   "fit: no sample of the validation data can be used: all 30 were left out"));
  BOOST_TEST(holds(message_of([&] { evaluate(net, none, loss::cross_entropy{}, {.on_error = sample_failure::skip}); }),
                   "evaluate: no sample can be used: all 30 were left out, the first was sample 0 (row 0): class 3 is "
                   "outside 0..2"));
  model<line, input<10, 2>> fixed;
  BOOST_TEST(holds(message_of([&] { predict(fixed, classes{}, {.on_error = sample_failure::skip}); }),
                   "evaluate: the model has a fixed batch size, so `on_error` cannot skip samples"));
}

BOOST_AUTO_TEST_CASE(pictures_that_are_wrong_are_left_out) {
  const test_files::folder dir;
  write_pictures(dir, 6);
  test_files::write_raw(dir / "dog/3.ppm", ppm(4, 3, 1));
  test_files::write_raw(dir / "cat/5.ppm", ppm(4, 4, 1).substr(0, 30));
  const pictures::folder files(dir.path.string());
  picture_classifier net({.seed = 1});
  const auto report =
      fit(net, files, loss::cross_entropy{}, optim::sgd{}, {.epochs = 2, .batch = 4, .on_error = sample_failure::skip});
  BOOST_TEST(report.epochs[1].skipped == 2);
  const auto found = predict(net, files, {.on_error = sample_failure::skip});
  BOOST_REQUIRE(found.left_out.size() == 2U);
  BOOST_TEST(holds(found.left_out[0].why, dir / "cat/5.ppm"));
  BOOST_TEST(holds(found.left_out[1].why, "(" + (dir / "dog/3.ppm") + "): field 0 is [3x3x4]"));
  std::filesystem::create_directories(dir / "empty");
  BOOST_TEST(holds(message_of([&] { static_cast<void>(pictures::folder(dir.path.string())); }),
                   (dir / "empty") + ": the folder of a class has no file that ends in"));
}

BOOST_AUTO_TEST_CASE(rows_of_another_number_of_fields_are_left_out) {
  const std::string ragged = table_of(30, 11, "1,2");
  BOOST_TEST(message_of([&] { read(ragged, with_kind); }) ==
             "t.csv:13: the row has 2 fields; expected 3, as in the first row");
  csv_options skipping = with_kind;
  skipping.on_error = sample_failure::skip;
  const auto table = read(ragged, skipping);
  BOOST_TEST(table.size() == 29);
  BOOST_TEST(table.skipped() == 1);
  BOOST_TEST(table.location(11) == "t.csv:14");
  // Training continues as if the row did not exist.
  std::string without = table_of(30, -1, {});
  std::size_t at = 0;
  for (int line = 0; line < 12; ++line) at = without.find('\n', at) + 1;
  without.erase(at, without.find('\n', at) + 1 - at);
  classifier a({.seed = 1}), b({.seed = 1});
  const auto report = fit(a, table, loss::cross_entropy{}, optim::sgd{}, {.epochs = 2, .batch = 8});
  fit(b, read(without, with_kind), loss::cross_entropy{}, optim::sgd{}, {.epochs = 2, .batch = 8});
  BOOST_TEST(report.epochs[1].skipped == 0);
  BOOST_TEST((weights_of(a.core()) == weights_of(b.core())));
  // A test table with a category that was not in the training table.
  const auto train = read("a,b,kind\n1,2,x\n2,,y\n3,6,x\n", {.targets = {"kind"}, .missing = missing_rule::mean});
  BOOST_TEST(message_of([&] { read("a,b,kind\n1,2,x\n1,,z\n", {.like = train}); }) ==
             "t.csv:3: column `kind`: `z` is not one of its words; there are `x`, `y`");
  const auto test = read("a,b,kind\n1,2,x\n1,,z\n1,,y\n", {.like = train, .on_error = sample_failure::skip});
  BOOST_TEST(test.skipped() == 1);
  BOOST_TEST(evaluate(a, test, loss::cross_entropy{}).skipped == 0);
}

BOOST_AUTO_TEST_CASE(sounds_whose_headers_lie_are_left_out) {
  const test_files::folder dir;
  for (const std::string name : {"high", "low"}) {
    std::filesystem::create_directories(dir / name);
    for (int i = 0; i < 5; ++i)
      write_wav(dir / (name + "/" + std::to_string(i) + ".wav"),
                {matrix<float>{{name == "low" ? -0.5F : 0.5F, 0.25F, 0.125F, 0}}, 8000});
  }
  const auto sounds = datasets::audio_folder(dir.path.string());
  const auto data = dataset::map(sounds, [](const auto& s) {
    const auto x = s.sound.samples.data();
    return std::pair(std::array<float, 2>{x[0], x[1]}, s.label);
  });
  const std::string path = dir / "low/2.wav", whole = test_files::read_raw(path);
  classifier net({.seed = 1});
  const auto train = [&](sample_failure on_error) {
    return fit(net, data, loss::cross_entropy{}, optim::sgd{}, {.batch = 4, .on_error = on_error});
  };
  BOOST_TEST(train(sample_failure::raise).epochs[0].skipped == 0);
  // Samples, bytes per second, bytes per frame.
  for (const auto& [at, byte, why] : {std::tuple(40, 4, "data: expected a chunk at byte 48, after its size of 4;"),
                                      std::tuple(28, 1, "fmt: expected 16000 bytes a second"),
                                      std::tuple(32, 4, "fmt: expected frames of 2 bytes")}) {
    std::string lies = whole;
    lies[static_cast<std::size_t>(at)] = static_cast<char>(byte);
    test_files::write_raw(path, lies);
    const std::string message = message_of([&] { train(sample_failure::raise); });
    BOOST_TEST(holds(message, "fit: sample 7 of the training data cannot be read: " + path + ": " + why));
    BOOST_TEST(train(sample_failure::skip).epochs[0].skipped == 1);
    BOOST_TEST(predict(net, data, {.on_error = sample_failure::skip}).samples.size() == 9U);
  }
  std::filesystem::create_directories(dir / "none");
  BOOST_TEST(holds(message_of([&] { datasets::audio_folder(dir.path.string()); }),
                   (dir / "none") + ": the folder of a class has no file that ends in"));
}

BOOST_AUTO_TEST_SUITE_END()
