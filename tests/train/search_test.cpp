// The search for a learning rate; charts of losses.
#include <boost/test/unit_test.hpp>

#include <algorithm>
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

const loss::cross_entropy by_entropy;

std::size_t count_of(const std::string& s, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = s.find(part); at != s.npos; at = s.find(part, at + 1)) ++n;
  return n;
}

// Squares in pictures of 28x28.
struct enlarged {
  image_dataset of = squares(400, 1);
  std::int64_t size() const { return of.size(); }
  std::pair<tensor<float, extents<1, 28, 28>>, std::int64_t> operator[](std::int64_t i) const {
    tensor<float, extents<1, 28, 28>> x;
    const auto image = of.image(i);
    auto out = x.writable();
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = image.data()[k / 28 * 6 / 28 * 6 + k % 28 * 6 / 28];
    return {x, of.label(i)};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(rate_search)

BOOST_AUTO_TEST_CASE(rates_rise_and_the_model_stays) {
  regular_model net({.seed = 1});
  fit(net, squares(60, 1), by_entropy, optim::adam{.lr = 1e-3}, {.batch = 16});  // with the optimizer's slots
  const auto before = net;
  const auto found =
      find_rate(net, squares(60, 1), by_entropy, optim::adam{}, {.low = 1e-5, .high = 1e-2, .steps = 31, .batch = 16});
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  BOOST_REQUIRE(found.points.size() == 31u);
  BOOST_TEST(!found.diverged);
  for (std::size_t k = 0; k < 31; ++k)
    BOOST_TEST(std::abs(found.points[k].rate / (1e-5 * std::pow(10, 0.1 * double(k))) - 1) < 1e-9);
  BOOST_TEST(found.points.back().rate == 1e-2);
  // The same steps by hand.
  auto by_hand = before;
  std::vector<double> losses;
  fit(by_hand, squares(60, 1), by_entropy, optim::adam{},
      {.epochs = 8,
       .batch = 16,
       .schedule = [](double, std::int64_t k,
                      std::int64_t) { return std::min(1e-2, 1e-5 * std::exp(std::log(1e-2 / 1e-5) / 30 * double(k))); },
       .observer =
           [&](const training_progress& p) {
             if (!p.epoch_ended) losses.push_back(p.batch_loss);
             return losses.size() < 31;
           }});
  double mean = 0;
  for (std::size_t k = 0; k < 31; ++k) {
    BOOST_TEST(found.points[k].loss == losses[k]);
    mean = 0.9 * mean + 0.1 * losses[k];
    BOOST_TEST(std::abs(found.points[k].smoothed - mean / (1 - std::pow(0.9, double(k + 1)))) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(the_suggestion_teaches_and_the_end_diverges) {
  plain_model net({.seed = 1});
  const auto data = squares(240, 1);
  // Some labels are wrong, so no rate reaches a loss of 0.
  struct noisy {
    const image_dataset* of;
    std::int64_t size() const { return of->size(); }
    std::pair<tensor<float, extents<1, 6, 6>>, std::int64_t> operator[](std::int64_t i) const {
      tensor<float, extents<1, 6, 6>> x;
      const auto image = of->image(i);
      std::copy(image.data().begin(), image.data().end(), x.writable().begin());
      return {x, (of->label(i) + (i % 5 == 0)) % 3};
    }
  };
  const auto found =
      find_rate(net, noisy{&data}, by_entropy, optim::sgd{}, {.low = 1e-5, .high = 1e4, .steps = 120, .batch = 16});
  BOOST_TEST(found.diverged);
  BOOST_TEST(found.points.size() < 120u);
  BOOST_TEST(found.suggestion > 1e-3);
  BOOST_TEST(found.suggestion < found.lowest);
  BOOST_TEST(found.lowest < found.points.back().rate);
  const auto report = fit(net, data, by_entropy, optim::sgd{.lr = found.suggestion}, {.epochs = 15, .batch = 16});
  BOOST_TEST(report.epochs.back().accuracy > 0.9);
  const auto table = found.table();
  BOOST_TEST(count_of(table, "\n") == found.points.size() + 1);
  BOOST_TEST(count_of(table, "<- suggestion") == 1u);
  const auto picture = found.picture("A rate");
  BOOST_TEST(picture.starts_with("<svg"));
  BOOST_TEST(picture.ends_with("</svg>\n"));
  BOOST_TEST(count_of(picture, "stroke=\"#b91c1c\"") == 1u);  // the line at the suggestion
  BOOST_TEST(holds(picture, ">A rate</text>"));
  BOOST_TEST(holds(picture, ">1e-4</text>"));
}

// The suggestion must depend little on the random order of samples and initial weights.
BOOST_AUTO_TEST_CASE(suggestions_of_ten_seeds_are_alike) {
  const auto check = [](const auto& samples, const auto& make, const auto& optimizer, const char* what) {
    double low = 1e300, high = 0;
    for (std::int64_t seed = 0; seed < 10; ++seed) {
      const auto net = make(seed);
      const auto found = find_rate(net, samples, by_entropy, optimizer,
                                   {.low = 1e-5, .high = 10, .steps = 100, .batch = 16, .seed = seed});
      low = std::min(low, found.suggestion), high = std::max(high, found.suggestion);
    }
    BOOST_TEST(low > 0);
    BOOST_TEST_MESSAGE(what << ": from " << low << " to " << high);
    BOOST_TEST(high < 3 * low, what << ": from " << low << " to " << high);
  };
  const auto mlp = [](std::int64_t seed) { return plain_model({.seed = seed}); };
  const auto conv = [](std::int64_t seed) { return regular_model({.seed = seed}); };
  const auto large = [](std::int64_t seed) { return model<lenet, input<"N", 1, 28, 28>>({.seed = seed}); };
  check(squares(400, 1), mlp, optim::sgd{}, "MLP, sgd");
  check(squares(400, 1), mlp, optim::adam{}, "MLP, adam");
  check(squares(400, 1), conv, optim::sgd{}, "conv, sgd");
  check(squares(400, 1), conv, optim::adam{}, "conv, adam");
  check(enlarged{}, large, optim::adam{}, "LeNet, adam");
  const auto drawn = [](std::int64_t) { return model<lenet, input<"N", 1, 28, 28>>({.seed = 1}); };
  check(enlarged{}, drawn, optim::sgd{.momentum = 0.9}, "LeNet of one seed, sgd");
}

// A trained net has losses near 0, which differ between batches by large factors.
BOOST_AUTO_TEST_CASE(losses_near_zero_are_no_divergence) {
  plain_model net({.seed = 1});
  const auto data = squares(120, 1);
  fit(net, data, by_entropy, optim::adam{.lr = 0.02}, {.epochs = 60, .batch = 16});
  const auto found =
      find_rate(net, data, by_entropy, optim::sgd{}, {.low = 1e-6, .high = 1e-3, .steps = 40, .batch = 4});
  BOOST_TEST(!found.diverged);
  BOOST_TEST(found.points.size() == 40u);
}

BOOST_AUTO_TEST_CASE(losses_that_are_not_finite_end_it) {
  struct cliff {
    ir::value operator()(const ir::value& y, const ir::value&) const { return reduce_mean(exp(square(y))); }
  };
  plain_model net({.seed = 1});
  const auto found = find_rate(net, squares(40, 1), cliff{}, optim::sgd{},
                               {.low = 1e-3, .high = 1e6, .steps = 10, .batch = 10, .divergence = 1e30});
  BOOST_TEST(found.diverged);
  BOOST_TEST(found.points.size() < 10u);
  for (const auto& p : found.points) BOOST_TEST(std::isfinite(p.loss));
  struct never {
    ir::value operator()(const ir::value& y, const ir::value&) const { return reduce_mean(log(y - y)); }
  };
  BOOST_TEST(holds(error_of([&] { find_rate(net, squares(40, 1), never{}, optim::sgd{}); }),
                   "value_error: fit: the loss is not finite in epoch 1, batch 1"));
}

BOOST_AUTO_TEST_CASE(a_loss_that_never_falls_has_no_suggestion) {
  plain_model net({.seed = 1});
  struct uphill {
    ir::value operator()(const ir::value& y, const ir::value& l) const { return -cross_entropy(y, l); }
  };
  struct constant {
    ir::value operator()(const ir::value& y, const ir::value&) const { return reduce_mean(y * 0); }
  };
  const auto flat = find_rate(net, squares(40, 1), constant{}, optim::sgd{}, {.steps = 12, .batch = 10});
  BOOST_TEST(flat.suggestion == 0);
  BOOST_TEST(flat.points.size() == 12u);
  BOOST_TEST(holds(flat.picture(), "the loss never falls"));
  BOOST_TEST(find_rate(net, squares(40, 1), uphill{}, optim::sgd{}, {.low = 0.1, .steps = 12, .batch = 10}).suggestion >
             0);
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_refused) {
  const plain_model net({.seed = 1});  // const is accepted
  const auto message = [&](const find_rate_options& o) {
    return error_of([&] { find_rate(net, squares(20, 1), by_entropy, optim::sgd{}, o); });
  };
  BOOST_TEST(message({.low = 0}) == "value_error: find_rate: `low` is 0; expected a finite number > 0");
  BOOST_TEST(message({.low = 2, .high = 1}) == "value_error: find_rate: `low` is 2 and `high` 1; expected low < high");
  BOOST_TEST(holds(message({.steps = 1}), "find_rate: `steps` is 1 and `batch` 64"));
  BOOST_TEST(holds(message({.smoothing = 1}), "find_rate: `smoothing` is 1"));
  BOOST_TEST(holds(message({.divergence = -1}), "find_rate: `divergence` is -1"));
  BOOST_TEST(message({.steps = 4, .batch = 10}) == "");
}

BOOST_AUTO_TEST_CASE(nets_from_files_are_searched) {
  plain_model net({.seed = 1});
  const model_core core = net.core();
  const auto a = find_rate(core, squares(40, 1), by_entropy, optim::sgd{}, {.steps = 8, .batch = 10}),
             b = find_rate(net, squares(40, 1), by_entropy, optim::sgd{}, {.steps = 8, .batch = 10});
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(a.points[i].loss == b.points[i].loss);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(charts)

BOOST_AUTO_TEST_CASE(points_lie_where_the_axes_say) {
  const chart_panel panel{.title = "a < b",
                          .curves = {{"one & two", {1, 2, 3}, {0, 5, 10}}, {"other", {1, 3}, {10, 0}}},
                          .unit = " %",
                          .digits = 1};
  const auto s = draw_chart("Title", "subtitle", {&panel, 1});
  BOOST_TEST(s.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"520\""));
  BOOST_TEST(holds(s, "<title>Title</title>"));
  BOOST_TEST(holds(s, "a &lt; b"));
  BOOST_TEST(holds(s, "one &amp; two"));
  BOOST_TEST(holds(s, "d=\"M90 360L235 240L380 120\""));  // from the lower left to the upper right corner
  BOOST_TEST(holds(s, "d=\"M90 120L380 360\""));
  BOOST_TEST(holds(s, ">10.0 %</text>"));
  BOOST_TEST(count_of(s, "<circle") == 5u);
}

BOOST_AUTO_TEST_CASE(logarithms_and_points_that_are_not_finite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  chart_panel panel{.curves = {{"c", {0.01, 0.1, 1, 10, 100}, {0, nan, 4, inf, 8}}}, .log_x = true, .mark = 1};
  const auto s = draw_chart("t", "", {&panel, 1});
  BOOST_TEST(holds(s, "d=\"M90 360L235 240L380 120\""));
  BOOST_TEST(holds(s, "d=\"M235 120L235 360\" stroke=\"#b91c1c\""));
  panel.curves[0].x[1] = 0;
  BOOST_TEST(holds(error_of([&] { draw_chart("t", "", {&panel, 1}); }), "value_error: chart: curve `c` has x = 0"));
  panel.curves[0].x.pop_back();
  BOOST_TEST(holds(error_of([&] { draw_chart("t", "", {&panel, 1}); }),
                   "value_error: chart: curve `c` has 4 x values and 5 y values"));
  const chart_panel empty{.curves = {{"c", {}, {}}}};
  BOOST_TEST(draw_chart("t", "", {&empty, 1}).ends_with("</svg>\n"));
  const chart_panel same{.curves = {{"c", {3}, {7}}, {"d", {3}, {7}}}};
  BOOST_TEST(!holds(draw_chart("t", "", {&same, 1}), "nan"));
  BOOST_TEST(draw_chart("t", "", {}).ends_with("</svg>\n"));
  // Numbers whose differences overflow double, and an axis with steps below their precision.
  const double max = std::numeric_limits<double>::max();
  const chart_panel wide{.curves = {{"c", {1, 2, 3}, {-max, 5, max}}, {"d", {1e17, 1e17}, {1e299, -1e299}}}};
  BOOST_TEST(!holds(draw_chart("t", "", {&wide, 1}), "nan"));
}

BOOST_AUTO_TEST_CASE(the_curve_of_a_training) {
  training_report r;
  for (int e = 1; e <= 3; ++e)
    r.epochs.push_back({.epoch = e,
                        .loss = 1.0 / e,
                        .accuracy = 0.3 * e,
                        .validation_loss = 1.2 / e,
                        .validation_accuracy = 0.25 * e});
  auto s = learning_curve(r, "Net", "words");
  BOOST_TEST(count_of(s, "<circle") == 12u);
  BOOST_TEST(count_of(s, ">validation</text>") == 2u);
  BOOST_TEST(holds(s, ">90.00 %</text>"));
  BOOST_TEST(holds(s, ">0.4000</text>"));
  for (auto& e : r.epochs)
    e.validation_loss.reset(), e.validation_accuracy.reset(), e.accuracy = std::numeric_limits<double>::quiet_NaN();
  s = learning_curve(r);
  BOOST_TEST(count_of(s, "<circle") == 3u);
  BOOST_TEST(count_of(s, ">validation</text>") == 0u);
  BOOST_TEST(count_of(s, "Accuracy") == 0u);
  BOOST_TEST(learning_curve({}).ends_with("</svg>\n"));
}

BOOST_AUTO_TEST_SUITE_END()
