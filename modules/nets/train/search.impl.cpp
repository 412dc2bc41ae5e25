module lamina:train.search.impl;
import :core;
import :data.set;
import :model;
import :train;
import :train.chart;
import :train.hyper;
import :train.observe;
import :train.search;
import lamina.std;

namespace lamina {

namespace {

void check(const find_rate_options& o) {
  detail::check_numbers("find_rate", {detail::positive("low", o.low),
                                      detail::positive("high", o.high),
                                      {"smoothing", o.smoothing, 1},
                                      detail::positive("divergence", o.divergence)});
  text t;
  if (!(o.low < o.high))
    detail::raise(error_kind::value,
                  t << "find_rate: `low` is " << o.low << " and `high` " << o.high << "; expected low < high");
  if (o.steps < 2 || o.batch < 1)
    detail::raise(error_kind::value, t << "find_rate: `steps` is " << o.steps << " and `batch` " << o.batch
                                       << "; expected steps >= 2 and batch >= 1");
}

constexpr std::size_t first_points = 10,
                      last_points = 5;  // first ones: their losses are no divergence; last ones: a majority decides

// Collects the steps, and ends training when it diverges.
struct collector {
  const find_rate_options& o;
  rate_report& found;
  double mean = 0, weight = 0, usual = 0, least = std::numeric_limits<double>::infinity();

  bool operator()(const training_progress& p) {
    if (p.epoch_ended) return true;
    mean = o.smoothing * mean + (1 - o.smoothing) * p.batch_loss;
    weight = o.smoothing * weight + (1 - o.smoothing);
    const double smoothed = mean / weight;
    found.points.push_back({p.learning_rate, p.batch_loss, smoothed});
    least = std::min(least, smoothed);
    if (found.points.size() <= first_points) usual = std::max(usual, p.batch_loss);
    const double bound = least + std::max(o.divergence * std::abs(least), usual - least);
    // One batch with a large loss is no divergence: most of the last ones must be large.
    const auto last = found.points.size() - std::min(found.points.size(), last_points);
    const auto large = std::count_if(found.points.begin() + static_cast<std::ptrdiff_t>(last), found.points.end(),
                                     [&](const rate_point& x) { return x.loss > bound; });
    found.diverged = smoothed > bound && 2 * static_cast<std::size_t>(large) > found.points.size() - last;
    return !found.diverged && static_cast<std::int64_t>(found.points.size()) < o.steps;
  }
};

// Slope of the least-squares line through smoothed losses over the logarithm of the rate.
double slope_of(view<const rate_point> points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& p : points) x += std::log(p.rate) / n, y += p.smoothed / n;
  for (const auto& p : points) {
    const double dx = std::log(p.rate) - x;
    xx += dx * dx;
    xy += dx * (p.smoothed - y);
  }
  return xx > 0 ? xy / xx : 0;
}

void conclude(rate_report& r, const find_rate_options& o) {
  std::size_t lowest = 0;
  for (std::size_t i = 0; i < r.points.size(); ++i)
    if (r.points[i].smoothed < r.points[lowest].smoothed) lowest = i;
  r.lowest = r.points[lowest].rate;
  // Windows of a tenth of the steps in which the loss falls at least half as steeply as in the steepest one: the mean
  // of their log rates, weighted by slope, which is less noisy than the steepest window alone.
  const auto window = static_cast<std::size_t>(std::max<std::int64_t>(3, o.steps / 10));
  std::vector<double> slopes;
  for (std::size_t i = 0; i + window <= lowest + 1; ++i) slopes.push_back(slope_of({r.points.data() + i, window}));
  const double steepest = slopes.empty() ? 0 : *std::min_element(slopes.begin(), slopes.end());
  if (steepest >= 0) return;
  double sum = 0, at = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    if (slopes[i] > steepest / 2) continue;
    sum += slopes[i];
    at += slopes[i] * std::log(r.points[i].rate * r.points[i + window - 1].rate) / 2;
  }
  r.suggestion = std::exp(at / sum);
}

}  // namespace

rate_report detail::searched_rate(model_core net, trainer::loss_rule loss, trainer::step_rule step,
                                  const sample_source& data, const find_rate_options& o) {
  check(o);
  rate_report found;
  const std::int64_t batches = std::max<std::int64_t>(1, (data.size() + o.batch - 1) / o.batch);
  const double ratio = std::log(o.high / o.low) / static_cast<double>(o.steps - 1);
  const auto rates = [&](double, std::int64_t k, std::int64_t) {
    return k + 1 < o.steps ? std::min(o.high, o.low * std::exp(ratio * static_cast<double>(k))) : o.high;
  };
  try {
    trainer(net, std::move(loss), std::move(step), o.low)
        .fit(data, {.epochs = (o.steps + batches - 1) / batches,
                    .batch = o.batch,
                    .schedule = rates,
                    .observer = collector{o, found},
                    .seed = o.seed,
                    .threads = o.threads,
                    .shards = o.shards});
  } catch (const not_finite_error&) {
    if (found.points.empty()) throw;
    found.diverged = true;
  }
  conclude(found, o);
  return found;
}

std::string rate_report::table() const {
  std::string s = "learning rate         loss     smoothed\n";
  const auto right = [](std::string x, std::size_t width) {
    return std::string(width - std::min(width, x.size()), ' ') + x;
  };
  // The suggestion lies between two rates, or is absent.
  const rate_point* nearest = nullptr;
  for (const auto& p : points)
    if (suggestion > 0 &&
        (!nearest || std::abs(std::log(p.rate / suggestion)) < std::abs(std::log(nearest->rate / suggestion))))
      nearest = &p;
  for (const auto& p : points) {
    text rate;
    rate << p.rate;
    s += right(rate.string(), 13) + right(decimals_of(p.loss, 5), 13) + right(decimals_of(p.smoothed, 5), 13);
    if (&p == nearest) s += "  <- suggestion";
    s += "\n";
  }
  return s;
}

std::string rate_report::picture(std::string_view title) const {
  chart_curve smoothed{"smoothed", {}, {}};
  for (const auto& p : points) {
    smoothed.x.push_back(p.rate);
    smoothed.y.push_back(p.smoothed);
  }
  chart_panel panel{.title = "Loss", .curves = {smoothed}, .x_title = "learning rate", .log_x = true};
  text t;
  if (suggestion > 0) panel.mark = suggestion, t << "suggestion: " << suggestion;
  else t << "the loss never falls";
  return draw_chart(title, t.view(), view<const chart_panel>(&panel, 1));
}

}  // namespace lamina
