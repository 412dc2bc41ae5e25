// Training: batches, epochs, validation, observers and checkpoints.
export module lamina:train;
import :core;
import :data.batch;
import :data.change;
import :data.loader;
import :data.set;
import :dtype;
import :model;
import :op.weighted_loss;
import :parameter;
import :passes;
import :product_type;
import :program;
import :reference;
import :session;
import :shape;
import :tensor;
import :topology.check;
import :train.metric;
import :train.observe;
import :train.optim;
import :train.precision;
import :train.replicas;
import lamina.std;

namespace lamina {

/// Loss for nets with several outputs or targets.
template <class L>
concept LossOfLists = requires(const L& loss, view<const value> v) {
  { loss(v, v) } -> std::convertible_to<value>;
};
/// Loss for nets with one output and one target.
template <class L>
concept LossOfPairs = requires(const L& loss, const value& v) {
  { loss(v, v) } -> std::convertible_to<value>;
};
/// Loss with three or four operands: the outputs in order, then the targets.
template <class L>
concept LossOfThree = requires(const L& loss, const value& v) {
  { loss(v, v, v) } -> std::convertible_to<value>;
};
template <class L>
concept LossOfFour = requires(const L& loss, const value& v) {
  { loss(v, v, v, v) } -> std::convertible_to<value>;
};
/// A loss: a callable that returns a value of rank 0. Operands: the output of a model and the targets of a batch; three
/// or four outputs and targets; or the lists of all outputs and all targets.
export template <class L>
concept Loss = std::copyable<L> && (LossOfPairs<L> || LossOfThree<L> || LossOfFour<L> || LossOfLists<L>);
/// The loss of one batch, and how losses of several batches combine. A loss class may have these members beside its
/// call operator: `weight`, with the same operands, is the divisor of the mean and must not depend on the outputs;
/// `reduction` equal to `loss_reduction::sum` means that there is no mean; `ignore_index` marks targets that are left
/// out.
struct loss_terms {
  value loss{};         // one number
  value weight{};       // one number; empty: the number of samples
  bool is_sum = false;  // losses of batches are summed
  std::optional<std::int64_t> ignore_index{};
  loss_terms() = default;
  loss_terms(value l) : loss(l) {}
};
template <class L> struct loss_check {
  static consteval text message() {
    text t;
    if constexpr (!Loss<L>)
      t << "the loss is `" << type_name<L>()
        << "`; it must be callable as loss(output, targets) and return a value, like loss::cross_entropy{}, or with a "
           "view<const value> of each if there are several";
    return t;
  }
};
template <class O> struct optimizer_check {
  static consteval text message() {
    text t;
    if constexpr (!Optimizer<O>)
      t << "the optimizer is `" << type_name<O>()
        << "`; it must have a rate `lr` and a member `step(scope, w, g)` that returns a value, like optim::sgd{}";
    return t;
  }
};

/// Checks that `M` can be trained.
template <class M> struct trained_check {
  static consteval text message() {
    using net = std::remove_cvref_t<M>;
    text t;
    if constexpr (requires { net::sharing_name; })
      t = detail::shares_weights<net::sharing_name, "be trained">::message();
    else if constexpr (!is_model<net> && !std::same_as<net, model_core>)
      t << "cannot train `" << type_name<net>() << "`; expected a model";
    else if constexpr (std::is_const_v<std::remove_reference_t<M>>) t << "the model is const, and training changes it";
    return t;
  }
};

/// Thrown by training for a loss, gradient or parameter that is not finite.
export class not_finite_error : public value_error {
 public:
  using value_error::value_error;
  ~not_finite_error() override;
};

/// Options of `fit`. Members used more often come first.
export struct fit_options {
  std::int64_t epochs = 1, batch = 64;           // in all, also if resumed; samples per batch
  optim::schedule schedule = optim::constant{};  // learning rate over the steps
  std::optional<sample_source> validation{};     // evaluated after each epoch
  lamina::observer observer{};                   // called after each batch and epoch; may end training
  std::int64_t seed = 0;                         // seed of the sample order
  int threads = 0;                               // 0: the thread count of the model
  std::string checkpoint{};                      // file, written after every epoch and when an observer ends training
  bool resume = false;                           // continue from `checkpoint`, which must be given, if the file exists
  /// Number of background threads that read samples, and the maximum of batches that they read ahead. 0 threads: the
  /// training threads read each batch before its step. The results are bitwise the same for any value.
  int read_threads = 0, read_ahead = 2;
  /// Whether an unusable sample ends training, or is skipped and counted in the report. Unusable: reading fails, a
  /// class unknown to the loss, an index outside a table, a shape that the model does not take, a NaN, or an infinite
  /// target. Validation samples are counted separately.
  sample_failure on_error = sample_failure::raise;
  /// Number of shards, a power of two, that each batch is split into. Gradients are computed shard by shard, which
  /// takes the memory of one shard, and summed pairwise; batch statistics are computed per shard and averaged. 0: one,
  /// or 8 with replicas.
  std::int64_t shards = 0;
  /// Processes that train this model together. Each computes a part of the shards, so results equal bitwise those of
  /// one process with as many shards. The number of processes must divide the number of shards. Weights and the
  /// checkpoint position come from rank 0, which alone notifies its observer and writes the checkpoint.
  std::shared_ptr<lamina::replicas> replicas{};
  /// Approximate bucket size in bytes for the gradient exchange between replicas: buckets of the last layers are sent
  /// first, while the last shard of the process still computes. Does not affect the results. 0: one exchange after that
  /// shard.
  std::int64_t bucket_bytes = std::int64_t(25) << 20;
  /// Number of batches per update, 1 to 4096. Gradients are summed as those of shards, so an update takes the memory of
  /// one batch and equals an update on one batch of all the samples; the last update of an epoch may have fewer
  /// batches. Observers, schedules and checkpoints count updates. With n a power of two and n whole batches the result
  /// equals bitwise `.batch = n * batch, .shards = n * shards`.
  std::int64_t accumulate = 1;
  /// Also checks the gradients of each batch before its update, at the cost of another pass over them. A gradient that
  /// is not finite then ends training at once, as a loss does, not at the next batch.
  bool check_gradients = false;
  /// Each replica keeps the optimizer slots of its own part of the parameters, updates only those, and sends them to
  /// the others. Parts consist of whole parameters and are balanced by bytes. Results and checkpoints are the same;
  /// afterwards, `gather_slots` collects all slots in each process. No effect without replicas.
  bool shard_optimizer = false;
  /// Rounding of float32 operands of products, loss scaling, recomputation in the backward pass: as in `step_options`.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  /// Padding value per field for shorter samples in a batch, also for validation data. Fields without one are padded
  /// with zeros, or, for the first target, with the value that the loss ignores, such as its `ignore_index`.
  std::vector<std::optional<double>> fill{};
  /// Drops the samples at the end of an epoch that do not fill a batch.
  bool drop_last = false;
  /// Bucket of sample i, the same in every epoch; a batch has samples of one bucket. `dataset::length_buckets` makes
  /// such a function. Incomplete batches come last. With `accumulate`, there must be none: use `drop_last`.
  std::function<std::int64_t(std::int64_t)> bucket_by{};
  /// Transforms each training batch before its step, such as `augment::batch_mixup{.classes = 10}`; validation batches
  /// are left alone. It receives whole batches even with shards: each process reads every batch of which it has shards.
  /// Results do not depend on the number of threads.
  batch_change change_batches{};
};

/// Collects in each process the optimizer slots that other processes keep after training with `.shard_optimizer`.
/// Collective: all processes must call it.
/// Errors: state_error for a slot that no process has, or that several but not all have.
export void gather_slots(parameter_store& store, replicas& all);

/// Loss and accuracy over a data set, as if it were one batch, and the number of skipped samples.
export struct evaluation {
  double loss = 0, accuracy = 0;
  std::int64_t skipped = 0;
};

/// Options of `evaluate` and `predict`.
export struct evaluation_options {
  std::int64_t batch = 256;
  /// Whether an unusable sample is an error or is skipped, as in `fit_options`.
  sample_failure on_error = sample_failure::raise;
};

/// Implementation of `fit` and `evaluate` without static types.
export class trainer {
 public:
  struct loss_rule {
    std::function<loss_terms(view<const value> outputs, view<const value> targets)> call{};
    std::optional<double> target_fill{};  // padding of the first target, if the loss defines one
    loss_rule() = default;
    template <class F> requires(!std::same_as<F, loss_rule>) && requires(const F& f, view<const value> v) {
      { f(v, v) } -> std::convertible_to<loss_terms>;
    } loss_rule(F f, std::optional<double> fill = {}) : call(std::move(f)), target_fill(fill) {}
    loss_terms operator()(view<const value> outputs, view<const value> targets) const { return call(outputs, targets); }
    explicit operator bool() const { return static_cast<bool>(call); }
  };
  using step_rule = update_rule;
  trainer(model_core& net, loss_rule loss, step_rule step, double rate);
  ~trainer();
  training_report fit(const sample_source& data, const fit_options& o);
  /// Loss and accuracy without training.
  evaluation evaluate(const sample_source& data, std::int64_t batch, int threads,
                      sample_failure on_error = sample_failure::raise);
  /// Program of one training step; before `fit`, for targets that are one class per sample.
  const program& step_program() const;
  /// Describes the plan of a training step for a batch.
  std::string explain(std::int64_t batch) const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

namespace detail {
/// Raises the value_error for a number of outputs and targets that the loss does not take.
[[noreturn]] void refuse_lists(std::string_view taken, std::size_t outputs, std::size_t targets);
/// Calls a loss with the number of operands that it takes.
template <class L> value loss_of_operands(const L& loss, view<const value> outputs, view<const value> targets) {
  [[maybe_unused]] const auto operand = [&](std::size_t i) -> const value& {
    return i < outputs.size() ? outputs[i] : targets[i - outputs.size()];
  };
  [[maybe_unused]] const std::size_t count = outputs.size() + targets.size();
  if constexpr (LossOfPairs<L>)
    if (count == 2) return value(loss(operand(0), operand(1)));
  if constexpr (LossOfThree<L>)
    if (count == 3) return value(loss(operand(0), operand(1), operand(2)));
  if constexpr (LossOfFour<L>)
    if (count == 4) return value(loss(operand(0), operand(1), operand(2), operand(3)));
  if constexpr (LossOfLists<L>) return value(loss(outputs, targets));
  else
    refuse_lists(LossOfPairs<L>   ? "one output and one target"
                 : LossOfThree<L> ? "three operands"
                                  : "four operands",
                 outputs.size(), targets.size());
}
/// `weight` of a loss, as a function of its operands.
template <class L> struct weight_of_loss {
  L loss;
  template <class... V> requires requires(const L& l, const V&... v) {
    { l.weight(v...) } -> std::convertible_to<value>;
  } value operator()(const V&... v) const {
    return loss.weight(v...);
  }
};
/// Padding of the first target that the loss ignores: its `target_fill()`, else its `ignore_index`.
template <class L> std::optional<double> target_fill_of(const L& loss) {
  if constexpr (requires {
                  { loss.target_fill() } -> std::convertible_to<std::optional<double>>;
                })
    return loss.target_fill();
  else if constexpr (requires {
                       { loss.ignore_index } -> std::convertible_to<std::optional<std::int64_t>>;
                     }) {
    const std::optional<std::int64_t> ignored = loss.ignore_index;
    return ignored ? std::optional<double>(static_cast<double>(*ignored)) : std::nullopt;
  } else if constexpr (requires { loss.loss; }) return target_fill_of(loss.loss);
  else return std::nullopt;
}
template <Loss L> trainer::loss_rule loss_rule_of(const L& loss) {
  const auto call = [loss](view<const value> outputs, view<const value> targets) {
    loss_terms t(loss_of_operands(loss, outputs, targets));
    if constexpr (Loss<weight_of_loss<L>>) t.weight = loss_of_operands(weight_of_loss<L>{loss}, outputs, targets);
    if constexpr (requires { requires std::same_as<std::remove_cvref_t<decltype(loss.reduction)>, loss_reduction>; })
      t.is_sum = loss.reduction == loss_reduction::sum;
    if constexpr (requires { std::optional<std::int64_t>(loss.ignore_index); }) t.ignore_index = loss.ignore_index;
    return t;
  };
  return {call, target_fill_of(loss)};
}
template <Optimizer O> trainer::step_rule step_rule_of(const O& o) { return update_rule::of(o); }
/// The part of a model that is not a template; a net from a file is a `model_core` itself.
template <class M> auto& trained_core(M& net) {
  if constexpr (std::same_as<std::remove_const_t<M>, model_core>) return net;
  else return net.core();
}
}  // namespace detail

/// Trains a model, or a net from a file: `auto net = core_of(load_net("lenet")); fit(net, ...)`. Sample fields are the
/// inputs of the model, then the targets of the loss: an image and its class, two sentences and a number. If every
/// input has the name of a field, inputs are matched by name and the remaining fields are the targets, in order;
/// otherwise inputs come first, in order. Real targets are converted to the type of the model's output, integers to
/// int64. Parameters that are not `trainable` stay bitwise unchanged. The sample order depends on seed and epoch only;
/// the last, smaller batch counts too. With a weighted loss, shards, replicas and the batches of an update are combined
/// by weight (see `loss_terms`); an update whose targets are all ignored has loss and gradients of 0. Results are
/// bitwise the same for any number of threads.
/// If the checkpoint is of a completed training, its states and report are restored and nothing is trained.
/// Errors: shape_error if data and model do not match; value_error if a field has the name of one input and the
/// position of another; type_error if a field's element type cannot be converted to that of the model's input (a real
/// type takes integers and reals); state_error if no parameter is trainable; value_error for an operation without a
/// gradient, for a label outside the model's classes, for a rate that is not a finite number >= 0 or another invalid
/// number of the optimizer or schedule, for `resume` without `checkpoint`, for invalid step options, for a checkpoint
/// with another seed, batch size, number of shards, number of images or with more epochs, and for numbers of shards or
/// replicas that are not powers of two or do not match each other; not_finite_error, a value_error, for a loss or a
/// parameter that is not finite: its message names the batch and the first result that is not finite, and if that is
/// the loss, the model is as the previous batch left it; sample_error for a sample that cannot be read; file_error;
/// stopped_error by a `stop_scope`: the model is as the last whole step left it, and the checkpoint as the last whole
/// epoch left it.
// `M` is unconstrained, so that one candidate reports every mismatch.
export template <class M, class D, class L, class O>
requires accepted<diagnostic<trained_check<M>>()> && accepted<diagnostic<detail::source_check<D>>()> &&
         accepted<diagnostic<loss_check<L>>()> && accepted<diagnostic<optimizer_check<O>>()>
training_report fit(M&& net, const D& data, const L& loss, const O& optimizer, const fit_options& options = {}) {
  detail::check_optimizer(optimizer);
  return trainer(detail::trained_core(net), detail::loss_rule_of(loss), detail::step_rule_of(optimizer), optimizer.lr)
      .fit(source_of(data), options);
}

/// Options of `training`, for custom training loops.
export struct training_options {
  /// Number of batches per update, 1 to 4096. All batches have equal weight; the update happens after the last one.
  /// With batches of one size, an update equals one on a batch of all their samples, bitwise as with `accumulate` in
  /// `fit`.
  std::int64_t accumulate = 1;
  /// Rounding of float32 operands of products, loss scaling, recomputation in the backward pass: as in `step_options`.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  /// Processes that train this model together; their number is a power of two. Each passes its own batches, which have
  /// equal weight, and takes the same number of steps; an update uses the batches of all. Before the first step, all
  /// take the weights of rank 0. A process that fails ends all.
  std::shared_ptr<lamina::replicas> replicas{};
};

class shard_steps;
class state_copies;
class batch_operands;
class sample_checks;
/// Implementation of `training` without static types.
class training_core {
 public:
  training_core(model_core& net, trainer::loss_rule loss, trainer::step_rule step, double rate,
                const training_options& o);
  /// One step on a batch: the model's inputs, then the targets. Returns the loss before the step. On one thread, a step
  /// with known extents allocates nothing, unless batches are accumulated.
  double run(view<const shape> extents, view<const void* const> data, view<const dtype> targets);
  double run(const sample_batch& batch);
  double rate() const { return rate_; }
  /// Errors: value_error unless it is a finite number >= 0.
  void rate(double r);
  std::size_t arena_bytes() const { return arena_bytes_; }
  scaling_state scaling() const;

 private:
  void here() const;
  void trace_for(view<const tensor_type> targets);
  double run_once(view<const void* const> data);
  model_core& net_;
  trainer::loss_rule loss_;
  trainer::step_rule step_;
  step_options how_;
  double rate_ = 0;
  std::int64_t accumulate_;
  std::shared_ptr<replicas> others_;
  std::size_t arena_bytes_ = 0;
  std::vector<shape> extents_;        // of the operands of the last step, then of the rate
  std::vector<tensor_type> targets_;  // types that the programs were traced for
  std::uint64_t parameters_ = 0;      // identity of the parameters that they were traced with
  session session_;
  std::shared_ptr<shard_steps> group_;    // used if several batches make an update; else `session_`
  std::shared_ptr<state_copies> before_;  // used if an update takes several gradients
  std::shared_ptr<batch_operands> operands_;
  std::shared_ptr<const sample_checks> checks_;
};

/// Trains a model step by step, for custom loops: `training step(net, loss::cross_entropy{}, optim::adam{.lr = 1e-3});
/// double l = step(x, labels);`. The model is changed in place and must outlive the `training`. Another model may be
/// assigned to it between steps: the next step continues from that model, with its optimizer slots or, if it has none,
/// new ones, and starts a new update. docs/training.md has a whole program.
/// Errors: value_error for a number of the optimizer or the options that is not finite or out of range.
export template <class Model> class training {
 public:
  using model_type = Model;
  using traits = typename model_type::traits;
  template <class... X> static constexpr bool is_batch =
      sizeof...(X) == 1 && (std::same_as<std::remove_const_t<X>, sample_batch> && ...);
  /// Message about operands that a step does not take.
  template <class... X> struct step_check {
    static consteval text message() {
      if constexpr (is_batch<X...>) return text();
      else if constexpr (!(detail::InMemory<X> && ...))
        return detail::memory_mismatch<X...>("training: operand ", "step");
      else {
        const dtype given[] = {dtype_of<typename X::element_type>..., dtype::float32};
        text t;
        if (sizeof...(X) < traits::inputs + 1)
          t << "training: a step takes " << traits::inputs << (traits::inputs == 1 ? " input" : " inputs")
            << " and the targets; got " << sizeof...(X) << (sizeof...(X) == 1 ? " operand" : " operands");
        else
          for (std::size_t i = 0; i < traits::inputs && t.empty(); ++i)
            if (given[i] != traits::elements[i])
              t << "training: input " << i << " of the model is " << traits::elements[i] << "; got " << given[i];
        return t;
      }
    }
  };
  template <class L, class O> requires accepted<diagnostic<trained_check<Model>>()> &&
                                       accepted<diagnostic<loss_check<L>>()> &&
                                       accepted<diagnostic<optimizer_check<O>>()>
  training(Model& net, const L& loss, const O& optimizer, const training_options& options = {})
      : core_(net.core(), detail::loss_rule_of(loss), detail::step_rule_of(optimizer), optimizer.lr, options) {
    detail::check_optimizer(optimizer);
  }
  /// One step: the model's inputs in order, then one or several targets; or a `sample_batch` with these fields: `for
  /// (auto& b : batches) step(b)`. Returns the loss of this batch before the step. On one thread, a step with known
  /// extents allocates nothing, unless batches are accumulated.
  /// Errors: shape_error for extents that do not match, including targets that a loss would have to broadcast;
  /// value_error for a label outside the classes, naming label and sample, and for targets that the loss does not take
  /// or that change type or rank within an update; sample_error for a sample of a `sample_batch` that the model or the
  /// loss cannot take; stopped_error by a `stop_scope`: nothing has changed then. A failed batch is not counted; a
  /// stopped update drops its batches.
  template <class... X> requires accepted<diagnostic<step_check<X...>>()> double operator()(const X&... x) {
    if constexpr (is_batch<X...>) return core_.run(x...);
    else {
      constexpr dtype given[] = {dtype_of<typename X::element_type>...};
      const shape extents[] = {x.shape()...};
      const void* const data[] = {x.data().data()...};
      return core_.run({extents, sizeof...(X)}, {data, sizeof...(X)},
                       {given + traits::inputs, sizeof...(X) - traits::inputs});
    }
  }
  double rate() const { return core_.rate(); }
  /// Sets the learning rate from the next step on. Errors: value_error unless it is a finite number >= 0.
  void rate(double r) { core_.rate(r); }
  /// Peak memory of the results of the last step, in bytes; 0 before the first step.
  std::size_t arena_bytes() const { return core_.arena_bytes(); }
  /// Scale of the next step's loss, 0 without loss scaling; and the number of steps whose gradients were not finite.
  double loss_scale() const { return core_.scaling().scale; }
  std::int64_t skipped_updates() const { return core_.scaling().skipped; }

 private:
  training_core core_;
};

namespace detail {
template <class O> inline constexpr bool is_evaluated_by = std::integral<O> || std::same_as<O, evaluation_options>;
}
/// Loss and accuracy of a model, or of a net from a file, over a data set, independent of the batch size:
/// `evaluate(net, test, loss::cross_entropy{}, {.batch = 64})`. The loss equals that of one batch of all samples: a
/// mean over samples or over the weights of the loss, or a sum. The accuracy is defined for classes [N] and outputs [N,
/// C], by the largest output, without classes that the loss ignores; otherwise it is NaN. An integer in place of
/// options is the batch size. Errors: as for `fit`; value_error if all samples were skipped.
export template <class M, class D, class L, class Options = evaluation_options>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()> && accepted<diagnostic<loss_check<L>>()> &&
        detail::is_evaluated_by<Options>
evaluation evaluate(M& net, const D& data, const L& loss, const Options& options = {}) {
  evaluation_options o;
  if constexpr (std::integral<Options>) o.batch = static_cast<std::int64_t>(options);
  else o = options;
  return trainer(detail::trained_core(net), detail::loss_rule_of(loss), nullptr, 0)
      .evaluate(source_of(data), o.batch, 0, o.on_error);
}

/// Outputs for a data set from which samples may have been skipped.
struct predictions {
  std::vector<any_tensor> outputs;  // one row per sample that was used
  /// Sample indices of the rows: row r of each output belongs to sample samples[r] of the data set.
  std::vector<std::int64_t> samples;
  std::vector<left_out_sample> left_out;  // skipped samples, in order
};

namespace detail {
using result_taker = std::function<void(view<const any_tensor> outputs, view<const any_tensor> targets)>;
/// Calls f(outputs, targets) for each batch of a data set, in order: outputs of inference, and the fields that are not
/// inputs. `probe`, if given, raises the error that `f` would raise and changes nothing: it finds the samples that `f`
/// cannot take. Returns the skipped samples.
std::vector<left_out_sample> each_result(model_core& net, const sample_source& data, const evaluation_options& o,
                                         const result_taker& f, const result_taker& probe = {});
predictions predicted(model_core& net, const sample_source& data, const evaluation_options& o);
/// Adds a batch to a metric: the output and target that it names, else the first of each.
template <class M>
void add_chosen(M& m, view<const std::string> names, view<const any_tensor> outputs, view<const any_tensor> targets) {
  if constexpr (requires { m.operands(names, targets.size()); }) {
    const auto [output, target] = m.operands(names, targets.size());
    m.add(outputs[output], targets[target]);
  } else m.add(outputs[0], targets[0]);
}
/// Errors: value_error if a metric names an output or a target that does not exist.
template <class M> void check_chosen(const M& m, view<const std::string> names, std::size_t targets) {
  if constexpr (requires { m.operands(names, targets); }) static_cast<void>(m.operands(names, targets));
}
/// Names of the outputs of a model.
std::vector<std::string> output_names(const model_core& net);
/// Adds all batches to metrics: the outputs and targets that each names, else the first ones. Returns the skipped
/// samples.
template <class... Metrics> std::vector<left_out_sample> measure(model_core& net, const sample_source& data,
                                                                 const evaluation_options& o, Metrics&... metrics) {
  // Checked once up front: a wrong name is not the fault of a sample.
  const std::size_t fields = data.fields().size(), inputs = net.definition().inputs.size();
  const auto names = output_names(net);
  const view<const std::string> named(names.data(), names.size());
  if (fields > inputs) (check_chosen(metrics, named, fields - inputs), ...);
  const std::tuple<Metrics...> unused(metrics...);
  return each_result(
      net, data, o,
      [&](view<const any_tensor> outputs, view<const any_tensor> targets) {
        (add_chosen(metrics, named, outputs, targets), ...);
      },
      [&](view<const any_tensor> outputs, view<const any_tensor> targets) {
        auto copies = unused;
        std::apply([&](auto&... m) { (add_chosen(m, named, outputs, targets), ...); }, copies);
      });
}
}  // namespace detail

/// Name and value of a metric.
struct metric_value {
  std::string name;
  double value = 0;
};

/// Metrics of a model, or of a net from a file, over a data set: `evaluate(net, test, metric::accuracy{},
/// metric::f1{})`. Each receives the first output and the first target of all batches, or those that it names, as
/// `metric::of("kind", 1, metric::accuracy{})`. Errors: as for `fit` and for the metrics; value_error for an output or
/// a target that does not exist.
export template <class M, class D, Metric... Metrics>
requires(sizeof...(Metrics) > 0) &&
        (is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()> std::vector<metric_value> evaluate(M& net, const D& data,
                                                                                           Metrics... metrics) {
  detail::measure(detail::trained_core(net), source_of(data), {}, metrics...);
  return {{std::string(metrics.name()), metrics.value()}...};
}
/// Metrics over a data set from which samples may have been skipped.
struct metric_report {
  std::vector<metric_value> values;
  std::vector<left_out_sample> left_out;
};
/// The same with options, which may skip samples that the model or a metric cannot use: `evaluate(net, test, {.on_error
/// = sample_failure::skip}, metric::accuracy{})`.
export template <class M, class D, Metric... Metrics>
requires(sizeof...(Metrics) > 0) &&
        (is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()> metric_report
    evaluate(M& net, const D& data, const evaluation_options& o, Metrics... metrics) {
  auto left_out = detail::measure(detail::trained_core(net), source_of(data), o, metrics...);
  return {{{std::string(metrics.name()), metrics.value()}...}, std::move(left_out)};
}
/// Outputs of a model, or of a net from a file, for all samples of a data set, along the first axis. Fields after the
/// inputs are ignored.
/// Errors: as for `fit`; shape_error for outputs whose extents differ between batches.
export template <class M, class D>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()>
std::vector<any_tensor> predict(M& net, const D& data, std::int64_t batch = 256) {
  return detail::predicted(detail::trained_core(net), source_of(data), {.batch = batch}).outputs;
}
/// The same with options, which may skip unusable samples; targets are ignored. The result has the sample of each row:
/// `predict(net, data, {.on_error = sample_failure::skip}).samples`.
export template <class M, class D>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()>
predictions predict(M& net, const D& data, const evaluation_options& o) {
  return detail::predicted(detail::trained_core(net), source_of(data), o);
}

/// Position of a checkpoint in its training, and what a checkpoint stores besides the states of the model.
struct checkpoint_position {
  std::int64_t epoch = 0, batch = 0, step = 0,
               seed = 0;  // complete epochs, batches of the next one, all batches; seed of the sample order
  std::int64_t batch_size = 0, images = 0;  // samples per batch, samples in the data set; 0: unknown
  std::int64_t shards = 1;                  // of each batch
  std::vector<epoch_report> epochs{};       // reports so far, including the current epoch
  std::vector<double> schedule{};           // state of the schedule, if it has one
  bool ended = false;                       // an observer ended training after the last completed epoch
  std::vector<named_tensor> observers{};    // state of observers
};
/// Writes everything needed to resume training as safetensors, atomically: parameters, running statistics, optimizer
/// slots, the random generator's state and the position.
/// Errors: file_error; state_error for slots that another process keeps.
export void save_checkpoint(const parameter_store& store, const checkpoint_position& at, const std::string& path);
/// Reads a checkpoint into the states of a model and returns its position. Errors: file_error; then nothing changes.
export checkpoint_position load_checkpoint(parameter_store& store, const std::string& path);

}  // namespace lamina
