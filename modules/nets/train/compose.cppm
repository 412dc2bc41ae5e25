// Optimizers made of optimizers: other gradients, other rates for some parameters, averages, steps in two phases.
export module lamina:train.compose;
import :core;
import :parameter;
import :program;
import :train.optim;
import lamina.std;

namespace lamina {

namespace optim {

void check_clipping(double value, double norm, double p);
/// Gradients with these limits, of each or of all together.
void limit_gradients(std::vector<value>& gradients, double value, double norm, double p, bool together);
/// Refuses an optimizer that has to see all gradients and has not.
void check_prepared(const update_scope& s, std::string_view optimizer);
/// The average after this update, of the parameter's new value and the average before.
value next_average(const update_scope& s, const value& w, const value& average, double decay, std::int64_t start,
                   std::int64_t every);
void check_averaging(double decay, std::int64_t start, std::int64_t every);
/// The parameter after an update, given what it was and what the optimizer inside makes of it.
value looked_ahead(update_scope& s, const value& w, const value& next, std::int64_t k, double alpha);
void check_lookahead(std::int64_t k, double alpha);
/// Refuses an optimizer that keeps something of each step around one that takes several of a batch.
void check_is_innermost(std::string_view owner, int gradients_per_batch);
/// Which of two steps an update is.
struct sam_phase {
  sam_phase(update_scope& s, const value& w);
  static value is_uphill(const value& step);
  /// The scope of the optimizer inside: its slots are assigned in the second step.
  update_scope second(const update_scope& s) const;
  value result(const value& g, const value& next, double rho) const;  // of a gradient in the unit of the length of all
  value at, uphill, before;  // the parameter; whether this is the first step; the parameter before that
};
void check_sam(double rho);
/// In the first step all gradients by their length, else what `inner` makes of them for the optimizer inside.
void prepare_sam(joint_update& all, const std::function<void(joint_update&)>& inner);

/// An optimizer that goes uphill: of the gradient with the other sign.
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

/// An optimizer of limited gradients: elements from -value to value, then each parameter's gradient at most `norm` long by the
/// p-norm, p above 0 and also infinite; `together` all of them, as one vector. 0 is no limit.
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

/// What is different for some parameters: the rate times a factor, another decay, or no updates at all.
struct group_options {
  double rate_scale = 1;
  std::optional<double> weight_decay{};
  bool frozen =
      false;  ///< neither updated nor part of the length of all gradients, which `parameter::trainable(false)` does not compute
};
/// Parameters whose names are of a pattern: `*.bias`, where `*` stands for any letters and `?` for one.
export struct parameter_group {
  std::string pattern;
  group_options options{};
};
void check_groups(const std::vector<parameter_group>& list, bool decays);
void check_patterns(const std::vector<parameter_group>& list, const joint_update& all);
/// The first group that a name belongs to, or null.
const group_options* group_of(const std::vector<parameter_group>& list, std::string_view name);

/// An optimizer with groups of parameters: `groups{adamw{}, {{"*.bias", {.weight_decay = 0}}, {"head.*", {.rate_scale = 10}}}}`.
/// The first pattern that fits counts. Errors: value_error for a decay where the optimizer has none, and for a pattern that fits no
/// parameter that is updated.
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

/// An optimizer beside whose parameters averages are kept, in the slots `optimizer.<parameter>.average`: with `decay` d the
/// average moves to d average + (1 - d) w, with decay 0 it is the mean of all w (stochastic weight averaging). Averaging begins
/// after `start` updates and is done at every `every`th one; until then the average is w. See `swap_averages`.
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

/// An optimizer whose parameters go back to slow ones: at every kth update slow += alpha (w - slow), w = slow.
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
    return looked_ahead(s, w, base.step(s, w, g), k, alpha);
  }
};

/// Sharpness-aware minimization by two gradients of each batch: the first step moves each parameter uphill by rho g / |all g|, by the
/// length of all gradients together, the second one goes back and updates it by the gradient found there. `fit` and `training` take both
/// on one batch, whose loss and figures are those before the first. Statistics of batches and random numbers go on in both. The optimizer
/// inside counts pairs; averages and slow parameters are kept inside: `sam{averaged{o}}`. A `graph::model` takes one step in each run.
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

/// Exchanges parameters and their averages, as `optim::averaged` and `optim::asgd` keep them: the net then computes with the
/// averages. Called again it gives the parameters back, which has to be done before training goes on. How many there are.
/// Errors: state_error where averages are in another process; nothing is changed then.
export std::size_t swap_averages(parameter_store& store);

}  // namespace lamina
