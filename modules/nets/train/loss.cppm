// Losses as values, built from the library's own operations: called with the outputs of a net and its targets, each
// returns one number, or one per sample.
export module lamina:train.loss;
import :core;
import :op.ctc_loss;
import :op.loss;
import :op.weighted_loss;
import :program;
import lamina.std;

namespace lamina::loss {

// Every loss has a `reduction`: the mean (over all elements, unless noted otherwise), the sum, or none. Errors of all:
// shape_error, type_error if outputs and targets do not match, value_error for a number that is not finite or out of
// range.
//
// `weight`, with the operands of the loss, returns the divisor of the mean of a batch, []; empty: the number of
// samples. A mean under weights whose sum is 0 is 0.

// ---- classes --------------------------------------------------------------------------------------------------------

/// Softmax cross entropy.   Shapes: logits [..., C]; targets classes [...] int64, or probabilities [..., C].
/// `weights` has one number per class. With `label_smoothing` s, a target is (1 - s) for its class plus s / C for every
/// class. Targets equal to `ignore_index` are left out. The mean is weighted for classes, and over samples for
/// probabilities.
/// Errors:  value_error at run time for a class outside 0..C-1, naming class and sample.
/// Source:  PyTorch's CrossEntropyLoss; Szegedy et al. (2015), arXiv:1512.00567, for smoothing.
export struct cross_entropy {
  std::vector<double> weights{};
  double label_smoothing = 0;
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
  value weight(const value& logits, const value& targets) const;
};
/// Negative log likelihood for log-probabilities [..., C] and classes [...].   Options and errors: as `cross_entropy`.
export struct nll {
  std::vector<double> weights{};
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& log_probabilities, const value& labels) const;
  value weight(const value& log_probabilities, const value& labels) const;
};
/// Negative log likelihood for probabilities [..., C], such as the output of a softmax, and classes [...].   Options
/// and errors: as `nll`.
/// Numerics: probabilities below 1e-30 are clamped to 1e-30 and get no gradient.
export struct log_loss {
  std::vector<double> weights{};
  std::optional<std::int64_t> ignore_index{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& probabilities, const value& labels) const;
  value weight(const value& probabilities, const value& labels) const;
};
/// -weight (1 - p)^gamma log p, with p the probability of the sample's class: easy samples count less.
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
/// Mean over classes i other than the sample's class y of max(0, margin - x[y] + x[i])^p, p = 1 or 2, times the weight
/// of y; the sum is divided by all C classes.   Shapes: scores [..., C], classes [...] int64.   Source: PyTorch's
/// MultiMarginLoss.
export struct multi_margin {
  double margin = 1;
  int p = 1;
  std::vector<double> weights{};
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& scores, const value& labels) const;
};

/// Knowledge distillation: KL divergence of the student's softmax from the teacher's, with both logits divided by
/// `temperature` T, times T^2, which keeps the gradient magnitude independent of T. With classes and `hard` h, the loss
/// is (1-h) times that plus h times the cross entropy. The mean is over samples.
/// Shapes:  logits and teacher's logits [..., C], classes [...] int64.
/// Source:  Hinton, Vinyals, Dean, "Distilling the knowledge in a neural network" (2015), arXiv:1503.02531.
export struct distillation {
  double temperature = 2, hard = 0.5;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& teacher) const;
  value operator()(const value& logits, const value& teacher, const value& labels) const;
};

// ---- binary classification ------------------------------------------------------------------------------------------
//
// Targets have the shape of the outputs: 0 or 1, bool or int64, or probabilities.

/// Cross entropy of logits x: -(w y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))). `pos_weight` w is one number, or one
/// per element of the last axis.   Numerics: stable for any x.   Source: PyTorch's BCEWithLogitsLoss.
export struct binary_cross_entropy {
  std::vector<double> pos_weight{};
  double label_smoothing = 0;  // targets become (1 - s) y + s / 2
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
};
/// The same for probabilities, such as the output of a sigmoid.   Numerics: as `log_loss`.
export struct binary_log_loss {
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& probabilities, const value& targets) const;
};
/// Cross entropy of logits times (1 - p)^gamma, with p the probability of the target, times alpha for targets of 1 and
/// 1 - alpha for targets of 0, if alpha is given.   Source: Lin et al. (2017), arXiv:1708.02002.
export struct binary_focal {
  double gamma = 2;
  std::optional<double> alpha = 0.25;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& logits, const value& targets) const;
};
/// max(0, margin - y x) for targets y of 1 and -1.
export struct hinge {
  double margin = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& scores, const value& targets) const;
};
/// For distances x: x if the target is 1, max(0, margin - x) if it is -1.   Source: PyTorch's HingeEmbeddingLoss.
export struct hinge_embedding {
  double margin = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& distances, const value& targets) const;
};

// ---- regression -----------------------------------------------------------------------------------------------------
//
// Outputs and targets have the same shape; targets are not broadcast.

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
/// d^2 / 2 for differences |d| up to `delta`, delta (|d| - delta / 2) beyond.   Source: Huber (1964).
export struct huber {
  double delta = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// d^2 / (2 beta) for differences |d| up to `beta`, |d| - beta / 2 beyond; |d| if beta is 0.
/// Source: Girshick, "Fast R-CNN" (2015), arXiv:1504.08083.
export struct smooth_l1 {
  double beta = 1;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& results, const value& targets) const;
};
/// Kullback-Leibler divergence of targets q from outputs log p: q (log q - log p), 0 where q is 0. With `log_target`
/// the targets are log q. The mean is over the samples of the first axis (PyTorch's `batchmean`), or over all elements.
export struct kl_divergence {
  bool log_target = false, over_elements = false;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& log_probabilities, const value& targets) const;
};

// ---- pairs and triples of embeddings [..., D] -----------------------------------------------------------------------

/// max(0, d(anchor, positive) - d(anchor, negative) + margin), with d(a, b) the p-norm of a - b + epsilon. With `swap`,
/// the distance from positive to negative replaces d(anchor, negative) if smaller.   Shapes: three [..., D] -> [...]
/// before the reduction.
/// Source: Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses" (2016), as in
/// PyTorch.
export struct triplet_margin {
  double margin = 1, p = 2, epsilon = 1e-6;
  bool swap = false;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& anchor, const value& positive, const value& negative) const;
};
/// d^2 / 2 for pairs of the same kind, max(0, margin - d)^2 / 2 for others, with d the length of a - b + epsilon.
/// Shapes:  a, b [..., D], same [...], 1 or 0, also bool or int64.
/// Source:  Hadsell, Chopra, LeCun, "Dimensionality reduction by learning an invariant mapping" (2006).
export struct contrastive {
  double margin = 1, epsilon = 1e-6;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& a, const value& b, const value& same) const;
};
/// 1 - cos(a, b) for targets of 1, max(0, cos(a, b) - margin) for targets of -1.   Shapes: a, b [..., D], targets
/// [...].
/// Source: PyTorch's CosineEmbeddingLoss.
export struct cosine_embedding {
  double margin = 0;
  loss_reduction reduction = loss_reduction::mean;
  value operator()(const value& a, const value& b, const value& targets) const;
};

// ---- sequences ------------------------------------------------------------------------------------------------------

/// Connectionist temporal classification, `ctc_loss`.   Shapes: log_probabilities [N, T, C], or [T, N, C] with
/// `time_first`; targets [N, S] int64, lengths [N] int64. With two operands, every input has T steps and a target ends
/// at its first negative number. The mean is over samples, each loss divided by the length of its target.
export struct ctc {
  std::int64_t blank = 0;
  bool zero_infinity = false, time_first = false;
  loss_reduction reduction = loss_reduction::mean;
  /// Padding of shorter targets.
  static constexpr double target_fill() { return -1; }
  value operator()(const value& log_probabilities, const value& targets) const;
  value operator()(const value& log_probabilities, const value& targets, const value& input_lengths,
                   const value& target_lengths) const;
};

// ---- weights of samples ---------------------------------------------------------------------------------------------

/// Sample losses times weights, which have the shape of the losses or its leading extents: the sum, or the mean
/// sum(weights losses) / sum(weights), 0 if sum(weights) is 0.
export value weigh(const value& losses, const value& weights, loss_reduction reduction = loss_reduction::mean);
/// Sum of weights, in the element type of the outputs.
value sum_of_weights(const value& results, const value& weights);
/// A loss with sample weights as third operand: `weighted{loss::mse{}}(outputs, targets, weights)`.   Errors: as
/// `weigh`.
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
