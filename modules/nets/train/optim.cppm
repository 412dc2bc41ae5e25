// Optimizers, built from the library's own operations, so that one plan holds forward pass, gradients and update.
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
export import :train.schedule;
import lamina.std;

namespace lamina {

// ---- optimizers -----------------------------------------------------------------------------------------------------

/// An optimizer's view of the program that updates one parameter.
export class update_scope {
 public:
  /// Creates a zero-initialized state with a name and the type of `like`.
  using slot_maker = std::function<value(std::string_view name, const tensor_type& like)>;
  using slot_writer = std::function<void(const value& slot, const value& next)>;
  update_scope(slot_maker make, slot_writer write, const value& rate, const value& step, std::string parameter = {})
      : make_(std::move(make)), write_(std::move(write)), rate_(rate), step_(step), parameter_(std::move(parameter)) {}
  /// Slots are states of the program, stored as `optimizer.<parameter>.<name>`. With `has_slots` false, new ones have
  /// no elements in the store, because another process keeps them.
  update_scope(program& p, parameter_store& store, std::string parameter, const value& rate, const value& step,
               bool has_slots = true);
  /// Name of the parameter.
  const std::string& parameter() const { return parameter_; }
  /// Whether an optimizer's `prepare` has seen all gradients and left its name in `joint_update::prepared`.
  bool is_prepared(std::string_view optimizer) const;
  /// A zero-initialized state of the type of `like`.
  value slot(std::string_view name, const tensor_type& like) { return make_(name, like); }
  void assign(const value& slot, const value& v) { write_(slot, v); }
  /// Learning rate of this run, rank 0, in the element type of `like`.
  value rate(const value& like) const { return in_type_of(rate_, like); }
  /// Number of this update, from 1, rank 0, in the element type of `like`.
  value step(const value& like) const { return in_type_of(step_, like); }
  /// The same in float64, for factors that depend on it.
  value step() const;

  // Scopes for an optimizer wrapped by another one.

  /// Scales the rate by a factor.
  update_scope scaled(double factor) const;
  /// Assigns slots only if a condition, bool [], holds, and replaces the number of the update.
  update_scope guarded(const value& condition, const value& step) const;
  /// Marks optimizers whose `prepare` has run.
  update_scope prepared(std::vector<std::string> optimizers) const;

 private:
  static value in_type_of(const value& v, const value& like);
  slot_maker make_;
  slot_writer write_;
  value rate_, step_;
  std::string parameter_;
  std::vector<std::string> prepared_;
};

/// All parameters and gradients of an update, passed to `prepare` before the individual steps. The gradients may be
/// changed.
export struct joint_update {
  std::vector<std::string> parameters;    // names
  std::vector<value> weights, gradients;  // in the order of the names
  value step;                             // the number of this update, from 1, rank 0
  std::vector<std::string> prepared{};    // optimizers whose `prepare` has run, for `update_scope::is_prepared`
  std::vector<std::string> left_alone{};  // parameters that the optimizer does not update; not in `parameters`
};

/// Computes the new value of a parameter from the old one and its gradient. `lr` must be a finite number >= 0. An
/// optional member `check()` raises an error if other numbers are invalid; `training`, `fit` and `add_updates` call it
/// first. Optimizers of the library raise a value_error for numbers that are not finite or below 0, and for a beta of 1
/// or more.
/// An optional member `prepare(joint_update&)` is called once per update, before the steps of its parameters: it sees
/// all gradients together. An optimizer that wraps another one forwards `prepare`, with the gradients that its `step`
/// would forward.
/// An optional member `updates(name)` that returns false excludes a parameter: `prepare` does not see its gradient, and
/// `step` is not called for it.
/// A constant `gradients_per_batch` above 1 requests that many gradients of each batch, one after the other, each at
/// the parameters that the previous step left: `fit` and `training` take that many steps per batch, and if one fails,
/// they restore the states from before the first.
export template <class O>
concept Optimizer = std::copyable<O> && requires(const O& o, update_scope& s, const value& v) {
  { o.lr } -> std::convertible_to<double>;
  { o.step(s, v, v) } -> std::convertible_to<value>;
};

/// An optimizer whose update of a row depends only on the same row of parameter, gradient and slots. It can update the
/// rows of a table that were looked up, and leave the other rows and their slots unchanged.
export template <class O>
concept RowOptimizer = Optimizer<O> && requires { requires O::by_rows; };

namespace detail {
/// Message about a number that must be finite and >= 0, also when rounded to `element`: "`lr` is nan; expected a finite
/// number >= 0". Empty for a valid number.
text hyperparameter_problem(std::string_view name, double number, dtype element);
/// Checks such a number. Errors: value_error, whose message begins with `where`.
void check_rate(std::string_view where, std::string_view name, double rate, dtype element);
/// Checks the numbers of an optimizer except its rate, before anything is built from it.
template <Optimizer O> void check_optimizer(const O& o) {
  if constexpr (requires { o.check(); }) o.check();
}
/// Whether an optimizer has a `prepare` for all gradients of an update.
template <class O> inline constexpr bool prepares = requires(const O& o, joint_update& all) { o.prepare(all); };
template <Optimizer O> void prepare_update(const O& o, joint_update& all) {
  if constexpr (prepares<O>) o.prepare(all);
}
/// Whether an optimizer updates a parameter.
template <class O> bool updates(const O& o, std::string_view parameter) {
  if constexpr (requires {
                  { o.updates(parameter) } -> std::convertible_to<bool>;
                })
    return o.updates(parameter);
  else return true;
}
/// Number of gradients per batch that an optimizer needs.
template <class O> inline constexpr int gradients_per_batch = 1;
template <class O> requires requires {
  { O::gradients_per_batch } -> std::convertible_to<int>;
} inline constexpr int gradients_per_batch<O> = O::gradients_per_batch;
}  // namespace detail

/// Type-erased optimizer: its functions for all gradients of an update and for each parameter.
struct update_rule {
  using step_function = std::function<value(update_scope&, const value& w, const value& g)>;
  step_function step;
  std::function<void(joint_update&)> prepare{};  // empty: nothing
  std::string_view name{};                       // name of the optimizer type
  int gradients_per_batch = 1;
  std::function<bool(std::string_view parameter)> updates{};  // empty: all are updated
  update_rule(std::nullptr_t) {}
  update_rule(step_function s) : step(std::move(s)) {}
  template <Optimizer O> static update_rule of(const O& o) {
    update_rule r([o](update_scope& s, const value& w, const value& g) { return value(o.step(s, w, g)); });
    if constexpr (detail::prepares<O>) r.prepare = [o](joint_update& all) { o.prepare(all); };
    r.name = type_name<O>();
    r.gradients_per_batch = detail::gradients_per_batch<O>;
    r.updates = [o](std::string_view parameter) { return detail::updates(o, parameter); };
    return r;
  }
  explicit operator bool() const { return static_cast<bool>(step); }
  /// Adds a parameter to the updated or the excluded ones of a joint update. Returns whether it is updated.
  bool takes(joint_update& all, const std::string& parameter, const value& weight, const value& gradient) const;
};

export namespace optim {

// Formulas use a parameter w, its gradient g and the update number t, from 1. Unless noted as decoupled, `weight_decay`
// is added to the gradient: g += weight_decay w. `maximize` and gradient clipping are wrappers (`:train.compose`).

/// Stochastic gradient descent: m = momentum m + (1 - dampening) g, with m = g in the first update; w -= lr m, or with
/// Nesterov lr (g + momentum m).
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), as in PyTorch.
struct sgd {
  double lr = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double dampening = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
/// With `amsgrad`, v is replaced by its maximum so far. With `caffe2_epsilon`, epsilon is added to the root before bias
/// correction: w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).
/// Source: Kingma, Ba, "Adam" (2015), arXiv:1412.6980; Reddi et al. (2018), arXiv:1904.09237, for amsgrad.
struct adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool amsgrad = false, caffe2_epsilon = false;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with decoupled weight decay: w -= lr weight_decay w first.   Source: Loshchilov, Hutter (2019), arXiv:1711.05101.
struct adamw {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  bool amsgrad = false;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with increasing Nesterov momentum: mu = beta1 (1 - 0.96^(t momentum_decay) / 2).
/// Source: Dozat, "Incorporating Nesterov momentum into Adam" (2016), as in PyTorch.
struct nadam {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with a rate rectified by the variance of the second moment; momentum alone in the early steps, while that
/// variance is intractable.
/// Source: Liu et al., "On the variance of the adaptive learning rate and beyond" (2020), arXiv:1908.03265, as in
/// PyTorch.
struct radam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with the infinity norm: u = max(beta2 u, |g| + epsilon); w -= lr / (1 - beta1^t) m / u.
/// Source: Kingma, Ba (2015), arXiv:1412.6980, section 7.1.
struct adamax {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with a rate per parameter: d = Adam's direction + weight_decay w; w -= lr |w| / |d| d, or lr d if |w| |d| = 0.
/// Source: You et al., "Large batch optimization for deep learning" (2020), arXiv:1904.00962.
struct lamb {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w); m = beta2 m + (1 - beta2) g.
/// Source: Chen et al., "Symbolic discovery of optimization algorithms" (2023), arXiv:2302.06675.
struct lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adagrad: h = decay h + g^2; w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(h) + epsilon). `row_wise` keeps one number
/// per row of the first axis: h = decay h + mean of g^2 over the row.
/// Source: Duchi, Hazan, Singer, "Adaptive subgradient methods" (2011), with Caffe2's decay and rowWise, PyTorch's
/// lr_decay.
struct adagrad {
  double lr = 0.01, epsilon = 1e-4, decay = 1, weight_decay = 0;
  bool row_wise = false;
  double lr_decay = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Adadelta: v = rho v + (1 - rho) g^2; d = sqrt(u + epsilon) / sqrt(v + epsilon) g; u = rho u + (1 - rho) d^2; w -= lr d.
/// Source: Zeiler, "ADADELTA" (2012), arXiv:1212.5701.
struct adadelta {
  double lr = 1, rho = 0.9, epsilon = 1e-6, weight_decay = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// RMSProp: v = decay v + (1 - decay) g^2; m = momentum m + g / (sqrt(v) + epsilon); w -= lr m. `centered` subtracts
/// the square of the running mean of g from v; `epsilon_inside` uses sqrt(v + epsilon), as Caffe2.   Source: Tieleman,
/// Hinton (2012), lecture 6.5.
struct rmsprop {
  double lr = 0.01, decay = 0.9, momentum = 0, epsilon = 1e-8, weight_decay = 0;
  bool centered = false, epsilon_inside = false;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Adam with a second moment factored into means over rows and columns, for two or more axes; the rate is relative to
/// the RMS of the parameter. No momentum: for large parameters. `epsilon1` 0 is the epsilon of the element type.
/// Source: Shazeer, Stern, "Adafactor" (2018), arXiv:1804.04235, as in PyTorch.
struct adafactor {
  double lr = 0.01, beta2_decay = -0.8, epsilon1 = 0, epsilon2 = 1e-3, clip = 1, weight_decay = 0;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Averaged SGD: eta = lr / (1 + lambda lr (t - 1))^alpha; w -= eta (lambda w + g). The slot `average` is the mean of w
/// from update t0 on (`swap_averages`).   Source: Polyak, Juditsky (1992), as in PyTorch.
struct asgd {
  double lr = 0.01, lambda = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// A step size per element, which grows by `up` while the sign of g stays and shrinks by `down` when it changes; only
/// the sign of g is used. For full-batch training.   Source: Riedmiller, Braun (1993), as in PyTorch.
struct rprop {
  double lr = 0.01, down = 0.5, up = 1.2, min_step = 1e-6, max_step = 50;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Momentum with orthogonalized matrices and decoupled weight decay: m = momentum m + (1 - momentum) g;
/// w -= lr sqrt(max(1, rows / columns)) orthogonal(m).
/// With more than two axes, the first one is the rows; vectors and scalars are updated as by `adamw`, at the rate lr
/// `vector_rate`.
/// Source: Jordan et al., "Muon" (2024), with five steps of the quintic Newton-Schulz iteration, as in PyTorch.
struct muon {
  double lr = 1e-3, momentum = 0.95, weight_decay = 0.1, epsilon = 1e-7, vector_rate = 1;
  bool nesterov = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// SGD with momentum that tunes rate and momentum per parameter: `lr` is the rate of the first two updates.
/// Source: Zhang, Mitliagkas, "YellowFin" (2017), arXiv:1706.03471, as in Caffe2.
struct yellow_fin {
  double lr = 0.1, momentum = 0, beta = 0.999, epsilon = 1e-6;
  std::int64_t window = 20;  ///< number of updates for the curvature range
  bool nesterov = false, zero_debias = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// FTRL-proximal, with alpha the rate: n' = n + g^2; z += g - (sqrt(n') - sqrt(n)) / alpha w; n = n';
/// w = 0 where |z| <= l1, else (sign(z) l1 - z) / ((beta + sqrt(n)) / alpha + l2). If alpha is 0, w, n and z are
/// unchanged.
/// Source: McMahan et al., "Ad click prediction: a view from the trenches" (2013).
struct ftrl {
  double lr = 0.01, beta = 1e-4, l1 = 0, l2 = 0;
  static constexpr bool by_rows = true;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// LARS: d = g + weight_decay w; m = momentum m + lr trust |w| / (|g| + weight_decay |w| + epsilon) d; w -= m. If |w|
/// or |g| is 0, the rate is lr.   Source: You, Gitman, Ginsburg, "Large batch training" (2017), arXiv:1708.03888.
struct lars {
  double lr = 0.1, momentum = 0.9, weight_decay = 0, trust = 0.001, epsilon = 1e-9;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};
/// Momentum with the rate inside: m' = momentum m + lr g; w -= m', or with Nesterov (1 + momentum) m' - momentum m.
/// Differs from `sgd` if the rate changes.   Source: Caffe2's MomentumSGD.
struct momentum_sgd {
  double lr = 0.01, momentum = 0.9;
  bool nesterov = false;
  void check() const;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Regularization: l1 sign(w) + l2 w is added to the gradient. After the update, each row of the first axis is scaled
/// down to norm max_norm, if longer, or scaled to norm constant_norm, if these are above 0.
struct regularizer {
  double l1 = 0, l2 = 0, max_norm = 0, constant_norm = 0;
  void check() const;
  value gradient(const value& w, const value& g) const;
  value projected(const value& w) const;
};

/// Gradients times limit / max(limit, norm), so that their global p-norm is at most `limit`; p is above 0 and may be
/// infinite.   Errors: value_error unless limit and p are above 0.
std::vector<value> clip_by_global_norm(view<const value> gradients, double limit, double p = 2, const origin& = {});
/// Gradients with elements clamped to -limit..limit.   Errors: value_error unless the limit is above 0.
std::vector<value> clip_by_value(view<const value> gradients, double limit, const origin& = {});

}  // namespace optim

}  // namespace lamina
