// Connectionist temporal classification: a loss for sequences of unknown alignment.
export module lamina:op.ctc_loss;
import :core;
import :op;
import :op.weighted_loss;
import :program;
import lamina.std;

namespace lamina {

/// Class of the blank label, whether infinite losses become 0, and the reduction.
struct ctc_attributes {
  std::int64_t blank = 0;
  bool zero_infinity = false;
  loss_reduction reduction = loss_reduction::mean;
};

/// -log of the probability of a target, summed over all its alignments with the input's steps. The mean divides each
/// sample's loss by the target's length (at least 1) first.
/// Shapes:   log_probabilities [T, N, C], targets int64 [N, S], input_lengths and target_lengths int64 [N] -> [], or [N].
/// Numerics: sums in log space. Without a possible alignment the loss is infinite, or 0 with `zero_infinity`, and has
///           no gradient. Otherwise the gradient is by the log-probabilities (PyTorch's: by logits before a softmax).
/// Errors:   shape_error, type_error where operands do not fit; value_error for a blank outside 0..C-1, and at run time
///           for a length outside 0..T or 0..S and for a label outside -C..C-1.
/// Source:   Graves et al., "Connectionist temporal classification" (2006).
export value ctc_loss(const value& log_probabilities, const value& targets, const value& input_lengths,
                      const value& target_lengths, ctc_attributes a = {}, const origin& = {});

}  // namespace lamina
