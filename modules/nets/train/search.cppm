// Looking for a learning rate.
export module lamina:train.search;
import :core;
import :data.set;
import :model;
import :train;
import :train.optim;
import lamina.std;

namespace lamina {

/// How rates are tried. Members are in the order in which they are mostly given.
export struct find_rate_options {
  double low = 1e-6, high = 10;
  std::int64_t steps = 100, batch = 64;
  double smoothing = 0.9;  ///< of the running mean of losses: what the mean before counts for
  /// Ends where the smoothed loss, and most of the last losses, are larger than the least smoothed one by so many times it, and than the
  /// first ten.
  double divergence = 4;
  std::int64_t seed = 0;    ///< of the order of examples
  int threads = 0;          ///< 0: as the model
  std::int64_t shards = 0;  ///< as that of `fit`
};
/// A step: its rate, the loss of its batch before it, and the running mean of losses.
struct rate_point {
  double rate = 0, loss = 0, smoothed = 0;
};
export struct rate_report {
  double suggestion =
      0;  ///< the middle of where the smoothed loss falls at least half as steeply as anywhere, over a tenth of the steps; 0: it never falls
  double lowest = 0;      ///< the rate of the least smoothed loss: most optimizers are unstable a little above it
  bool diverged = false;  ///< whether the loss rose, or was not finite, before the highest rate
  std::vector<rate_point> points{};
  /// A line for each step.
  std::string table() const;
  /// The smoothed loss over the rate, and a line at the suggestion, as SVG.
  std::string picture(std::string_view title = "Learning rate") const;
};

namespace detail {
rate_report searched_rate(model_core net, trainer::loss_rule loss, trainer::step_rule step, const sample_source& data,
                          const find_rate_options& o);
}  // namespace detail

/// Trains a copy of a model with rates that rise exponentially from the lowest to the highest one, a batch each, until the loss diverges. The
/// model itself, its parameters, its generator and the memory of its optimizer, is not touched.
/// Errors: as those of `fit`, also of a first step whose loss is not finite; value_error for `find_rate_options` that are out of range.
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
