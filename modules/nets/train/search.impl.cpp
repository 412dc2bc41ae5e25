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
    detail::raise(error_kind::value, t << "find_rate: `low` is " << o.low << " and `high` " << o.high
                                       << "; expected a lower and a higher rate");
  if (o.steps < 2 || o.batch < 1)
    detail::raise(error_kind::value, t << "find_rate: `steps` is " << o.steps << " and `batch` " << o.batch
                                       << "; expected 2 or more, and 1 or more");
}

// Collects the steps, and ends training where it diverges.
struct collector {
  const find_rate_options& o;
  rate_report& found;
  double mean = 0, weight = 0, least = std::numeric_limits<double>::infinity();

  bool operator()(const training_progress& p) {
    if (p.epoch_ended) return true;
    mean = o.smoothing * mean + (1 - o.smoothing) * p.batch_loss;
    weight = o.smoothing * weight + (1 - o.smoothing);
    const double smoothed = mean / weight;
    found.points.push_back({p.learning_rate, p.batch_loss, smoothed});
    least = std::min(least, smoothed);
    found.diverged = smoothed > least + o.divergence * std::abs(least);
    return !found.diverged && static_cast<std::int64_t>(found.points.size()) < o.steps;
  }
};

void conclude(rate_report& r) {
  std::size_t lowest = 0;
  for (std::size_t i = 0; i < r.points.size(); ++i)
    if (r.points[i].smoothed < r.points[lowest].smoothed) lowest = i;
  r.lowest = r.points[lowest].rate;
  double steepest = 0;
  for (std::size_t i = 1; i < lowest; ++i) {
    const auto &a = r.points[i - 1], &b = r.points[i + 1];
    const double slope = (b.smoothed - a.smoothed) / std::log(b.rate / a.rate);
    if (slope < steepest) steepest = slope, r.suggestion = r.points[i].rate;
  }
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
  conclude(found);
  return found;
}

std::string rate_report::table() const {
  std::string s = "learning rate         loss     smoothed\n";
  const auto right = [](std::string x, std::size_t width) {
    return std::string(width - std::min(width, x.size()), ' ') + x;
  };
  for (const auto& p : points) {
    text rate;
    rate << p.rate;
    s += right(rate.string(), 13) + right(decimals_of(p.loss, 5), 13) + right(decimals_of(p.smoothed, 5), 13);
    if (p.rate == suggestion) s += "  <- suggestion";
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
