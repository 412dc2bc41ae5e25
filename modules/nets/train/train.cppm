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

/// A loss of nets with several outputs or targets.
template <class L>
concept LossOfLists = requires(const L& loss, view<const value> v) {
  { loss(v, v) } -> std::convertible_to<value>;
};
/// A loss of nets with one output and one target.
template <class L>
concept LossOfPairs = requires(const L& loss, const value& v) {
  { loss(v, v) } -> std::convertible_to<value>;
};
/// A loss of three or four operands: the outputs in their order, then the targets.
template <class L>
concept LossOfThree = requires(const L& loss, const value& v) {
  { loss(v, v, v) } -> std::convertible_to<value>;
};
template <class L>
concept LossOfFour = requires(const L& loss, const value& v) {
  { loss(v, v, v, v) } -> std::convertible_to<value>;
};
/// A loss: called with the output of a model and the targets of a batch, with three or four operands of outputs and targets, or
/// with the lists of several, it gives a value of rank 0.
export template <class L>
concept Loss = std::copyable<L> && (LossOfPairs<L> || LossOfThree<L> || LossOfFour<L> || LossOfLists<L>);
/// The loss of a batch, and what joins those of several. A class of losses says so by members beside its call: `weight`, which takes the
/// same operands, gives what its mean is divided by, which results do not change; `reduction` of `loss_reduction::sum` is no mean;
/// `ignore_index` is that of targets that count for nothing.
struct loss_terms {
  value loss{};         // one number
  value weight{};       // one number; empty: the number of samples
  bool is_sum = false;  // losses of batches are added
  std::optional<std::int64_t> ignore_index{};
  loss_terms() = default;
  loss_terms(value l) : loss(std::move(l)) {}
};
template <class L> struct loss_check {
  static consteval text message() {
    text t;
    if constexpr (!Loss<L>)
      t << "the loss is `" << type_name<L>()
        << "`; it must be callable as loss(output, targets) and give a value, as loss::cross_entropy{} does, or with a "
           "view<const value> of each where there are several";
    return t;
  }
};
template <class O> struct optimizer_check {
  static consteval text message() {
    text t;
    if constexpr (!Optimizer<O>)
      t << "the optimizer is `" << type_name<O>()
        << "`; it must have a rate `lr` and a member `step(scope, w, g)` that gives a value, as optim::sgd{} does";
    return t;
  }
};

/// That something can be trained.
template <class M> struct trained_check {
  static consteval text message() {
    using net = std::remove_cvref_t<M>;
    text t;
    if constexpr (requires { net::sharing_name; })
      t = detail::shares_weights<net::sharing_name, "be trained">::message();
    else if constexpr (!is_model<net> && !std::same_as<net, model_core>)
      t << "what is to be trained is `" << type_name<net>() << "`; it must be a model";
    else if constexpr (std::is_const_v<std::remove_reference_t<M>>) t << "the model is const, and training changes it";
    return t;
  }
};

/// A training whose loss, gradient or parameter is not finite.
export class not_finite_error : public value_error {
 public:
  using value_error::value_error;
  ~not_finite_error() override;
};

/// How to train. Members are in the order in which they are mostly given.
export struct fit_options {
  std::int64_t epochs = 1, batch = 64;
  optim::schedule schedule = optim::constant{};
  std::optional<sample_source> validation{};
  lamina::observer observer{};
  std::int64_t seed = 0;     // of the order of examples
  int threads = 0;           // 0: as the model
  std::string checkpoint{};  // written at the end of every epoch, and when an observer ends training
  bool resume = false;       // continue from the checkpoint if it exists; `checkpoint` must be given
  /// Threads that read samples while others train, and how many batches they read ahead, at most. 0: the threads that train read
  /// each batch before its step. The bits do not depend on it.
  int read_threads = 0, read_ahead = 2;
  /// Whether a sample that cannot be used ends training, or is left out and counted in the report: one whose reading fails, of a class
  /// that the loss does not have, of a position outside a table, of another shape than the model takes, with a NaN, or a target that
  /// is infinite. Samples of validation are counted apart.
  sample_failure on_error = sample_failure::raise;
  /// Into how many shards, a power of two, each batch is cut. Their gradients are computed one after the other, which takes the memory
  /// of one shard, and added in pairs; statistics of batches are those of shards, averaged. 0: one, and 8 with replicas.
  std::int64_t shards = 0;
  /// Processes that train this model together: each computes a part of the shards, so that results have the bits that one process has with
  /// as many shards. Their number divides that of the shards. Weights and the place in the checkpoint are those of rank 0, which
  /// alone tells its observer and writes the checkpoint.
  std::shared_ptr<lamina::replicas> replicas{};
  /// Replicas exchange gradients in parts of about so many bytes, last layers first, while the last of a process's shards still
  /// computes. Bits do not depend on it. 0: all at once, when that shard is done.
  std::int64_t bucket_bytes = std::int64_t(25) << 20;
  /// How many batches make one update, 1 to 4096: their gradients are added as those of shards are, so that an update has the memory of one
  /// batch and is that of a batch of all their samples; the last one of an epoch may be of fewer. Observers, schedules and checkpoints
  /// count updates. With n a power of two and as many whole batches it has the bits of `.batch = n * batch, .shards = n * shards`.
  std::int64_t accumulate = 1;
  /// Checks the gradients of each batch before its update, too, which is another pass over them: one that is not finite ends training
  /// as a loss does, and not at the next batch.
  bool check_gradients = false;
  /// Each replica keeps the optimizer's slots of its part of the parameters alone, updates those, and gives them to the others: parts are
  /// whole parameters, as even in bytes as those allow. Bits and checkpoints are the same; afterwards `gather_slots` brings all slots to
  /// each process. Without replicas it changes nothing.
  bool shard_optimizer = false;
  /// What products round float32 operands to, scaling of losses, and what the backward pass computes again: as of `step_options`.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  /// What shorter samples are filled up with in batches, also of the validation data: a number for each field. A field without one has
  /// zeros, or is the first target of a loss that says what it leaves out, as by `ignore_index`.
  std::vector<std::optional<double>> fill{};
  /// Leaves out the samples of an epoch, in its order, that make no whole batch.
  bool drop_last = false;
  /// The bucket of sample i, the same in each epoch: a batch has samples of one bucket, as `dataset::length_buckets` gives them. Batches that
  /// are not full come last, and with `accumulate` there may be none: `drop_last` leaves them out.
  std::function<std::int64_t(std::int64_t)> bucket_by{};
  /// What is done with each batch before its step, as `augment::batch_mixup{.classes = 10}`; not with those of the validation data. It looks at
  /// whole batches, also where they have shards: each process reads the batches that it has shards of. Bits do not depend on threads.
  batch_change change_batches{};
};

/// Has each of several processes take the optimizer's slots that others keep since a training with `.shard_optimizer`. All call it.
/// Errors: state_error for a slot that no process has, or several but not all.
export void gather_slots(parameter_store& store, replicas& all);

/// Loss and accuracy over a data set, as of one batch, and how many of its samples were left out.
export struct evaluation {
  double loss = 0, accuracy = 0;
  std::int64_t skipped = 0;
};

/// How a data set is evaluated.
export struct evaluation_options {
  std::int64_t batch = 256;
  /// Whether a sample that cannot be used is an error, or left out: as of `fit_options`.
  sample_failure on_error = sample_failure::raise;
};

/// The part of training that is no template.
export class trainer {
 public:
  struct loss_rule {
    std::function<loss_terms(view<const value> outputs, view<const value> targets)> call{};
    std::optional<double>
        target_fill{};  // what shorter ones of the first target are filled up with, where the loss says it
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
  /// The program of one training step; before `fit` for a class of each sample.
  const program& step_program() const;
  /// The plan of a training step for a batch.
  std::string explain(std::int64_t batch) const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

namespace detail {
/// Raises the value_error for a loss of operands where there are others.
[[noreturn]] void refuse_lists(std::string_view taken, std::size_t outputs, std::size_t targets);
/// Calls a loss with as many operands as it takes.
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
/// What a loss has the first target filled up with, so that padding counts nothing: its `target_fill()`, or its `ignore_index`.
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
/// The part of a model that is no template; that of a net from a file is the model.
template <class M> auto& trained_core(M& net) {
  if constexpr (std::same_as<std::remove_const_t<M>, model_core>) return net;
  else return net.core();
}
}  // namespace detail

/// Trains a model, or a net from a file: `auto net = core_of(load_net("lenet")); fit(net, ...)`. The fields of a sample are the inputs
/// of the model, and then the targets that the loss takes: a picture and its class, two sentences and a number. Where each input has the name of a
/// field, inputs are found by name and all other fields are targets in their order; else the inputs come first, in their order. Real
/// targets are given in the type of the model's output, whole numbers as int64. Parameters that are not `trainable` keep their bits. The order of examples depends on seed and epoch alone; the last, smaller batch
/// counts too. Where a loss has weights, shards, replicas and batches of an update are joined by them, as `loss_terms` says; an update whose
/// targets are all left out has a loss and gradients of 0; results have the same bits for any number of threads.
/// A checkpoint of a training that is complete already brings states and report, and nothing is trained.
/// Errors: shape_error where data and model do not fit; value_error where a field has the name of one input and the place of another; type_error where a field is of another element type than the model's input, and
/// not both are numbers that may be real; state_error where no parameter is trainable; value_error for an operation without a gradient, for a label outside the
/// model's classes, for a rate that is no finite number >= 0 or another number of the optimizer or schedule that is wrong, for `resume` without `checkpoint`, for options of a step that are wrong, for a checkpoint of another seed, another batch size, other shards, another number of
/// images or more epochs, and for numbers of shards or replicas that are no powers of two or do not fit each other; not_finite_error, a value_error, for a loss or a parameter that is not
/// finite: it names the batch and the first result that is not finite, and where that is the loss, the model is as the batch before left it; sample_error for a sample that cannot be read; file_error; stopped_error by a `stop_scope`: the model is as the last whole step left it, and the
/// checkpoint as the last whole epoch left it.
// The model is any type, so that one candidate says what is wrong with it.
export template <class M, class D, class L, class O>
requires accepted<diagnostic<trained_check<M>>()> && accepted<diagnostic<detail::source_check<D>>()> &&
         accepted<diagnostic<loss_check<L>>()> && accepted<diagnostic<optimizer_check<O>>()>
training_report fit(M&& net, const D& data, const L& loss, const O& optimizer, const fit_options& options = {}) {
  detail::check_optimizer(optimizer);
  return trainer(detail::trained_core(net), detail::loss_rule_of(loss), detail::step_rule_of(optimizer), optimizer.lr)
      .fit(source_of(data), options);
}

/// How to train step by step.
export struct training_options {
  /// How many batches make one update, 1 to 4096: each counts as much as another, and the last one updates. With batches of one size an update
  /// is that of a batch of all their samples, with the bits of `accumulate` in `fit`.
  std::int64_t accumulate = 1;
  /// What products round float32 operands to, scaling of losses, and what the backward pass computes again: as of `step_options`.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  /// Processes that train this model together, a power of two: each gives its own batches, which count alike, all take the same number of steps,
  /// and an update is that of the batches of all. Before the first step they take the weights of rank 0. A process that fails ends all.
  std::shared_ptr<lamina::replicas> replicas{};
};

class shard_steps;
class state_copies;
class batch_operands;
class sample_checks;
/// Training step by step, the part that is no template.
class training_core {
 public:
  training_core(model_core& net, trainer::loss_rule loss, trainer::step_rule step, double rate,
                const training_options& o);
  /// One step on a batch: the model's inputs, then the targets. Gives the loss before the step. On one thread it allocates
  /// nothing for extents that it met before, unless batches are accumulated.
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
  std::vector<shape> extents_;        // of the last step, with the rate's
  std::vector<tensor_type> targets_;  // that the programs were traced for
  std::uint64_t parameters_ = 0;      // identity of those that they were traced with
  session session_;
  std::shared_ptr<shard_steps> group_;    // where several batches make an update; else `session_`
  std::shared_ptr<state_copies> before_;  // where an update takes several gradients
  std::shared_ptr<batch_operands> operands_;
  std::shared_ptr<const sample_checks> checks_;
};

/// Trains a model step by step, for loops of one's own: `training step(net, loss::cross_entropy{}, optim::adam{.lr = 1e-3});
/// double l = step(x, labels);`. The model is changed in place and must outlive it. Another model may be assigned to it between
/// steps: the next one goes on from there, with the slots of the optimizer that came along, or with new ones where none did, and begins
/// an update of its own. docs/training.md has a whole program.
/// Errors: value_error for a number of the optimizer or the options that is not finite or out of range.
export template <class Model> class training {
 public:
  using model_type = Model;
  using traits = typename model_type::traits;
  template <class... X> static constexpr bool is_batch =
      sizeof...(X) == 1 && (std::same_as<std::remove_const_t<X>, sample_batch> && ...);
  /// Message about operands of a step that do not fit.
  template <class... X> struct step_check {
    static consteval text message() {
      if constexpr (is_batch<X...>) return text();
      else if constexpr (!(detail::InMemory<X> && ...)) return detail::memory_fault<X...>("training: operand ", "step");
      else {
        const dtype given[] = {dtype_of<typename X::element_type>..., dtype::float32};
        text t;
        if (sizeof...(X) < traits::inputs + 1)
          t << "training: a step takes " << traits::inputs << (traits::inputs == 1 ? " input" : " inputs")
            << " and the targets, and is given " << sizeof...(X) << (sizeof...(X) == 1 ? " operand" : " operands");
        else
          for (std::size_t i = 0; i < traits::inputs && t.empty(); ++i)
            if (given[i] != traits::elements[i])
              t << "training: input " << i << " of the model is " << traits::elements[i] << " and is given "
                << given[i];
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
  /// One step: the model's inputs in order, then the targets, one or several; or a `sample_batch`, whose fields those are:
  /// `for (auto& b : batches) step(b)`. The loss of this batch, before the step. On one thread a
  /// step allocates nothing, once its extents were met, unless batches are accumulated.
  /// Errors: shape_error where extents do not fit, also targets that a loss would have to broadcast; value_error where a label is
  /// outside the classes, naming it and its sample, for targets that the loss does not take, or of other types or ranks within an update;
  /// sample_error for a sample of a `sample_batch` that the model or the loss cannot take; stopped_error by a `stop_scope`: nothing is changed then. A batch that fails is not counted; an update that is stopped drops its batches.
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
  /// The learning rate from the next step on. Errors: value_error unless it is a finite number >= 0.
  void rate(double r) { core_.rate(r); }
  /// Bytes of the results of the last step that lie in memory at once; 0 before the first.
  std::size_t arena_bytes() const { return core_.arena_bytes(); }
  /// The scale of the next step's loss, 0 where losses are not scaled, and the steps whose gradients were not finite.
  double loss_scale() const { return core_.scaling().scale; }
  std::int64_t skipped_updates() const { return core_.scaling().skipped; }

 private:
  training_core core_;
};

namespace detail {
template <class O> inline constexpr bool is_evaluated_by = std::integral<O> || std::same_as<O, evaluation_options>;
}
/// Loss and accuracy of a model, or of a net from a file, over a data set, whatever the size of batches is: `evaluate(net, test,
/// loss::cross_entropy{}, {.batch = 64})`. The loss is that of one batch of all samples, a mean by samples or under the weights of the loss, or a
/// sum. The accuracy is that of classes [N] by the largest of results [N, C], without those that the loss ignores, else NaN. A number in
/// place of options is that of samples in a batch. Errors: as those of `fit`; value_error where all samples were left out.
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

/// Results of a data set of which samples may have been left out.
struct predictions {
  std::vector<any_tensor> outputs;  // rows are those of the samples that were used
  /// Which those are: row r of each output is that of sample samples[r] of the data set.
  std::vector<std::int64_t> samples;
  std::vector<left_out_sample> left_out;  // the others, in order
};

namespace detail {
using result_taker = std::function<void(view<const any_tensor> outputs, view<const any_tensor> targets)>;
/// Calls f(outputs, targets) for each batch of a data set, in order: results of inference, and the fields that are no inputs. `probe`,
/// where there is one, raises the error that `f` would, and changes nothing: it finds the samples that `f` cannot take. Those that were left out.
std::vector<left_out_sample> each_result(model_core& net, const sample_source& data, const evaluation_options& o,
                                         const result_taker& f, const result_taker& probe = {});
predictions predicted(model_core& net, const sample_source& data, const evaluation_options& o);
/// Adds a batch to a metric: the output and target that it names, else the first ones.
template <class M>
void add_chosen(M& m, view<const std::string> names, view<const any_tensor> outputs, view<const any_tensor> targets) {
  if constexpr (requires { m.operands(names, targets.size()); }) {
    const auto [output, target] = m.operands(names, targets.size());
    m.add(outputs[output], targets[target]);
  } else m.add(outputs[0], targets[0]);
}
/// Errors: value_error for an output or a target that a metric names and that is not there.
template <class M> void check_chosen(const M& m, view<const std::string> names, std::size_t targets) {
  if constexpr (requires { m.operands(names, targets); }) static_cast<void>(m.operands(names, targets));
}
/// The names of the outputs of a model.
std::vector<std::string> output_names(const model_core& net);
/// Has metrics take the outputs and targets of all batches that they name, else the first ones. Those samples that were left out.
template <class... Metrics> std::vector<left_out_sample> measure(model_core& net, const sample_source& data,
                                                                 const evaluation_options& o, Metrics&... metrics) {
  // What a metric names is the same for all samples: it is no fault of one.
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

/// What a metric has found.
struct metric_value {
  std::string name;
  double value = 0;
};

/// Metrics of a model, or of a net from a file, over a data set: `evaluate(net, test, metric::accuracy{}, metric::f1{})`. Each is given the
/// first output and the first target of all batches, or those that `metric::of("kind", 1, metric::accuracy{})` names. Errors: as those of
/// `fit`, and those of the metrics; value_error for an output or a target that is not there.
export template <class M, class D, Metric... Metrics>
requires(sizeof...(Metrics) > 0) &&
        (is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()> std::vector<metric_value> evaluate(M& net, const D& data,
                                                                                           Metrics... metrics) {
  detail::measure(detail::trained_core(net), source_of(data), {}, metrics...);
  return {{std::string(metrics.name()), metrics.value()}...};
}
/// Metrics over a data set of which samples may have been left out.
struct metric_report {
  std::vector<metric_value> values;
  std::vector<left_out_sample> left_out;
};
/// The same, which may leave out samples that cannot be used, also by a metric: `evaluate(net, test, {.on_error = sample_failure::skip},
/// metric::accuracy{})`.
export template <class M, class D, Metric... Metrics>
requires(sizeof...(Metrics) > 0) &&
        (is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()> metric_report
    evaluate(M& net, const D& data, const evaluation_options& o, Metrics... metrics) {
  auto left_out = detail::measure(detail::trained_core(net), source_of(data), o, metrics...);
  return {{{std::string(metrics.name()), metrics.value()}...}, std::move(left_out)};
}
/// The outputs of a model, or of a net from a file, for all samples of a data set, along the first axis; fields after the inputs are left alone.
/// Errors: as those of `fit`; shape_error for results whose extents differ between batches.
export template <class M, class D>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()>
std::vector<any_tensor> predict(M& net, const D& data, std::int64_t batch = 256) {
  return detail::predicted(detail::trained_core(net), source_of(data), {.batch = batch}).outputs;
}
/// The same, which may leave out samples that cannot be used; targets are not looked at. It says which sample each row is of:
/// `predict(net, data, {.on_error = sample_failure::skip}).samples`.
export template <class M, class D>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()>
predictions predict(M& net, const D& data, const evaluation_options& o) {
  return detail::predicted(detail::trained_core(net), source_of(data), o);
}

/// Everything that training needs to go on: parameters, statistics, optimizer slots, generator, position.
struct checkpoint_position {
  std::int64_t epoch = 0, batch = 0, step = 0, seed = 0;  // whole epochs, batches of the next one, batches in all
  std::int64_t batch_size = 0, images = 0;                // of training; 0 where it is not known
  std::int64_t shards = 1;                                // of each batch
  std::vector<epoch_report> epochs{};                     // the figures so far; of a begun epoch, too
  std::vector<double> schedule{};                         // what a schedule that observes had observed
  bool ended = false;                     // an observer ended training at the end of the last whole epoch
  std::vector<named_tensor> observers{};  // what observers keep
};
/// Errors: file_error; state_error for slots that are in another process.
export void save_checkpoint(const parameter_store& store, const checkpoint_position& at, const std::string& path);
/// Errors: file_error; nothing is changed then.
export checkpoint_position load_checkpoint(parameter_store& store, const std::string& path);

}  // namespace lamina
