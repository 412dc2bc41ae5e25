// Learning rate search.
export module lamina:train.search;
import :core;
import :data.set;
import :model;
import :train;
import :train.optim;
import lamina.std;

namespace lamina {

/// Options of `find_rate`. Members used more often come first.
export struct find_rate_options {
  double low = 1e-6, high = 10;
  std::int64_t steps = 100, batch = 64;
  double smoothing = 0.9;  ///< weight of the previous mean in the running mean of losses
  /// Stops when the smoothed loss and most of the last losses exceed the smallest smoothed loss by this multiple of it,
  /// and exceed the first ten losses.
  double divergence = 4;
  std::int64_t seed = 0;    ///< seed of the sample order
  int threads = 0;          ///< 0: the thread count of the model
  std::int64_t shards = 0;  ///< as in `fit_options`
};
/// One step: its rate, the loss of its batch before the update, and the running mean of losses.
struct rate_point {
  double rate = 0, loss = 0, smoothed = 0;
};
export struct rate_report {
  double suggestion =
      0;  ///< center of the windows where the smoothed loss falls at least half as fast as its maximum; 0: none
  double lowest = 0;      ///< rate with the smallest smoothed loss; most optimizers are unstable a little above it
  bool diverged = false;  ///< whether the loss diverged or was not finite before the highest rate
  std::vector<rate_point> points{};
  /// A text table with one line per step.
  std::string table() const;
  /// SVG chart of the smoothed loss over the rate, with a line at the suggestion.
  std::string picture(std::string_view title = "Learning rate") const;
};

namespace detail {
rate_report searched_rate(model_core net, trainer::loss_rule loss, trainer::step_rule step, const sample_source& data,
                          const find_rate_options& o);
}  // namespace detail

/// Trains a copy of a model with rates that rise exponentially from `low` to `high`, one batch each, until the loss
/// diverges. The model itself, its parameters, generator and optimizer slots, is unchanged.
/// Errors: as for `fit`, also for a first step whose loss is not finite; value_error for `find_rate_options` that are
/// out of range.
/// Source: Smith, "Cyclical Learning Rates for Training Neural Networks" (2017), arXiv:1506.01186, section 3.3.
export template <class M, class D, class L, class O>
requires accepted<diagnostic<trained_check<std::remove_const_t<M>>>()> &&
         accepted<diagnostic<detail::source_check<D>>()> && accepted<diagnostic<loss_check<L>>()> &&
         accepted<diagnostic<optimizer_check<O>>()>
rate_report find_rate(const M& net, const D& data, const L& loss, const O& optimizer,
                      const find_rate_options& options = {}) {
  detail::check_optimizer(optimizer);
  return detail::searched_rate(model_core(detail::trained_core(net)), detail::loss_rule_of(loss),
                               detail::step_rule_of(optimizer), source_of(data), options);
}

}  // namespace lamina
