// Chooses the part of a range that int8 numbers cover, from its histogram.
module lamina:quantize.calibration.impl;
import :core;
import :quantize;
import lamina.std;

namespace lamina {

namespace {

constexpr std::size_t levels = 256;  // of int8

// A histogram; the middle of a bin represents its values.
struct histogram {
  const value_range& range;
  double width;
  explicit histogram(const value_range& r) : range(r), width((r.high - r.low) / static_cast<double>(r.counts.size())) {}
  std::size_t size() const { return range.counts.size(); }
  double count(std::size_t i) const { return static_cast<double>(range.counts[i]); }
  double middle(std::size_t i) const { return range.low + (static_cast<double>(i) + 0.5) * width; }
  /// The part of the range within [-t, t], extended to contain 0.
  value_range within(double t) const {
    return {range.name, std::max(std::min(range.low, 0.0), -t), std::min(std::max(range.high, 0.0), t)};
  }
  /// The level, 0 to 255, that represents x in a range.
  static std::size_t level(double x, const value_range& r) {
    const double at = (std::clamp(x, r.low, r.high) - r.low) / (r.high - r.low) * static_cast<double>(levels - 1);
    return static_cast<std::size_t>(std::nearbyint(at));
  }
};

value_range of_percentile(const histogram& h, double percentile) {
  double all = 0;
  for (std::size_t i = 0; i < h.size(); ++i) all += h.count(i);
  const double left_out = all * (1 - percentile / 100) / 2;
  value_range r{h.range.name, h.range.low, h.range.high};
  double seen = 0;
  for (std::size_t i = 0; i < h.size() && (seen += h.count(i)) <= left_out; ++i)
    r.low = h.range.low + static_cast<double>(i + 1) * h.width;
  seen = 0;
  for (std::size_t i = h.size(); i-- > 0 && (seen += h.count(i)) <= left_out;)
    r.high = h.range.low + static_cast<double>(i) * h.width;
  return r;
}

// Divergence, sum of p log(p / q), of the values clamped to a range (p) from their quantization to 256 levels (q).
double divergence(const histogram& h, const value_range& r) {
  struct level {
    double count = 0, bins = 0;  // of values, and of nonempty bins
  };
  std::vector<level> of_level(levels);
  std::vector<double> inside(h.size());
  double all = 0;
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (h.count(i) == 0) continue;
    const std::size_t bin = std::min(
        h.size() - 1,
        static_cast<std::size_t>(std::max(0.0, (std::clamp(h.middle(i), r.low, r.high) - h.range.low) / h.width)));
    inside[bin] += h.count(i);
    all += h.count(i);
  }
  for (std::size_t i = 0; i < h.size(); ++i)
    if (h.count(i) != 0 && h.middle(i) >= r.low && h.middle(i) <= r.high) {
      level& l = of_level[histogram::level(h.middle(i), r)];
      l.count += h.count(i), ++l.bins;
    }
  double kept = 0, sum = 0;
  for (const level& l : of_level) kept += l.count;
  if (kept == 0) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (inside[i] == 0) continue;
    const level& l = of_level[histogram::level(h.middle(i), r)];
    // Clamped values without a level of their own cost as much as if a single value had that level.
    const double p = inside[i] / all, q = l.bins > 0 ? l.count / l.bins / kept : 1 / all;
    sum += p * std::log(p / q);
  }
  return sum;
}

double squared_error(const histogram& h, const value_range& r) {
  const double step = (r.high - r.low) / static_cast<double>(levels - 1);
  double sum = 0;
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (h.count(i) == 0) continue;
    const double x = h.middle(i), error = x - (r.low + static_cast<double>(histogram::level(x, r)) * step);
    // If a bin is wider than a step, its middle does not represent its other values: uses the mean error of a uniform
    // distribution.
    const bool inside = x >= r.low && x <= r.high;
    sum += h.count(i) * (inside && h.width > step ? step * step / 12 : error * error);
  }
  return sum;
}

// The range of least cost among [-t, t], each cut to the range of the values.
template <class Cost> value_range least(const histogram& h, Cost cost) {
  const double max = std::max(-h.range.low, h.range.high);
  value_range best = h.within(max);
  double least_cost = cost(best);
  constexpr int tries = 256;
  for (int i = tries / 16; i < tries; ++i) {
    const value_range r = h.within(max * i / tries);
    if (const double c = cost(r); c < least_cost) least_cost = c, best = r;
  }
  return best;
}

}  // namespace

value_range calibrated(const value_range& r, calibration how, double percentile) {
  text t;
  if (how == calibration::percentile && !(percentile > 50 && percentile <= 100))
    detail::raise(error_kind::value,
                  t << "quantize: `percentile` is " << percentile << "; expected more than 50 and at most 100 percent");
  value_range with_zero{r.name, std::min(r.low, 0.0), std::max(r.high, 0.0)};
  if (how == calibration::extrema || r.low == r.high) return with_zero;
  if (r.counts.empty())
    detail::raise(error_kind::value, t << "quantize: calibration by " << name_of(how) << " needs a histogram of `"
                                       << r.name << "`; profile this net with bins");
  const histogram h(r);
  value_range kept = how == calibration::percentile ? of_percentile(h, percentile)
                     : how == calibration::entropy
                         ? least(h, [&](const value_range& x) { return divergence(h, x); })
                         : least(h, [&](const value_range& x) { return squared_error(h, x); });
  kept.low = std::min(kept.low, 0.0);
  kept.high = std::max(kept.high, 0.0);
  return kept.low < kept.high ? kept : with_zero;
}

}  // namespace lamina
