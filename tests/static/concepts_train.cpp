// Truth tables of the concepts of nets/train.
import lamina;
import lamina.std;
using namespace lamina;
using namespace lamina::ir;

namespace concepts_of_train {

struct of_values {
  value operator()(const value& results, const value& targets) const { return mse(results, targets); }
};
struct of_one_value {
  value operator()(const value& results) const { return results; }
};
struct in_words {
  std::string operator()(const value&, const value&) const { return "large"; }
};

struct of_lists {
  value operator()(view<const value> results, view<const value> targets) const { return mse(results[0], targets[0]); }
};
struct ten_numbers {
  std::int64_t size() const { return 10; }
  std::pair<float, std::int64_t> operator[](std::int64_t i) const { return {0.5F, i}; }
};
struct ten_pointers {
  std::int64_t size() const { return 10; }
  const float* operator[](std::int64_t) const { return nullptr; }
};

// Dataset: a size, and samples of tensors, numbers, lists and texts.
static_assert(Dataset<ten_numbers>);
static_assert(Dataset<image_dataset>);
static_assert(Dataset<std::vector<float>>);
static_assert(!Dataset<ten_pointers>);
static_assert(!Dataset<matrix<float>>);
static_assert(!Dataset<int>);

// Loss: a callable of results and targets, or of lists of several, that returns a value.
static_assert(Loss<loss::mse>);
static_assert(Loss<loss::cross_entropy>);
static_assert(Loss<of_values>);
static_assert(Loss<of_lists>);
static_assert(Loss<value (*)(const value&, const value&)>);
static_assert(!Loss<of_one_value>);
static_assert(!Loss<in_words>);
static_assert(!Loss<optim::sgd>);
static_assert(!Loss<int>);

struct named {
  static std::string_view name() { return "named"; }
};
struct counts_samples : named {
  std::int64_t samples = 0;
  void add(const metric::numbers&, const metric::numbers& target) { samples += target.size(); }
  double value() const { return static_cast<double>(samples); }
  void reset() { samples = 0; }
  void merge(const counts_samples& o) { samples += o.samples; }
};
struct cannot_merge : named {
  void add(const metric::numbers&, const metric::numbers&) {}
  double value() const { return 0; }
  void reset() {}
};

// Metric: adds outputs and targets, returns its value, resets, has a name, and merges another metric's counts.
static_assert(Metric<metric::accuracy>);
static_assert(Metric<metric::f1>);
static_assert(Metric<counts_samples>);
static_assert(Metric<metric::word_error_rate, std::string_view>);
static_assert(!Metric<metric::word_error_rate>);
static_assert(!Metric<cannot_merge>);
static_assert(!Metric<loss::mse>);
static_assert(!Metric<int>);

struct plain {
  double lr = 1;
  value step(update_scope& s, const value& w, const value& g) const { return w - s.rate(w) * g; }
};
struct row_by_row : plain {
  static constexpr bool by_rows = true;
};
struct all_at_once : plain {
  static constexpr bool by_rows = false;
};
struct no_rate {
  value step(update_scope&, const value& w, const value&) const { return w; }
};
struct no_step {
  double lr = 1;
};
struct rows_alone {
  static constexpr bool by_rows = true;
};

// Optimizer: has a rate `lr`, and computes a parameter's new value from its old value and gradient.
static_assert(Optimizer<optim::sgd>);
static_assert(Optimizer<optim::adam>);
static_assert(Optimizer<plain>);
static_assert(Optimizer<row_by_row>);
static_assert(!Optimizer<no_rate>);
static_assert(!Optimizer<no_step>);
static_assert(!Optimizer<loss::mse>);
static_assert(!Optimizer<double>);

// RowOptimizer: an optimizer that can update only those rows of a table that were looked up.
static_assert(RowOptimizer<optim::sgd>);
static_assert(RowOptimizer<row_by_row>);
static_assert(!RowOptimizer<plain>);
static_assert(!RowOptimizer<all_at_once>);
static_assert(!RowOptimizer<rows_alone>);
static_assert(!RowOptimizer<int>);

struct halved {
  double factor(double n) const { return n; }
  value factor(const value& n) const { return n * 0.5; }
};
struct of_numbers_alone {
  double factor(double n) const { return n; }
};

// RatePolicy: gives a factor of the learning rate for the number of a run.
static_assert(optim::RatePolicy<optim::hill>);
static_assert(optim::RatePolicy<optim::constant_warm_up>);
static_assert(optim::RatePolicy<halved>);
static_assert(!optim::RatePolicy<of_numbers_alone>);
static_assert(!optim::RatePolicy<optim::sgd>);
static_assert(!optim::RatePolicy<double>);

}  // namespace concepts_of_train
