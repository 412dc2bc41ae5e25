// Classification losses with weights, ignored targets and axes after the classes, as in ONNX.
export module lamina:op.weighted_loss;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Reduction of the losses of single targets: none, their sum, or their weighted mean.
export enum class loss_reduction : std::int32_t { none, sum, mean };
/// The ignored target value, and the reduction.
export struct weighted_loss_attributes {
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
};

namespace detail {
/// Reduces losses that are already weighted: the mean is their sum divided by the sum of the weights, or the plain mean
/// without weights.
value reduced_loss(const value& losses, const value& weights, loss_reduction r);
}  // namespace detail

// For values of programs and nets.

/// Negative log likelihood of targets (ONNX NegativeLogLikelihoodLoss): -weights[target] log_probabilities[n, target, ...].
/// Shapes:  log_probabilities [N, C, ...], target int32 or int64 [N, ...], weights [C] -> [N, ...], or [] with a reduction.
/// Errors:  value_error at run time for a target outside -C..C-1 that is not ignored.   Source: ONNX.
export value negative_log_likelihood(const value& log_probabilities, const value& target,
                                     const std::optional<value>& weights = {}, weighted_loss_attributes a = {},
                                     const origin& = {});
/// A loss, and the log-probabilities that it was computed from.
struct loss_and_log_probabilities {
  value loss, log_probabilities;
};
/// The same for logits (ONNX SoftmaxCrossEntropyLoss).   Shapes: scores [N, C, ...]; else as `negative_log_likelihood`.
export loss_and_log_probabilities softmax_cross_entropy(const value& scores, const value& target,
                                                        const std::optional<value>& weights = {},
                                                        weighted_loss_attributes a = {}, const origin& = {});

}  // namespace lamina
