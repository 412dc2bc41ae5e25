module lamina:train.compose.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.reduce;
import :parameter;
import :parameter.naming;
import :program;
import :shape;
import :tensor;
import :train.compose;
import :train.hyper;
import :train.optim;
import lamina.std;

namespace lamina {

namespace optim {

using detail::check_numbers;
using detail::sqrt_of;

// ---- gradients ------------------------------------------------------------------------------------------------------

void check_clipping(double value, double norm, double p) {
  const bool largest = std::isinf(p) && p > 0;
  check_numbers("clipped", {{"value", value}, {"norm", norm}, detail::positive("p", largest ? 1 : p)});
}
void limit_gradients(std::vector<value>& gradients, double limit, double norm, double p, bool together) {
  if (limit > 0) gradients = clip_by_value(view<const value>(gradients), limit);
  if (norm <= 0) return;
  if (together) gradients = clip_by_global_norm(view<const value>(gradients), norm, p);
  else
    for (auto& g : gradients) g = clip_by_global_norm({&g, 1}, norm, p)[0];
}
void check_prepared(const update_scope& s, std::string_view optimizer) {
  if (s.is_prepared(optimizer)) return;
  text t;
  detail::raise(error_kind::state, t << optimizer << ": `prepare` did not run before the update of parameter `"
                                     << s.parameter() << "`; an optimizer that wraps it must call its `prepare`");
}

// ---- groups ---------------------------------------------------------------------------------------------------------

void check_groups(const std::vector<parameter_group>& list, bool decays) {
  for (const auto& g : list) {
    const std::string owner = "groups, `" + g.pattern + "`";
    check_numbers(owner, {{"rate_scale", g.options.rate_scale}, {"weight_decay", g.options.weight_decay.value_or(0)}});
    if (!decays && g.options.weight_decay)
      detail::raise(error_kind::value,
                    origin::prefix() + owner + ": `weight_decay` is set, but the optimizer has none");
  }
}
void check_patterns(const std::vector<parameter_group>& list, const joint_update& all) {
  std::vector<std::string> parameters = all.parameters;
  parameters.insert(parameters.end(), all.left_alone.begin(), all.left_alone.end());
  for (const auto& g : list)
    if (std::none_of(parameters.begin(), parameters.end(), [&](const auto& n) { return matches(g.pattern, n); }))
      refuse_pattern(origin::prefix() + "groups", g.pattern, "parameter that is updated",
                     view<const std::string>(parameters.data(), parameters.size()));
}
const group_options* group_of(const std::vector<parameter_group>& list, std::string_view name) {
  for (const auto& g : list)
    if (matches(g.pattern, name)) return &g.options;
  return nullptr;
}

// ---- averages -------------------------------------------------------------------------------------------------------

void check_averaging(double decay, std::int64_t start, std::int64_t every) {
  check_numbers("averaged", {{"decay", decay, 1},
                             {"start", static_cast<double>(start)},
                             detail::positive("every", static_cast<double>(every))});
}
value next_average(const update_scope& s, const value& w, const value& average, double decay, std::int64_t start,
                   std::int64_t every) {
  // Number of the current averaging; it runs when whole. Up to the first one, the average is w.
  const value count = (s.step() - static_cast<double>(start)) / static_cast<double>(every);
  const value part = decay > 0 ? w.owner().number(1 - decay, dtype::float64) : value(1 / max(count, 1));
  const value moved = where(count > 1.5, part, 1);
  const value by = where(count < 1 || count == floor(count), moved, 0);
  return average + (w - average) * detail::converted(by, w.type().element);
}

// ---- wrappers with steps over several updates -----------------------------------------------------------------------

void check_lookahead(std::int64_t k, double alpha) {
  check_numbers("lookahead", {detail::positive("k", static_cast<double>(k)), detail::up_to_1("alpha", alpha)});
}
value lookahead_step(update_scope& s, const value& w, const value& next, std::int64_t k, double alpha) {
  const value t = s.step(), cycles = t / static_cast<double>(k), back = cycles == floor(cycles);
  const value slot = s.slot("slow", w.type()), slow = where(t < 1.5, w, slot);
  const value synced = where(back, slow + (next - slow) * alpha, slow);
  s.assign(slot, synced);
  return where(back, synced, next);
}

void check_is_innermost(std::string_view owner, int gradients_per_batch) {
  if (gradients_per_batch == 1) return;
  text t;
  detail::raise(error_kind::value, t << origin::prefix() << owner << ": the inner optimizer takes "
                                     << gradients_per_batch
                                     << " gradients per batch, and the parameters between them must not be kept; "
                                     << "put `" << owner << "` inside it");
}
void check_sam(double rho) { check_numbers("sam", {detail::positive("rho", rho)}); }
sam_phase::sam_phase(update_scope& s, const value& w) : at(w) {
  uphill = is_uphill(s.step());
  const value slot = s.slot("before", w.type());
  before = where(uphill, w, slot);
  s.assign(slot, before);
}
value sam_phase::is_uphill(const value& step) {
  const value pairs = step / 2;
  return pairs != floor(pairs);
}
update_scope sam_phase::second(const update_scope& s) const { return s.guarded(!uphill, max(floor(s.step() / 2), 1)); }
value sam_phase::result(const value& g, const value& next, double rho) const {
  return where(uphill, at + g * rho, next);
}
void prepare_sam(joint_update& all, const std::function<void(joint_update&)>& inner) {
  if (all.gradients.empty()) return;
  all.prepared.emplace_back("sam");
  const value step = detail::converted(all.step, dtype::float64), uphill = sam_phase::is_uphill(step);
  value sum;
  for (const auto& g : all.gradients) {
    const value own = reduce_sum(square(g));
    sum = sum.empty() ? own : value(sum + own);
  }
  const value by = where(uphill, 1 / (sqrt_of(sum) + 1e-12), 1);
  joint_update second = all;
  second.step = max(floor(step / 2), 1);
  inner(second);
  for (std::size_t i = 0; i < all.gradients.size(); ++i) {
    const value &own = all.gradients[i], &inside = second.gradients[i];
    all.gradients[i] = own.id() == inside.id() ? own * by : where(uphill, own * by, inside);
  }
  all.prepared = second.prepared;
}

}  // namespace optim

std::size_t swap_averages(parameter_store& store) {
  constexpr std::string_view prefix = "optimizer.", suffix = ".average";
  std::vector<std::pair<parameter*, parameter*>> found;
  for (auto& slot : store) {
    const std::string_view name = slot.name();
    if (slot.role() != state_role::optimizer || !name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    parameter* w = store.find(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
    if (!w || w->role() != state_role::parameter) continue;
    slot.require_elements();
    found.emplace_back(w, &slot);
  }
  for (auto [w, slot] : found) {
    const any_tensor average = slot->copy(), own = w->copy();
    w->assign(average);
    slot->assign(own);
  }
  return found.size();
}

}  // namespace lamina
