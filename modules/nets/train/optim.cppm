// Losses, optimisers and schedules: written with the library's own operations, so that one plan holds forward pass,
// gradients and update.
export module lamina:train.optim;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.linear;
import :op.loss;
import :op.reduce;
import :op.shape;
import :parameter;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

export namespace loss {
/// Softmax cross entropy of logits [N, C] and classes [N], averaged over the batch.
struct cross_entropy {
  value operator()(const value& logits, const value& labels) const { return lamina::cross_entropy(logits, labels); }
};
/// Negative log likelihood of log-probabilities [N, C] and classes [N], averaged over the batch.
struct nll {
  value operator()(const value& log_probabilities, const value& labels) const { return lamina::nll(log_probabilities, labels); }
};
/// Mean of squared differences of results and targets of one shape.
struct mse {
  value operator()(const value& results, const value& targets) const { return lamina::mse(results, targets); }
};
/// Mean of absolute differences of results and targets of one shape.
struct l1 {
  value operator()(const value& results, const value& targets) const { return lamina::reduce_mean(lamina::abs(results - targets)); }
};
}  // namespace loss

// ---- optimisers -----------------------------------------------------------------------------------------------------

/// What an optimiser sees of the program that updates one parameter.
export class update_scope {
 public:
  update_scope(program& p, parameter_store& store, std::string parameter, const value& rate, const value& step)
      : program_(p), store_(store), parameter_(std::move(parameter)), rate_(rate), step_(step) {}
  /// A state of the parameter's shape that begins with zeros, kept under `optimiser.<parameter>.<name>`.
  value slot(std::string_view name, const tensor_type& like);
  void assign(const value& slot, const value& v) { program_.assign(slot, v); }
  /// The learning rate of this run, rank 0, in the type of `like`.
  value rate(const value& like) const { return in_type_of(rate_, like); }
  /// The number of this update, from 1, rank 0, in the type of `like`.
  value step(const value& like) const { return in_type_of(step_, like); }

 private:
  static value in_type_of(const value& v, const value& like);
  program& program_;
  parameter_store& store_;
  std::string parameter_;
  value rate_, step_;
};

/// Gives the new value of a parameter from the old one and its gradient.
export template <class O>
concept Optimiser = std::copyable<O> && requires(const O& o, update_scope& s, const value& v) {
  { o.lr } -> std::convertible_to<double>;
  { o.step(s, v, v) } -> std::convertible_to<value>;
};

export namespace optim {

/// Stochastic gradient descent: g += weight_decay w; m = momentum m + g; w -= lr m, or with Nesterov lr (g + momentum m).
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), as PyTorch has it.
struct sgd {
  double lr = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
/// weight_decay is added to the gradient (L2).   Source: Kingma, Ba, "Adam" (2015), arXiv:1412.6980.
struct adam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// Adam with decoupled weight decay: w -= lr weight_decay w first.   Source: Loshchilov, Hutter (2019), arXiv:1711.05101.
struct adamw {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  value step(update_scope& s, const value& w, const value& g) const;
};

/// A learning rate as a function of progress: f(base, step, steps) for step in 0..steps - 1.
using schedule = std::function<double(double base, std::int64_t step, std::int64_t steps)>;

/// The base rate throughout.
struct constant {
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

}  // namespace optim

}  // namespace lamina
