module lamina:op.weighted_loss.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.reduce;
import :op.shape;
import :op.view;
import :op.weighted_loss;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using namespace detail;

value detail::reduced_loss(const value& losses, const value& weights, loss_reduction r) {
  if (r == loss_reduction::none) return losses;
  const value sum = reduce_sum(losses, reduce_attributes{});
  if (r == loss_reduction::sum) return sum;
  return weights.empty() ? value(reduce_mean(losses, reduce_attributes{}))
                         : value(sum / reduce_sum(weights, reduce_attributes{}));
}

value negative_log_likelihood(const value& log_probabilities, const value& target, const std::optional<value>& weights,
                              weighted_loss_attributes a, const origin&) {
  const dtype element = log_probabilities.type().element;
  if (log_probabilities.shape().rank < 2 || target.shape().rank != log_probabilities.shape().rank - 1) {
    text t;
    raise(error_kind::shape,
          t << "negative_log_likelihood: log-probabilities [N, C, ...] and targets [N, ...] are expected, not "
            << log_probabilities.shape() << " and " << target.shape());
  }
  const value given = converted(target, dtype::int64);
  const value at = a.ignore_index ? value(where(given == *a.ignore_index, 0, given)) : given;
  value loss = -squeeze(take_along_axis(log_probabilities, unsqueeze(at, axes(1)), 1), axes(1)), weight;
  if (weights) weight = gather(converted(*weights, element), at, 0);
  if (a.ignore_index) {
    const value counts = given != *a.ignore_index;
    loss = where(counts, loss, 0);
    weight = weights ? value(where(counts, weight, 0)) : converted(counts, element);
  }
  if (weights) loss = loss * weight;
  return reduced_loss(loss, weight, a.reduction);
}

loss_and_log_probabilities softmax_cross_entropy(const value& scores, const value& target,
                                                 const std::optional<value>& weights, weighted_loss_attributes a,
                                                 const origin&) {
  const int rank = scores.shape().rank;
  if (rank < 2) {
    text t;
    raise(error_kind::shape, t << "softmax_cross_entropy: scores [N, C, ...] are expected, not " << scores.shape());
  }
  const value rows = with_axis_moved(scores, 1, rank - 1);
  const value log_probabilities = with_axis_moved(log_softmax(rows, {-1}), rank - 1, 1);
  return {negative_log_likelihood(log_probabilities, target, weights, a), log_probabilities};
}

}  // namespace lamina
