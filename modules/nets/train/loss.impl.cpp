module lamina:train.loss.impl;
import :core;
import :dtype;
import :op;
import :op.ctc_loss;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.loss;
import :op.reduce;
import :op.shape;
import :op.view;
import :op.weighted_loss;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.loss;
import lamina.std;

namespace lamina::loss {

using namespace detail;

namespace {

reduce_attributes last_axis(bool keepdim = false) { return {axes(-1), keepdim}; }
value sum_of_rows(const value& x) { return reduce_sum(x, last_axis()); }
value with_new_axis(const value& x) { return unsqueeze(x, axes(-1)); }
/// Number of elements of a row, rank 0 or one per row.
value row_length(const value& x) {
  if (const dim n = x.shape().back(); n.is_number())
    return x.owner().number(static_cast<double>(n.code), x.type().element);
  return sum_of_rows(constant_like(x, 1));
}

// ---- classes --------------------------------------------------------------------------------------------------------

/// One number per class, as a constant [C].
value class_weights(std::string_view owner, const std::vector<double>& weights, const value& scores) {
  check_list(owner, "weights", weights);
  const auto n = static_cast<std::int64_t>(weights.size());
  if (const dim c = scores.shape().back(); c.is_number() && c.code != n) {
    text t;
    raise(error_kind::shape, t << origin::prefix() << owner << ": `weights` has " << n << " numbers and "
                               << scores.shape() << " has " << c.code << (c.code == 1 ? " class" : " classes"));
  }
  return constant_list(scores.owner(), scores.type().element, weights, {dim(n)});
}
/// Reduces weighted losses; the mean is 0 if no target counts.
value reduced_under(const value& losses, const value& weights, loss_reduction r) {
  if (weights.empty() || r != loss_reduction::mean) return reduced_loss(losses, weights, r);
  const value all = reduce_sum(weights, reduce_attributes{});
  return reduced_loss(losses, {}, loss_reduction::sum) / where(all == 0, 1, all);
}
/// Class labels, with ignored ones replaced by 0.
struct class_labels {
  value at, counts;
  class_labels(const value& labels, const std::optional<std::int64_t>& ignore) : at(labels) {
    if (!ignore) return;
    counts = labels != *ignore;
    at = where(counts, labels, 0);
  }
  value counted(const value& x) const { return counts.empty() ? x : value(where(counts, x, 0)); }
  /// Weight of each target from class weights; empty if all have equal weight.
  value weights_of(const value& weights, dtype element) const {
    if (weights.empty()) return counts.empty() ? value() : converted(counts, element);
    return counted(gather(weights, at, 0));
  }
  /// Reduces sample losses with the weights of their classes.
  value reduced(const value& losses, const value& weights, loss_reduction r) const {
    return reduced_under(counted(losses), weights_of(weights, losses.type().element), r);
  }
};
/// Log-probabilities of the classes of samples.
value picked(const value& log_probabilities, const class_labels& labels, bool logits) {
  return apply<op::pick_label>(label_attributes{logits}, log_probabilities, labels.at);
}
/// Reduces losses with class weights. A weight multiplies the loss and, for the mean, is part of the divisor.
value weighted_classes(std::string_view owner, const value& losses, const value& scores, const class_labels& at,
                       const std::vector<double>& weights, loss_reduction r) {
  if (weights.empty()) return at.reduced(losses, {}, r);
  const value each = class_weights(owner, weights, scores);
  return at.reduced(losses * gather(each, at.at, 0), each, r);
}

/// Sum of the weights of classes [...] for scores [..., C]; empty unless it is a weighted mean.
template <class Loss>
value weight_of_classes(std::string_view owner, const Loss& o, const value& scores, const value& labels) {
  if (o.reduction != loss_reduction::mean || (o.weights.empty() && !o.ignore_index)) return {};
  const value each = o.weights.empty() ? value() : class_weights(owner, o.weights, scores);
  return reduce_sum(class_labels(labels, o.ignore_index).weights_of(each, scores.type().element), reduce_attributes{});
}

using cross_entropy_rule = rule::loss_of_classes<"cross_entropy", "logits without their">;
using nll_rule = rule::loss_of_classes<"nll", "log-probabilities without their">;
using log_loss_rule = rule::loss_of_classes<"log_loss", "probabilities without their">;
using focal_rule = rule::loss_of_classes<"focal", "logits without their">;
using multi_margin_rule = rule::loss_of_classes<"multi_margin", "scores without their">;

/// Cross entropy for probability targets.
value soft_cross_entropy(const cross_entropy& o, const value& logits, const value& targets) {
  obey<rule::loss_of_targets<"cross_entropy">>({}, logits, targets);
  if (o.ignore_index)
    raise(error_kind::value, origin::prefix() +
                                 "cross_entropy: `ignore_index` is set, but the targets are "
                                 "probabilities; expected int64 classes");
  value to = in_shape_of(targets, logits);
  if (o.label_smoothing != 0) to = to * (1 - o.label_smoothing) + o.label_smoothing / row_length(logits);
  if (!o.weights.empty()) to = to * class_weights("cross_entropy", o.weights, logits);
  return reduced_loss(-sum_of_rows(to * log_softmax(logits)), {}, o.reduction);
}

}  // namespace

value cross_entropy::operator()(const value& logits, const value& targets) const {
  check_numbers("cross_entropy", {up_to_1("label_smoothing", label_smoothing)});
  if (is_floating(targets.type().element)) return soft_cross_entropy(*this, logits, targets);
  if (weights.empty() && label_smoothing == 0 && !ignore_index && reduction == loss_reduction::mean)
    return lamina::cross_entropy(logits, targets);
  obey<cross_entropy_rule>({}, logits, targets);
  const class_labels at(targets, ignore_index);
  const value log_probabilities = log_softmax(logits), hard = -picked(log_probabilities, at, true);
  if (label_smoothing == 0) return weighted_classes("cross_entropy", hard, logits, at, weights, reduction);
  const value each = weights.empty() ? value() : class_weights("cross_entropy", weights, logits);
  const value own = each.empty() ? hard : value(hard * gather(each, at.at, 0));
  const value all = -reduce_mean(each.empty() ? log_probabilities : value(log_probabilities * each), last_axis());
  return at.reduced(own * (1 - label_smoothing) + all * label_smoothing, each, reduction);
}

value cross_entropy::weight(const value& logits, const value& targets) const {
  if (is_floating(targets.type().element)) return {};
  return weight_of_classes("cross_entropy", *this, logits, targets);
}

value nll::weight(const value& log_probabilities, const value& labels) const {
  return weight_of_classes("nll", *this, log_probabilities, labels);
}
value nll::operator()(const value& log_probabilities, const value& labels) const {
  if (weights.empty() && !ignore_index && reduction == loss_reduction::mean)
    return lamina::nll(log_probabilities, labels);
  obey<nll_rule>({}, log_probabilities, labels);
  const class_labels at(labels, ignore_index);
  return weighted_classes("nll", -picked(log_probabilities, at, false), log_probabilities, at, weights, reduction);
}

value log_loss::weight(const value& probabilities, const value& labels) const {
  return weight_of_classes("log_loss", *this, probabilities, labels);
}
value log_loss::operator()(const value& probabilities, const value& labels) const {
  obey<log_loss_rule>({}, probabilities, labels);
  return nll{weights, ignore_index, reduction}(log(max(probabilities, 1e-30)), labels);
}

value focal::weight(const value& logits, const value& labels) const {
  return weight_of_classes("focal", *this, logits, labels);
}
value focal::operator()(const value& logits, const value& labels) const {
  check_numbers("focal", {{"gamma", gamma}});
  obey<focal_rule>({}, logits, labels);
  const class_labels at(labels, ignore_index);
  const value log_p = picked(log_softmax(logits), at, true);
  // 1 - p, accurate in value and slope where p is near 1
  const value easy = gamma == 0 ? value() : value(pow(max(-expm1(log_p), 1e-30), gamma));
  return weighted_classes("focal", easy.empty() ? value(-log_p) : value(-(easy * log_p)), logits, at, weights,
                          reduction);
}

value multi_margin::operator()(const value& scores, const value& labels) const {
  check_numbers("multi_margin", {{"margin", margin}});
  if (p != 1 && p != 2) {
    text t;
    raise(error_kind::value, t << origin::prefix() << "multi_margin: `p` is " << p << "; expected 1 or 2");
  }
  obey<multi_margin_rule>({}, scores, labels);
  const value own = with_new_axis(pick(scores, labels)), over = max(scores - own + margin, 0);
  // the sample's class adds margin^p to the sum and nothing to the gradient
  const value raised = p == 1 ? over : value(square(over));
  value losses = (sum_of_rows(raised) - std::pow(margin, p)) / row_length(scores);
  if (!weights.empty()) losses = losses * gather(class_weights("multi_margin", weights, scores), labels, 0);
  return reduced_loss(losses, {}, reduction);
}

namespace {
/// Divergence of each sample from the teacher, times the squared temperature.
value divergence_of_rows(const distillation& o, const value& logits, const value& teacher) {
  check_numbers("distillation", {positive("temperature", o.temperature), up_to_1("hard", o.hard)});
  obey<rule::loss_of_targets<"distillation">>({}, logits, teacher);
  const value p = log_softmax(logits / o.temperature), q = log_softmax(in_shape_of(teacher, logits) / o.temperature);
  return sum_of_rows(exp(q) * (q - p)) * (o.temperature * o.temperature);
}
}  // namespace

value distillation::operator()(const value& logits, const value& teacher) const {
  return reduced_loss(divergence_of_rows(*this, logits, teacher), {}, reduction);
}
value distillation::operator()(const value& logits, const value& teacher, const value& labels) const {
  const value soft = divergence_of_rows(*this, logits, teacher);
  const cross_entropy of_classes{.reduction = loss_reduction::none};
  return reduced_loss(soft * (1 - hard) + of_classes(logits, labels) * hard, {}, reduction);
}

// ---- binary classification ------------------------------------------------------------------------------------------

namespace {
/// Targets converted to the element type of the outputs, with the same shape.
template <fixed_string Name> value targets_of(const value& results, const value& targets) {
  const value same = converted(targets, results.type().element);
  obey<rule::loss_of_targets<Name>>({}, results, same);
  return in_shape_of(same, results);
}
}  // namespace

value binary_cross_entropy::operator()(const value& logits, const value& targets) const {
  check_numbers("binary_cross_entropy", {up_to_1("label_smoothing", label_smoothing)});
  value y = targets_of<"binary_cross_entropy">(logits, targets);
  if (label_smoothing != 0) y = y * (1 - label_smoothing) + label_smoothing / 2;
  if (pos_weight.empty()) return reduced_loss(softplus(-logits) + (1 - y) * logits, {}, reduction);
  check_list("binary_cross_entropy", "pos_weight", pos_weight);
  const auto n = static_cast<std::int64_t>(pos_weight.size());
  if (n > 1 && (logits.shape().rank == 0 || (logits.shape().back().is_number() && logits.shape().back().code != n))) {
    text t;
    raise(error_kind::shape, t << origin::prefix() << "binary_cross_entropy: `pos_weight` has " << n
                               << " numbers and the logits are " << logits.shape()
                               << "; expected one, or one for each element of the last axis");
  }
  const value weight =
      constant_list(logits.owner(), logits.type().element, pos_weight, n == 1 ? shape{} : shape{dim(n)});
  return reduced_loss((1 + (weight - 1) * y) * softplus(-logits) + (1 - y) * logits, {}, reduction);
}

value binary_log_loss::operator()(const value& probabilities, const value& targets) const {
  const value y = targets_of<"binary_log_loss">(probabilities, targets);
  return reduced_loss(-(y * log(max(probabilities, 1e-30)) + (1 - y) * log(max(1 - probabilities, 1e-30))), {},
                      reduction);
}

value binary_focal::operator()(const value& logits, const value& targets) const {
  check_numbers("binary_focal", {{"gamma", gamma}});
  const value y = targets_of<"binary_focal">(logits, targets);
  value losses = softplus(-logits) + (1 - y) * logits;
  if (gamma != 0) {
    const value p = sigmoid(logits), q = sigmoid(-logits);
    losses = losses * pow(max(p * (1 - y) + q * y, 1e-30), gamma);
  }
  if (alpha) {
    check_numbers("binary_focal", {up_to_1("alpha", *alpha)});
    losses = losses * ((1 - *alpha) + (2 * *alpha - 1) * y);
  }
  return reduced_loss(losses, {}, reduction);
}

value hinge::operator()(const value& scores, const value& targets) const {
  check_numbers("hinge", {{"margin", margin}});
  return reduced_loss(max(margin - targets_of<"hinge">(scores, targets) * scores, 0), {}, reduction);
}

value hinge_embedding::operator()(const value& distances, const value& targets) const {
  check_numbers("hinge_embedding", {{"margin", margin}});
  const value y = targets_of<"hinge_embedding">(distances, targets);
  return reduced_loss(where(y > 0, distances, max(margin - distances, 0)), {}, reduction);
}

// ---- regression -----------------------------------------------------------------------------------------------------

value mse::operator()(const value& results, const value& targets) const {
  return reduced_loss(square(difference<rule::loss_of_targets<"mse">>(results, targets)), {}, reduction);
}
value l1::operator()(const value& results, const value& targets) const {
  return reduced_loss(abs(difference<rule::loss_of_targets<"l1_loss">>(results, targets)), {}, reduction);
}
value huber::operator()(const value& results, const value& targets) const {
  check_numbers("huber", {positive("delta", delta)});
  const value d = difference<rule::loss_of_targets<"huber">>(results, targets), size = abs(d);
  return reduced_loss(where(size < delta, square(d) * 0.5, (size - delta / 2) * delta), {}, reduction);
}
value smooth_l1::operator()(const value& results, const value& targets) const {
  check_numbers("smooth_l1", {{"beta", beta}});
  const value d = difference<rule::loss_of_targets<"smooth_l1">>(results, targets), size = abs(d);
  if (beta == 0) return reduced_loss(size, {}, reduction);
  return reduced_loss(where(size < beta, square(d) * (0.5 / beta), size - beta / 2), {}, reduction);
}

value kl_divergence::operator()(const value& log_probabilities, const value& targets) const {
  obey<rule::loss_of_targets<"kl_divergence">>({}, log_probabilities, targets);
  const value q = in_shape_of(targets, log_probabilities);
  value losses;
  if (log_target) losses = exp(q) * (q - log_probabilities);
  else losses = where(q > 0, q * log(where(q > 0, q, 1)), 0) - q * log_probabilities;
  if (reduction != loss_reduction::mean || over_elements) return reduced_loss(losses, {}, reduction);
  if (losses.shape().rank == 0) return losses;
  return reduce_mean(reduce_sum(as_matrix<1>(losses), last_axis()), reduce_attributes{});
}

// ---- pairs and triples ----------------------------------------------------------------------------------------------

namespace {
/// Errors: shape_error for operands that do not have the same shape [..., D].
void check_embeddings(std::string_view owner, const value& a, const value& b) {
  text t;
  if (a.shape().rank < 1 || !fits(a.shape(), b.shape()))
    raise(error_kind::shape, t << origin::prefix() << owner << ": embeddings must have one shape [..., D]; they are "
                               << a.shape() << " and " << b.shape());
}
/// Targets [...] of pairs [..., D], in the type of `like`, whose shape is [...].
value targets_of_pairs(std::string_view owner, const value& targets, const value& like) {
  const value y = converted(targets, like.type().element);
  if (fits(like.shape(), y.shape())) return in_shape_of(y, like);
  text t;
  raise(error_kind::shape, t << origin::prefix() << owner << ": targets must have the shape of the embeddings without "
                             << "their last axis, " << like.shape() << "; they are " << y.shape());
}
/// The p-norm of the rows of a - b + epsilon.
value distance(const value& a, const value& b, double p, double epsilon) {
  const value d = in_shape_of(a, b) - b + epsilon;
  if (p == 2) return sqrt(sum_of_rows(square(d)));
  if (p == 1) return sum_of_rows(abs(d));
  return pow(sum_of_rows(pow(abs(d), p)), 1 / p);
}
}  // namespace

value triplet_margin::operator()(const value& anchor, const value& positive, const value& negative) const {
  check_numbers("triplet_margin", {{"margin", margin}, detail::positive("p", p), {"epsilon", epsilon}});
  check_embeddings("triplet_margin", anchor, positive);
  check_embeddings("triplet_margin", anchor, negative);
  value far = distance(anchor, negative, p, epsilon);
  if (swap) far = min(far, distance(positive, negative, p, epsilon));
  return reduced_loss(max(distance(anchor, positive, p, epsilon) - far + margin, 0), {}, reduction);
}

value contrastive::operator()(const value& a, const value& b, const value& same) const {
  check_numbers("contrastive", {{"margin", margin}, {"epsilon", epsilon}});
  check_embeddings("contrastive", a, b);
  const value d = distance(a, b, 2, epsilon), y = targets_of_pairs("contrastive", same, d);
  return reduced_loss((y * square(d) + (1 - y) * square(max(margin - d, 0))) * 0.5, {}, reduction);
}

value cosine_embedding::operator()(const value& a, const value& b, const value& targets) const {
  if (!(margin >= -1 && margin <= 1)) {
    text t;
    raise(error_kind::value,
          t << origin::prefix() << "cosine_embedding: `margin` is " << margin << "; expected a number from -1 to 1");
  }
  check_embeddings("cosine_embedding", a, b);
  const auto squares = [](const value& x) { return sum_of_rows(square(x)) + 1e-12; };
  const value cosine = sum_of_rows(in_shape_of(a, b) * b) / sqrt(squares(a) * squares(b)),
              y = targets_of_pairs("cosine_embedding", targets, cosine);
  return reduced_loss(where(y > 0, 1 - cosine, max(cosine - margin, 0)), {}, reduction);
}

// ---- sequences ------------------------------------------------------------------------------------------------------

value ctc::operator()(const value& log_probabilities, const value& targets, const value& input_lengths,
                      const value& target_lengths) const {
  // `ctc_loss` rejects a wrong rank.
  const bool moved = !time_first && log_probabilities.shape().rank == 3;
  return ctc_loss(moved ? with_axis_moved(log_probabilities, 1, 0) : log_probabilities, targets, input_lengths,
                  target_lengths, {blank, zero_infinity, reduction});
}
value ctc::operator()(const value& log_probabilities, const value& targets) const {
  if (log_probabilities.shape().rank != 3 || targets.shape().rank != 2 || targets.type().element != dtype::int64) {
    text t;
    raise(error_kind::shape, t << origin::prefix() << "ctc: expected log-probabilities [N, T, C] and int64 targets "
                               << "[N, S]; got " << log_probabilities.shape() << " and " << targets.type());
  }
  // A target ends before its first negative number.
  const value before = cumsum(converted(targets < 0, dtype::int64), cumsum_attributes{.axis = 1});
  const value target_lengths = reduce_sum(converted(before == 0, dtype::int64), last_axis());
  const value steps = select(log_probabilities, 2, 0), by_sample = time_first ? transpose(steps) : steps;
  const value input_lengths = reduce_sum(converted(constant_like(by_sample, 1), dtype::int64), last_axis());
  return (*this)(log_probabilities, targets, input_lengths, target_lengths);
}

// ---- weights of samples ---------------------------------------------------------------------------------------------

value weigh(const value& losses, const value& weights, loss_reduction r) {
  value w = converted(weights, losses.type().element);
  const shape &all = losses.shape(), &given = w.shape();
  bool leads = given.rank <= all.rank;
  for (int i = 0; leads && i < given.rank; ++i) leads = fits(shape{all[i]}, shape{given[i]});
  if (!leads) {
    text t;
    raise(error_kind::shape, t << origin::prefix() << "weigh: weights must have the shape of the losses, " << all
                               << ", or its first extents; they are " << given);
  }
  while (w.shape().rank < all.rank) w = with_new_axis(w);
  w = broadcast_like(w, losses);
  return reduced_under(losses * w, w, r);
}
value sum_of_weights(const value& results, const value& weights) {
  return reduce_sum(converted(weights, results.type().element), reduce_attributes{});
}

}  // namespace lamina::loss
