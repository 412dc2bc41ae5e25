module lamina:train.metric.impl;
import :core;
import :dtype;
import :io;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.metric;
import lamina.std;

namespace lamina::metric {

using namespace detail;

numbers::numbers(const any_tensor& t) : data_(t.data()), element_(t.element()), shape_(t.shape()) {
  if (data_ == nullptr && size() > 0)
    raise(error_kind::state, "metric: a tensor has no memory: it was moved from, or never had any");
}
double numbers::operator[](std::int64_t i) const {
  if (element_ == dtype::float32) return static_cast<double>(static_cast<const float*>(data_)[i]);
  return with_type(element_, [&]<class T>() -> double {
    if constexpr (requires(T t) { static_cast<double>(t); })
      return static_cast<double>(static_cast<const T*>(data_)[i]);
    else return static_cast<double>(static_cast<float>(static_cast<const T*>(data_)[i]));
  });
}
std::int64_t numbers::integer(std::int64_t i) const {
  if (element_ == dtype::int64) return static_cast<const std::int64_t*>(data_)[i];
  return static_cast<std::int64_t>((*this)[i]);
}

namespace {

text begun(std::string_view owner) {
  text t;
  t << origin::prefix() << owner << ": ";
  return t;
}
/// Appends the position of an element: [1, 2].
text& put_position(text& t, const shape& s, std::int64_t i) {
  std::int64_t at[max_rank]{};
  for (int a = s.rank; a-- > 0; i /= s[a].code) at[a] = i % s[a].code;
  t << "[";
  for (int a = 0; a < s.rank; ++a) t << (a ? ", " : "") << at[a];
  return t << "]";
}
/// An element of an output. Errors: value_error for NaN.
double number_at(std::string_view owner, const numbers& output, std::int64_t i) {
  const double x = output[i];
  if (!std::isnan(x)) return x;
  text t = begun(owner);
  t << "the output at ";
  raise(error_kind::value, put_position(t, output.shape(), i) << " is nan");
}
void check_class(std::string_view owner, std::string_view what, const numbers& list, std::int64_t i,
                 std::int64_t classes) {
  const std::int64_t label = list.integer(i);
  if (label >= 0 && label < classes) return;
  text t = begun(owner);
  t << what << " " << label << " at ";
  raise(error_kind::value, put_position(t, list.shape(), i) << " is outside 0.." << classes - 1 << " (" << classes
                                                            << (classes == 1 ? " class)" : " classes)"));
}
void check_whole(std::string_view owner, const numbers& target) {
  if (!target.whole())
    raise(error_kind::type, begun(owner) << "targets are " << tensor_type{target.element(), target.shape()}
                                         << "; expected int64 classes");
}
/// The extents before the last one.
shape rows_of(const shape& s) {
  shape rows = s;
  if (rows.rank > 0) --rows.rank;
  return rows;
}
/// Checks that scores are [..., C] for targets [...], and returns C.
std::int64_t check_scores(std::string_view owner, const numbers& output, const numbers& target) {
  check_whole(owner, target);
  const shape &x = output.shape(), &y = target.shape();
  if (x.rank < 1 || rows_of(x) != y || output.whole())
    raise(error_kind::shape, begun(owner)
                                 << "outputs must be scores [..., C] and targets classes [...]; they are "
                                 << tensor_type{output.element(), x} << " and " << tensor_type{target.element(), y});
  return x.back().code;
}

/// Options for decisions on samples.
struct decision {
  std::string_view owner;
  double threshold;
  std::optional<std::int64_t> ignore;
  std::int64_t classes;  // 0: as in the outputs; below 0: any
};
/// Index of the largest score of a row.
std::int64_t largest_of(std::string_view owner, const numbers& output, std::int64_t row, std::int64_t classes) {
  std::int64_t best = 0;
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t c = 0; c < classes; ++c)
    if (const double x = number_at(owner, output, row * classes + c); x > max) {
      max = x;
      best = c;
    }
  return best;
}
/// Pairs of label and prediction, and the number of classes. All samples are checked first.
struct decisions {
  std::int64_t classes = 2;
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  decisions(const decision& d, const numbers& output, const numbers& target) {
    check_whole(d.owner, target);
    const shape &x = output.shape(), &y = target.shape();
    const bool one =
        x == y || (x.rank == y.rank + 1 && rows_of(x) == y && x.back() == dim(1));  // one number per sample
    if (!one) check_scores(d.owner, output, target);
    classes = !one ? x.back().code : d.classes > 0 ? d.classes : 2;
    // predicted classes are unrestricted if their number is unknown, as for accuracy
    const bool open = one && output.whole() && d.classes < 0;
    if (d.classes > 0 && d.classes != classes)
      raise(error_kind::shape, begun(d.owner) << "outputs are " << x << ", but `classes` is " << d.classes);
    all.reserve(static_cast<std::size_t>(target.size()));
    for (std::int64_t i = 0; i < target.size(); ++i) {
      const std::int64_t label = target.integer(i);
      if (d.ignore && label == *d.ignore) continue;
      std::int64_t found = 0;
      if (!one) found = largest_of(d.owner, output, i, classes);
      else if (!output.whole()) found = number_at(d.owner, output, i) > d.threshold;
      else found = output.integer(i);
      if (!open) {
        check_class(d.owner, "label", target, i, classes);
        if (one && output.whole()) check_class(d.owner, "output", output, i, classes);
      }
      all.emplace_back(label, found);
    }
  }
};

std::size_t at_index(std::int64_t i) { return static_cast<std::size_t>(i); }
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/// Errors: value_error for a number of classes that differs from earlier batches.
void fix_classes(std::string_view owner, std::size_t known, std::int64_t classes) {
  if (known == 0 || known == at_index(classes)) return;
  raise(error_kind::value, begun(owner) << "this batch has " << classes << " classes; earlier batches had "
                                        << static_cast<std::int64_t>(known));
}

}  // namespace

void accuracy::add(const numbers& output, const numbers& target) {
  const decisions d({name(), threshold, ignore_index, output.whole() ? -1 : 0}, output, target);
  for (const auto& [label, found] : d.all) hits += label == found;
  samples += static_cast<std::int64_t>(d.all.size());
}

void top_k::add(const numbers& output, const numbers& target) {
  if (k < 1) raise(error_kind::value, begun(name()) << "`k` is " << k << "; expected 1 or more");
  const std::int64_t classes = check_scores(name(), output, target);
  std::int64_t now = 0, right = 0;
  for (std::int64_t i = 0; i < target.size(); ++i) {
    if (ignore_index && target.integer(i) == *ignore_index) continue;
    check_class(name(), "label", target, i, classes);
    const std::int64_t label = target.integer(i);
    const double own = number_at(name(), output, i * classes + label);
    std::int64_t before = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double x = number_at(name(), output, i * classes + c);
      before += x > own || (x == own && c < label);
    }
    ++now;
    right += before < k;
  }
  hits += right;
  samples += now;
}

// ---- choice of output and target ------------------------------------------------------------------------------------

std::size_t output_choice::among(view<const std::string> outputs, std::string_view metric) const {
  const auto count = static_cast<std::int64_t>(outputs.size());
  const auto at = std::find(outputs.begin(), outputs.end(), name_);
  if (name_.empty() ? position_ >= 0 && position_ < count : at != outputs.end())
    return static_cast<std::size_t>(name_.empty() ? position_ : at - outputs.begin());
  text t = begun(metric);
  t << "the net has no output " << (name_.empty() ? "" : "`") << printable(printed()) << (name_.empty() ? "" : "`")
    << "; it has ";
  for (std::int64_t i = 0; i < count; ++i)
    t << (i ? ", `" : "`") << printable(outputs[static_cast<std::size_t>(i)]) << "`";
  raise(error_kind::value, t);
}
void check_target(std::int64_t target, std::size_t targets, std::string_view metric) {
  const auto count = static_cast<std::int64_t>(targets);
  if (target >= 0 && target < count) return;
  raise(error_kind::value, begun(metric) << "samples have no target " << target << "; expected 0 to " << count - 1);
}

// ---- class counts ---------------------------------------------------------------------------------------------------

namespace {
constexpr std::int64_t max_classes = 16384;
}

void confusion_matrix::add(const numbers& output, const numbers& target) {
  if (classes < 0 || classes > max_classes)
    raise(error_kind::value, begun(name()) << "`classes` is " << classes << "; expected 0 to " << max_classes);
  const decisions d({name(), threshold, ignore_index, classes}, output, target);
  if (d.classes > max_classes)
    raise(error_kind::value, begun(name())
                                 << "outputs have " << d.classes << " classes; expected at most " << max_classes);
  const std::size_t n = at_index(d.classes);
  if (counts.empty()) counts.assign(n * n, 0);
  fix_classes(name(), at_index(static_cast<std::int64_t>(std::sqrt(static_cast<double>(counts.size())) + 0.5)),
              d.classes);
  for (const auto& [label, found] : d.all) ++counts[at_index(label) * n + at_index(found)];
}
std::int64_t confusion_matrix::at(std::int64_t label, std::int64_t found) const {
  const auto n = static_cast<std::int64_t>(std::sqrt(static_cast<double>(counts.size())) + 0.5);
  if (counts.empty()) return 0;
  if (label < 0 || label >= n || found < 0 || found >= n)
    raise(error_kind::value,
          begun(name()) << "class " << (label < 0 || label >= n ? label : found) << " is outside 0.." << n - 1);
  return counts[at_index(label * n + found)];
}
double confusion_matrix::value() const {
  const auto n = static_cast<std::size_t>(std::sqrt(static_cast<double>(counts.size())) + 0.5);
  double right = 0, all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    all += static_cast<double>(counts[i]);
    if (i / n == i % n) right += static_cast<double>(counts[i]);
  }
  return ratio(right, all);
}
void confusion_matrix::merge(const confusion_matrix& o) {
  if (o.counts.empty()) return;
  if (counts.empty()) counts.assign(o.counts.size(), 0);
  if (counts.size() != o.counts.size())
    raise(error_kind::value,
          begun(name()) << "the other matrix has " << o.counts.size() << " counts; this one has " << counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += o.counts[i];
}
std::string confusion_matrix::print(view<const std::string> names) const {
  const auto n = static_cast<std::size_t>(std::sqrt(static_cast<double>(counts.size())) + 0.5);
  if (!names.empty() && names.size() != n)
    raise(error_kind::value, begun(name()) << "there are " << names.size() << " names for " << n << " classes");
  const auto title = [&](std::size_t i) { return names.empty() ? std::to_string(i) : names[i]; };
  const std::string corner = "label \\ found";
  std::size_t first = corner.size(), width = 1;
  for (std::size_t i = 0; i < n; ++i) {
    first = std::max(first, title(i).size());
    width = std::max(width, title(i).size());
  }
  for (auto c : counts) width = std::max(width, std::to_string(c).size());
  const auto right = [&](const std::string& s) { return std::string(width + 2 - s.size(), ' ') + s; };
  std::string all = corner + std::string(first - corner.size(), ' ');
  for (std::size_t j = 0; j < n; ++j) all += right(title(j));
  all += "\n";
  for (std::size_t i = 0; i < n; ++i) {
    all += title(i) + std::string(first - title(i).size(), ' ');
    for (std::size_t j = 0; j < n; ++j) all += right(std::to_string(counts[i * n + j]));
    all += "\n";
  }
  return all;
}

void class_counts::add(std::string_view owner, const class_options& o, const numbers& output, const numbers& target) {
  if (o.classes < 0) raise(error_kind::value, begun(owner) << "`classes` is " << o.classes << "; expected 0 or more");
  const decisions d({owner, o.threshold, o.ignore_index, o.classes}, output, target);
  fix_classes(owner, right.size(), d.classes);
  for (auto* list : {&right, &found, &there}) list->resize(at_index(d.classes));
  for (const auto& [label, was] : d.all) {
    right[at_index(label)] += label == was;
    ++found[at_index(was)];
    ++there[at_index(label)];
  }
}
void class_counts::merge(std::string_view owner, const class_counts& o) {
  if (o.right.empty()) return;
  fix_classes(owner, right.size(), static_cast<std::int64_t>(o.right.size()));
  for (auto* list : {&right, &found, &there}) list->resize(o.right.size());
  for (std::size_t i = 0; i < right.size(); ++i) right[i] += o.right[i], found[i] += o.found[i], there[i] += o.there[i];
}
namespace {
double score(class_score s, std::int64_t right, std::int64_t found, std::int64_t there) {
  const auto r = static_cast<double>(right), f = static_cast<double>(found), t = static_cast<double>(there);
  if (s == class_score::precision) return ratio(r, f);
  if (s == class_score::recall) return ratio(r, t);
  if (s == class_score::f1) return ratio(2 * r, f + t);
  return ratio(r, f + t - r);
}
}  // namespace
std::vector<double> class_counts::per_class(class_score s) const {
  std::vector<double> all;
  for (std::size_t i = 0; i < right.size(); ++i) all.push_back(score(s, right[i], found[i], there[i]));
  return all;
}
double class_counts::value(std::string_view owner, class_score s, average over) const {
  if (right.empty()) return 0;
  const auto sum = [](const std::vector<std::int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::int64_t(0));
  };
  if (over == average::micro) return score(s, sum(right), sum(found), sum(there));
  const auto each = per_class(s);
  if (over == average::binary) {
    if (each.size() != 2)
      raise(error_kind::value, begun(owner) << "`over` is binary, but there are " << each.size() << " classes");
    return each[1];
  }
  double total = 0, weight = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (found[i] + there[i] == 0) continue;
    const double w = over == average::weighted ? static_cast<double>(there[i]) : 1;
    total += w * each[i];
    weight += w;
  }
  return ratio(total, weight);
}

void perplexity::add(const numbers& output, const numbers& target) {
  const std::int64_t classes = check_scores(name(), output, target);
  double now = 0;
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < target.size(); ++i) {
    if (ignore_index && target.integer(i) == *ignore_index) continue;
    check_class(name(), "label", target, i, classes);
    double max = -std::numeric_limits<double>::infinity(), all = 0;
    for (std::int64_t c = 0; c < classes; ++c) max = std::max(max, number_at(name(), output, i * classes + c));
    if (!log_probabilities && std::isfinite(max)) {
      for (std::int64_t c = 0; c < classes; ++c) all += std::exp(output[i * classes + c] - max);
      all = max + std::log(all);
    }
    now += all - output[i * classes + target.integer(i)];
    ++n;
  }
  sum += now;
  samples += n;
}
double perplexity::value() const { return samples ? std::exp(sum / static_cast<double>(samples)) : 1; }

// ---- rankings -------------------------------------------------------------------------------------------------------

namespace {
void check_one_shape(std::string_view owner, const numbers& output, const numbers& target) {
  if (output.shape() != target.shape())
    raise(error_kind::shape, begun(owner) << "outputs and targets must have one shape; they are " << output.shape()
                                          << " and " << target.shape());
}
void add_ranked(std::string_view owner, std::vector<ranked>& to, const numbers& output, const numbers& target) {
  check_one_shape(owner, output, target);
  for (std::int64_t i = 0; i < target.size(); ++i) {
    number_at(owner, output, i);
    if (const double y = target[i]; y != 0 && y != 1) {
      text t = begun(owner);
      t << "the target at ";
      raise(error_kind::value, put_position(t, target.shape(), i) << " is " << y << "; expected 0 or 1");
    }
  }
  for (std::int64_t i = 0; i < target.size(); ++i) to.push_back({output[i], target[i] == 1});
}
/// Calls f(positives, negatives) for each threshold, from the largest score down.
template <class F> void each_threshold(std::vector<ranked> all, F f) {
  std::sort(all.begin(), all.end(), [](const ranked& a, const ranked& b) { return a.score > b.score; });
  for (std::size_t i = 0; i < all.size();) {
    double positives = 0, negatives = 0;
    for (const double score = all[i].score; i < all.size() && all[i].score == score; ++i)
      (all[i].positive ? positives : negatives) += 1;
    f(positives, negatives);
  }
}
double count_of(const std::vector<ranked>& all, bool positive) {
  return static_cast<double>(
      std::count_if(all.begin(), all.end(), [&](const ranked& r) { return r.positive == positive; }));
}
constexpr double undefined = std::numeric_limits<double>::quiet_NaN();
}  // namespace

void roc_auc::add(const numbers& output, const numbers& target) { add_ranked(name(), samples, output, target); }
double roc_auc::value() const {
  const double pairs = count_of(samples, true) * count_of(samples, false);
  double above = 0, sum = 0;  // positives with larger scores
  each_threshold(samples, [&](double positives, double negatives) {
    sum += negatives * (above + positives / 2);
    above += positives;
  });
  return pairs > 0 ? sum / pairs : undefined;
}

void average_precision::add(const numbers& output, const numbers& target) {
  add_ranked(name(), samples, output, target);
}
double average_precision::value() const {
  const double all = count_of(samples, true);
  double right = 0, found = 0, sum = 0;
  each_threshold(samples, [&](double positives, double negatives) {
    right += positives;
    found += positives + negatives;
    sum += positives * right / found;
  });
  return all > 0 ? sum / all : undefined;
}

// ---- numbers of one shape -------------------------------------------------------------------------------------------

namespace {
/// Calls f(output, target) for all elements, after checking that none is NaN.
template <class F> void each_pair(std::string_view owner, const numbers& output, const numbers& target, F f) {
  check_one_shape(owner, output, target);
  for (std::int64_t i = 0; i < target.size(); ++i) {
    number_at(owner, output, i);
    if (!std::isnan(target[i])) continue;
    text t = begun(owner);
    t << "the target at ";
    raise(error_kind::value, put_position(t, target.shape(), i) << " is nan");
  }
  for (std::int64_t i = 0; i < target.size(); ++i) f(output[i], target[i]);
}
}  // namespace

void mae::add(const numbers& output, const numbers& target) {
  each_pair(name(), output, target, [&](double x, double y) { sum += std::abs(x - y); });
  samples += target.size();
}
void rmse::add(const numbers& output, const numbers& target) {
  each_pair(name(), output, target, [&](double x, double y) { sum += (x - y) * (x - y); });
  samples += target.size();
}
double rmse::value() const { return samples ? std::sqrt(sum / static_cast<double>(samples)) : 0; }

// Mean and squared deviations are updated together, for accuracy with a large mean (Welford; Chan et al., 1979).
void r2::add(const numbers& output, const numbers& target) {
  each_pair(name(), output, target, [&](double x, double y) {
    residual += (x - y) * (x - y);
    const double off = y - mean;
    mean += off / static_cast<double>(++samples);
    spread += off * (y - mean);
  });
}
void r2::merge(const r2& o) {
  if (o.samples == 0) return;
  const auto n = static_cast<double>(samples), m = static_cast<double>(o.samples);
  const double off = o.mean - mean;
  residual += o.residual;
  spread += o.spread + off * off * n * m / (n + m);
  mean += off * m / (n + m);
  samples += o.samples;
}
double r2::value() const { return spread > 0 ? 1 - residual / spread : undefined; }

// ---- sequences ------------------------------------------------------------------------------------------------------

std::int64_t edit_distance(view<const std::int64_t> a, view<const std::int64_t> b) {
  return static_cast<std::int64_t>(lamina::edit_distance(a, b));
}

namespace {
std::vector<std::string_view> words_of(std::string_view s) {
  constexpr std::string_view spaces = " \t\n\r\v\f";
  std::vector<std::string_view> all;
  for (std::size_t at = s.find_first_not_of(spaces); at != s.npos; at = s.find_first_not_of(spaces, at)) {
    const std::size_t end = std::min(s.find_first_of(spaces, at), s.size());
    all.push_back(s.substr(at, end - at));
    at = end;
  }
  return all;
}
/// Splits UTF-8 text into characters: a lead byte with its continuation bytes.
std::vector<std::string_view> characters_of(std::string_view s) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < s.size();) {
    std::size_t end = at + 1;
    while (end < s.size() && (static_cast<unsigned char>(s[end]) & 0xC0u) == 0x80u) ++end;
    all.push_back(s.substr(at, end - at));
    at = end;
  }
  return all;
}
}  // namespace

void edit_counts::add(std::string_view owner, const numbers& output, const numbers& target) {
  const auto listed = [&](const numbers& n, std::string_view what) {
    if (n.shape().rank != 1 || !n.whole())
      raise(error_kind::shape, begun(owner) << what << " is " << tensor_type{n.element(), n.shape()}
                                            << "; expected one sequence of whole numbers");
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < n.size(); ++i) all.push_back(n.integer(i));
    return all;
  };
  const auto a = listed(output, "the output"), b = listed(target, "the target");
  edits += static_cast<std::int64_t>(lamina::edit_distance(a, b));
  length += static_cast<std::int64_t>(b.size());
}
void edit_counts::add(edit_unit unit, std::string_view output, std::string_view target) {
  const auto listed = unit == edit_unit::word ? words_of : characters_of;
  const auto a = listed(output), b = listed(target);
  edits += static_cast<std::int64_t>(lamina::edit_distance(a, b));
  length += static_cast<std::int64_t>(b.size());
}

}  // namespace lamina::metric
