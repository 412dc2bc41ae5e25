// Histograms, wrong predictions, and pictures of both.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t count_of(const std::string& s, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = s.find(part); at != s.npos; at = s.find(part, at + 1)) ++n;
  return n;
}
// An identity net, on rows of scores and classes.
inline constexpr auto nothing = sequential(nn::flatten{});
using nothing_model = model<nothing, input<"N", 3>>;
auto rows() {
  return dataset::of_tensors(matrix<float>{{2, 1, 0}, {0, 3, 1}, {1, 1, 1}, {5, 0, 0}, {0, 0, 1}},
                             vector<std::int64_t>{0, 2, 0, 1, 1});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(inspection)

BOOST_AUTO_TEST_CASE(histograms_count_each_number_once) {
  const auto h = histogram_of(std::vector<double>{0, 1, 1.5, 2, 2.5, 4, infinity, -infinity, std::nan("")}, 4);
  BOOST_TEST(h.count == 6);
  BOOST_TEST(h.not_finite == 3);
  BOOST_TEST(h.min == 0);
  BOOST_TEST(h.max == 4);
  BOOST_TEST(h.sum == 11);
  BOOST_TEST(h.sum_of_squares == 29.5);
  BOOST_TEST(h.mean() == 11.0 / 6);
  BOOST_TEST(std::abs(h.deviation() - std::sqrt(29.5 / 6 - 121.0 / 36)) < 1e-12);
  BOOST_TEST(h.limits == (std::vector<double>{1, 2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(h.counts == (std::vector<std::int64_t>{2, 2, 1, 1}), boost::test_tools::per_element());
  const auto random = random_tensor<matrix<float>>({100, 70}, 3);
  const auto r = histogram_of(random);
  std::int64_t all = 0;
  for (std::size_t k = 0; k < 64; ++k) {
    std::int64_t inside = 0;
    for (const float x : random.data()) inside += double(x) <= r.limits[k] && (k == 0 || double(x) > r.limits[k - 1]);
    BOOST_TEST(r.counts[k] == inside);
    all += inside;
  }
  BOOST_TEST(all == 7000);
}

BOOST_AUTO_TEST_CASE(histograms_of_few_or_huge_numbers) {
  const auto same = histogram_of(std::vector<std::int64_t>{3, 3, 3});
  BOOST_TEST(same.counts == (std::vector<std::int64_t>{3}), boost::test_tools::per_element());
  BOOST_TEST(same.limits == (std::vector<double>{3}), boost::test_tools::per_element());
  BOOST_TEST(same.deviation() == 0);
  const auto none = histogram_of(std::vector<float>{});
  BOOST_TEST(none.counts.empty());
  BOOST_TEST(none.deviation() == 0);
  const double max = std::numeric_limits<double>::max();
  const auto wide = histogram_of(std::vector<double>{-max, 0, max}, 2);
  BOOST_TEST(wide.counts == (std::vector<std::int64_t>{2, 1}), boost::test_tools::per_element());
  BOOST_TEST(wide.limits[0] == 0);
  BOOST_TEST(
      holds(error_of([] { histogram_of(std::vector<float>{1}, 0); }), "value_error: histogram_of: `ranges` is 0"));
  BOOST_TEST(holds(error_of([] { histogram_of(std::vector<float>{1}, 65537); }), "`ranges` is 65537"));
  BOOST_TEST(holds(error_of([] { histogram_of(any_tensor::of_strings({1}, std::vector<std::string>{"a"})); }),
                   "error: histogram_of: expected numbers"));
}

BOOST_AUTO_TEST_CASE(wrong_predictions_come_by_their_loss) {
  nothing_model net({.seed = 1});
  const auto wrong = wrong_predictions(net, rows());
  BOOST_REQUIRE(wrong.size() == 3u);  // a tie goes to the first class, as in argmax
  const std::int64_t indices[] = {3, 1, 4}, labels[] = {1, 2, 1}, found[] = {0, 1, 2};
  const double e = std::exp(1.0);
  const double losses[] = {std::log(std::exp(5.0) + 2), std::log(1 + std::exp(3.0) + e) - 1, std::log(2 + e)},
               probabilities[] = {std::exp(5.0) / (std::exp(5.0) + 2), std::exp(3.0) / (1 + std::exp(3.0) + e),
                                  e / (2 + e)};
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(wrong[i].index == indices[i]);
    BOOST_TEST(wrong[i].label == labels[i]);
    BOOST_TEST(wrong[i].found == found[i]);
    BOOST_TEST(std::abs(wrong[i].loss - losses[i]) < 1e-12);
    BOOST_TEST(std::abs(wrong[i].probability - probabilities[i]) < 1e-12);
  }
  const auto given =
      dataset::of_tensors(matrix<float>{{0.5f, 0.25f, 0.25f}, {0, 0.75f, 0.25f}}, vector<std::int64_t>{2, 0});
  const auto p = wrong_predictions(net, given, {.probabilities = true});
  BOOST_REQUIRE(p.size() == 2u);
  BOOST_TEST(p[0].index == 1);
  BOOST_TEST(p[0].loss == infinity);
  BOOST_TEST(p[0].probability == 0.75);
  BOOST_TEST(std::abs(p[1].loss - std::log(4.0)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(wrong_predictions_of_many_batches) {
  plain_model net({.seed = 1});
  const auto data = squares(600, 1);
  fit(net, data, loss::cross_entropy{}, optim::sgd{.lr = 0.02}, {.batch = 32});
  const auto wrong = wrong_predictions(net, data);
  BOOST_TEST(wrong.size() > 3u);
  BOOST_TEST(std::abs(1 - double(wrong.size()) / 600 - evaluate(net, data, loss::cross_entropy{}).accuracy) < 1e-12);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const auto& w = wrong[i];
    BOOST_TEST(w.label == data.label(w.index));
    BOOST_TEST(w.found == item(argmax(net(data.image(w.index)))));
    if (i) BOOST_TEST(wrong[i - 1].loss >= w.loss);
  }
}

BOOST_AUTO_TEST_CASE(other_results_are_refused) {
  nothing_model net({.seed = 1});
  const auto message = [&](const auto& targets) {
    return error_of([&] { wrong_predictions(net, dataset::of_tensors(matrix<float>{{2, 1, 0}}, targets)); });
  };
  BOOST_TEST(
      holds(message(vector<std::int64_t>{3}), "value_error: wrong_predictions: label 3 of sample 0 is outside 0..2"));
  BOOST_TEST(holds(message(vector<float>{1}),
                   "error: wrong_predictions: results are float32[1x3] and targets float32[1]; expected"));
  BOOST_TEST(holds(message(matrix<std::int64_t>{{1, 1}}),
                   "shape_error: wrong_predictions: results are float32[1x3] and targets int64[1x2]"));
}

BOOST_AUTO_TEST_CASE(sheets_show_the_pixels) {
  image_dataset::images_type bytes(2, 1, 2, 3);
  const std::uint8_t first[] = {0, 255, 255, 16, 0, 0};
  for (std::size_t i = 0; i < 6; ++i) bytes.writable()[i] = first[i];
  const image_dataset data(bytes, vector<std::int64_t>{0, 1}, {"a<b", "c"});
  const wrong_prediction shown[] = {{.index = 0, .label = 0, .found = 1, .probability = 0.987}};
  auto s = picture_sheet(data, shown, {.title = "T", .subtitle = "words", .columns = 2});
  BOOST_TEST(s.starts_with("<svg"));
  BOOST_TEST(holds(s, "<path stroke=\"#141414\" d=\"M1 0.5h2\"/>"));  // the two dark pixels in one stroke
  BOOST_TEST(holds(s, "d=\"M0 1.5h1\"/>"));
  BOOST_TEST(count_of(s, "<path stroke") == 2u);
  BOOST_TEST(holds(s, ">c 98.7 %</text>"));
  BOOST_TEST(holds(s, ">is: a&lt;b</text>"));
  BOOST_TEST(holds(s, "scale(32)"));
  s = picture_sheet(data, shown, {.inverted = false});
  BOOST_TEST(!holds(s, "<path stroke=\"#ffffff\""));  // white is the background
  BOOST_TEST(holds(s, "<path stroke=\"#111111\" d=\"M0 1.5h1\"/>"));
  BOOST_TEST(holds(s, "<path stroke=\"#000000\" d=\"M0 0.5h1M1 1.5h2\"/>"));
  // Three channels.
  image_dataset::images_type colors(1, 3, 1, 2);
  const std::uint8_t rgb[] = {255, 0, 0, 128, 17, 255};
  for (std::size_t i = 0; i < 6; ++i) colors.writable()[i] = rgb[i];
  s = picture_sheet(image_dataset(colors, vector<std::int64_t>{0}, {"a", "b"}), shown);
  BOOST_TEST(holds(s, "<path stroke=\"#ff0011\" d=\"M0 0.5h1\"/>"));
  BOOST_TEST(holds(s, "<path stroke=\"#0088ff\" d=\"M1 0.5h1\"/>"));
  const auto message = [&](wrong_prediction p, sheet_options o = {}) {
    return error_of([&] { picture_sheet(data, {&p, 1}, o); });
  };
  BOOST_TEST(holds(
      message({.index = 2}),
      "value_error: picture_sheet: sample 2 of class 0, predicted as 0, is outside the data set of 2 pictures and "
      "2 classes"));
  BOOST_TEST(holds(message({.index = -1}), "sample -1"));
  BOOST_TEST(holds(message({.label = 2}), "of class 2"));
  BOOST_TEST(holds(message({.found = -1}), "predicted as -1"));
  BOOST_TEST(holds(message({}, {.columns = 0}), "`columns` is 0"));
  image_dataset::images_type two(1, 2, 1, 1);
  BOOST_TEST(holds(error_of([&] { picture_sheet(image_dataset(two, vector<std::int64_t>{0}, {"a"}), {}); }),
                   "pictures have 2 channels; expected 1 or 3"));
}

BOOST_AUTO_TEST_CASE(confusion_is_drawn) {
  metric::confusion_matrix table{.classes = 3};
  table.add(vector<std::int64_t>{0, 0, 0, 1, 1, 2}, vector<std::int64_t>{0, 0, 0, 0, 1, 2});
  const std::string names[] = {"cat", "dog", "owl & co"};
  const auto s = confusion_picture(table, names, "T");
  BOOST_TEST(count_of(s, "<rect") == 10u);  // the background and 9 cells
  BOOST_TEST(count_of(s, ">owl &amp; co</text>") == 2u);
  BOOST_TEST(holds(s, "accuracy 83.33 %"));
  // Three quarters of the cats are found: blue at three quarters; a quarter is red.
  BOOST_TEST(holds(s, "x=\"170\" y=\"120\" width=\"44\" height=\"44\" fill=\"#5c8af0\""));
  BOOST_TEST(holds(s, "x=\"214\" y=\"120\" width=\"44\" height=\"44\" fill=\"#eec6c6\""));
  BOOST_TEST(holds(s, "x=\"170\" y=\"164\" width=\"44\" height=\"44\" fill=\"#ffffff\""));
  BOOST_TEST(holds(s, ">3</text>"));
  BOOST_TEST(holds(confusion_picture(table), ">2</text>"));
  BOOST_TEST(holds(error_of([&] { confusion_picture(table, {names, 2}); }), "there are 2 names for 3 classes"));
  BOOST_TEST(holds(error_of([&] { confusion_picture(metric::confusion_matrix{}); }),
                   "the table has 0 classes; expected 1 to 200"));
  BOOST_TEST(
      holds(error_of([&] { confusion_picture({.classes = 201, .counts = std::vector<std::int64_t>(201 * 201)}); }),
            "the table has 201 classes"));
}

BOOST_AUTO_TEST_SUITE_END()
