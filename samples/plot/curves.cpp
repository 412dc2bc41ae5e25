#include "curves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "svg.h"

namespace {

struct scale {
  double low = 0, high = 1, step = 1;
  int digits = 0;
};

// A range with round ticks, about five of them, around the values.
scale round_scale(double low, double high) {
  const double span = std::max(high - low, 1e-6 * std::max(1.0, std::abs(high)));
  const double power = std::pow(10.0, std::floor(std::log10(span / 4)));
  double step = power;
  for (double factor : {2.0, 5.0, 10.0})
    if (span / step > 6) step = factor * power;
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return {std::floor(low / step) * step, std::ceil(high / step) * step, step, digits};
}

}  // namespace

std::string svg::draw(const panel& p, const std::vector<std::int64_t>& epochs, const std::vector<curve>& curves) {
  double low = curves[0].values[0], high = low;
  for (const auto& c : curves)
    for (double v : c.values) low = std::min(low, v), high = std::max(high, v);
  const scale y = round_scale(low, high);
  const double first = static_cast<double>(epochs.front()), last = static_cast<double>(epochs.back());
  auto at_x = [&](double e) { return p.left + (last > first ? (e - first) / (last - first) : 0.5) * p.width; };
  auto at_y = [&](double v) { return p.top + (y.high - v) / (y.high - y.low) * p.height; };

  std::string s = svg::text(p.left, p.top - 16, p.title, {.size = 14, .bold = true});
  const long steps = std::lround((y.high - y.low) / y.step);
  for (long i = 0; i <= steps; ++i) {
    const double v = y.low + static_cast<double>(i) * y.step;
    s += svg::line(p.left, at_y(v), p.left + p.width, at_y(v), svg::rule);
    s += svg::text(p.left - 8, at_y(v) + 4, svg::fixed(v, y.digits) + std::string(p.unit),
                   {.fill = svg::faint, .anchor = "end"});
  }
  const auto stride = std::max<std::int64_t>(1, (epochs.back() - epochs.front() + 9) / 10);
  for (auto e = epochs.front(); e <= epochs.back(); e += stride)
    s += svg::text(at_x(static_cast<double>(e)), p.top + p.height + 20, std::to_string(e),
                   {.fill = svg::faint, .anchor = "middle"});
  s += svg::line(p.left, p.top + p.height, p.left + p.width, p.top + p.height, svg::faint);
  s += svg::text(p.left + p.width / 2, p.top + p.height + 42, "epoch", {.fill = svg::faint, .anchor = "middle"});

  // The name and last value of each curve stand at its end, far enough apart to be read.
  std::vector<double> labels;
  for (const auto& c : curves) labels.push_back(at_y(c.values.back()));
  const double gap = 30, apart = labels[0] - labels[1];
  if (std::abs(apart) < gap) {
    const double shift = (gap - std::abs(apart)) / 2;
    labels[0] += apart < 0 ? -shift : shift;
    labels[1] += apart < 0 ? shift : -shift;
  }
  for (std::size_t k = 0; k < curves.size(); ++k) {
    const auto& c = curves[k];
    std::string path, dots;
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      const auto x = svg::number(at_x(static_cast<double>(epochs[i]))), v = svg::number(at_y(c.values[i]));
      path += (i ? "L" : "M") + x + " " + v;
      if (epochs.size() <= 40) dots += "<circle cx=\"" + x + "\" cy=\"" + v + "\" r=\"3.5\"/>";
    }
    s += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + std::string(c.color) +
         "\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n<g fill=\"" + std::string(c.color) + "\">" + dots +
         "</g>\n";
    const double x = at_x(last) + 12;
    s += svg::text(x, labels[k] - 2, c.name, {.fill = c.color});
    s += svg::text(x, labels[k] + 12, svg::fixed(c.values.back(), p.label_digits) + std::string(p.unit),
                   {.fill = c.color, .bold = true});
  }
  return s;
}
