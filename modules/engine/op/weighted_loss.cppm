// Losses of classes with weights, ignored targets and axes behind the classes, as ONNX has them.
export module lamina:op.weighted_loss;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// What the losses of single targets become: themselves, their sum, or their mean under the weights.
export enum class loss_reduction : std::int32_t { none, sum, mean };
/// A target that counts nothing, and the reduction.
export struct weighted_loss_attributes {
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
};

namespace detail {
/// Losses of targets, reduced: the mean is the sum by that of the weights, or the mean where there are none. The losses are
/// weighted already.
value reduced_loss(const value& losses, const value& weights, loss_reduction r);
}  // namespace detail

// Of values of programs and nets.

/// Negative log likelihood of targets (ONNX NegativeLogLikelihoodLoss): -weights[target] log_probabilities[n, target, ...].
/// Shapes:  log_probabilities [N, C, ...], target int32 or int64 [N, ...], weights [C] -> [N, ...], or [] with a reduction.
/// Errors:  value_error at run time for a target outside -C..C-1 that is not ignored.   Source: ONNX.
export value negative_log_likelihood(const value& log_probabilities, const value& target,
                                     const std::optional<value>& weights = {}, weighted_loss_attributes a = {},
                                     const origin& = {});
/// A loss, and the logarithms of probabilities that it is of.
struct loss_and_log_probabilities {
  value loss, log_probabilities;
};
/// The same of logits (ONNX SoftmaxCrossEntropyLoss).   Shapes: scores [N, C, ...]; otherwise as `negative_log_likelihood`.
export loss_and_log_probabilities softmax_cross_entropy(const value& scores, const value& target,
                                                        const std::optional<value>& weights = {},
                                                        weighted_loss_attributes a = {}, const origin& = {});

}  // namespace lamina
