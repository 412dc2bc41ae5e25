module lamina:train.optim.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.view;
import :parameter;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.optim;
import lamina.std;

namespace lamina {

update_scope::update_scope(program& p, parameter_store& store, std::string parameter, const value& rate,
                           const value& step, bool has_slots)
    : make_([&p, &store, parameter, has_slots](std::string_view name, const tensor_type& like) {
        const std::string full = "optimizer." + parameter + "." + std::string(name);
        if (!store.find(full)) {
          if (has_slots) store.make(full, like, initializer::constant(0), 0, state_role::optimizer, false);
          else store.add(full, any_tensor::without_elements(like), state_role::optimizer, false);
        }
        return p.state(full, like);
      }),
      write_([&p](const value& slot, const value& next) { p.assign(slot, next); }),
      rate_(rate),
      step_(step),
      parameter_(std::move(parameter)) {}

value update_scope::in_type_of(const value& v, const value& like) { return detail::converted(v, like.type().element); }
value update_scope::step() const { return detail::converted(step_, dtype::float64); }
update_scope update_scope::scaled(double factor) const {
  update_scope s = *this;
  if (factor != 1) s.rate_ = rate_ * factor;
  return s;
}
update_scope update_scope::guarded(const value& condition, const value& step) const {
  update_scope s = *this;
  s.step_ = step;
  s.write_ = [write = write_, condition](const value& slot, const value& next) {
    write(slot, where(condition, next, slot));
  };
  return s;
}

bool update_scope::is_prepared(std::string_view optimizer) const {
  return std::find(prepared_.begin(), prepared_.end(), optimizer) != prepared_.end();
}
update_scope update_scope::prepared(std::vector<std::string> optimizers) const {
  update_scope s = *this;
  s.prepared_ = std::move(optimizers);
  return s;
}

bool update_rule::takes(joint_update& all, const std::string& parameter, const value& weight,
                        const value& gradient) const {
  if (updates && !updates(parameter)) return all.left_alone.push_back(parameter), false;
  all.parameters.push_back(parameter);
  all.weights.push_back(weight);
  all.gradients.push_back(gradient);
  return true;
}

text detail::hyperparameter_problem(std::string_view name, double number, dtype element) {
  text t;
  if (number >= 0 && number <= detail::largest_of(element)) return t;
  t << name << " is " << number << "; expected a finite number >= 0";
  if (std::isfinite(number) && number > 0) t << " in " << name_of(element);
  return t;
}
void detail::check_rate(std::string_view where, std::string_view name, double rate, dtype element) {
  const text problem = hyperparameter_problem(name, rate, element);
  if (problem.empty()) return;
  text t;
  raise(error_kind::value, t << where << ": " << problem);
}

namespace optim {

using detail::decayed;
using detail::exp_of;
using detail::length;
using detail::positive;
using detail::sqrt_of;
using detail::up_to_1;

void sgd::check() const {
  detail::check_numbers("sgd",
                        {{"momentum", momentum}, {"weight_decay", weight_decay}, up_to_1("dampening", dampening)});
}
void adagrad::check() const {
  detail::check_numbers(
      "adagrad", {{"epsilon", epsilon}, {"decay", decay}, {"weight_decay", weight_decay}, {"lr_decay", lr_decay}});
}
void adadelta::check() const {
  detail::check_numbers("adadelta", {up_to_1("rho", rho), {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}
void rmsprop::check() const {
  detail::check_numbers(
      "rmsprop",
      {up_to_1("decay", decay), {"momentum", momentum}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}
void asgd::check() const {
  detail::check_numbers("asgd", {{"lambda", lambda}, {"alpha", alpha}, {"t0", t0}, {"weight_decay", weight_decay}});
}
void rprop::check() const {
  detail::check_numbers("rprop", {positive("down", down), {"min_step", min_step}, positive("max_step", max_step)});
  if (!(down < 1 && up > 1 && std::isfinite(up) && min_step <= max_step)) {
    text t;
    detail::raise(error_kind::value, t << origin::prefix() << "rprop: `down` is " << down << ", `up` " << up
                                       << ", `min_step` " << min_step << ", `max_step` " << max_step
                                       << "; expected down < 1 < up and min_step <= max_step");
  }
}
void muon::check() const {
  detail::check_numbers(
      "muon",
      {{"momentum", momentum, 1}, {"weight_decay", weight_decay}, {"epsilon", epsilon}, {"vector_rate", vector_rate}});
}
void yellow_fin::check() const {
  detail::check_numbers("yellow_fin", {{"momentum", momentum, 1},
                                       {"beta", beta, 1},
                                       positive("epsilon", epsilon),
                                       {"window", static_cast<double>(window), 65536, true, true}});
}
void ftrl::check() const { detail::check_numbers("ftrl", {{"beta", beta}, {"l1", l1}, {"l2", l2}}); }
void lars::check() const {
  detail::check_numbers(
      "lars", {{"momentum", momentum}, {"weight_decay", weight_decay}, {"trust", trust}, {"epsilon", epsilon}});
}
void momentum_sgd::check() const { detail::check_numbers("momentum_sgd", {{"momentum", momentum}}); }
void regularizer::check() const {
  detail::check_numbers("regularizer",
                        {{"l1", l1}, {"l2", l2}, {"max_norm", max_norm}, {"constant_norm", constant_norm}});
}

namespace {
reduce_attributes all_but_first(const value& v) {
  reduce_attributes a;
  a.keepdim = true;
  for (int i = 1; i < v.shape().rank; ++i) a.axes.values[a.axes.count++] = i;
  return a;
}
}  // namespace

value sgd::step(update_scope& s, const value& w, const value& g) const {
  check();
  value d = decayed(w, g, weight_decay);
  if (momentum != 0) {
    value m = s.slot("momentum", w.type());
    value next = m * momentum + (dampening != 0 ? where(s.step(w) > 1, d * (1 - dampening), d) : d);
    s.assign(m, next);
    d = nesterov ? d + next * momentum : next;
  }
  return w - s.rate(w) * d;
}

value adagrad::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay);
  const bool by_row = row_wise && w.shape().rank > 1;
  tensor_type kept = w.type();
  if (by_row)
    for (int i = 1; i < kept.dims.rank; ++i) kept.dims[i] = 1;
  const value h = s.slot("sum", kept),
              next = h * decay + (by_row ? value(reduce_mean(square(d), all_but_first(d))) : value(square(d)));
  s.assign(h, next);
  const value rate = lr_decay != 0 ? s.rate(w) / (1 + (s.step(w) - 1) * lr_decay) : s.rate(w);
  return w - rate * d / (sqrt_of(next) + epsilon);
}

value adadelta::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay), v = s.slot("square", w.type()), u = s.slot("update", w.type());
  const value next = v * rho + square(d) * (1 - rho), move = sqrt_of(u + epsilon) / sqrt_of(next + epsilon) * d;
  s.assign(v, next);
  s.assign(u, u * rho + square(move) * (1 - rho));
  return w - s.rate(w) * move;
}

value rmsprop::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay), v = s.slot("square", w.type()),
              next = v * decay + square(d) * (1 - decay);
  s.assign(v, next);
  value about = next;
  if (centered) {
    const value mean = s.slot("mean", w.type()), next_mean = mean * decay + d * (1 - decay);
    s.assign(mean, next_mean);
    // rounding may make the difference negative
    about = max(next - square(next_mean), 0);
  }
  value move = d / (epsilon_inside ? sqrt_of(about + epsilon) : sqrt_of(about) + epsilon);
  if (momentum != 0) {
    const value m = s.slot("momentum", w.type());
    move = m * momentum + move;
    s.assign(m, move);
  }
  return w - s.rate(w) * move;
}

value asgd::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value before = s.step() - 1, rate = s.rate(w);
  const value eta = rate / detail::converted(pow(1 + detail::converted(rate, dtype::float64) * lambda * before, alpha),
                                             w.type().element);
  const value next = w * (1 - eta * lambda) - eta * decayed(w, g, weight_decay);
  const value average = s.slot("average", w.type());
  const value part = detail::converted(1 / max(before - t0, 1), w.type().element);
  s.assign(average, average + (next - average) * part);
  return next;
}

value rprop::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value before = s.slot("gradient", w.type()), size = s.slot("step", w.type());
  const value agree = g * before, begun = where(size > 0, size, s.rate(w));
  const value next = clamp(where(agree > 0, begun * up, where(agree < 0, begun * down, begun)), min_step, max_step);
  const value d = where(agree < 0, 0, g);
  s.assign(size, next);
  s.assign(before, d);
  return w - sign(d) * next;
}

namespace {
/// Approximates the orthogonal matrix nearest to m: five steps of an iteration that moves singular values toward 1.
value orthogonal(const value& m, double epsilon) {
  const dim rows = m.shape()[0], columns = m.shape()[1];
  const bool tall = rows.is_number() && columns.is_number() && rows.code > columns.code;
  value x = tall ? value(transpose(m)) : m;
  x = x / max(length(x), epsilon);
  for (int i = 0; i < 5; ++i) {
    const value a = matmul(x, x, {.transpose_b = true});
    x = x * 3.4445 + matmul(a * -4.775 + matmul(a, a) * 2.0315, x);
  }
  return tall ? value(transpose(x)) : x;
}
}  // namespace

value muon::step(update_scope& s, const value& w, const value& g) const {
  check();
  if (w.shape().rank < 2) {
    update_scope inner = s.scaled(vector_rate);
    return adamw{.weight_decay = weight_decay}.step(inner, w, g);
  }
  const value m = s.slot("momentum", w.type()), next = m * momentum + g * (1 - momentum);
  s.assign(m, next);
  const value d = nesterov ? g * (1 - momentum) + next * momentum : next;
  const value rows = as_matrix<1>(d), direction = orthogonal(rows, epsilon);
  const shape& extents = rows.shape();
  if (!extents.is_static()) {
    text t;
    detail::raise(error_kind::shape, t << origin::prefix() << "muon: parameter " << w.shape() << " has open extents");
  }
  const double size =
      std::sqrt(std::max(1.0, static_cast<double>(extents[0].code) / static_cast<double>(extents[1].code)));
  return w * (1 - s.rate(w) * weight_decay) - reshape_like(direction, w) * (s.rate(w) * size);
}

namespace {
/// Moving averages of yellow_fin, in one slot each.
struct averages {
  update_scope& s;
  double beta;
  value debias;  // bias correction factor of an average
  tensor_type number;
  value operator()(std::string_view name, const value& v, const tensor_type& type) const {
    const value slot = s.slot(name, type), next = slot * beta + v * (1 - beta);
    s.assign(slot, next);
    return next;
  }
  value operator()(std::string_view name, const value& v) const { return (*this)(name, v, number); }
};
}  // namespace

value yellow_fin::step(update_scope& s, const value& w, const value& g) const {
  check();
  const dtype element = w.type().element;
  const tensor_type number{element, {}};
  const value first = s.step() < 1.5, unbias = detail::converted(1 / (1 - exp_of(s.step() * std::log(beta))), element);
  const averages average{s, beta, zero_debias ? unbias : w.owner().number(1.0, element), number};
  const auto floor = [&](const value& v) { return max(v, epsilon); };

  // the update, with rate and momentum as measured so far
  const value rate_slot = s.slot("rate", number), mu_slot = s.slot("mu", number), m = s.slot("momentum", w.type());
  const value rate = where(first, s.rate(w), rate_slot), mu = where(first, momentum, mu_slot);
  const value next = m * mu + g * rate;
  s.assign(m, next);

  // gradient norms, the curvature range over a window, variance and distance
  const value mean_g = average("mean", g, w.type()) * average.debias;
  const value norm2 = floor(reduce_sum(square(g))), norm2_mean = average("square", norm2);
  const value norm_mean = average("length", sqrt_of(norm2));
  const value window_slot = s.slot("window", {element, {dim(window)}}), newest = reshape(log(norm2), shape{1});
  const value seen_before[] = {slice(window_slot, {.start = 1}), newest};
  const value seen = where(first, newest, concat(view<const value>(seen_before, 2), 0));
  s.assign(window_slot, seen);
  const value low = floor(exp_of(average("low", reduce_min(seen)) * average.debias)),
              high = floor(exp_of(average("high", reduce_max(seen)) * average.debias));
  const value variance = floor(norm2_mean * average.debias - reduce_sum(square(mean_g)));
  const value distance = average("distance", norm_mean / norm2_mean) * average.debias;

  // the momentum is the root of a cubic equation, or the minimum for the curvature range
  const value ratio = sqrt_of(high / low), least = (ratio - 1) / (ratio + 1);
  const value p = square(distance * low) / (variance * 2);
  const value cube = (sqrt_of(square(p) + square(p) * p * (4.0 / 27)) + p) / 2, root = -pow(cube, 1.0 / 3);
  const value mu_now = max(square(root - p / 3 / root + 1), square(least)),
              rate_now = square(1 - sqrt_of(mu_now)) / low;
  s.assign(rate_slot, where(first, rate, rate * beta + rate_now * (1 - beta)));
  s.assign(mu_slot, where(first, mu, mu * beta + mu_now * (1 - beta)));
  return nesterov ? w - next * (1 + mu) + m * mu : w - next;
}

value ftrl::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value n = s.slot("square", w.type()), z = s.slot("linear", w.type()), alpha = s.rate(w);
  // At a rate of 0, which is a divisor, parameter and slots stay unchanged.
  const value moves = alpha > 0, by = where(moves, alpha, 1);
  const value next_n = where(moves, n + square(g), n);
  const value next_z = where(moves, z + g - (sqrt_of(next_n) - sqrt_of(n)) / by * w, z);
  s.assign(n, next_n);
  s.assign(z, next_z);
  const value moved = (sign(next_z) * l1 - next_z) / ((sqrt_of(next_n) + beta) / by + l2);
  return where(moves, where(abs(next_z) > l1, moved, w * 0), w);
}

value lars::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value size = length(w), slope = length(g), m = s.slot("momentum", w.type());
  const value local = where(size * slope > 0, trust * size / (slope + weight_decay * size + epsilon),
                            w.owner().number(1.0, w.type().element));
  const value next = m * momentum + s.rate(w) * local * decayed(w, g, weight_decay);
  s.assign(m, next);
  return w - next;
}

value momentum_sgd::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value m = s.slot("momentum", w.type()), next = m * momentum + s.rate(w) * g;
  s.assign(m, next);
  return w - (nesterov ? next * (1 + momentum) - m * momentum : next);
}

value regularizer::gradient(const value& w, const value& g) const {
  check();
  const value d = l1 != 0 ? g + sign(w) * l1 : g;
  return decayed(w, d, l2);
}
value regularizer::projected(const value& w) const {
  check();
  if (max_norm <= 0 && constant_norm <= 0) return w;
  if (max_norm > 0 && constant_norm > 0)
    detail::raise(error_kind::value, "regularizer: `max_norm` and `constant_norm` are both given");
  const value size = w.shape().rank < 2 ? length(w) : value(sqrt_of(reduce_sum(square(w), all_but_first(w))));
  if (constant_norm > 0) return w * (constant_norm / max(size, 1e-12));  // a zero row has no direction and stays
  return w * (max_norm / max(size, max_norm));
}

std::vector<value> clip_by_global_norm(view<const value> gradients, double limit, double p, const origin&) {
  const bool largest = std::isinf(p) && p > 0;
  detail::check_numbers("clip_by_global_norm", {positive("limit", limit), positive("p", largest ? 1 : p)});
  if (gradients.empty()) return {};
  value all;
  for (const auto& g : gradients) {
    const value own = largest  ? value(reduce_max(abs(g)))
                      : p == 2 ? value(reduce_sum(square(g)))
                               : value(reduce_sum(p == 1 ? value(abs(g)) : value(pow(abs(g), p))));
    all = all.empty() ? own : largest ? value(max(all, own)) : value(all + own);
  }
  const value norm = largest || p == 1 ? all : p == 2 ? value(sqrt_of(all)) : value(pow(all, 1 / p));
  const value scale = limit / max(norm, limit);
  std::vector<value> clipped;
  for (const auto& g : gradients) clipped.push_back(g * scale);
  return clipped;
}
std::vector<value> clip_by_value(view<const value> gradients, double limit, const origin&) {
  detail::check_numbers("clip_by_value", {positive("limit", limit)});
  std::vector<value> clipped;
  for (const auto& g : gradients) clipped.push_back(clamp(g, -limit, limit));
  return clipped;
}

}  // namespace optim

}  // namespace lamina
