// Learning rate schedules: functions of progress, and factors that depend on the step number.
export module lamina:train.schedule;
import :core;
import :dtype;
import :program;
import lamina.std;

namespace lamina {

/// A schedule with state: `state` returns its observations, always the same count of numbers, and `restore` sets them.
template <class F>
concept ObservingSchedule = requires(const F& f, view<const double> state) {
  { f.state() } -> std::convertible_to<std::vector<double>>;
  f.restore(state);
};

export namespace optim {

/// A learning rate as a function of progress: f(base, step, steps) for step in 0..steps - 1. `fit` rejects a result
/// that is not a finite number >= 0; the library's schedules raise a value_error for such numbers among their own. A
/// class with `state()` and `restore(view<const double>)` resumes its observations from a checkpoint of `fit`. Copies
/// share their function.
class schedule {
 public:
  template <class F> requires(!std::same_as<F, schedule>) && requires(F& f) {
    { f(1.0, std::int64_t(), std::int64_t()) } -> std::convertible_to<double>;
  } schedule(F f) {
    const auto shared = std::make_shared<F>(std::move(f));
    rate_ = [shared](double base, std::int64_t step, std::int64_t steps) { return (*shared)(base, step, steps); };
    if constexpr (ObservingSchedule<F>) {
      state_ = [shared] { return std::vector<double>(shared->state()); };
      restore_ = [shared](view<const double> state) { shared->restore(state); };
    }
  }
  double operator()(double base, std::int64_t step, std::int64_t steps) const { return rate_(base, step, steps); }
  /// Its observations; empty for a schedule without state.
  std::vector<double> state() const { return state_ ? state_() : std::vector<double>(); }
  /// Errors: value_error for numbers that are not a state of it; nothing is changed then.
  void restore(view<const double> state) const;

 private:
  std::function<double(double, std::int64_t, std::int64_t)> rate_;
  std::function<std::vector<double>()> state_;
  std::function<void(view<const double>)> restore_;
};

/// Constant base rate.
struct constant {
  double factor(double) const { return 1; }
  value factor(const value& n) const;
  double operator()(double base, std::int64_t, std::int64_t) const { return base; }
};
/// Rises from base / start to base over the first fraction `warm_up` of the steps, then falls to base / (start end),
/// both along a cosine, or linearly if `linear`. With `three_phase` it falls to base / start in as many steps as it
/// rose, and then to base / (start end).
/// Source: Smith, Topin, "Super-Convergence" (2019), arXiv:1708.07120, with the defaults of PyTorch.
struct one_cycle {
  double warm_up = 0.3, start = 25, end = 1e4;
  bool three_phase = false, linear = false;
  double operator()(double base, std::int64_t step, std::int64_t steps) const;
};
/// Falls from base to base * floor along half a cosine after a linear rise over `warm_up` steps.
/// Source: Loshchilov, Hutter, "SGDR" (2017), arXiv:1608.03983, without restarts.
struct cosine {
  std::int64_t warm_up = 0;
  double floor = 0;
  double operator()(double base, std::int64_t step, std::int64_t steps) const;
};

// Rates that depend only on the step number n: base factor(n). They are schedules for `fit`, where n counts from 0, and
// policies for `learning_rate`, where n is the number of a net's run. Errors: value_error for a number that is not
// finite or below 0, and for a divisor of 0.
// Source: Caffe2's LearningRate.

/// gamma ^ floor(n / size).
struct step {
  double size = 1, gamma = 0.1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// gamma ^ n.
struct exponential {
  double gamma = 0.99;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// (1 + gamma n) ^ -power.
struct inverse {
  double gamma = 1e-4, power = 0.75;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// (1 - n / steps) ^ power, and 0 after `steps`.
struct polynomial {
  double steps = 1, power = 1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// Linear from `start` to 1 over `steps`, then 1.
struct linear_warm_up {
  double start = 0, steps = 1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// `multiplier` for `steps`, then 1.
struct constant_warm_up {
  double multiplier = 0.5, steps = 1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// Alternates between 1 for `on` steps and 0 for `off` steps, beginning with the ones or, if not `on_first`, with the
/// zeros.
struct alternate {
  double on = 1, off = 1;
  bool on_first = true;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// Linear from `start` to 1 over `warm_up` steps, then (1 + gamma m) ^ -power for the m steps since, at least `floor`.
struct hill {
  double warm_up = 1, start = 0, gamma = 1e-4, power = 0.75, floor = 0;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};

/// gamma ^ (number of milestones up to n).
struct multi_step {
  std::vector<std::int64_t> milestones{};
  double gamma = 0.1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// Falls from 1 to `floor` along half a cosine over `period` steps, then restarts; each period is `growth` times as
/// long as the one before.   Source: Loshchilov, Hutter, "SGDR" (2017), arXiv:1608.03983.
struct cosine_restarts {
  double period = 1, growth = 1, floor = 0;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// How the height of a cycle changes: constant, halved each cycle, or times gamma ^ n.
enum class cycle_mode { triangular, triangular2, exp_range };
/// Linear from `floor` to 1 over `up` steps and back over `down` steps (0: as many as `up`), repeated.
/// Source: Smith, "Cyclical learning rates" (2017), arXiv:1506.01186.
struct cyclic {
  double floor = 0.1, up = 2000, down = 0;
  cycle_mode mode = cycle_mode::triangular;
  double gamma = 1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};

// ---- composed schedules ---------------------------------------------------------------------------------------------

/// Linear from `start` times the first rate of schedule `then` to that rate, over `steps`; then `then`.
struct warm_up {
  std::int64_t steps = 0;
  schedule then = constant{};
  double start = 0;
  double operator()(double base, std::int64_t step, std::int64_t all) const;
  std::vector<double> state() const { return then.state(); }
  void restore(view<const double> state) const { then.restore(state); }
};
/// Consecutive schedules: the next one begins at each milestone, and counts its own steps.
/// Errors: value_error unless milestones increase and number one less than schedules.
struct sequential {
  std::vector<schedule> schedules{};
  std::vector<std::int64_t> milestones{};
  double operator()(double base, std::int64_t step, std::int64_t steps) const;
  std::vector<double> state() const;
  void restore(view<const double> state) const;
};

struct plateau_options {
  double factor = 0.1;         ///< multiplies the rate
  std::int64_t patience = 10;  ///< observations without improvement that are tolerated
  double threshold = 1e-4;     ///< minimum improvement, relative to the best value or, if not `relative`, absolute
  bool relative = true;
  std::int64_t cooldown = 0;  ///< observations ignored after a reduction
  double floor = 0;           ///< minimum factor of the base rate
  bool maximize = false;      ///< larger values are better
};
/// Lowers the rate when a metric stops improving: call `observe(loss)` after each epoch. Copies share the observations,
/// so one can be the schedule of `fit` and an observer can call `observe` on another; checkpoints of `fit` include
/// them. With `replicas` the rates are those of rank 0, whose observer is called.   Source: PyTorch's
/// ReduceLROnPlateau.
class plateau {
 public:
  plateau(const plateau_options& o = {});
  /// Records a number and returns the factor from now on. Errors: value_error for NaN.
  double observe(double value) const;
  double factor() const;
  double operator()(double base, std::int64_t, std::int64_t) const { return base * factor(); }
  /// Factor, best number and counters, for `restore`.
  std::vector<double> state() const;
  /// Errors: value_error for numbers that `state` cannot return; nothing is changed then.
  void restore(view<const double> state) const;

 private:
  struct observed;
  std::shared_ptr<observed> observed_;
};

/// Policy for `learning_rate`: a factor as a function of the run number, float64 [].
template <class P>
concept RatePolicy = std::copyable<P> && requires(const P& p, const value& n) {
  { p.factor(n) } -> std::convertible_to<value>;
};
/// Type-erased rate policy.
class rate_policy {
 public:
  rate_policy() = default;
  template <class P> requires(!std::same_as<P, rate_policy>) && RatePolicy<P>
  rate_policy(const P& p) : factor_([p](const value& n) { return value(p.factor(n)); }) {}
  value factor(const value& n) const { return factor_(n); }
  explicit operator bool() const { return static_cast<bool>(factor_); }

 private:
  std::function<value(const value&)> factor_;
};

}  // namespace optim

/// Options of `learning_rate`; `base` and `policy` are required.
export struct rate_options {
  double base = std::numeric_limits<double>::quiet_NaN();
  optim::rate_policy policy{};
  dtype element = dtype::float32;
};
/// A learning rate that depends on the run number: base factor(n).   Shapes: iteration [] int64 -> [].
/// Numerics: computed in float64, then rounded to `element`. `base` may be negative, for updates that are added.
/// Errors: value_error if base or policy is missing, or base is not finite in `element`.
export value learning_rate(const value& iteration, const rate_options& o, const origin& = {});

}  // namespace lamina
