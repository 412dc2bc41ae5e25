// Nets with parameters: a net that fills them and one that uses them, tags, sharing, default arguments, and layer functions
// that run the library's layers.
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

/// Kind of a parameter: a weight, which decays, a bias, or a computed one, which no optimizer changes.
export enum class parameter_tag : std::uint8_t { weight, bias, computed };

struct parameter_info {
  std::string name;
  value at;  // in the model's net
  parameter_tag tag = parameter_tag::weight;
  value gradient{};  // after add_gradient_operators; of a weight or bias that the loss depends on
  bool updated = false;
  bool frozen = false;  // updates pass it over
};

/// Any fill.
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
/// Any layer of one input and no parameters, as an activation.
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
/// layer's own default. A layer takes the arguments that it knows.
export struct arguments {
  std::string name{};             // of the layer; by default from the function: `fc`, `fc_auto_0`
  graph::model* model = nullptr;  // by default the model of the innermost model::scope
  std::optional<extent2d> kernel{}, stride{}, padding{}, dilation{};
  std::optional<std::int64_t> groups{}, size{};
  std::optional<bool> bias{};
  std::optional<double> probability{}, epsilon{}, momentum{}, alpha{}, beta{};
  fill_rule weight_fill{}, bias_fill{};
  activation_rule activation{};
};

/// Default arguments for calls of one layer function in this thread, while it lives: `arg_scope
/// small("conv", {.kernel = 3});`. Scopes nest.
export class arg_scope {
 public:
  /// Errors: value_error for a function that there is not, with the nearest, or that does not take an argument; for `name` and
  /// `model`, which belong to a call.
  arg_scope(std::string_view function, const arguments& a, const origin& = {});
  ~arg_scope();
  arg_scope(const arg_scope&) = delete;
  arg_scope& operator=(const arg_scope&) = delete;
};
/// Shares the parameters of two scopes while it lives: `parameter_sharing both({{"b", "a"}});` makes `b/w` the
/// parameter `a/w`. Both names are relative to the present name scope: within `net/` it makes `net/b/w` the
/// parameter `net/a/w`. An empty second name is the present scope itself: `{"b", ""}` makes `b/w` the parameter `w`. Of
/// several matching names the longest counts, of the innermost sharing first; the result is looked up again until it does
/// not change. Layers without names are counted in their own scope: the second `fc` of `b` has the parameters of the
/// second one of `a`.
/// Errors: value_error for an empty first name, and where a name leads back to itself or into itself. Where layers with
/// parameters were made while it lived, and none of them by one of its first names, the next use of their model raises a
/// value_error that names it, once.
export class parameter_sharing {
 public:
  explicit parameter_sharing(const renaming& names, const origin& = {});
  ~parameter_sharing();
  parameter_sharing(const parameter_sharing&) = delete;
  parameter_sharing& operator=(const parameter_sharing&) = delete;

 private:
  int errors_;  // under way when it began
};

/// A name, and where in the user's code it stands.
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
  bool training = true;         // dropout drops, and batch norms take and keep statistics
  bool fill_parameters = true;  // false: they are in the workspace already
};
/// How parameters are updated.
export struct update_options {
  std::optional<parameter_tag> tag{};  // only parameters with this tag
  optim::regularizer regularizer{};
  double max_gradient_norm = 0;  // above 0: gradients of these parameters are clipped together
  value rate{};                  // else the optimizer's `lr` throughout
  // The rate times the number in the blob `lr_injection`, which is 1 until a workspace is fed another one.
  bool allow_lr_injection = false;
  // Gradients that are sums of looked-up rows update those rows alone, and theirs of the slots, in place; rows that were
  // looked up more than once have their gradients summed first. Weight decay and the regularizer see these rows alone.
  bool by_rows = false;
};

namespace detail {
// Run of a layer in a net, the part that is no template.
class layer_run {
 public:
  layer_run(graph::model& m, std::string_view function, const arguments& call);
  ~layer_run();
  layer_run(const layer_run&) = delete;
  layer_run& operator=(const layer_run&) = delete;
  const arguments& given() const { return given_; }
  /// An operand. Of another program than the model's net it is an error of a layer with parameters alone.
  void takes(const value& x);
  /// Runs the layer: its parameters become the model's, its inference is kept beside its training where they differ, and the
  /// result gets its activation.
  value run(const std::function<value(const trace_scope&)>& forward);

 private:
  void keep_parameters();
  graph::model& model_;
  const program* foreign_ = nullptr;  // program of an operand that is not of the net
  std::string function_, name_, own_name_, shared_name_, outer_path_;
  arguments given_;
  name_map names_;
  parameter_store store_;
  trace_walk walk_;
  std::size_t assigned_;
};
}  // namespace detail

/// A net with parameters, and the net that fills them.
export class model {
 public:
  explicit model(std::string_view name, const model_options& = {});
  /// Made from existing nets, as read from a file: parameters are blobs of `main`.
  model(net main, net init, const model_options& options, std::vector<parameter_info> parameters);
  model(const model&) = delete;
  model& operator=(const model&) = delete;
  ~model();

  /// The net, `<name>`, and the one that fills its parameters, `<name>_init`.
  net& main();
  net& init();
  const net& main() const;
  const net& init() const;
  const model_options& options() const;
  /// A blob that the workspace holds.
  value input(std::string_view name, const tensor_type& type, const origin& = {}) {
    return main().external(name, type);
  }

  /// A parameter, in the present name scope: asked for twice it is the same. Errors: shape_error if its shape is not.
  value parameter(std::string_view name, const shape& dims, const fill_rule& fill,
                  parameter_tag tag = parameter_tag::weight, const origin& = {});
  std::vector<parameter_info> parameters(std::optional<parameter_tag> tag = std::nullopt,
                                         std::string_view beginning = {}) const;
  /// Whether updates that are added later pass over the weights and biases whose names are of a pattern, in which `*` stands for any
  /// letters and `?` for one; gives their names. `freeze(m, "stem*")` and `unfreeze` call it. Errors: value_error for a pattern that
  /// fits none; state_error for a parameter that has its update already; nothing is changed then.
  std::vector<std::string> set_frozen(view<const std::string_view> patterns, bool on, const origin& = {});
  /// Default arguments of layers, after the call and arg_scope. Errors: as arg_scope.
  void defaults(std::string_view function, const arguments& a, const origin& = {});

  /// Gradients of all parameters that the targets depend on; once. Errors: state_error the second time.
  const gradient_map& add_gradient_operators(const std::vector<gradient_target>& targets, const origin& = {});
  template <std::same_as<value> Target>
  const gradient_map& add_gradient_operators(const Target& target, const origin& at = {}) {
    return add_gradient_operators(std::vector<gradient_target>{target}, at);
  }
  /// Updates parameters that have a gradient and were not updated yet, in each run. Slots are blobs of the name
  /// `<parameter>_<slot>`. Errors: state_error before there are gradients, and where nothing is left to be updated;
  /// value_error for `by_rows` with an optimizer that is no RowOptimizer, or with clipping, and for numbers of the optimizer,
  /// the regularizer or the options that are not finite or below 0.
  template <Optimizer O> void add_updates(const O& optimizer, const update_options& o = {}, const origin& = {}) {
    lamina::detail::check_optimizer(optimizer);
    add_updates(update_rule::of(optimizer), optimizer.lr, RowOptimizer<O>, o);
  }
  /// The net that computes blobs from others at inference, with the parameters that it needs as external blobs. Layers that
  /// were added for training run as at inference: dropout passes its input on, batch norm takes running statistics.
  net predictor(std::string_view name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                const origin& = {}) const;

  /// Makes a model the one that layer functions of this thread work on, while it lives. Scopes nest.
  class scope {
   public:
    explicit scope(model& m);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    model* outer_;
  };
  /// The model of the innermost scope. Errors: state_error where there is none.
  static model& current();

  /// Runs any layer of one output. Its own weight and bias are `<name>_w` and `<name>_b`, running statistics `<name>_rm` and
  /// `<name>_riv`; other parameters have the names that PyTorch gives them, `<name>.<parameter>`. Errors: state_error where
  /// one of these names belongs to a blob that is no parameter.
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

/// Keeps weights and biases as they are, by patterns of their names: `freeze(m, "stem*")`, before `add_updates`. Gives their names.
/// Errors: as `model::set_frozen`.
export template <std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> freeze(model& m, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return m.set_frozen(all, true);
}
/// Has updates that are added later change them again. Errors: as `freeze`.
export template <std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> unfreeze(model& m, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return m.set_frozen(all, false);
}

// ---- layer functions ------------------------------------------------------------------------------------------------
// Each belongs to the model of its arguments or of the innermost scope. Weights are `<name>_w`, filled by `xavier`, biases
// `<name>_b`, filled with 0, where the arguments do not say otherwise. Errors: value_error for arguments that a layer does
// not take; state_error where a parameter has the name of another blob; errors of the layers.

/// Rows of features times weights [out, in], plus a bias.   Arguments: bias, weight_fill, bias_fill, activation.
export value fc(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// Cross-correlation of images [N, C, H, W] with filters [out, C, KH, KW].   Arguments: as fc, and kernel (3), stride, padding,
/// dilation.
export value conv(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// The same in groups of channels; `groups` must be said.
export value group_conv(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// The adjoint of a convolution, with weights [C, out, KH, KW].
export value conv_transpose(const value& x, std::int64_t out, const arguments& a = {}, const origin& = {});
/// Largest, or mean, of each window.   Arguments: kernel (2), stride (the kernel size), padding.
export value max_pool(const value& x, const arguments& a = {}, const origin& = {});
export value average_pool(const value& x, const arguments& a = {}, const origin& = {});
/// Batch norm of channels: weight `_s`, bias `_b`, running statistics `_rm` and `_riv`, which are computed parameters.
/// Arguments: epsilon (1e-5), momentum (0.9): how much of the running statistics stays.
export value spatial_bn(const value& x, const arguments& a = {}, const origin& = {});
/// Rows of the last axis to mean 0 and variance 1, scaled and shifted.   Arguments: epsilon (1e-5).
export value layer_norm(const value& x, const arguments& a = {}, const origin& = {});
/// The same for each channel of each image.   Arguments: epsilon (1e-5).
export value instance_norm(const value& x, const arguments& a = {}, const origin& = {});
/// x / (bias + alpha / size * sum of squares over `size` channels around)^beta, with bias 1.
/// Arguments: size (5), alpha (1e-4), beta (0.75).   Source: Krizhevsky et al. (2012).   Errors: shape_error for other than images.
export value lrn(const value& x, const arguments& a = {}, const origin& = {});
/// In training, zeroes with a probability (0.5) and scales the others.
export value dropout(const value& x, const arguments& a = {}, const origin& = {});
/// max(x, 0) + slope min(x, 0) with a slope per channel, `<name>_slope`, filled with 0.25.
export value prelu(const value& x, const arguments& a = {}, const origin& = {});
/// Rows of a table [num_embeddings, embedding_dim], `<name>_w`, by positions of int64.
export value embedding(const value& ids, std::int64_t num_embeddings, std::int64_t embedding_dim,
                       const arguments& a = {}, const origin& = {});
/// All positions of sequences [T, N, in] -> [T, N, hidden]; parameters `<name>.weight_ih_l0` and so on, as
/// PyTorch names them.
export value rnn(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
export value gru(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
export value lstm(const value& x, std::int64_t hidden, const arguments& a = {}, const origin& = {});
/// Which part of the largest scores [N, C] is at the labels [N]: float [].   Errors: shape_error for labels of another shape.
export value accuracy(const value& scores, const value& labels, const origin& = {});
/// Values one behind the other along an axis, and their sum.
export value concat(const std::vector<value>& x, std::int64_t axis = 1, const origin& = {});
export value sum(const std::vector<value>& x, const origin& = {});
/// Products of matrices side by side, either of them turned.
export value batch_mat_mul(const value& a, const value& b, bool transpose_a = false, bool transpose_b = false,
                           const origin& = {});

}  // namespace lamina::graph
