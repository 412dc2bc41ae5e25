module lamina:train.chart.impl;
import :core;
import :train.chart;
import :train.observe;
import :train.svg;
import lamina.std;

namespace lamina {

namespace {

struct scale {
  double low = 0, high = 1, step = 1;
  int digits = 0;
};

// A range around the values with about five round ticks.
scale round_scale(double low, double high) {
  const double span = std::max(high - low, 1e-6 * std::max(1.0, std::abs(high)));
  const double power = std::pow(10.0, std::floor(std::log10(span / 4)));
  double step = power;
  for (double factor : {2.0, 5.0, 10.0})
    if (span / step > 6) step = factor * power;
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 100);
  const double first = std::floor(low / step);
  return {first * step, std::max(std::ceil(high / step), first + 1) * step, step, digits};
}

struct point {
  double x, y;
};
// Whether a number is finite and small enough that differences are finite.
bool is_drawn(double x) { return std::abs(x) <= 1e300; }
// Points that can be drawn, as logarithms on a logarithmic axis.
std::vector<point> points_of(const chart_curve& c, bool log_x) {
  ::lamina::text t;
  if (c.x.size() != c.y.size())
    detail::raise(error_kind::value, t << "chart: curve `" << c.name << "` has "
                                       << static_cast<std::int64_t>(c.x.size()) << " x values and "
                                       << static_cast<std::int64_t>(c.y.size()) << " y values");
  std::vector<point> all;
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    if (log_x && !(c.x[i] > 0))
      detail::raise(error_kind::value,
                    t << "chart: curve `" << c.name << "` has x = " << c.x[i] << "; expected x > 0 for `log_x`");
    const double x = log_x ? std::log10(c.x[i]) : c.x[i];
    if (is_drawn(x) && is_drawn(c.y[i])) all.push_back({x, c.y[i]});
  }
  return all;
}

// Positions and labels of the ticks of the horizontal axis.
std::vector<std::pair<double, std::string>> ticks_of(double first, double last, bool log_x, bool whole) {
  std::vector<std::pair<double, std::string>> ticks;
  if (log_x) {
    const auto stride = std::max(1.0, std::ceil((last - first) / 10));
    for (double e = std::ceil(first - 1e-9); e <= last + 1e-9; e += stride)
      ticks.emplace_back(e, "1e" + svg::number(e, 0));
  } else if (whole) {
    const double stride = std::max(1.0, std::floor((last - first + 9) / 10));
    for (int i = 0; first + i * stride <= last && i <= 10; ++i)
      ticks.emplace_back(first + i * stride, svg::number(first + i * stride, 0));
  } else {
    const scale s = round_scale(first, last);
    for (long i = 0, count = std::lround((s.high - s.low) / s.step); i <= count; ++i) {
      const double v = s.low + static_cast<double>(i) * s.step;
      if (v >= first - 1e-9 * s.step && v <= last + 1e-9 * s.step) ticks.emplace_back(v, decimals_of(v, s.digits));
    }
  }
  return ticks;
}

// Moves overlapping labels apart.
void spread(std::vector<double>& labels, double gap) {
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return labels[a] < labels[b]; });
  for (int round = 0; round < 50; ++round)
    for (std::size_t i = 1; i < order.size(); ++i) {
      double &a = labels[order[i - 1]], &b = labels[order[i]];
      const double shift = (gap - (b - a)) / 2;
      if (shift > 0) a -= shift, b += shift;
    }
}

// A chart with its upper left corner at (left, top).
class panel_drawing {
 public:
  panel_drawing(const chart_panel& p, double left, double top) : p_(p), left_(left), top_(top) {
    bool whole = !p.log_x, any = false;
    double low = 0, high = 0;
    for (const auto& c : p.curves) {
      points_.push_back(points_of(c, p.log_x));
      for (const auto& [x, y] : points_.back()) {
        first_ = any ? std::min(first_, x) : x, last_ = any ? std::max(last_, x) : x;
        low = any ? std::min(low, y) : y, high = any ? std::max(high, y) : y;
        whole = whole && x == std::floor(x);
        any = true;
      }
    }
    y_ = round_scale(low, high);
    ticks_ = ticks_of(first_, last_, p.log_x, whole);
  }

  std::string picture() const {
    std::string s = svg::text(left_, top_ - 16, p_.title, {.size = 14, .bold = true});
    const long steps = std::lround((y_.high - y_.low) / y_.step);
    for (long i = 0; i <= steps; ++i) {
      const double v = y_.low + static_cast<double>(i) * y_.step;
      s += svg::line(left_, at_y(v), left_ + width, at_y(v), svg::rule);
      s +=
          svg::text(left_ - 8, at_y(v) + 4, decimals_of(v, y_.digits) + p_.unit, {.fill = svg::faint, .anchor = "end"});
    }
    for (const auto& [x, tick_label] : ticks_)
      s += svg::text(at_x(x), top_ + height + 20, tick_label, {.fill = svg::faint, .anchor = "middle"});
    s += svg::line(left_, top_ + height, left_ + width, top_ + height, svg::faint);
    s += svg::text(left_ + width / 2, top_ + height + 42, p_.x_title, {.fill = svg::faint, .anchor = "middle"});
    if (p_.mark) {
      const double x = at_x(p_.log_x ? std::log10(*p_.mark) : *p_.mark);
      if (std::isfinite(x)) s += svg::line(x, top_, x, top_ + height, svg::red);
    }
    return s + lines();
  }

 private:
  static constexpr double width = 290, height = 240;
  static constexpr std::string_view colors[] = {svg::blue, svg::orange, "#15803d", "#7c3aed", "#0e7490", "#a16207"};

  double at_x(double x) const { return left_ + (last_ > first_ ? (x - first_) / (last_ - first_) : 0.5) * width; }
  double at_y(double v) const { return top_ + (y_.high - v) / (y_.high - y_.low) * height; }

  std::string lines() const {
    // Labels each curve with name and last value at its end, without overlaps.
    std::vector<double> labels;
    for (const auto& c : points_) labels.push_back(c.empty() ? top_ : at_y(c.back().y));
    spread(labels, 30);
    std::string s;
    for (std::size_t k = 0; k < points_.size(); ++k) {
      const auto& c = points_[k];
      if (c.empty()) continue;
      const std::string_view color = colors[k % std::size(colors)];
      std::string path, dots;
      for (std::size_t i = 0; i < c.size(); ++i) {
        const auto x = svg::number(at_x(c[i].x)), v = svg::number(at_y(c[i].y));
        path += (i ? "L" : "M") + x + " " + v;
        if (c.size() <= 40) dots += "<circle cx=\"" + x + "\" cy=\"" + v + "\" r=\"3.5\"/>";
      }
      s += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + std::string(color) +
           "\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n<g fill=\"" + std::string(color) + "\">" + dots +
           "</g>\n";
      const double x = at_x(c.back().x) + 12;
      s += svg::text(x, labels[k] - 2, p_.curves[k].name, {.fill = color});
      s += svg::text(x, labels[k] + 12, decimals_of(c.back().y, p_.digits) + p_.unit, {.fill = color, .bold = true});
    }
    return s;
  }

  const chart_panel& p_;
  double left_, top_, first_ = 0, last_ = 0;
  scale y_;
  std::vector<std::vector<point>> points_;
  std::vector<std::pair<double, std::string>> ticks_;
};

}  // namespace

std::string draw_chart(std::string_view title, std::string_view subtitle, view<const chart_panel> panels) {
  std::string s =
      svg::begin(40 + 480 * std::max<std::int64_t>(1, static_cast<std::int64_t>(panels.size())), 430, title);
  s += svg::head(title, subtitle);
  for (std::size_t i = 0; i < panels.size(); ++i)
    s += panel_drawing(panels[i], 90 + 480 * static_cast<double>(i), 120).picture();
  return s + std::string(svg::end);
}

std::string learning_curve(const training_report& report, std::string_view title, std::string_view subtitle,
                           std::string_view loss_name) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  chart_curve loss[] = {{"training", {}, {}}, {"validation", {}, {}}}, accuracy[] = {loss[0], loss[1]};
  bool validated = false, classifies = false;
  for (const auto& e : report.epochs) {
    validated = validated || e.validation_loss;
    classifies = classifies || !std::isnan(e.accuracy);
    for (chart_curve* c : {&loss[0], &loss[1], &accuracy[0], &accuracy[1]})
      c->x.push_back(static_cast<double>(e.epoch));
    loss[0].y.push_back(e.loss);
    loss[1].y.push_back(e.validation_loss.value_or(none));
    accuracy[0].y.push_back(100 * e.accuracy);
    accuracy[1].y.push_back(100 * e.validation_accuracy.value_or(none));
  }
  const auto shown = [&](const chart_curve(&both)[2]) {
    return validated ? std::vector<chart_curve>{both[0], both[1]} : std::vector<chart_curve>{both[0]};
  };
  std::vector<chart_panel> panels;
  if (!report.epochs.empty()) panels.push_back({.title = std::string(loss_name), .curves = shown(loss), .digits = 4});
  if (classifies) panels.push_back({.title = "Accuracy", .curves = shown(accuracy), .unit = " %", .digits = 2});
  return draw_chart(title, subtitle, view<const chart_panel>(panels));
}

}  // namespace lamina
