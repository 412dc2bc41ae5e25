// Metrics of net outputs, accumulated batch by batch; the value does not depend on the batch sizes.
export module lamina:train.metric;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::metric {

/// Elements that a metric reads without a copy: a tensor, or a list of numbers as one axis.
export class numbers {
 public:
  /// Errors: state_error for a tensor without memory.
  numbers(const any_tensor& t);
  template <Element T, class E> numbers(const tensor<T, E>& t)
      : data_(t.data().data()), element_(dtype_of<T>), shape_(t.shape()) {}
  template <class R> requires requires(const R& r) {
    { *r.data() } -> std::convertible_to<double>;
    requires Element<std::remove_cvref_t<decltype(*r.data())>>;
    { r.size() } -> std::convertible_to<std::size_t>;
  } numbers(const R& list)
      : data_(list.data()),
        element_(dtype_of<std::remove_cvref_t<decltype(*list.data())>>),
        shape_{dim(static_cast<std::int64_t>(list.size()))} {}

  dtype element() const { return element_; }
  const lamina::shape& shape() const { return shape_; }
  std::int64_t size() const { return shape_.size(); }
  /// Whether elements are integers or bool, as classes are.
  bool whole() const { return !is_floating(element_); }
  double operator[](std::int64_t i) const;
  /// Element i of integers or bool.
  std::int64_t integer(std::int64_t i) const;

 private:
  const void* data_;
  dtype element_;
  lamina::shape shape_;
};

// Errors of every `add`: shape_error, type_error if output and target do not match; value_error for an output that is
// NaN, a class out of range or an option out of range. Then nothing of the batch is added. Options are members, as in
// `top_k{.k = 5}`.

// ---- classes --------------------------------------------------------------------------------------------------------
//
// Outputs are one of: scores [..., C] for target classes [...]; numbers of the shape of the targets, which mean class 1
// above `threshold`, else class 0; or class indices, integers or bool, below `classes`. Targets equal to `ignore_index`
// are left out.

/// Fraction of samples whose class is the target. 0 without samples.
export struct accuracy {
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index{};
  std::int64_t hits = 0, samples = 0;
  static constexpr std::string_view name() { return "accuracy"; }
  void add(const numbers& output, const numbers& target);
  double value() const { return samples ? static_cast<double>(hits) / static_cast<double>(samples) : 0; }
  void reset() { hits = samples = 0; }
  void merge(const accuracy& o) { hits += o.hits, samples += o.samples; }
};

/// Fraction of samples whose target is among the k classes with the largest scores. Ties go to the lower class index.
export struct top_k {
  std::int64_t k = 5;
  std::optional<std::int64_t> ignore_index{};
  std::int64_t hits = 0, samples = 0;
  static constexpr std::string_view name() { return "top_k"; }
  void add(const numbers& output, const numbers& target);
  double value() const { return samples ? static_cast<double>(hits) / static_cast<double>(samples) : 0; }
  void reset() { hits = samples = 0; }
  void merge(const top_k& o) { hits += o.hits, samples += o.samples; }
};

/// Counts of predicted classes for each label.
export struct confusion_matrix {
  std::int64_t classes = 0;  ///< 0: the number of classes in the outputs, or 2; at most 16,384
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index{};
  std::vector<std::int64_t> counts{};  ///< [label, found], row-major
  static constexpr std::string_view name() { return "confusion_matrix"; }
  void add(const numbers& output, const numbers& target);
  /// Number of samples of class `label` that were predicted as `found`; 0 before the first batch.
  std::int64_t at(std::int64_t label, std::int64_t found) const;
  /// The accuracy.
  double value() const;
  void reset() { counts.assign(counts.size(), 0); }
  /// Errors: value_error if the numbers of classes differ.
  void merge(const confusion_matrix& o);
  /// A table with one row per label, with class names if given.
  std::string print(view<const std::string> names = {}) const;
};

/// How per-class scores are averaged: from the sums over classes (micro), as their mean (macro), as their mean weighted
/// by numbers of samples (weighted), or class 1 alone (binary).
export enum class average { micro, macro, weighted, binary };
/// Score of each class: true positives divided by predictions (precision), by targets (recall), twice by the sum of
/// both (F1), or by their union (IoU).
enum class class_score { precision, recall, f1, iou };

/// Classification options of a metric.
struct class_options {
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index{};
  std::int64_t classes = 0;
};
/// Per class: true positives, predictions, targets.
struct class_counts {
  std::vector<std::int64_t> right{}, found{}, there{};
  void add(std::string_view owner, const class_options& o, const numbers& output, const numbers& target);
  void merge(std::string_view owner, const class_counts& o);
  std::vector<double> per_class(class_score s) const;
  double value(std::string_view owner, class_score s, average over) const;
};

/// Precision, recall, F1 or intersection over union. A class without predictions and targets is left out of means over
/// classes, as in scikit-learn with its default `labels`; a class with only one of them counts.
template <class_score Score> struct score_of_classes {
  average over = average::macro;
  std::int64_t classes = 0;  ///< 0: the number of classes in the outputs, or 2
  double threshold = 0.5;
  std::optional<std::int64_t> ignore_index{};
  class_counts counts{};
  static constexpr std::string_view name() {
    constexpr std::string_view names[] = {"precision", "recall", "f1", "mean_iou"};
    return names[static_cast<int>(Score)];
  }
  void add(const numbers& output, const numbers& target) {
    counts.add(name(), {threshold, ignore_index, classes}, output, target);
  }
  double value() const { return counts.value(name(), Score, over); }
  std::vector<double> per_class() const { return counts.per_class(Score); }
  void reset() { counts = {}; }
  /// Errors: value_error if the numbers of classes differ.
  void merge(const score_of_classes& o) { counts.merge(name(), o.counts); }
};
export using precision = score_of_classes<class_score::precision>;
export using recall = score_of_classes<class_score::recall>;
export using f1 = score_of_classes<class_score::f1>;
export using mean_iou = score_of_classes<class_score::iou>;

/// exp of the mean negative log likelihood of classes [...]; scores [..., C] are logits, or log-probabilities.
export struct perplexity {
  bool log_probabilities = false;
  std::optional<std::int64_t> ignore_index{};
  double sum = 0;
  std::int64_t samples = 0;
  static constexpr std::string_view name() { return "perplexity"; }
  void add(const numbers& output, const numbers& target);
  double value() const;
  void reset() { sum = 0, samples = 0; }
  void merge(const perplexity& o) { sum += o.sum, samples += o.samples; }
};

// ---- rankings -------------------------------------------------------------------------------------------------------
//
// Scores and targets (0 or 1) have the same shape and are stored. The value is NaN until there are targets of both
// kinds.

/// A score and whether its target is 1.
struct ranked {
  double score;
  bool positive;
};
/// Fraction of pairs of a positive and a negative sample in which the positive has the larger score; ties count half.
export struct roc_auc {
  std::vector<ranked> samples{};
  static constexpr std::string_view name() { return "roc_auc"; }
  void add(const numbers& output, const numbers& target);
  double value() const;
  void reset() { samples.clear(); }
  void merge(const roc_auc& o) { samples.insert(samples.end(), o.samples.begin(), o.samples.end()); }
};
/// Sum over falling thresholds of the increase in recall times the precision; equal scores are one threshold.
export struct average_precision {
  std::vector<ranked> samples{};
  static constexpr std::string_view name() { return "average_precision"; }
  void add(const numbers& output, const numbers& target);
  double value() const;
  void reset() { samples.clear(); }
  void merge(const average_precision& o) { samples.insert(samples.end(), o.samples.begin(), o.samples.end()); }
};

// ---- numbers of one shape -------------------------------------------------------------------------------------------

/// Mean of absolute differences.
export struct mae {
  double sum = 0;
  std::int64_t samples = 0;
  static constexpr std::string_view name() { return "mae"; }
  void add(const numbers& output, const numbers& target);
  double value() const { return samples ? sum / static_cast<double>(samples) : 0; }
  void reset() { sum = 0, samples = 0; }
  void merge(const mae& o) { sum += o.sum, samples += o.samples; }
};
/// Root of the mean squared difference.
export struct rmse {
  double sum = 0;
  std::int64_t samples = 0;
  static constexpr std::string_view name() { return "rmse"; }
  void add(const numbers& output, const numbers& target);
  double value() const;
  void reset() { sum = 0, samples = 0; }
  void merge(const rmse& o) { sum += o.sum, samples += o.samples; }
};
/// 1 - sum of squared differences / sum of squared deviations of the targets from their mean. NaN while all targets are
/// equal.
export struct r2 {
  double residual = 0, mean = 0, spread = 0;  ///< spread: sum of squared deviations of the targets from their mean
  std::int64_t samples = 0;
  static constexpr std::string_view name() { return "r2"; }
  void add(const numbers& output, const numbers& target);
  double value() const;
  void reset() { residual = mean = spread = 0, samples = 0; }
  void merge(const r2& o);
};

// ---- sequences ------------------------------------------------------------------------------------------------------

/// Minimum number of insertions, removals and replacements that turn one list into the other.
export std::int64_t edit_distance(view<const std::int64_t> a, view<const std::int64_t> b);

/// Unit of an edit: a number, a word between spaces, a UTF-8 character.
enum class edit_unit { token, word, character };
/// Accumulated edits and target lengths.
struct edit_counts {
  std::int64_t edits = 0, length = 0;
  void add(std::string_view owner, const numbers& output, const numbers& target);
  void add(edit_unit unit, std::string_view output, std::string_view target);
};
/// Edits from outputs to targets divided by the lengths of the targets. 0 without targets.
template <edit_unit Unit> struct edit_rate {
  edit_counts counts{};
  static constexpr std::string_view name() {
    constexpr std::string_view names[] = {"token_error_rate", "word_error_rate", "character_error_rate"};
    return names[static_cast<int>(Unit)];
  }
  /// Adds one sequence of integers.
  void add(const numbers& output, const numbers& target) requires(Unit == edit_unit::token) {
    counts.add(name(), output, target);
  }
  /// Adds one text.
  void add(std::string_view output, std::string_view target) requires(Unit != edit_unit::token) {
    counts.add(Unit, output, target);
  }
  double value() const {
    return counts.length ? static_cast<double>(counts.edits) / static_cast<double>(counts.length) : 0;
  }
  void reset() { counts = {}; }
  void merge(const edit_rate& o) { counts.edits += o.counts.edits, counts.length += o.counts.length; }
};
export using token_error_rate = edit_rate<edit_unit::token>;
export using word_error_rate = edit_rate<edit_unit::word>;
export using character_error_rate = edit_rate<edit_unit::character>;

// ---- user-defined metrics -------------------------------------------------------------------------------------------

/// Mean of f(output, target), one number per batch, weighted by batch size, the first extent of the targets.
template <class F> struct function_metric {
  std::string called;
  F function;
  double sum = 0;
  std::int64_t samples = 0;
  std::string_view name() const { return called; }
  void add(const numbers& output, const numbers& target) {
    const std::int64_t n = target.shape().rank > 0 ? target.shape()[0].code : 1;
    sum += static_cast<double>(function(output, target)) * static_cast<double>(n);
    samples += n;
  }
  double value() const { return samples ? sum / static_cast<double>(samples) : 0; }
  void reset() { sum = 0, samples = 0; }
  void merge(const function_metric& o) { sum += o.sum, samples += o.samples; }
};
/// A function of a batch's outputs and targets as a metric:
/// `metric::of("bias", [](const auto& y, const auto& t) { ... })`.
export template <class F>
requires std::convertible_to<std::invoke_result_t<const F&, const numbers&, const numbers&>, double>
function_metric<F> of(std::string name, F f) {
  return {std::move(name), std::move(f)};
}

// ---- choice of output and target ------------------------------------------------------------------------------------

/// An output of a net, by position or by name.
class output_choice {
 public:
  template <std::integral I> output_choice(I position) : position_(static_cast<std::int64_t>(position)) {}
  output_choice(std::string name) : name_(std::move(name)) {}
  output_choice(const char* name) : name_(name) {}
  /// The given name, or the position in digits.
  std::string printed() const { return name_.empty() ? std::to_string(position_) : name_; }
  /// Its position among outputs with these names. Errors: value_error if there is none.
  std::size_t among(view<const std::string> outputs, std::string_view metric) const;

 private:
  std::int64_t position_ = 0;
  std::string name_;
};
/// Errors: value_error for a target that samples do not have.
void check_target(std::int64_t target, std::size_t targets, std::string_view metric);

/// A metric of one of several outputs and targets; its name is the output's name and its own, `kind.accuracy`.
export template <class M> struct chosen {
  M measure;
  output_choice output;
  std::int64_t target = 0;
  std::string called = output.printed() + "." + std::string(measure.name());
  std::string_view name() const { return called; }
  void add(const numbers& x, const numbers& y) { measure.add(x, y); }
  double value() const { return measure.value(); }
  void reset() { measure.reset(); }
  void merge(const chosen& o) { measure.merge(o.measure); }
  /// Positions of the output and target that `evaluate` passes. Errors: value_error if one does not exist.
  std::pair<std::size_t, std::size_t> operands(view<const std::string> outputs, std::size_t targets) const {
    check_target(target, targets, called);
    return {output.among(outputs, called), static_cast<std::size_t>(target)};
  }
};
/// A metric of one output, by position or name, and one target, by position:
/// `metric::of("kind", 1, metric::accuracy{})`.
export template <class M> requires requires(M& m, const numbers& x) { m.add(x, x); }
chosen<M> of(output_choice output, std::int64_t target, M m) {
  return {std::move(m), std::move(output), target};
}

}  // namespace lamina::metric

namespace lamina {

/// A metric: `add` takes a batch of outputs and targets, `value` returns the value so far, `reset` starts over, `name`
/// is its name, and `merge` takes in what another metric of its type has added, in another thread or process. Most read
/// `metric::numbers`, some texts.
export template <class M, class Operand = metric::numbers>
concept Metric = std::copyable<M> && requires(M& m, const M& other, const Operand& x) {
  m.add(x, x);
  { other.value() } -> std::convertible_to<double>;
  m.reset();
  { other.name() } -> std::convertible_to<std::string_view>;
  m.merge(other);
};

}  // namespace lamina
