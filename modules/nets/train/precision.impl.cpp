module lamina:train.precision.impl;
import :core;
import :dtype;
import :initializer;
import :op;
import :op.elementwise;
import :op.extents;
import :op.reduce;
import :parameter;
import :passes;
import :program;
import :shape;
import :tensor;
import :train.precision;
import lamina.std;

namespace lamina {

namespace {

constexpr std::string_view scale_name = "optimizer.loss_scale", good_name = "optimizer.loss_scale.steps",
                           skipped_name = "optimizer.loss_scale.skipped";
constexpr double largest_scale = 0x1p+100, smallest_scale = 0x1p-100;

value number_state(program& p, parameter_store& store, std::string_view name, dtype element, double first) {
  if (!store.find(name))
    store.make(std::string(name), {element, {}}, initializer::constant(first), 0, state_role::optimizer, false);
  return p.state(name, {element, {}});
}
value scale_of(program& p, const loss_scaling& how, parameter_store& store) {
  if (how.growth_steps == 0) return p.number(how.scale, dtype::float32);
  return number_state(p, store, scale_name, dtype::float32, how.scale);
}

}  // namespace

void check_step_options(std::string_view caller, const step_options& o, dtype element) {
  text t;
  t << caller;
  const bool half = o.compute == dtype::bfloat16 || o.compute == dtype::float16;
  if (!half && o.compute != dtype::float32)
    detail::raise(error_kind::value, t << ": `compute` is " << o.compute << "; expected float32, bfloat16 or float16");
  if (half && element != dtype::float32)
    detail::raise(error_kind::value, t << ": `compute` is " << o.compute << " and the model is " << element
                                       << "; expected a model of float32");
  if (!o.scaling) return;
  int exponent = 0;
  const double s = o.scaling->scale;
  if (!(s >= smallest_scale && s <= largest_scale) || std::frexp(s, &exponent) != 0.5)
    detail::raise(error_kind::value,
                  t << ": `scaling.scale` is " << s << "; expected a power of two from 2^-100 to 2^100");
  constexpr std::int64_t max = std::int64_t(1) << 24;
  if (o.scaling->growth_steps < 0 || o.scaling->growth_steps > max)
    detail::raise(error_kind::value, t << ": `scaling.growth_steps` is " << o.scaling->growth_steps
                                       << "; expected 1 to 2^24 steps, or 0 for a fixed scale");
}

value scaled_loss(const value& loss, const loss_scaling& how, parameter_store& store) {
  return loss * detail::converted(scale_of(loss.owner(), how, store), loss.type().element);
}

value unscaled_gradients(std::vector<value>& gradients, const loss_scaling& how, parameter_store& store) {
  program& p = gradients.front().owner();
  const value scale = scale_of(p, how, store), by = 1 / scale;
  value sum;  // 0 or NaN
  for (auto& g : gradients) {
    const value own = detail::converted(reduce_sum(g * 0), dtype::float32);
    sum = sum.empty() ? own : value(sum + own);
    g = g * detail::converted(by, g.type().element);
  }
  const value finite = sum == 0;
  const value skipped = number_state(p, store, skipped_name, dtype::int64, 0);
  p.assign(skipped, where(finite, skipped, skipped + std::int64_t(1)));
  if (how.growth_steps == 0) return finite;
  const value good = number_state(p, store, good_name, dtype::float32, 0), count = good + 1,
              grows = count >= static_cast<double>(how.growth_steps);
  p.assign(good, where(finite && !grows, count, 0));
  p.assign(scale, where(finite, where(grows, min(scale * 2, largest_scale), scale), max(scale * 0.5, smallest_scale)));
  return finite;
}

scaling_state scaling_in(const parameter_store& store, const std::optional<loss_scaling>& how) {
  if (!how) return {};
  scaling_state s{how->scale, 0};
  if (const parameter* scale = store.find(scale_name); scale && how->growth_steps > 0)
    s.scale = static_cast<double>(scale->value().elements<float>()[0]);
  if (const parameter* skipped = store.find(skipped_name)) s.skipped = skipped->value().elements<std::int64_t>()[0];
  return s;
}

}  // namespace lamina
