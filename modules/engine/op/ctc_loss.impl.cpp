module lamina:op.ctc_loss.impl;
import :core;
import :dtype;
import :op;
import :op.control;
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
import lamina.std;

namespace lamina {

using namespace detail;

namespace {

/// log 0 as a finite number, so that differences and their gradients are finite.
constexpr double log_zero = -1e30;

void check_operands(const value& log_probabilities, const value& targets, const value& input_lengths,
                    const value& target_lengths, std::int64_t blank) {
  text t;
  const std::string place = log_probabilities.owner().place();
  if (!place.empty()) t << place << ": ";
  t << "ctc_loss: ";
  const shape &p = log_probabilities.shape(), &y = targets.shape();
  for (const value* v : {&targets, &input_lengths, &target_lengths})
    if (v->type().element != dtype::int64)
      raise(error_kind::type,
            t << (v == &targets ? "targets" : "lengths") << " are " << v->type() << "; expected int64");
  if (!is_real(log_probabilities.type().element))
    raise(error_kind::type,
          t << "log-probabilities are " << log_probabilities.type() << "; expected float32 or float64");
  const bool ranks = p.rank == 3 && y.rank == 2 && input_lengths.shape().rank == 1 && target_lengths.shape().rank == 1;
  if (!ranks || !fits(shape{p[1]}, shape{y[0]}) || !fits(shape{p[1]}, input_lengths.shape()) ||
      !fits(shape{p[1]}, target_lengths.shape()))
    raise(error_kind::shape, t << "log-probabilities [T, N, C], targets [N, S] and lengths [N] are expected, not " << p
                               << ", " << y << ", " << input_lengths.shape() << " and " << target_lengths.shape());
  if (y[1].is_number() && y[1].code == 0)
    raise(error_kind::shape, t << "targets are " << y << "; expected at least one label");
  if (blank < 0 || (p[2].is_number() && blank >= p[2].code))
    raise(error_kind::value, t << "`blank` is " << blank << "; expected a class of " << p);
}

value columns(const value& x, std::int64_t start, std::int64_t stop = std::numeric_limits<std::int64_t>::max()) {
  return slice(x, {.start = start, .stop = stop, .axis = 1});
}
value joined(std::initializer_list<value> parts, std::int64_t axis) {
  return concat(view<const value>(parts.begin(), parts.size()), axis);
}
/// Positions 0, 1, 2, ... along an axis, with the shape of `like`.
value positions(const value& like, std::int64_t axis) {
  return cumsum(converted(constant_like(like, 1), dtype::int64), cumsum_attributes{.axis = axis}) - 1;
}
/// Interleaves [N, S] with a number: states [2 S + 1, N] of the forward variables: number, x, number, x, ..., number.
value between(const value& x, double number) {
  const value filler = converted(constant_like(x, number), x.type().element);
  const value pairs[] = {filler, x};
  const value flat = flatten<1>(stack(view<const value>(pairs, 2), 2));
  return transpose(joined({flat, columns(filler, 0, 1)}, 1));
}
/// 0 for each length within the columns of `table`; for others the run fails with an error that names the operand.
value length_check(const value& lengths, const value& table, std::string_view name) {
  program& p = lengths.owner();
  const std::string path = p.path;
  p.path += (path.empty() ? "ctc_loss/" : "/ctc_loss/") + std::string(name);
  const value zeros = constant_like(table, 0), checked = pick(joined({zeros, columns(zeros, 0, 1)}, 1), lengths);
  p.path = path;
  return checked;
}

/// One step of the forward variables. Inputs: alpha [2 + L, N], whose first two rows belong to no state;
/// log-probabilities [N, C]; whether a sample has this step, [N]; labels of the states and the cost of skipping a
/// blank, [L, N].
std::shared_ptr<const program> step_program(const value& alpha, const value& log_p, const value& live,
                                            const value& labels, const value& skip) {
  auto body = std::make_shared<program>();
  const auto without_time = [](tensor_type t) {
    shape s;
    for (int i = 1; i < t.dims.rank; ++i) s.push_back(t.dims[i]);
    return tensor_type{t.element, s};
  };
  const value a = body->input("alpha", alpha.type()), p = body->input("log_probabilities", without_time(log_p.type())),
              on = body->input("live", without_time(live.type())), at = body->input("labels", labels.type()),
              over = body->input("skip", skip.type());
  const value stay = slice(a, {.start = 2}), next = slice(a, {.start = 1, .stop = -1}),
              jump = slice(a, {.stop = -2}) + over;
  const value high = stop_gradient(max(max(stay, next), jump));
  const value emitted = max(take_along_axis(p, at, 0), log_zero);
  const value sum = high + log(exp(stay - high) + exp(next - high) + exp(jump - high)) + emitted;
  body->output("alpha", joined({where(on, log_zero, slice(a, {.stop = 2})), where(on, sum, stay)}, 0));
  return body;
}

}  // namespace

value ctc_loss(const value& log_probabilities, const value& targets, const value& input_lengths,
               const value& target_lengths, ctc_attributes a, const origin&) {
  check_operands(log_probabilities, targets, input_lengths, target_lengths, a.blank);
  const dtype element = log_probabilities.type().element;
  program& p = log_probabilities.owner();
  const value steps = select(log_probabilities, 2, 0);  // [T, N]
  const value labels = where(positions(targets, 1) < unsqueeze(target_lengths, axes(1)), targets, a.blank);
  // A blank between two different labels may be skipped.
  const value before =
      joined({converted(constant_like(columns(labels, 0, 1), -1), dtype::int64), columns(labels, 0, -1)}, 1);
  const value cost = where(labels != before, p.number(0.0, element), p.number(log_zero, element));
  const value skip = between(cost, log_zero), states = between(labels, static_cast<double>(a.blank));
  // Before the first step the only state is the one before the first blank, in row 1.
  const value none = constant_like(slice(skip, {.stop = 1}), log_zero);
  const value alpha = joined({none, none * 0, constant_like(skip, log_zero)}, 0);

  const value by_class = permute(log_probabilities, axes(0, 2, 1)), live = positions(steps, 0) < input_lengths;
  const value sequences[] = {by_class, live}, invariants[] = {states, skip};
  const value carries[] = {alpha};
  const value last = transpose(scan(step_program(alpha, by_class, live, states, skip), view<const value>(carries, 1),
                                    view<const value>(sequences, 2), view<const value>(invariants, 2))[0]);
  const value end = pick(last, target_lengths * 2 + 2), end_at_label = pick(last, target_lengths * 2 + 1);
  const value high = stop_gradient(max(end, end_at_label));
  const value found = -(high + log(exp(end - high) + exp(end_at_label - high)));
  const double impossible = a.zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  value loss = where(found < -0.5 * log_zero, found, impossible) +
               length_check(input_lengths, transpose(steps), "input_lengths") +
               length_check(target_lengths, cost, "target_lengths");
  if (a.reduction == loss_reduction::mean) loss = loss / converted(max(target_lengths, 1), element);
  return reduced_loss(loss, {}, a.reduction);
}

}  // namespace lamina
