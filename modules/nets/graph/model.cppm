// Models over nets: one net that uses the parameters and one that initializes them; tags, sharing, default arguments,
// and layer functions that run the library's layers.
export module lamina:graph.model;
import :core;
import :dtype;
import :gradient;
import :graph;
import :graph.scope;
import :initializer;
import :layer;
import :model;
import :op.nn;
import :parameter;
import :parameter.naming;
import :program;
import :shape;
import :tensor;
import :train.optim;
import lamina.std;

namespace lamina::graph {

/// Kind of a parameter: a weight, which decays; a bias; or a computed one, which optimizers do not update.
export enum class parameter_tag : std::uint8_t { weight, bias, computed };

struct parameter_info {
  std::string name;
  value at;  // in the model's net
  parameter_tag tag = parameter_tag::weight;
  value gradient{};  // set by add_gradient_operators, for a weight or bias that the loss depends on
  bool updated = false;
  bool frozen = false;  // updates skip it
};

/// Type-erased fill.
class fill_rule {
 public:
  fill_rule() = default;
  template <class F> requires(!std::same_as<F, fill_rule>) && Fill<F>
  fill_rule(const F& f) : f_([f](fill_scope& s) { return value(f(s)); }) {}
  /// Errors: value_error for an empty one.
  value operator()(fill_scope& s) const {
    if (!f_) s.fail(error_kind::value, text("the fill rule is empty"));
    return f_(s);
  }
  explicit operator bool() const { return static_cast<bool>(f_); }

 private:
  std::function<value(fill_scope&)> f_;
};
/// Type-erased activation: any layer with one input and no parameters.
class activation_rule {
 public:
  activation_rule() = default;
  template <class L> requires(!std::same_as<L, activation_rule>) && Layer<L> activation_rule(const L& l)
      : f_([l](const value& x) {
          no_scope s;
          return value(l.forward(s, x));
        }) {}
  value operator()(const value& x) const { return f_ ? f_(x) : x; }
  explicit operator bool() const { return static_cast<bool>(f_); }

 private:
  struct no_scope {};
  std::function<value(const value&)> f_;
};

export class model;
/// Arguments of layer functions. Precedence: the call, then each `arg_scope` from the innermost out, then the model, then the
/// layer's own default. A layer uses the arguments that apply to it.
export struct arguments {
  std::string name{};             // of the layer; derived from the function by default: `fc`, `fc_auto_0`
  graph::model* model = nullptr;  // by default the model of the innermost model::scope
  std::optional<extent2d> kernel{}, stride{}, padding{}, dilation{};
  std::optional<std::int64_t> groups{}, size{};
  std::optional<bool> bias{};
  std::optional<double> probability{}, epsilon{}, momentum{}, alpha{}, beta{};
  fill_rule weight_fill{}, bias_fill{};
  activation_rule activation{};
};

/// RAII default arguments for calls of one layer function on this thread: `arg_scope
/// small("conv", {.kernel = 3});`. Scopes nest.
export class arg_scope {
 public:
  /// Errors: value_error for an unknown function, with the nearest name, for an argument that it does not take, and for
  /// `name` and `model`, which belong to a call.
  arg_scope(std::string_view function, const arguments& a, const origin& = {});
  ~arg_scope();
  arg_scope(const arg_scope&) = delete;
  arg_scope& operator=(const arg_scope&) = delete;
};
/// RAII sharing of the parameters of two scopes: `parameter_sharing both({{"b", "a"}});` makes `b/w` the
/// parameter `a/w`. Both names are relative to the current name scope: within `net/` it makes `net/b/w` the
/// parameter `net/a/w`. An empty second name is the current scope itself: `{"b", ""}` makes `b/w` the parameter `w`.
/// The longest matching name applies, in the innermost sharing first; lookup repeats until the result does
/// not change. Unnamed layers are numbered per scope: the second `fc` of `b` has the parameters of the
/// second one of `a`.
/// Errors: value_error for an empty first name, and for a name that maps to itself or into itself. If layers with
/// parameters were created while it lived, but none under one of its first names, the next use of their model raises a
/// value_error with that name, once.
export class parameter_sharing {
 public:
  explicit parameter_sharing(const renaming& names, const origin& = {});
  ~parameter_sharing();
  parameter_sharing(const parameter_sharing&) = delete;
  parameter_sharing& operator=(const parameter_sharing&) = delete;

 private:
  int errors_;  // uncaught exceptions at construction
};

/// A name and its place in the user's code.
class placed_name {
 public:
  template <std::convertible_to<std::string_view> S>
  placed_name(const S& name, std::source_location at = std::source_location::current()) : name_(name), at_(at) {}
  std::string_view held() const { return name_; }
  const std::source_location& at() const { return at_; }

 private:
  std::string_view name_;
  std::source_location at_;
};

export struct model_options {
  dtype element = dtype::float32;
  std::int64_t seed = 0;
  bool training = true;         // dropout is active; batch norms use batch statistics and update the running ones
  bool fill_parameters = true;  // false: the workspace already contains them
};
/// Options of parameter updates.
export struct update_options {
  std::optional<parameter_tag> tag{};  // only parameters with this tag
  optim::regularizer regularizer{};
  double max_gradient_norm = 0;  // above 0: clips the global norm of these parameters' gradients
  value rate{};                  // learning rate; if empty, the optimizer's constant `lr`
  // Multiplies the rate by the blob `lr_injection`, which is 1 until another value is fed to the workspace.
  bool allow_lr_injection = false;
  // Sparse updates: a gradient that is a sum of looked-up rows updates only those rows of the parameter and its slots,
  // in place; gradients of a row looked up repeatedly are summed first. Weight decay and the regularizer see only these
  // rows.
  bool by_rows = false;
};

namespace detail {
// Non-template part of running a layer in a net.
class layer_run {
 public:
  layer_run(graph::model& m, std::string_view function, const arguments& call);
  ~layer_run();
  layer_run(const layer_run&) = delete;
  layer_run& operator=(const layer_run&) = delete;
  const arguments& given() const { return given_; }
  /// Registers an operand. An operand of another program than the model's net is an error only if the layer has
  /// parameters.
  void takes(const value& x);
  /// Runs the layer: adds its parameters to the model, records its inference form where that differs from training, and
  /// applies the activation.
  value run(const std::function<value(const trace_scope&)>& forward);

 private:
  void keep_parameters();
  graph::model& model_;
  const program* other_program_ = nullptr;  // program of an operand that does not belong to the net
  std::string function_, name_, own_name_, shared_name_, outer_path_;
  arguments given_;
  name_map names_;
  parameter_store store_;
  trace_walk walk_;
  std::size_t assigned_;
};
}  // namespace detail

/// A net with parameters, and the net that initializes them.
export class model {
 public:
  explicit model(std::string_view name, const model_options& = {});
  /// From existing nets, such as ones read from a file. The parameters must be blobs of `main`.
  model(net main, net init, const model_options& options, std::vector<parameter_info> parameters);
  model(const model&) = delete;
  model& operator=(const model&) = delete;
  ~model();

  /// The net `<name>`, and the net `<name>_init`, which initializes its parameters.
  net& main();
  net& init();
  const net& main() const;
  const net& init() const;
  const model_options& options() const;
  /// An input blob, which the workspace must provide.
  value input(std::string_view name, const tensor_type& type, const origin& = {}) {
    return main().external(name, type);
  }

  /// A parameter in the current name scope; a second request returns the same one. Errors: shape_error if the shapes
  /// differ.
  value parameter(std::string_view name, const shape& dims, const fill_rule& fill,
                  parameter_tag tag = parameter_tag::weight, const origin& = {});
  std::vector<parameter_info> parameters(std::optional<parameter_tag> tag = std::nullopt,
                                         std::string_view beginning = {}) const;
  /// Sets whether updates added later skip the weights and biases that match a pattern; `*` matches any characters, `?`
  /// one. Returns their names. Called by `freeze(m, "stem*")` and `unfreeze`. Errors: value_error for a pattern without
  /// a match; state_error for a parameter that already has its update; nothing is changed then.
  std::vector<std::string> set_frozen(view<const std::string_view> patterns, bool on, const origin& = {});
  /// Sets default arguments of layers, with lower precedence than the call and arg_scope. Errors: as arg_scope.
  void defaults(std::string_view function, const arguments& a, const origin& = {});

  /// Adds gradients of all parameters that the targets depend on. May be called once. Errors: state_error the second
  /// time.
  const gradient_map& add_gradient_operators(const std::vector<gradient_target>& targets, const origin& = {});
  template <std::same_as<value> Target>
  const gradient_map& add_gradient_operators(const Target& target, const origin& at = {}) {
    return add_gradient_operators(std::vector<gradient_target>{target}, at);
  }
  /// Adds updates, executed in each run, of the parameters that have a gradient and no update yet. Slots are blobs
  /// named `<parameter>_<slot>`. Errors: state_error before gradients are added, and if no parameter is left to update;
  /// value_error for `by_rows` with an optimizer that is not a RowOptimizer, or with clipping, and for numbers of the
  /// optimizer, the regularizer or the options that are not finite or below 0.
  template <Optimizer O> void add_updates(const O& optimizer, const update_options& o = {}, const origin& = {}) {
    lamina::detail::check_optimizer(optimizer);
    add_updates(update_rule::of(optimizer), optimizer.lr, RowOptimizer<O>, o);
  }
  /// Extracts an inference net that computes the output blobs from the input blobs; the parameters that it needs are
  /// external blobs. Layers added for training run in inference mode: dropout is the identity, batch norm uses running
  /// statistics.
  net predictor(std::string_view name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                const origin& = {}) const;

  /// RAII: makes a model the current one for layer functions on this thread. Scopes nest.
  class scope {
   public:
    explicit scope(model& m);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    model* outer_;
  };
  /// The model of the innermost scope. Errors: state_error if there is none.
  static model& current();

  /// Runs any layer with one output. Its weight and bias are `<name>_w` and `<name>_b`, running statistics `<name>_rm`
  /// and `<name>_riv`; other parameters have PyTorch's names, `<name>.<parameter>`. Errors: state_error if
  /// one of these names belongs to a blob that is not a parameter.
  template <Layer L, std::same_as<value>... V>
  value layer(const placed_name& function, const arguments& a, const L& l, const V&... in) {
    const origin here(function.at());
    detail::layer_run run(*this, function.held(), a);
    (run.takes(in), ...);
    return run.run([&](const trace_scope& scope) { return scope.call(scope, l, in...); });
  }

 private:
  friend class detail::layer_run;
  void add_updates(const update_rule& rule, double rate, bool by_rows, const update_options& o);
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Freezes the weights and biases that match a pattern: `freeze(m, "stem*")`, before `add_updates`. Returns their
/// names.
/// Errors: as `model::set_frozen`.
export template <std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> freeze(model& m, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return m.set_frozen(all, true);
}
/// Undoes `freeze` for updates that are added later. Errors: as `freeze`.
export template <std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> unfreeze(model& m, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return m.set_frozen(all, false);
}

// ---- layer functions ------------------------------------------------------------------------------------------------
// Each works on the model of its arguments, else of the innermost scope. Defaults: weights `<name>_w` filled by
// `xavier`, biases `<name>_b` filled with 0. Errors: value_error for arguments that a layer does
// not take; state_error if a parameter has the name of another blob; errors of the layers.

/// Fully connected: rows of features times the transpose of weights [out, in], plus a bias.
/// Arguments: bias, weight_fill, bias_fill, activation.
export value fc(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// Cross-correlation of images [N, C, H, W] with filters [out, C, KH, KW].   Arguments: as fc, and kernel (3), stride, padding,
/// dilation.
export value conv(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// Grouped convolution; `groups` is required.
export value group_conv(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// The adjoint of a convolution, with weights [C, out, KH, KW].
export value conv_transpose(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// Maximum or mean of each window.   Arguments: kernel (2), stride (the kernel size), padding.
export value max_pool(const value& x, const arguments& a = {}, const origin& = {});
export value average_pool(const value& x, const arguments& a = {}, const origin& = {});
/// Batch norm of channels: weight `_s`, bias `_b`, running statistics `_rm` and `_riv`, which are computed parameters.
/// Arguments: epsilon (1e-5), momentum (0.9): weight of the old running statistics.
export value spatial_bn(const value& x, const arguments& a = {}, const origin& = {});
/// Normalizes rows of the last axis to mean 0 and variance 1, then scales and shifts.   Arguments: epsilon (1e-5).
export value layer_norm(const value& x, const arguments& a = {}, const origin& = {});
/// The same for each channel of each image.   Arguments: epsilon (1e-5).
export value instance_norm(const value& x, const arguments& a = {}, const origin& = {});
/// Local response norm: x / (bias + alpha / size * sum of squares over the `size` nearest channels)^beta, with bias 1.
/// Arguments: size (5), alpha (1e-4), beta (0.75).   Source: Krizhevsky et al. (2012).   Errors: shape_error for other than images.
export value lrn(const value& x, const arguments& a = {}, const origin& = {});
/// In training, zeroes elements with a probability (0.5) and scales the others.
export value dropout(const value& x, const arguments& a = {}, const origin& = {});
/// max(x, 0) + slope min(x, 0) with a slope per channel, `<name>_slope`, filled with 0.25.
export value prelu(const value& x, const arguments& a = {}, const origin& = {});
/// Looks up rows of a table [num_embeddings, embedding_dim], `<name>_w`, by int64 ids.
export value embedding(const value& ids, std::int64_t num_embeddings, std::int64_t embedding_dim,
                       const arguments& a = {}, const origin& = {});
/// Recurrent layers over sequences: [T, N, in] -> [T, N, hidden], all positions. Parameters have PyTorch's names,
/// `<name>.weight_ih_l0` and so on.
export value rnn(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
export value gru(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
export value lstm(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
/// Fraction of rows of scores [N, C] whose maximum is at the label [N]: float [].   Errors: shape_error for labels of
/// another shape.
export value accuracy(const value& scores, const value& labels, const origin& = {});
/// Concatenation of values along an axis, and the sum of values.
export value concat(const std::vector<value>& x, std::int64_t axis = 1, const origin& = {});
export value sum(const std::vector<value>& x, const origin& = {});
/// Batched matrix product; either operand may be transposed.
export value batch_mat_mul(const value& a, const value& b, bool transpose_a = false, bool transpose_b = false,
                           const origin& = {});

}  // namespace lamina::graph
