// Losses as values, written with the library's own operations: called with the results of a net and its targets, each gives
// one number, or one for each sample.
export module lamina:train.loss;
import :core;
import :op.ctc_loss;
import :op.loss;
import :op.weighted_loss;
import :program;
import lamina.std;

namespace lamina::loss {

// Every loss has a `reduction`: the mean (of all elements, unless said otherwise), the sum, or none. Errors of all: shape_error,
// type_error where results and targets do not fit, value_error for a number that is not finite or out of range.
//
// `weight` of a loss, which takes the same operands, is what the mean of a batch is divided by, []; empty: its number of samples. A mean
// under weights whose sum is 0 is 0.

// ---- classes --------------------------------------------------------------------------------------------------------

/// Softmax cross entropy.   Shapes: logits [..., C]; targets classes [...] int64, or probabilities [..., C].
/// `weights` has one number for each class, with `label_smoothing` a target is (1 - s) of its class and s / C of every one, and
/// targets of `ignore_index` count nothing. The mean of classes is under the weights, that of probabilities over samples.
/// Errors:  value_error at run time for a class outside 0..C-1, naming it and its sample.
/// Source:  PyTorch's CrossEntropyLoss; Szegedy et al. (2015), arXiv:1512.00567, for smoothing.
export struct cross_entropy {
  std::vector<double> weights{};
  double label_smoothing = 0;
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
  value weight(const value& logits, const value& targets) const;
};
/// Negative log likelihood of log-probabilities [..., C] and classes [...].   Options and errors: as `cross_entropy`.
export struct nll {
  std::vector<double> weights{};
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& log_probabilities, const value& labels) const;
  value weight(const value& log_probabilities, const value& labels) const;
};
/// Negative log likelihood of probabilities [..., C], as a softmax gives them, and classes [...].   Options and errors: as `nll`.
/// Numerics: a probability below 1e-30 counts as 1e-30 and takes no gradient.
export struct log_loss {
  std::vector<double> weights{};
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& probabilities, const value& labels) const;
  value weight(const value& probabilities, const value& labels) const;
};
/// -weight (1 - p)^gamma log p of the probability p of each sample's class: easy samples count less.
/// Shapes:  logits [..., C], classes [...] int64.   Options and errors: as `nll`.
/// Source:  Lin et al., "Focal loss for dense object detection" (2017), arXiv:1708.02002.
export struct focal {
  double gamma = 2;
  std::vector<double> weights{};
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& labels) const;
  value weight(const value& logits, const value& labels) const;
};
/// The mean over classes i other than the sample's class y of max(0, margin - x[y] + x[i])^p, p = 1 or 2, times the weight of y;
/// the sum is divided by all C classes.   Shapes: scores [..., C], classes [...] int64.   Source: PyTorch's MultiMarginLoss.
export struct multi_margin {
  double margin = 1;
  int p = 1;
  std::vector<double> weights{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& scores, const value& labels) const;
};

/// How far a student is from its teacher: the divergence of the softmax of the student's logits from that of the teacher's, both divided by
/// `temperature` T, times T^2, so that gradients are as large for any T. With classes the loss is (1 - hard) of it and `hard` of the cross
/// entropy. The mean is over samples.
/// Shapes:  logits and teacher's logits [..., C], classes [...] int64.
/// Source:  Hinton, Vinyals, Dean, "Distilling the knowledge in a neural network" (2015), arXiv:1503.02531.
export struct distillation {
  double temperature = 2, hard = 0.5;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& teacher) const;
  value operator()(const value& logits, const value& teacher, const value& labels) const;
};

// ---- yes or no ------------------------------------------------------------------------------------------------------
//
// Targets have the shape of the results: 0 or 1, bool or int64, or probabilities.

/// Cross entropy of logits x: -(w y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))). `pos_weight` w is one number, or one for each
/// element of the last axis.   Numerics: right for any x.   Source: PyTorch's BCEWithLogitsLoss.
export struct binary_cross_entropy {
  std::vector<double> pos_weight{};
  double label_smoothing = 0;  // targets become (1 - s) y + s / 2
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
};
/// The same of probabilities, as a sigmoid gives them.   Numerics: as `log_loss`.
export struct binary_log_loss {
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& probabilities, const value& targets) const;
};
/// Cross entropy of logits times (1 - p)^gamma, p the probability of the target, and alpha for targets of 1, 1 - alpha for 0; no
/// alpha where it is empty.   Source: Lin et al. (2017), arXiv:1708.02002.
export struct binary_focal {
  double gamma = 2;
  std::optional<double> alpha = 0.25;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
};
/// max(0, margin - y x) of targets y of 1 and -1.
export struct hinge {
  double margin = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& scores, const value& targets) const;
};
/// x where the target is 1, max(0, margin - x) where it is -1: of distances x.   Source: PyTorch's HingeEmbeddingLoss.
export struct hinge_embedding {
  double margin = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& distances, const value& targets) const;
};

// ---- numbers --------------------------------------------------------------------------------------------------------
//
// Results and targets have one shape; targets are not broadcast.

/// Squared differences.
export struct mse {
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// Absolute differences.
export struct l1 {
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// d^2 / 2 of differences d up to `delta`, delta (|d| - delta / 2) beyond.   Source: Huber (1964).
export struct huber {
  double delta = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// d^2 / (2 beta) of differences d up to `beta`, |d| - beta / 2 beyond; of beta 0 the absolute difference.
/// Source: Girshick, "Fast R-CNN" (2015), arXiv:1504.08083.
export struct smooth_l1 {
  double beta = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// Kullback-Leibler divergence of targets q from results log p: q (log q - log p), 0 where q is 0. With `log_target` the targets
/// are log q. The mean is over the samples of the first axis (PyTorch's `batchmean`), or over all elements.
export struct kl_divergence {
  bool log_target = false, over_elements = false;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& log_probabilities, const value& targets) const;
};

// ---- pairs and triples of embeddings [..., D] -----------------------------------------------------------------------

/// max(0, d(anchor, positive) - d(anchor, negative) + margin), d(a, b) the p-norm of a - b + epsilon. With `swap` the
/// distance of positive and negative counts where it is smaller.   Shapes: three [..., D] -> [...] before the reduction.
/// Source: Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses" (2016), as PyTorch has it.
export struct triplet_margin {
  double margin = 1, p = 2, epsilon = 1e-6;
  bool swap = false;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& anchor, const value& positive, const value& negative) const;
};
/// d^2 / 2 of pairs that are the same, max(0, margin - d)^2 / 2 of others, d the length of a - b + epsilon.
/// Shapes:  a, b [..., D], same [...], 1 or 0, also bool or int64.
/// Source:  Hadsell, Chopra, LeCun, "Dimensionality reduction by learning an invariant mapping" (2006).
export struct contrastive {
  double margin = 1, epsilon = 1e-6;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& a, const value& b, const value& same) const;
};
/// 1 - cos(a, b) of targets of 1, max(0, cos(a, b) - margin) of targets of -1.   Shapes: a, b [..., D], targets [...].
/// Source: PyTorch's CosineEmbeddingLoss.
export struct cosine_embedding {
  double margin = 0;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& a, const value& b, const value& targets) const;
};

// ---- sequences ------------------------------------------------------------------------------------------------------

/// Connectionist temporal classification, `ctc_loss`.   Shapes: log_probabilities [N, T, C], or [T, N, C] with `time_first`;
/// targets [N, S] int64, lengths [N] int64. With two operands every input has T steps, and a target ends at its first number
/// below 0. The mean is over samples of the loss by length of the target.
export struct ctc {
  std::int64_t blank = 0;
  bool zero_infinity = false, time_first = false;
  loss_reduction reduction = loss_reduction::mean;
  /// What shorter targets are filled up with.
  static constexpr double target_fill() { return -1; }
  value operator()(const value& log_probabilities, const value& targets) const;
  value operator()(const value& log_probabilities, const value& targets, const value& input_lengths,
                   const value& target_lengths) const;
};

// ---- weights of samples ---------------------------------------------------------------------------------------------

/// Losses of samples times weights, which have their shape or its first extents: the sum, or sum(weights losses) / sum(weights), 0 where
/// the weights are.
export value weigh(const value& losses, const value& weights, loss_reduction reduction = loss_reduction::mean);
/// The sum of weights, in the type of the results.
value sum_of_weights(const value& results, const value& weights);
/// A loss of results, targets and weights of samples: `weighted{loss::mse{}}(results, targets, weights)`.   Errors: as `weigh`.
export template <class L> struct weighted {
  L loss{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets, const value& weights) const {
    L each = loss;
    each.reduction = loss_reduction::none;
    return weigh(each(results, targets), weights, reduction);
  }
  value weight(const value& results, const value&, const value& weights) const {
    return reduction == loss_reduction::mean ? sum_of_weights(results, weights) : value();
  }
};
export template <class L> weighted(L) -> weighted<L>;
export template <class L> weighted(L, loss_reduction) -> weighted<L>;

}  // namespace lamina::loss
