module lamina:train.inspect.impl;
import :core;
import :data;
import :dtype;
import :shape;
import :tensor;
import :train.inspect;
import :train.metric;
import :train.svg;
import lamina.std;

namespace lamina {

double value_histogram::deviation() const {
  if (count == 0) return 0;
  const double n = static_cast<double>(count), m = mean();
  return std::sqrt(std::max(sum_of_squares / n - m * m, 0.0));
}

value_histogram histogram_of(const metric::numbers& x, std::int64_t ranges) {
  text t;
  if (x.element() == dtype::string)
    detail::raise(error_kind::type, t << "histogram_of: expected numbers; got " << x.element());
  if (ranges < 1 || ranges > 65536)
    detail::raise(error_kind::value, t << "histogram_of: `ranges` is " << ranges << "; expected 1 to 65536");
  value_histogram h;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    if (!std::isfinite(v)) {
      ++h.not_finite;
      continue;
    }
    h.min = h.count ? std::min(h.min, v) : v;
    h.max = h.count ? std::max(h.max, v) : v;
    ++h.count;
    h.sum += v;
    h.sum_of_squares += v * v;
  }
  if (h.count == 0) return h;
  if (!(h.max > h.min)) ranges = 1;
  // Uses halves, since the full difference could overflow.
  const double low = h.min / 2, width = (h.max / 2 - low) / static_cast<double>(ranges);
  for (std::int64_t k = 1; k < ranges; ++k) h.limits.push_back(2 * (low + width * static_cast<double>(k)));
  h.limits.push_back(h.max);
  h.counts.resize(h.limits.size());
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (const double v = x[i]; std::isfinite(v))
      ++h.counts[static_cast<std::size_t>(std::lower_bound(h.limits.begin(), h.limits.end(), v) - h.limits.begin())];
  return h;
}

// ---- predictions ----------------------------------------------------------------------------------------------------

void detail::add_wrong(std::vector<wrong_prediction>& to, const any_tensor& output, const any_tensor& target,
                       std::int64_t first, const prediction_options& o) {
  const shape &scores = output.shape(), &labels = target.shape();
  text t;
  if (target.element() != dtype::int64 || !is_real(output.element()))
    raise(error_kind::type, t << "wrong_predictions: results are " << output.type() << " and targets " << target.type()
                              << "; expected float32 or float64 [N, C] and int64 [N]");
  if (scores.rank != 2 || labels.rank != 1 || scores.at(0) != labels.at(0))
    raise(error_kind::shape, t << "wrong_predictions: results are " << output.type() << " and targets " << target.type()
                               << "; expected [N, C] and [N]");
  const metric::numbers all(output), classes(target);
  const std::int64_t count = scores.at(1);
  for (std::int64_t i = 0; i < scores.at(0); ++i) {
    wrong_prediction p{.index = first + i, .label = classes.integer(i)};
    if (p.label < 0 || p.label >= count)
      raise(error_kind::value,
            t << "wrong_predictions: label " << p.label << " of sample " << p.index << " is outside 0.." << count - 1);
    const auto score = [&](std::int64_t c) { return all[i * count + c]; };
    for (std::int64_t c = 1; c < count; ++c)
      if (score(c) > score(p.found) || (std::isnan(score(p.found)) && !std::isnan(score(c)))) p.found = c;
    if (p.found == p.label) continue;
    if (o.probabilities) {
      p.probability = score(p.found);
      p.loss = -std::log(score(p.label));
    } else {
      double sum = 0;
      for (std::int64_t c = 0; c < count; ++c) sum += std::exp(score(c) - score(p.found));
      p.probability = 1 / sum;
      p.loss = std::log(sum) + score(p.found) - score(p.label);
    }
    to.push_back(p);
  }
}
std::vector<wrong_prediction> detail::by_loss(std::vector<wrong_prediction> all) {
  // NaN losses come first.
  const auto key = [](const wrong_prediction& p) {
    return std::isnan(p.loss) ? std::numeric_limits<double>::infinity() : p.loss;
  };
  std::sort(all.begin(), all.end(), [&](const wrong_prediction& a, const wrong_prediction& b) {
    return key(a) != key(b) ? key(a) > key(b) : a.index < b.index;
  });
  return all;
}

// ---- images ---------------------------------------------------------------------------------------------------------

namespace {

constexpr int shades = 16;

std::string hex_color(int r, int g, int b) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string s = "#";
  for (int x : {r, g, b}) s += digits[static_cast<std::size_t>(x / 16)], s += digits[static_cast<std::size_t>(x % 16)];
  return s;
}

// Draws an image of [channels x height x width] bytes with one path per color; a run of equal pixels is one stroke.
std::string pixels_of(const std::uint8_t* pixels, std::int64_t channels, std::int64_t height, std::int64_t width,
                      bool inverted) {
  const auto level = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return pixels[(c * height + y) * width + x] * shades / 256;
  };
  const auto color = [&](std::int64_t y, std::int64_t x) {
    if (channels == 3) return (level(0, y, x) * shades + level(1, y, x)) * shades + level(2, y, x);
    return level(0, y, x);
  };
  std::map<int, std::string> paths;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0, end = 0; x < width; x = end) {
      const int at = color(y, x);
      for (end = x + 1; end < width && color(y, end) == at; ++end) {}
      paths[at] += "M" + std::to_string(x) + " " + std::to_string(y) + ".5h" + std::to_string(end - x);
    }
  std::string s;
  for (const auto& [at, path] : paths) {
    const int gray = inverted ? 255 - at * 235 / (shades - 1) : at * 17;
    if (channels == 1 && gray == 255) continue;  // background
    const std::string stroke =
        channels == 3 ? hex_color(at / 256 * 17, at / 16 % 16 * 17, at % 16 * 17) : hex_color(gray, gray, gray);
    s += "<path stroke=\"" + stroke + "\" d=\"" + path + "\"/>\n";
  }
  return s;
}

}  // namespace

std::string picture_sheet(const image_dataset& data, view<const wrong_prediction> shown, const sheet_options& o) {
  constexpr std::int64_t cell_width = 138, cell_height = 156, margin = 40, head = 92;
  constexpr double picture_size = 96;
  const shape dims = data.image_shape();
  const std::int64_t channels = dims.at(0), height = dims.at(1), width = dims.at(2);
  text t;
  if (channels != 1 && channels != 3)
    detail::raise(error_kind::value, t << "picture_sheet: pictures have " << channels << " channels; expected 1 or 3");
  if (o.columns < 1 || o.columns > 100)
    detail::raise(error_kind::value, t << "picture_sheet: `columns` is " << o.columns << "; expected 1 to 100");
  const auto classes = static_cast<std::int64_t>(data.class_names().size());
  for (const auto& p : shown)
    if (p.index < 0 || p.index >= data.size() || std::min(p.label, p.found) < 0 ||
        std::max(p.label, p.found) >= classes)
      detail::raise(error_kind::value, t << "picture_sheet: sample " << p.index << " of class " << p.label
                                         << ", predicted as " << p.found << ", is outside the data set of "
                                         << data.size() << " pictures and " << classes << " classes");
  const auto name = [&](std::int64_t c) { return data.class_names()[static_cast<std::size_t>(c)]; };
  const auto rows = (static_cast<std::int64_t>(shown.size()) + o.columns - 1) / o.columns;
  std::string s = svg::begin(2 * margin + o.columns * cell_width, head + rows * cell_height + 16, o.title);
  s += svg::head(o.title, o.subtitle);
  const double longer = static_cast<double>(std::max(height, width));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto& p = shown[i];
    const auto at = static_cast<std::int64_t>(i);
    s += "<g transform=\"translate(" + std::to_string(margin + at % o.columns * cell_width) + " " +
         std::to_string(head + at / o.columns * cell_height) + ")\">\n";
    s += "<rect x=\"-0.5\" y=\"-0.5\" width=\"97\" height=\"97\" fill=\"#ffffff\" stroke=\"" + std::string(svg::rule) +
         "\"/>\n";
    s += "<g transform=\"scale(" + svg::number(picture_size / longer, 6) +
         ")\" fill=\"none\" shape-rendering=\"crispEdges\">\n" +
         pixels_of(data.bytes().data().data() + p.index * dims.size(), channels, height, width, o.inverted) + "</g>\n";
    s += svg::text(0, 113, name(p.found) + " " + decimals_of(100 * p.probability, 1) + " %",
                   {.fill = svg::red, .bold = true});
    s += svg::text(0, 129, "is: " + name(p.label));
    s += "</g>\n";
  }
  return s + std::string(svg::end);
}

std::string confusion_picture(const metric::confusion_matrix& table, view<const std::string> names,
                              std::string_view title) {
  constexpr std::int64_t cell = 44, left = 170, top = 120;
  const auto n = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(table.counts.size()))));
  text t;
  if (n < 1 || n > 200)
    detail::raise(error_kind::value, t << "confusion_picture: the table has " << n << " classes; expected 1 to 200");
  if (!names.empty() && static_cast<std::int64_t>(names.size()) != n)
    detail::raise(error_kind::value, t << "confusion_picture: there are " << static_cast<std::int64_t>(names.size())
                                       << " names for " << n << " classes");
  const auto name = [&](std::int64_t c) {
    return names.empty() ? std::to_string(c) : names[static_cast<std::size_t>(c)];
  };
  std::string s = svg::begin(left + n * cell + 60, top + n * cell + 170, title);
  s += svg::head(title,
                 "accuracy " + decimals_of(100 * table.value(), 2) + " %; rows: true class, columns: predicted class");
  for (std::int64_t label = 0; label < n; ++label) {
    std::int64_t all = 0;
    for (std::int64_t found = 0; found < n; ++found) all += table.at(label, found);
    const double y = static_cast<double>(top + label * cell);
    s += svg::text(left - 10, y + 27, name(label), {.anchor = "end"});
    for (std::int64_t found = 0; found < n; ++found) {
      const auto count = table.at(label, found);
      const double part = all ? static_cast<double>(count) / static_cast<double>(all) : 0,
                   x = static_cast<double>(left + found * cell);
      const auto mixed = [part](int dark) { return static_cast<int>(std::lround(255 + part * (dark - 255))); };
      // Correct predictions are blue, wrong ones red.
      const std::string color =
          label == found ? hex_color(mixed(37), mixed(99), mixed(235)) : hex_color(mixed(185), mixed(28), mixed(28));
      s += "<rect x=\"" + svg::number(x) + "\" y=\"" + svg::number(y) + "\" width=\"" + std::to_string(cell) +
           "\" height=\"" + std::to_string(cell) + "\" fill=\"" + color + "\" stroke=\"" + std::string(svg::rule) +
           "\"/>\n";
      if (count)
        s += svg::text(x + cell / 2, y + 27, std::to_string(count),
                       {.fill = part > 0.5 ? "#ffffff" : svg::ink, .anchor = "middle"});
    }
  }
  for (std::int64_t found = 0; found < n; ++found) {
    const std::string x = std::to_string(left + found * cell + cell / 2 + 4), y = std::to_string(top + n * cell + 12);
    s += "<g transform=\"translate(" + x + " " + y + ") rotate(-90)\">" +
         svg::text(0, 0, name(found), {.anchor = "end"}) + "</g>\n";
  }
  return s + std::string(svg::end);
}

}  // namespace lamina
