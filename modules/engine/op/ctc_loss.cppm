// Connectionist temporal classification: the loss of sequences whose alignment is not known.
export module lamina:op.ctc_loss;
import :core;
import :op;
import :op.weighted_loss;
import :program;
import lamina.std;

namespace lamina {

/// The class that stands between labels, whether losses that are infinite become 0, and the reduction.
struct ctc_attributes {
  std::int64_t blank = 0;
  bool zero_infinity = false;
  loss_reduction reduction = loss_reduction::mean;
};

/// -log of the probability of a target over all its alignments with the steps of an input. The mean is over samples of the
/// loss by the target's length (at least 1).
/// Shapes:   log_probabilities [T, N, C], targets int64 [N, S], input_lengths and target_lengths int64 [N] -> [], or [N].
/// Numerics: sums in log space. Where no alignment is possible, the loss is infinite, or 0 with `zero_infinity`; it has no
///           gradient. That of the others is by the log-probabilities (PyTorch's is by the logits of a softmax before them).
/// Errors:   shape_error, type_error where operands do not fit; value_error for a blank outside 0..C-1, and at run time for a length
///           outside 0..T or 0..S and for a label outside -C..C-1.
/// Source:   Graves et al., "Connectionist temporal classification" (2006).
export value ctc_loss(const value& log_probabilities, const value& targets, const value& input_lengths,
                      const value& target_lengths, ctc_attributes a = {}, const origin& = {});

}  // namespace lamina
