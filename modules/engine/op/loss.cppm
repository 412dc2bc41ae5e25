// Losses, and the operations they consist of, such as picking the entry of a class.
export module lamina:op.loss;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
/// Shape and type rule of picking; `index` names the second operand in messages, `of` the first: "operand without its".
constexpr void infer_pick(view<const tensor_type> in, inference& out, std::string_view index, std::string_view of) {
  const shape &x = in[0].dims, &at = in[1].dims;
  if (!takes(domain::real, in[0].element, out)) return;
  if (in[1].element != dtype::int64) {
    out.refuse(in[1].element, index == "index" ? "an int64 index" : "int64 labels", "std::int64_t");
    return;
  }
  shape rows = x;
  if (rows.rank > 0) --rows.rank;
  if (x.rank < 1 || !fits(rows, at)) {
    out.why << "the " << index << " must have the shape of the " << of << " last axis";
    return;
  }
  for (int i = 0; i < rows.rank; ++i) rows[i] = better(rows[i], at[i]);
  out.result(in[0].element, rows);
}
/// Two operands with equal element types and shapes.
constexpr void infer_same_shape(view<const tensor_type> in, inference& out) {
  if (!takes(domain::real, in[0].element, out) || !same_elements(in, out)) return;
  const shape &a = in[0].dims, &b = in[1].dims;
  if (!fits(a, b)) {
    out.why << "results and targets must have the same shape; a loss does not broadcast";
    if (a.rank == b.rank + 1 && a.back() == dim(1)) out.why << "; `squeeze` removes the last axis of the results";
    if (b.rank == a.rank + 1 && b.back() == dim(1)) out.why << "; `squeeze` removes the last axis of the targets";
    return;
  }
  shape known = a;
  for (int i = 0; i < known.rank; ++i) known[i] = better(a[i], b[i]);
  out.result(in[0].element, known);
}
}  // namespace detail

/// Loss that labels belong to, for messages: `cross_entropy` or `nll`.
struct label_attributes {
  bool logits = false;
  static constexpr void members(auto& a, auto&& f) { f("logits", a.logits); }
  bool operator==(const label_attributes&) const = default;
};

namespace op {
/// result[..] = x[.., index[..]] along the last axis.
struct pick {
  static constexpr std::string_view name = "pick";
  static constexpr bool may_fail = true;
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_pick(in, out, "index", "operand without its");
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of pick: zeros of the third operand's shape with the first operand at the picked positions.
struct pick_grad {
  static constexpr std::string_view name = "pick_grad";
  static constexpr bool may_fail = true;
  static constexpr int operands = 3;
  static constexpr unsigned shape_only = 4;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// `pick` of the entry of each sample's class. It differs only in its messages, which name labels, classes and samples.
struct pick_label {
  static constexpr std::string_view name = "pick_label";
  static constexpr bool may_fail = true;
  static constexpr int operands = 2;
  using attributes = label_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_pick(in, out, "labels", a.logits ? "logits without their" : "log-probabilities without their");
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of pick_label, as `pick_grad` is of pick.
struct pick_label_grad {
  static constexpr std::string_view name = "pick_label_grad";
  static constexpr bool may_fail = true;
  static constexpr int operands = 3;
  static constexpr unsigned shape_only = 4;
  using attributes = label_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand, which must have the shape of the second: extents that are open when a loss is built are compared
/// once they are known. Only the shape of the second is read.
struct same_shape {
  static constexpr std::string_view name = "same_shape";
  static constexpr int operands = 2, alias = 0;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_same_shape(in, out);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand, a number, if all elements of the second are finite; otherwise the run fails and assigns no state.
struct require_finite {
  static constexpr std::string_view name = "require_finite";
  static constexpr bool may_fail = true;
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static void emit(emission&);
};
/// A vector with one number at one position, zeros elsewhere: operands are the position, the number, and a shape.
struct one_hot_like {
  static constexpr std::string_view name = "one_hot";
  static constexpr bool may_fail = true;
  static constexpr int operands = 3;
  static constexpr unsigned shape_only = 4;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static void emit(emission&);
};
}  // namespace op

using loss_operations = operation_list<op::one_hot_like, op::pick, op::pick_grad, op::pick_label, op::pick_label_grad,
                                       op::require_finite, op::same_shape>;
template <Operation Op> requires loss_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
template <fixed_string Name, fixed_string Of> struct loss_of_classes {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_pick(in, out, "labels", Of.view());
  }
};
/// A loss of results and targets of equal shapes.
template <fixed_string Name> struct loss_of_targets {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_same_shape(in, out);
  }
};
struct nll_loss {
  static constexpr std::string_view name = "nll_loss";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out) || !detail::takes(domain::real, in[0].element, out)) return;
    if (!fits(in[0].dims, in[1].dims)) out.why << "weights and probabilities must have the same shape";
  }
};
}  // namespace rule

namespace detail {
/// `x`; its shape is compared with that of `like` once the extents are known, if they are not known to be equal.
template <class X, class Like> constexpr auto in_shape_of(const X& x, const Like& like) {
  using evaluation_mode = evaluation_mode_of<X, Like>;
  if constexpr (std::same_as<evaluation_mode, program_mode>)
    return surely_equal(x.shape(), like.shape()) ? value(x) : value(apply<op::same_shape>({}, x, like));
  else if constexpr (std::same_as<evaluation_mode, type_mode>) return x;
  else if constexpr (requires { requires X::pattern.is_static() && Like::pattern.is_static(); }) return x;
  else return apply<op::same_shape>({}, x, like);
}
/// results - targets, of equal shapes.
template <class Rule, class A, class B> constexpr auto difference(const A& results, const B& targets) {
  obey<Rule>({}, results, targets);
  return in_shape_of(results, targets) - targets;
}
}  // namespace detail

/// Entry index[..] of the last axis.   Shapes: x [..., C], index [...] int64 -> [...].
/// Errors: value_error at run time for an index outside 0..C-1.
export template <Symbolic X, Symbolic I> requires accepted<diagnostic<applying<op::pick, X, I>>()>
constexpr auto pick(const X& x, const I& index, origin_of<X, I> = {}) {
  return apply<op::pick>({}, x, index);
}

/// Negative log likelihood, averaged.   Shapes: log_probabilities [..., C], labels [...] int64 -> [].
/// Errors: value_error at run time for a label outside 0..C-1, naming the label, C and the sample.
export template <Symbolic X, Symbolic L>
requires accepted<diagnostic<applying<rule::loss_of_classes<"nll", "log-probabilities without their">, X, L>>()>
constexpr auto nll(const X& log_probabilities, const L& labels, origin_of<X, L> = {}) {
  return -reduce_mean(apply_fixed<op::pick_label, label_attributes{}>(log_probabilities, labels));
}
/// Weighted negative log likelihood of probabilities: -sum(weights log probabilities) / sum(weights).
/// Shapes:  equal -> [].   Units: nats.
/// Numerics: the gradient by the logits of a preceding softmax does not divide by the probabilities, and is correct
/// where one of them is 0.   Errors: shape_error where the shapes differ.
export template <Symbolic W, Symbolic P> requires accepted<diagnostic<applying<rule::nll_loss, W, P>>()>
constexpr auto nll_loss(const W& weights, const P& probabilities, origin_of<W, P> = {}) {
  detail::obey<rule::nll_loss>({}, weights, probabilities);
  return -(reduce_sum(detail::in_shape_of(weights, probabilities) * log(probabilities)) / reduce_sum(weights));
}
/// Softmax cross entropy of logits, averaged.   Shapes: logits [..., C], labels [...] int64 -> [].   Errors: those of `nll`.
export template <Symbolic X, Symbolic L>
requires accepted<diagnostic<applying<rule::loss_of_classes<"cross_entropy", "logits without their">, X, L>>()>
constexpr auto cross_entropy(const X& logits, const L& labels, origin_of<X, L> = {}) {
  return -reduce_mean(apply_fixed<op::pick_label, label_attributes{.logits = true}>(log_softmax(logits), labels));
}
/// Mean of squared differences.   Shapes: equal -> [].
/// Errors: shape_error where the shapes differ: a loss does not broadcast.
export template <Symbolic A, Symbolic B> requires accepted<diagnostic<applying<rule::loss_of_targets<"mse">, A, B>>()>
constexpr auto mse(const A& results, const B& targets, origin_of<A, B> = {}) {
  return reduce_mean(square(detail::difference<rule::loss_of_targets<"mse">>(results, targets)));
}
/// Mean of absolute differences.   Shapes: equal -> [].   Errors: those of `mse`.
export template <Symbolic A, Symbolic B>
requires accepted<diagnostic<applying<rule::loss_of_targets<"l1_loss">, A, B>>()>
constexpr auto l1_loss(const A& results, const B& targets, origin_of<A, B> = {}) {
  return reduce_mean(abs(detail::difference<rule::loss_of_targets<"l1_loss">>(results, targets)));
}

/// Half the squared distance of each sample.   Shapes: results, targets [N, ...], equal -> [N].   Errors: those of `mse`.
/// Source: Caffe2's SquaredL2Distance.
export template <Symbolic A, Symbolic B>
requires accepted<diagnostic<applying<rule::loss_of_targets<"squared_l2_distance">, A, B>>()>
constexpr auto squared_l2_distance(const A& results, const B& targets, origin_of<A, B> = {}) {
  return reduce_sum<axes(1)>(
             as_matrix<1>(square(detail::difference<rule::loss_of_targets<"squared_l2_distance">>(results, targets)))) *
         0.5;
}
/// Mean of per-sample losses.   Shapes: any -> [].
export template <Symbolic X> requires accepted<diagnostic<applying<op::reduce_mean, X>>()>
constexpr auto averaged_loss(const X& losses, origin_of<X> = {}) {
  return reduce_mean(losses);
}

}  // namespace lamina
