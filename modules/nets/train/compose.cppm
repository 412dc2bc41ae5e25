// Optimizer wrappers: changed gradients, per-group rates, weight averages, steps in two phases.
export module lamina:train.compose;
import :core;
import :parameter;
import :program;
import :train.optim;
import lamina.std;

namespace lamina {

namespace optim {

void check_clipping(double value, double norm, double p);
/// Clips gradients, each one or, if `together`, by their global norm.
void limit_gradients(std::vector<value>& gradients, double value, double norm, double p, bool together);
/// Errors: state_error for an optimizer whose `prepare` must see all gradients and was not called.
void check_prepared(const update_scope& s, std::string_view optimizer);
/// The average after this update, from the parameter's new value and the previous average.
value next_average(const update_scope& s, const value& w, const value& average, double decay, std::int64_t start,
                   std::int64_t every);
void check_averaging(double decay, std::int64_t start, std::int64_t every);
/// The parameter after an update, given its old value and the wrapped optimizer's new one.
value lookahead_step(update_scope& s, const value& w, const value& next, std::int64_t k, double alpha);
void check_lookahead(std::int64_t k, double alpha);
/// Errors: value_error for a wrapper with per-step state around an optimizer that takes several steps per batch.
void check_is_innermost(std::string_view owner, int gradients_per_batch);
/// The phase of an update: uphill step or actual update.
struct sam_phase {
  sam_phase(update_scope& s, const value& w);
  static value is_uphill(const value& step);
  /// Scope of the wrapped optimizer: its slots are assigned in the second step.
  update_scope second(const update_scope& s) const;
  value result(const value& g, const value& next, double rho) const;  // g: gradient divided by the global norm
  value at, uphill, before;  // current parameter; whether this is the first step; the parameter before the first step
};
void check_sam(double rho);
/// First step: all gradients divided by their global norm; second step: what `inner` makes of them for the wrapped
/// optimizer.
void prepare_sam(joint_update& all, const std::function<void(joint_update&)>& inner);

/// Gradient ascent: negates the gradient.
export template <Optimizer O> struct maximize {
  O base{};
  double lr = base.lr;
  static constexpr int gradients_per_batch = detail::gradients_per_batch<O>;
  static constexpr bool by_rows = RowOptimizer<O>;
  bool updates(std::string_view parameter) const { return detail::updates(base, parameter); }
  void check() const { detail::check_optimizer(base); }
  void prepare(joint_update& all) const {
    if constexpr (detail::prepares<O>) {
      for (auto& g : all.gradients) g = -g;
      base.prepare(all);
      for (auto& g : all.gradients) g = -g;
    }
  }
  value step(update_scope& s, const value& w, const value& g) const { return base.step(s, w, -g); }
};

/// Gradient clipping: elements are clamped to -value..value, then each parameter's gradient is scaled to a p-norm of at
/// most `norm`, p above 0 and possibly infinite; with `together`, by the global norm of all gradients. 0 is no limit.
export template <Optimizer O> struct clipped {
  O base{};
  double value = 0, norm = 0, p = 2;
  bool together = false;
  double lr = base.lr;
  static constexpr int gradients_per_batch = detail::gradients_per_batch<O>;
  bool updates(std::string_view parameter) const { return detail::updates(base, parameter); }
  void check() const {
    detail::check_optimizer(base);
    check_clipping(value, norm, p);
  }
  void prepare(joint_update& all) const {
    limit_gradients(all.gradients, value, norm, p, together);
    all.prepared.emplace_back("clipped");
    detail::prepare_update(base, all);
  }
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const {
    if (s.is_prepared("clipped")) return base.step(s, w, g);
    if (together) check_prepared(s, "clipped");
    std::vector<ir::value> own{g};
    limit_gradients(own, value, norm, p, false);
    return base.step(s, w, own[0]);
  }
};

/// Options of a parameter group: a factor for the rate, another weight decay, or no updates at all.
struct group_options {
  double rate_scale = 1;
  std::optional<double> weight_decay{};
  bool frozen =
      false;  ///< no updates, not in the gradient norm, but still computed, unlike with `parameter::trainable(false)`
};
/// Parameters whose names match a pattern: in `*.bias`, `*` matches any characters; `?` matches one.
export struct parameter_group {
  std::string pattern;
  group_options options{};
};
void check_groups(const std::vector<parameter_group>& list, bool decays);
void check_patterns(const std::vector<parameter_group>& list, const joint_update& all);
/// First group that a name matches, or null.
const group_options* group_of(const std::vector<parameter_group>& list, std::string_view name);

/// Parameter groups: `groups{adamw{}, {{"*.bias", {.weight_decay = 0}}, {"head.*", {.rate_scale = 10}}}}`. The first
/// matching pattern counts. Errors: value_error for a decay if the optimizer has none, and for a pattern that matches
/// no updated parameter.
export template <Optimizer O> struct groups {
  O base{};
  std::vector<parameter_group> list{};
  double lr = base.lr;
  static constexpr int gradients_per_batch = detail::gradients_per_batch<O>;
  static constexpr bool decays = requires(O o) { o.weight_decay = 0.0; };
  static constexpr bool by_rows = RowOptimizer<O>;
  bool updates(std::string_view parameter) const {
    const group_options* own = group_of(list, parameter);
    return !(own && own->frozen) && detail::updates(base, parameter);
  }
  void check() const {
    detail::check_optimizer(base);
    check_groups(list, decays);
  }
  void prepare(joint_update& all) const {
    check_patterns(list, all);
    detail::prepare_update(base, all);
  }
  value step(update_scope& s, const value& w, const value& g) const {
    const group_options* own = group_of(list, s.parameter());
    if (!own) return base.step(s, w, g);
    if (own->frozen) return w;
    update_scope inner = s.scaled(own->rate_scale);
    O changed = base;
    if constexpr (decays)
      if (own->weight_decay) changed.weight_decay = *own->weight_decay;
    return changed.step(inner, w, g);
  }
};

/// Keeps averages of the parameters in the slots `optimizer.<parameter>.average`: with `decay` d, the average becomes d
/// average + (1 - d) w; with decay 0, it is the mean of all w (stochastic weight averaging). Averaging begins after
/// `start` updates and runs at every `every`th one; until then the average is w. See `swap_averages`.
/// Source: Polyak, Juditsky (1992); Izmailov et al. (2018), arXiv:1803.05407.
export template <Optimizer O> struct averaged {
  O base{};
  double decay = 0.999;
  std::int64_t start = 0, every = 1;
  double lr = base.lr;
  bool updates(std::string_view parameter) const { return detail::updates(base, parameter); }
  void check() const {
    detail::check_optimizer(base);
    check_is_innermost("averaged", detail::gradients_per_batch<O>);
    check_averaging(decay, start, every);
  }
  void prepare(joint_update& all) const { detail::prepare_update(base, all); }
  value step(update_scope& s, const value& w, const value& g) const {
    const value next = base.step(s, w, g), average = s.slot("average", w.type());
    s.assign(average, next_average(s, next, average, decay, start, every));
    return next;
  }
};

/// Lookahead with slow weights: at every kth update slow += alpha (w - slow), w = slow.
/// Source: Zhang et al., "Lookahead optimizer" (2019), arXiv:1907.08610.
export template <Optimizer O> struct lookahead {
  O base{};
  std::int64_t k = 5;
  double alpha = 0.5;
  double lr = base.lr;
  bool updates(std::string_view parameter) const { return detail::updates(base, parameter); }
  void check() const {
    detail::check_optimizer(base);
    check_is_innermost("lookahead", detail::gradients_per_batch<O>);
    check_lookahead(k, alpha);
  }
  void prepare(joint_update& all) const { detail::prepare_update(base, all); }
  value step(update_scope& s, const value& w, const value& g) const {
    return lookahead_step(s, w, base.step(s, w, g), k, alpha);
  }
};

/// Sharpness-aware minimization with two gradients per batch: the first step moves each parameter uphill by rho g /
/// |all g|, with the global gradient norm; the second one goes back and updates it with the gradient computed there.
/// `fit` and `training` take both on one batch, whose loss and metrics are those before the first. Batch statistics and
/// random numbers advance in both. The wrapped optimizer counts pairs; averages and slow weights must be wrapped
/// inside: `sam{averaged{o}}`. A `graph::model` takes one step per run.
/// Source: Foret et al., "Sharpness-aware minimization" (2021), arXiv:2010.01412.
export template <Optimizer O> struct sam {
  O base{};
  double rho = 0.05;
  double lr = base.lr;
  static constexpr int gradients_per_batch = 2 * detail::gradients_per_batch<O>;
  bool updates(std::string_view parameter) const { return detail::updates(base, parameter); }
  void check() const {
    detail::check_optimizer(base);
    check_sam(rho);
  }
  void prepare(joint_update& all) const {
    prepare_sam(all, [this](joint_update& of) { detail::prepare_update(base, of); });
  }
  value step(update_scope& s, const value& w, const value& g) const {
    check_prepared(s, "sam");
    sam_phase at(s, w);
    update_scope inner = at.second(s);
    const value next = base.step(inner, at.before, g);
    return at.result(g, next, rho);
  }
};

export template <class O> maximize(O) -> maximize<O>;
export template <class O, class... T> clipped(O, T...) -> clipped<O>;
export template <class O> groups(O, std::vector<parameter_group>) -> groups<O>;
export template <class O, class... T> averaged(O, T...) -> averaged<O>;
export template <class O, class... T> lookahead(O, T...) -> lookahead<O>;
export template <class O, class... T> sam(O, T...) -> sam<O>;

}  // namespace optim

/// Swaps parameters with their averages, which `optim::averaged` and `optim::asgd` keep: the net then computes with the
/// averages. Call it again before training continues, to restore the parameters. Returns their number.
/// Errors: state_error if another process keeps the averages; nothing is changed then.
export std::size_t swap_averages(parameter_store& store);

}  // namespace lamina
