// Optimizers and schedules: written with the library's own operations, so that one plan holds forward pass,
// gradients and update.
export module lamina:train.optim;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.linear;
import :op.reduce;
import :op.shape;
import :parameter;
import :program;
import :shape;
import :tensor;
export import :train.loss;
import lamina.std;

namespace lamina {

// ---- optimizers -----------------------------------------------------------------------------------------------------

/// What an optimizer sees of the program that updates one parameter.
export class update_scope {
 public:
  /// Makes a state that begins with zeros, of a name and the type of a value.
  using slot_maker = std::function<value(std::string_view name, const tensor_type& like)>;
  using slot_writer = std::function<void(const value& slot, const value& next)>;
  update_scope(slot_maker make, slot_writer write, const value& rate, const value& step)
      : make_(std::move(make)), write_(std::move(write)), rate_(rate), step_(step) {}
  /// Slots are states of the program, kept in the store as `optimizer.<parameter>.<name>`.
  update_scope(program& p, parameter_store& store, std::string parameter, const value& rate, const value& step);
  /// A state of the parameter's shape that begins with zeros.
  value slot(std::string_view name, const tensor_type& like) { return make_(name, like); }
  void assign(const value& slot, const value& v) { write_(slot, v); }
  /// The learning rate of this run, rank 0, in the type of `like`.
  value rate(const value& like) const { return in_type_of(rate_, like); }
  /// The number of this update, from 1, rank 0, in the type of `like`.
  value step(const value& like) const { return in_type_of(step_, like); }

 private:
  static value in_type_of(const value& v, const value& like);
  slot_maker make_;
  slot_writer write_;
  value rate_, step_;
};

/// Gives the new value of a parameter from the old one and its gradient. `lr` must be a finite number >= 0. An optimizer may
/// have a member `check()`, which raises where its other numbers are wrong; `training`, `fit` and `add_updates` call it first.
/// Those of the library raise a value_error for numbers that are not finite or below 0, and for a beta of 1 or more.
export template <class O>
concept Optimizer = std::copyable<O> && requires(const O& o, update_scope& s, const value& v) {
  { o.lr } -> std::convertible_to<double>;
  { o.step(s, v, v) } -> std::convertible_to<value>;
};

/// An optimizer each of whose rows depends on the same row of parameter, gradient and slots alone: it can update the rows of a
/// table that were looked up, and leave the others and their slots as they are.
export template <class O>
concept RowOptimizer = Optimizer<O> && requires { requires O::by_rows; };

namespace detail {
/// Fault of a number that must be finite and >= 0, also when rounded to `element`:
/// "`lr` is nan; expected a finite number >= 0". Empty where nothing is.
text number_fault(std::string_view name, double number, dtype element);
/// Refuses such a number. Errors: value_error, whose message begins with `where`.
void check_rate(std::string_view where, std::string_view name, double rate, dtype element);
/// Refuses the numbers of an optimizer beside its rate, before anything is built of it.
template <Optimizer O> void check_optimizer(const O& o) {
  if constexpr (requires { o.check(); }) o.check();
}
}  // namespace detail

export namespace optim {

/// Stochastic gradient descent: g += weight_decay w; m = momentum m + g; w -= lr m, or with Nesterov lr (g + momentum m).
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), as PyTorch has it.
struct sgd {
  double lr = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
/// weight_decay is added to the gradient (L2).   Source: Kingma, Ba, "Adam" (2015), arXiv:1412.6980.
struct adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with decoupled weight decay: w -= lr weight_decay w first.   Source: Loshchilov, Hutter (2019), arXiv:1711.05101.
struct adamw {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adagrad: h = decay h + g^2; w -= lr g / (sqrt(h) + epsilon).   weight_decay is added to the gradient (L2). `row_wise`
/// keeps one number for each row of the first axis: h = decay h + mean of g^2 over the row.
/// Source: Duchi, Hazan, Singer, "Adaptive subgradient methods" (2011), with Caffe2's decay and rowWise.
struct adagrad {
  double lr = 0.01, epsilon = 1e-4, decay = 1, weight_decay = 0;
  bool row_wise = false;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// RMSProp: v = decay v + (1 - decay) g^2; m = momentum m + g / sqrt(v + epsilon); w -= lr m.
/// weight_decay is added to the gradient (L2).   Source: Tieleman, Hinton (2012), lecture 6.5.
struct rmsprop {
  double lr = 0.01, decay = 0.9, momentum = 0, epsilon = 1e-5, weight_decay = 0;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// FTRL-proximal, with alpha the rate: n' = n + g^2; z += g - (sqrt(n') - sqrt(n)) / alpha w; n = n';
/// w = 0 where |z| <= l1, else (sign(z) l1 - z) / ((beta + sqrt(n)) / alpha + l2). Where alpha is 0, w, n and z stay.
/// Source: McMahan et al., "Ad click prediction: a view from the trenches" (2013).
struct ftrl {
  double lr = 0.01, beta = 1e-4, l1 = 0, l2 = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// LARS: d = g + weight_decay w; m = momentum m + lr trust |w| / (|g| + weight_decay |w| + epsilon) d; w -= m. Where |w|
/// or |g| is 0 the rate is lr.   Source: You, Gitman, Ginsburg, "Large batch training" (2017), arXiv:1708.03888.
struct lars {
  double lr = 0.1, momentum = 0.9, weight_decay = 0, trust = 0.001, epsilon = 1e-9;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Momentum with the rate inside: m' = momentum m + lr g; w -= m', or with Nesterov (1 + momentum) m' - momentum m. If
/// the rate changes, it differs from `sgd`.   Source: Caffe2's MomentumSGD.
struct momentum_sgd {
  double lr = 0.01, momentum = 0.9;
  bool nesterov = false;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// What keeps parameters small: l1 sign(w) + l2 w is added to the gradient, and after the update each row of the first
/// axis is scaled down to a length of max_norm, or to a length of constant_norm, if that is above 0.
struct regularizer {
  double l1 = 0, l2 = 0, max_norm = 0, constant_norm = 0;
  void check() const;
  value gradient(const value& w, const value& g) const;
  value projected(const value& w) const;
};

/// The gradients times limit / max(limit, |all of them|), so that together they are at most `limit` long.
/// Errors: value_error unless the limit is above 0.
std::vector<value> clip_by_global_norm(view<const value> gradients, double limit, const origin& = {});

/// A learning rate as a function of progress: f(base, step, steps) for step in 0..steps - 1. `fit` refuses a result that is no
/// finite number >= 0; the schedules of the library raise a value_error for such numbers of their own.
using schedule = std::function<double(double base, std::int64_t step, std::int64_t steps)>;

/// The base rate throughout.
struct constant {
  double factor(double) const { return 1; }
  value factor(const value& n) const;
  double operator()(double base, std::int64_t, std::int64_t) const { return base; }
};
/// Rises from base / start to base over the first part `warm_up`, then falls to base / (start end), both along a cosine.
/// Source: Smith, Topin, "Super-Convergence" (2019), arXiv:1708.07120, with the defaults of PyTorch.
struct one_cycle {
  double warm_up = 0.3, start = 25, end = 1e4;
  double operator()(double base, std::int64_t step, std::int64_t steps) const;
};
/// Falls from base to base * floor along half a cosine after a linear rise over `warm_up` steps.
/// Source: Loshchilov, Hutter, "SGDR" (2017), arXiv:1608.03983, without restarts.
struct cosine {
  std::int64_t warm_up = 0;
  double floor = 0;
  double operator()(double base, std::int64_t step, std::int64_t steps) const;
};

// Rates that follow the number n of a step alone: base factor(n). They are schedules for `fit`, where n counts from 0, and
// policies for `learning_rate`, where it is the number of a net's run. Errors: value_error for a number that is not finite or
// below 0, and for one to divide by that is 0.
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
/// (1 - n / steps) ^ power, and 0 from there on.
struct polynomial {
  double steps = 1, power = 1;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// From `start` to 1 along a line over `steps`, then 1.
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
/// 1 for `on` steps and 0 for `off` steps in turns, beginning with the ones or, if not `on_first`, with the zeros.
struct alternate {
  double on = 1, off = 1;
  bool on_first = true;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};
/// From `start` to 1 along a line over `warm_up` steps, then (1 + gamma m) ^ -power for the m steps since, at least `floor`.
struct hill {
  double warm_up = 1, start = 0, gamma = 1e-4, power = 0.75, floor = 0;
  double factor(double n) const;
  value factor(const value& n) const;
  double operator()(double base, std::int64_t n, std::int64_t) const { return base * factor(static_cast<double>(n)); }
};

/// What `learning_rate` takes: a factor as a function of the number of a run, float64 [].
template <class P>
concept RatePolicy = std::copyable<P> && requires(const P& p, const value& n) {
  { p.factor(n) } -> std::convertible_to<value>;
};
/// Any of them.
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

/// Both must be given.
export struct rate_options {
  double base = std::numeric_limits<double>::quiet_NaN();
  optim::rate_policy policy{};
  dtype element = dtype::float32;
};
/// A learning rate that follows the number of a run: base factor(n).   Shapes: iteration [] int64 -> [].
/// Numerics: computed in float64, then rounded to `element`. `base` may be negative, where updates are added.
/// Errors: value_error where base or policy is missing, or base is not finite in `element`.
export value learning_rate(const value& iteration, const rate_options& o, const origin& = {});

}  // namespace lamina
