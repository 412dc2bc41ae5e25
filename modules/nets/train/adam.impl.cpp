// Adam and its variants.
module lamina:train.adam.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.reduce;
import :op.shape;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.optim;
import lamina.std;

namespace lamina::optim {

using detail::converted;
using detail::decayed;
using detail::exp_of;
using detail::length;
using detail::sqrt_of;

namespace {
void check_adam(std::string_view owner, double beta1, double beta2, double epsilon, double weight_decay) {
  detail::check_numbers(
      owner, {{"beta1", beta1, 1}, {"beta2", beta2, 1}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}

/// Both moments after this update.
struct moments {
  value first, second;
  moments(update_scope& s, const value& w, const value& g, double beta1, double beta2) {
    const value m = s.slot("first", w.type()), v = s.slot("second", w.type());
    first = m * beta1 + g * (1 - beta1);
    second = v * beta2 + square(g) * (1 - beta2);
    s.assign(m, first);
    s.assign(v, second);
  }
};
/// 1 - beta^t in the element type of a parameter.
value correction(const update_scope& s, const value& w, double beta) { return 1 - exp_of(s.step(w) * std::log(beta)); }
/// Adam's direction, without the rate.
value adam_direction(update_scope& s, const value& w, const value& g, const adam& o) {
  const moments now(s, w, g, o.beta1, o.beta2);
  value second = now.second;
  if (o.amsgrad) {
    const value largest = s.slot("largest", w.type());
    second = max(largest, second);
    s.assign(largest, second);
  }
  const value correct_m = correction(s, w, o.beta1), correct_v = correction(s, w, o.beta2);
  if (o.caffe2_epsilon) return sqrt_of(correct_v) / correct_m * now.first / (sqrt_of(second) + o.epsilon);
  return (now.first / correct_m) / (sqrt_of(second / correct_v) + o.epsilon);
}
}  // namespace

void adam::check() const { check_adam("adam", beta1, beta2, epsilon, weight_decay); }
value adam::step(update_scope& s, const value& w, const value& g) const {
  check();
  return w - s.rate(w) * adam_direction(s, w, decayed(w, g, weight_decay), *this);
}

void adamw::check() const { check_adam("adamw", beta1, beta2, epsilon, weight_decay); }
value adamw::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value rate = s.rate(w);
  const adam inner{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .amsgrad = amsgrad};
  return w * (1 - rate * weight_decay) - rate * adam_direction(s, w, g, inner);
}

void nadam::check() const {
  check_adam("nadam", beta1, beta2, epsilon, weight_decay);
  detail::check_numbers("nadam", {{"momentum_decay", momentum_decay}});
}
value nadam::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay);
  const moments now(s, w, d, beta1, beta2);
  const dtype element = w.type().element;
  const value t = s.step();
  const auto mu_of = [&](const value& at) {
    return (1 - exp_of(at * (momentum_decay * std::log(0.96))) * 0.5) * beta1;
  };
  const value mu = mu_of(t), mu_next = mu_of(t + 1);
  // 1 - (product of all mu), so that the zero-initialized slot is its start value
  const value slot = s.slot("product", {element, {}}), before = converted(slot, dtype::float64);
  const value missing = before + (1 - before) * (1 - mu);
  s.assign(slot, converted(missing, element));
  const value of_gradient = converted((1 - mu) / missing, element),
              of_moment = converted(mu_next / (1 - (1 - missing) * mu_next), element);
  const value root = sqrt_of(now.second / correction(s, w, beta2)) + epsilon;
  return w - s.rate(w) * (d * of_gradient + now.first * of_moment) / root;
}

void radam::check() const { check_adam("radam", beta1, beta2, epsilon, weight_decay); }
value radam::step(update_scope& s, const value& w, const value& g) const {
  check();
  const moments now(s, w, decayed(w, g, weight_decay), beta1, beta2);
  // float64, since the length of the average is a small difference of large numbers.
  const value t = s.step(), power = exp_of(t * std::log(beta2)), missing = 1 - power;
  const double longest = 2 / (1 - beta2) - 1;
  const value seen = longest - t * 2 * power / missing, known = max(seen, 5);
  const value part = sqrt_of((known - 4) * (known - 2) * longest / (known * ((longest - 4) * (longest - 2))) * missing);
  const dtype element = w.type().element;
  const value mean = now.first / converted(1 - exp_of(t * std::log(beta1)), element);
  return w - s.rate(w) * where(seen > 5, mean * converted(part, element) / (sqrt_of(now.second) + epsilon), mean);
}

void adamax::check() const { check_adam("adamax", beta1, beta2, epsilon, weight_decay); }
value adamax::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay), m = s.slot("first", w.type()), u = s.slot("largest", w.type());
  const value next_m = m * beta1 + d * (1 - beta1), next_u = max(u * beta2, abs(d) + epsilon);
  s.assign(m, next_m);
  s.assign(u, next_u);
  return w - s.rate(w) / correction(s, w, beta1) * next_m / next_u;
}

void lamb::check() const { check_adam("lamb", beta1, beta2, epsilon, weight_decay); }
value lamb::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d =
      decayed(w, adam_direction(s, w, g, {.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}), weight_decay);
  const value size = length(w), slope = length(d);
  const value trust = where(size * slope > 0, size / slope, w.owner().number(1.0, w.type().element));
  return w - s.rate(w) * trust * d;
}

void lion::check() const {
  detail::check_numbers("lion", {{"beta1", beta1, 1}, {"beta2", beta2, 1}, {"weight_decay", weight_decay}});
}
value lion::step(update_scope& s, const value& w, const value& g) const {
  check();
  // beta1 m + (1 - beta1) g, computed from the next m, so that one pass computes both
  const value m = s.slot("first", w.type()), off = g - m, next = m + off * (1 - beta2);
  s.assign(m, next);
  return w * (1 - s.rate(w) * weight_decay) - s.rate(w) * sign(next + off * (beta2 - beta1));
}

void adafactor::check() const {
  detail::check_numbers("adafactor", {{"-beta2_decay", -beta2_decay, 1, true, true},
                                      {"epsilon1", epsilon1},
                                      {"epsilon2", epsilon2},
                                      detail::positive("clip", clip),
                                      {"weight_decay", weight_decay}});
}
value adafactor::step(update_scope& s, const value& w, const value& g) const {
  check();
  const dtype element = w.type().element;
  const int rank = w.shape().rank;
  const double least = epsilon1 > 0                ? epsilon1
                       : element == dtype::float64 ? std::numeric_limits<double>::epsilon()
                                                   : static_cast<double>(std::numeric_limits<float>::epsilon());
  const value t = s.step(), part = converted(exp_of(log(t) * beta2_decay), element);
  const auto moved = [&](std::string_view name, const value& to) {
    const value slot = s.slot(name, to.type()), next = slot + (to - slot) * part;
    s.assign(slot, next);
    return next;
  };
  const auto over = [&](int axis) { return reduce_attributes{axes(axis), true}; };
  value second;
  if (rank > 1) {
    const value rows = moved("rows", reduce_mean(square(g), over(rank - 1))),
                columns = moved("columns", reduce_mean(square(g), over(rank - 2)));
    second = rows * columns / max(reduce_mean(rows, over(rank - 2)), least);
  } else second = moved("second", square(g));
  const value d = g / sqrt_of(max(second, least * least));
  const auto root_mean_square = [](const value& v) { return sqrt_of(reduce_mean(square(v), reduce_attributes{})); };
  const value rate = min(s.rate(w), converted(1 / sqrt_of(t), element)) * max(root_mean_square(w), epsilon2);
  return w * (1 - s.rate(w) * weight_decay) - rate / max(root_mean_square(d) / clip, 1) * d;
}

}  // namespace lamina::optim
