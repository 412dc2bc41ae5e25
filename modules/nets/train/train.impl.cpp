module lamina:train.impl;
import :context;
import :core;
import :data.batch;
import :data.change;
import :data.loader;
import :data.set;
import :dtype;
import :execute;
import :gradient;
import :io;
import :model;
import :op;
import :op.elementwise;
import :op.extents;
import :op.loss;
import :op.reduce;
import :op.shape;
import :passes;
import :parameter;
import :plan;
import :program;
import :random;
import :session;
import :shape;
import :tensor;
import :train;
import :train.batch.impl;
import :train.checks.impl;
import :train.checkpoint.impl;
import :train.fields.impl;
import :train.observe;
import :train.optim;
import :train.parts.impl;
import :train.precision;
import :train.probe.impl;
import :train.replicas;
import :train.results.impl;
import :train.rollback.impl;
import :train.shards.impl;
import :train.slices.impl;
import lamina.std;

namespace lamina {

namespace {

constexpr std::int64_t validation_batch = 256, max_accumulated = 4096;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

namespace {
// Input type of a program for a target.
dtype target_type(dtype field, dtype model) {
  return is_real(field) ? model : is_integer(field) ? dtype::int64 : field;
}

// Errors: value_error for a model with a fixed number of samples, which cannot skip any.
void check_open_batch(std::string_view caller, const model_definition& d) {
  const auto& dims = d.inputs[0].type.dims;
  if (dims.rank == 0 || !dims[0].is_number()) return;
  text t;
  detail::raise(error_kind::value, t << caller
                                     << ": the model has a fixed batch size, so `on_error` cannot skip samples; "
                                        "expected a model whose first extent is open");
}

// Computes the loss. Loss and weight must be scalars of the model's element type.
loss_terms loss_value(program& p, dtype element, view<const value> results, view<const value> targets,
                      const trainer::loss_rule& loss) {
  p.path = "loss";
  const loss_terms terms = loss(results, targets);
  const value& l = terms.loss;
  if (l.empty() || l.type() != tensor_type{element, {}}) {
    text t;
    t << "loss: expected one number, " << tensor_type{element, {}} << "; got ";
    if (l.empty()) t << "an empty value";
    else t << l.type();
    if (!l.empty() && l.type().dims.rank > 0) t << "; average it, as in reduce_mean(x)";
    detail::raise(!l.empty() && l.type().element != element ? error_kind::type : error_kind::shape, t);
  }
  if (const value& w = terms.weight; !w.empty() && w.type() != tensor_type{element, {}}) {
    text t;
    detail::raise(w.type().element != element ? error_kind::type : error_kind::shape,
                  t << "loss: expected a weight of one number, " << tensor_type{element, {}} << "; got " << w.type());
  }
  return terms;
}

// Number of correct predictions, int64 []; with an ignored class int64 [2]: correct predictions, ignored targets.
value counted_hits(const value& scores, const value& labels, const std::optional<std::int64_t>& ignored) {
  const value right = argmax(scores) == labels;
  const auto count = [](const value& v) { return reduce_sum(cast<std::int64_t>(v)); };
  if (!ignored) return count(right);
  const value counts = labels != *ignored;
  const value is_first = detail::constant_list(labels.owner(), dtype::boolean, std::vector<double>{1, 0}, {dim(2)});
  return where(is_first, count(where(counts, right, counts)), count(labels == *ignored));
}

// Trainable parameters that a program reads.
std::vector<value> trainable_weights(program& p, const parameter_store& store) {
  std::vector<value> weights;
  for (auto s : p.states()) {
    const parameter* w = store.find(p.at(s).name);
    if (w->role() == state_role::parameter && w->trainable()) weights.emplace_back(&p, value_id{s, 0});
  }
  if (weights.empty()) detail::raise(error_kind::state, "fit: no parameter of the model is trainable");
  return weights;
}

// Assigns each weight by the optimizer's rule; the learning rate is an input.
void add_updates(program& p, parameter_store& store, dtype element, view<const value> weights, view<const value> g,
                 const trainer::step_rule& step, const step_options& how, optimizer_parts* parts = nullptr) {
  value rate = p.input("learning rate", {element, {}});
  if (!store.find(step_name))
    store.make(std::string(step_name), {dtype::float32, {}}, initializer::constant(0), 0, state_role::optimizer, false);
  value count = p.state(step_name, {dtype::float32, {}});
  value next = count + 1;
  std::vector<value> of(g.begin(), g.end());
  value finite;
  if (how.scaling) finite = unscaled_gradients(of, *how.scaling, store);
  const auto guarded = [&](const value& v, const value& before) {
    return finite.empty() ? v : where(finite, v, before);
  };
  p.assign(count, guarded(next, count));
  joint_update all{{}, {}, {}, next};
  std::vector<std::size_t> updated;  // indices of updated weights
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (step.takes(all, p.at(weights[i].id()).name, weights[i], of[i])) updated.push_back(i);
  if (step.prepare) step.prepare(all);
  for (std::size_t k = 0; k < updated.size(); ++k) {
    const std::size_t states = p.states().size(), i = updated[k];
    auto scope =
        update_scope(p, store, all.parameters[k], rate, next, !parts || parts->is_own(i)).prepared(all.prepared);
    if (!finite.empty()) scope = scope.guarded(finite, next);
    p.assign(weights[i], guarded(step.step(scope, weights[i], all.gradients[k]), weights[i]));
    if (parts) parts->add_slots(p, states, i, store);
  }
}

// The forward pass, with half-precision products if requested.
std::shared_ptr<program> in_precision(std::shared_ptr<program> p, const step_options& how) {
  return how.compute == dtype::float32 ? p : with_rounded_products(*p, how.compute);
}

// Errors: unsupported for options that an optimizer with several gradients per batch cannot have.
void check_gradients_per_batch(std::string_view owner, const update_rule& step, bool scaling, std::int64_t accumulate,
                               bool others = false) {
  if (step.gradients_per_batch == 1 || (!scaling && accumulate == 1 && !others)) return;
  text t;
  t << owner << ": `" << step.name << "` takes " << step.gradients_per_batch << " gradients per batch; ";
  if (scaling) t << "`scaling`, which skips steps with non-finite gradients, cannot skip some of them";
  else if (accumulate > 1) t << "`accumulate` would need earlier batches again; use `accumulate` of `fit`";
  else t << "steps with `replicas` take one; use `fit`";
  detail::raise(error_kind::unsupported, t);
}

// What is checked before the update of a step.
enum class finite_checks { none, loss, gradients };

// Extends a forward pass, whose output 0 is the loss, to a whole step.
std::shared_ptr<program> with_update(const std::shared_ptr<program>& p, const value& loss, parameter_store& store,
                                     dtype element, const trainer::step_rule& step, const step_options& how,
                                     finite_checks checks) {
  const auto weights = trainable_weights(*p, store);
  const value scaled = how.scaling ? scaled_loss(loss, *how.scaling, store) : loss;
  const auto forward = static_cast<std::int32_t>(p->nodes().size());
  const auto g = gradients(scaled, view<const value>(weights));
  if (checks != finite_checks::none) {
    value checked = apply<op::require_finite>({}, loss, loss);
    if (checks == finite_checks::gradients)
      for (const auto& one : g) checked = apply<op::require_finite>({}, checked, one);
    p->replace_output(0, checked);
  }
  add_updates(*p, store, element, view<const value>(weights), view<const value>(g), step, how);
  return how.recompute ? with_recomputation(*p, forward, how.recompute) : p;
}

// Operands of a program: target types per sample that it was traced for, the current batch, and its outputs besides the
// loss.
struct step_operands {
  std::vector<tensor_type> targets{{dtype::int64, {}}};
  batch_operands batch{{}};
  bool counts_hits = true;
  bool has_weight = false;  // the loss has a weight
};
}  // namespace

struct trainer::implementation {
  class fitting;
  model_core& net;
  loss_rule loss;
  step_rule step;
  step_options how{};
  std::size_t arena_bytes = 0;
  double base_rate;
  std::shared_ptr<program> train_program, check_program;
  std::shared_ptr<context> where;
  std::int64_t classes = 0;                             // number of classes of the model if hits are counted; else 0
  step_operands trained{}, checked{};                   // differ if a batch transformation changes the targets
  std::shared_ptr<const sample_checks> sample_check{};  // finds unusable samples
  std::uint64_t parameters = 0;                         // identity of the parameters that the programs were traced with
  bool in_parts = false;                                // each process keeps its part of the optimizer
  state_copies earlier{};                               // used if an update takes several gradients of a batch
  std::vector<shape> run_shapes{};                      // shapes of a run's operands

  // Batch size that the model requires, or `otherwise` if it is dynamic.
  std::int64_t batch_of_model(std::int64_t otherwise) const {
    const auto& dims = net.definition().inputs[0].type.dims;
    return dims.rank > 0 && dims[0].is_number() ? dims[0].code : otherwise;
  }
  // A model with a fixed batch size takes no smaller last batch; batches of buckets may be smaller, unless those are
  // dropped.
  void check_batches(const sample_source& data, std::int64_t size, std::string_view name, bool drop_last = false,
                     bool in_buckets = false) const {
    if (data.size() == 0) return;
    const std::int64_t first = std::min(size, data.size()), n = batch_of_model(first);
    const std::int64_t last = drop_last ? 0 : in_buckets ? 1 : data.size() % first;
    if (first == n && (last == 0 || batch_of_model(0) == 0)) return;
    text t;
    t << "fit: the model takes " << n << (n == 1 ? " sample" : " samples") << " at a time; the " << name
      << " has batches of " << first;
    if (first == n) t << " and a last one of " << last;
    detail::raise(error_kind::shape, t << "; expected a batch of " << n << " that divides the number of samples, or a "
                                       << "model whose first extent is open");
  }

  // Errors that concern the model alone.
  static void check_model(const model_definition& d) {
    text t;
    if (!is_real(d.element))
      detail::raise(error_kind::type, t << "fit: output `" << printable(d.outputs[0].name) << "` of the model is "
                                        << d.outputs[0].type << "; expected float32 or float64");
    if (d.inputs.empty()) detail::raise(error_kind::value, "fit: the model has no input");
    for (const auto& [name, type] : d.inputs)
      if (type.dims.rank == 0)
        detail::raise(error_kind::shape,
                      t << "fit: input `" << printable(name) << "` of the model is a scalar; expected a batch axis");
  }
  // Sample fields must be the model's inputs in order, then the targets.
  void check_fields(const sample_source& data, std::string_view name) const {
    const auto& d = net.definition();
    const auto fields = data.fields();
    text t;
    if (fields.size() <= d.inputs.size())
      detail::raise(error_kind::value, t << "fit: samples of the " << name << " have " << fields.size()
                                         << (fields.size() == 1 ? " field" : " fields") << "; expected at least "
                                         << d.inputs.size() + 1
                                         << ": the inputs of the model in their order, then the targets");
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
      const auto& [input, type] = d.inputs[i];
      text field;  // the field may be at another position if it has the input's name
      if (data.names()[i] == input) field << "field `" << printable(input) << "`";
      else field << "field " << i;
      if (!converts_to(fields[i].element, type.element))
        detail::raise(error_kind::type, t << "fit: input `" << printable(input) << "` of the model is " << type << "; "
                                          << field << " of the " << name << " is " << fields[i].element);
      shape s{type.dims[0]};
      for (int k = 0; k < fields[i].dims.rank; ++k)
        s.push_back(fields[i].dims[k] == dyn && k + 1 < type.dims.rank ? type.dims[k + 1] : fields[i].dims[k]);
      if (!fits(type.dims, s))
        detail::raise(error_kind::shape, t << "fit: the model takes " << type.dims << "; " << field << " of the "
                                           << name << " gives " << s);
    }
  }

  // A data set whose fields are inputs and targets. Shorter samples are padded as requested, and the first target by
  // default with the padding of the loss.
  sample_source bound(const sample_source& data, std::string_view caller, std::string_view name,
                      const std::vector<std::optional<double>>& numbers = {}) const {
    using fills = view<const std::optional<double>>;
    const auto& d = net.definition();
    const sample_source fields = bound_to_inputs(data.filled_with(fills(numbers)), d, caller, name);
    const std::size_t target = d.inputs.size();
    if (!loss.target_fill || target >= fields.fields().size() || !fields.is_ragged(target) || fields.fill(target).given)
      return fields;
    std::vector<std::optional<double>> by_loss(target);
    by_loss.push_back(loss.target_fill);
    return fields.filled_with(fills(by_loss));
  }

  // Inputs: those of the model, then the targets.
  struct forward_pass {
    std::shared_ptr<program> made;
    value loss, hits;  // mean loss; number of correct predictions
    std::optional<value_id> weight{};
    step_figures figures() const { return {loss.id(), hits.id(), weight, is_sum}; }
    bool is_sum = false;
  };
  forward_pass forward(bool training) {
    const auto& d = net.definition();
    check_model(d);
    auto p = std::make_shared<program>();
    std::vector<value> in, target_inputs;
    step_operands& of = training ? trained : checked;
    const auto& targets = of.targets;
    for (const auto& i : d.inputs) in.push_back(p->input(i.name, i.type));
    for (const auto& t : targets) {
      shape s{d.inputs[0].type.dims[0]};
      for (int k = 0; k < t.dims.rank; ++k) s.push_back(t.dims[k]);
      target_inputs.push_back(
          p->input(t.element == dtype::int64 && t.dims.rank == 0 ? "labels" : "targets", {t.element, s}));
    }
    auto outputs = trace(d, *p, net.parameters(), net.options().seed, training, view<const value>(in));
    const loss_terms l = loss_value(*p, d.element, view<const value>(outputs), view<const value>(target_inputs), loss);
    p->path = "accuracy";
    const auto& dims = outputs[0].type().dims;
    const bool classifies = targets[0].element == dtype::int64 && targets[0].dims.rank == 0 && dims.rank == 2;
    if (!training) classes = classifies && dims[1].is_number() ? dims[1].code : 0;
    const value hits = classifies ? counted_hits(outputs[0], target_inputs[0], l.ignore_index)
                                  : p->number(std::int64_t(0), dtype::int64);
    of.counts_hits = classifies;
    of.has_weight = !l.weight.empty();
    ignored = l.ignore_index;
    is_sum = l.is_sum;
    p->path.clear();
    p->output("loss", l.loss);
    p->output("hits", hits);
    if (of.has_weight) p->output("weight", l.weight);
    if (training) p = in_precision(p, how);
    const auto output = [&](std::size_t i) { return value(p.get(), p->outputs()[i].value); };
    return {p, output(0), output(1), of.has_weight ? std::optional(p->outputs()[2].value) : std::nullopt, is_sum};
  }
  bool checks_gradients = false;
  bool is_sum = false;                    // losses are summed
  std::optional<std::int64_t> ignored{};  // targets that the loss ignores
  // The same with loss and hits as outputs and, for training, the learning rate and the update. A step fails and
  // assigns nothing if its loss or, if checked, a gradient is not finite.
  std::shared_ptr<program> traced(bool training) {
    const auto made = forward(training);
    if (!training) return made.made;
    return with_update(made.made, made.loss, net.parameters(), net.definition().element, step, how,
                       checks_gradients ? finite_checks::gradients : finite_checks::loss);
  }
  // `scaled`: differentiates the scaled loss, as the update expects.
  std::unique_ptr<shard_steps> steps_in_shards(const batch_cut& cut, replicas* others, std::int64_t bucket_bytes,
                                               bool scaled = true) {
    auto& store = net.parameters();
    const dtype element = net.definition().element;
    const auto made = forward(true);
    trainable_weights(*made.made, store);
    auto parts = in_parts && others ? std::make_unique<optimizer_parts>(*others, step.name, store.size()) : nullptr;
    const auto update = [&](program& into, view<const value> weights, view<const value> g) {
      add_updates(into, store, element, weights, g, step, how, parts.get());
    };
    const auto scale = [&](const value& loss_of) {
      return scaled && how.scaling ? scaled_loss(loss_of, *how.scaling, store) : loss_of;
    };
    auto programs =
        in_shards(*made.made, store, element, cut.shards, made.figures(), scale, update, how.recompute, parts.get());
    return std::make_unique<shard_steps>(std::move(programs), net, where, element, cut, others, bucket_bytes,
                                         std::move(parts));
  }

  // Builds the programs if they are missing or another model was assigned to this one. Returns whether it did.
  bool trace_for_parameters() {
    if (net.parameters().identity() == parameters) return false;
    if (step && !in_parts) train_program = traced(true);  // skipped if sharded: it would create all slots
    check_program = traced(false);
    sample_check = std::make_shared<const sample_checks>(*check_program, net.definition().inputs.size(),
                                                         check_program->inputs().size());
    parameters = net.parameters().identity();
    return true;
  }
  // The same for the targets of samples, and those after a batch transformation.
  void trace_for(const sample_source& data, const batch_change& change = {}) {
    check_model(net.definition());
    check_fields(data, "training data");
    take_targets(checked, data.fields());
    if (change) take_targets(trained, view<const tensor_type>(change.types(data.fields())));
    else take_targets(trained, data.fields());
    trace_for_parameters();
  }
  void take_targets(step_operands& of, view<const tensor_type> fields) {
    const auto& d = net.definition();
    std::vector<tensor_type> found;
    std::vector<dtype> types;
    for (const auto& i : d.inputs) types.push_back(i.type.element);
    for (std::size_t f = d.inputs.size(); f < fields.size(); ++f) {
      const auto& field = fields[f];
      const dtype as = target_type(field.element, d.element);
      found.push_back({as, field.dims});
      types.push_back(as);
    }
    if (found != of.targets) parameters = 0;
    of.targets = found;
    of.batch = batch_operands(types);
  }

  void check_labels(const sample_source& data, std::string_view caller, std::string_view name) const {
    if (classes == 0) return;
    const auto given = data.labels();
    const auto wrong = std::find_if(given.begin(), given.end(),
                                    [this](std::int64_t l) { return (l < 0 || l >= classes) && l != ignored; });
    if (wrong == given.end()) return;
    text t;
    const std::int64_t i = wrong - given.begin();
    t << caller << ": label " << *wrong << " of image " << i << " of the " << name;
    if (const auto place = data.location(i); !place.empty()) t << " (" << printable(place, 300) << ")";
    t << " is outside 0.." << classes - 1 << "; the model has " << classes << (classes == 1 ? " class" : " classes");
    detail::raise(error_kind::value, t);
  }

  // The schedule's rate for batch `at` of `all`; with replicas, that of rank 0, whose schedule may have observed more.
  double scheduled_rate(const optim::schedule& schedule, std::int64_t at, std::int64_t all, replicas* others) const {
    double rate = std::numeric_limits<double>::quiet_NaN();
    std::exception_ptr error;
    try {
      rate = schedule(base_rate, at, all);
    } catch (...) { error = std::current_exception(); }
    if (others) others->broadcast(&rate, sizeof rate);  // NaN after an error; the other ranks reject it
    if (error && (!others || others->rank() == 0)) std::rethrow_exception(error);
    // The name is built only for a rate that may be invalid, since this is called for each batch.
    if (!(rate >= 0) || rate > static_cast<double>(std::numeric_limits<float>::max()))
      detail::check_rate("fit", "the schedule's rate for step " + std::to_string(at), rate, net.definition().element);
    return rate;
  }

  // Checks parameters, since no loss shows the last update of an epoch.
  void check_states(std::int64_t epoch, double rate) const {
    auto& store = net.parameters();
    for (std::size_t i = 0; i < store.size(); ++i) {
      const auto& p = store[i];
      if (!(p.role() == state_role::parameter && p.trainable()) && p.role() != state_role::statistic) continue;
      auto finite = [](const auto& all) {
        return std::all_of(all.begin(), all.end(), [](auto x) { return std::isfinite(x); });
      };
      if (p.value().element() == dtype::float64 ? finite(p.value().elements<double>())
                                                : finite(p.value().elements<float>()))
        continue;
      text t;
      t << "fit: parameter `" << p.name() << "` is not finite after the last update of epoch " << epoch
        << "; a smaller learning rate may help (now " << rate << "); restart training, or resume from a checkpoint";
      if (!checks_gradients) t << "; `check_gradients` finds the batch and the layer";
      throw not_finite_error(t.string());
    }
  }

  struct batch_result {
    double loss = 0;
    std::int64_t hits = 0, ignored = 0;
    double weight = 0;  // weight of the loss, or the number of samples
  };
  // Runs the loaded batch.
  batch_result run_batch(session& steps, double rate, bool training) {
    const step_operands& of = training ? trained : checked;
    const batch_operands& batch = of.batch;
    run_shapes = batch.shapes();
    if (training) run_shapes.emplace_back();
    executor& e = steps.at(view<const shape>(run_shapes));
    double loss64 = 0, weight64 = 0;
    float loss32 = 0, weight32 = 0, rate32 = static_cast<float>(rate);
    std::array<std::int64_t, 2> hits{};
    bool wide = net.definition().element == dtype::float64;
    for (std::size_t i = 0; i < batch.data().size(); ++i) e.bind_input(i, batch.data()[i]);
    if (training) e.bind_input(batch.data().size(), wide ? static_cast<const void*>(&rate) : &rate32);
    e.bind_output(0, wide ? static_cast<void*>(&loss64) : &loss32);
    e.bind_output(1, hits.data());
    if (of.has_weight) e.bind_output(2, wide ? static_cast<void*>(&weight64) : &weight32);
    if (training) arena_bytes = std::max(arena_bytes, e.plan().arena_bytes());
    const auto loss_found = [&] { return wide ? loss64 : static_cast<double>(loss32); };
    try {
      with_labels_named(of, [&] { e.run(); });
    } catch (const value_error&) {
      if (!training || std::isfinite(loss_found())) throw;
    }
    const auto samples = static_cast<double>(batch.count());
    return {loss_found(), hits[0], hits[1], !of.has_weight ? samples : wide ? weight64 : static_cast<double>(weight32)};
  }
  // Adds the labels of the batch to the message of a run's error.
  template <class F> void with_labels_named(const step_operands& of, F f) const {
    try {
      f();
    } catch (const value_error& why) {
      if (!of.counts_hits) throw;
      const auto* labels = static_cast<const std::int64_t*>(of.batch.data()[net.definition().inputs.size()]);
      auto [low, high] = std::minmax_element(labels, labels + of.batch.count());
      text t;
      t << why.what() << "; the labels of this batch are " << *low << ".." << *high << ", the output of the model is "
        << net.definition().outputs[0].type.dims;
      detail::raise(error_kind::value, t);
    }
  }

  // Options for reading training batches.
  reading training_reads(const fit_options& o, const sample_source& data) const {
    reading reads = reading_of(o, "fit", " of the training data");
    if (o.change_batches)
      reads.change = [change = o.change_batches, types = o.change_batches.types(data.fields()), seed = o.seed](
                         sample_batch& batch, std::int64_t epoch, std::int64_t first) {
        change(batch, {.seed = seed, .epoch = epoch, .index = first}, view<const tensor_type>(types));
      };
    return reads;
  }
  // Options for reading the batches of a data set.
  reading reading_of(const fit_options& o, std::string_view reader, std::string_view samples) const {
    return {o.read_threads, o.read_ahead, true, o.on_error, reader, samples, &where->pool(), sample_check};
  }
  // Errors: value_error, because all samples were skipped.
  [[noreturn]] static void refuse_none_left(const batch_loader& reads) {
    text t;
    const std::int64_t n = reads.source().size();
    t << reads.how().reader << ": no sample" << reads.how().samples << " can be used: all " << n << " were left out";
    if (const auto first = reads.report().first_skipped; !first.empty()) t << ", the first was " << first;
    detail::raise(error_kind::value, t);
  }
  // Loss and accuracy over a data set, as if it were one batch; with replicas, each process evaluates its share of the
  // batches.
  evaluation measured(session& checks, batch_loader& reads, std::int64_t size, replicas* others = nullptr) {
    const std::int64_t ranks = others ? others->count() : 1, rank = others ? others->rank() : 0;
    const batch_plan all = in_order(reads.source().size(), size);
    batch_plan own;
    for (std::int64_t b = rank; b < all.size(); b += ranks) own.add(all[b]);
    std::vector<double> found_of;  // per batch: loss, its weight, hits, their base, samples, skipped samples
    alone(others, [&] {
      reads.begin(std::move(own));
      for (std::int64_t b = 0; b < all.size(); ++b) {
        batch_result found{};
        std::int64_t n = 0, left_out = 0;
        if (b % ranks == rank) {
          const sample_batch& read = *reads.next();
          n = read.size();
          left_out = static_cast<std::int64_t>(all[b].size()) - n;
          checked.batch.load(read);
          if (n > 0) found = run_batch(checks, 0, false);
        }
        found_of.push_back(is_sum ? found.loss : found.loss * found.weight);
        found_of.push_back(found.weight);
        found_of.push_back(static_cast<double>(found.hits));
        found_of.push_back(static_cast<double>(n - found.ignored));
        found_of.push_back(static_cast<double>(n));
        found_of.push_back(static_cast<double>(left_out));
      }
    });
    if (others) others->sum(view<double>(found_of));
    std::array<double, 6> sums{};
    for (std::size_t i = 0; i < found_of.size(); ++i) sums[i % 6] += found_of[i];
    const auto skipped = static_cast<std::int64_t>(sums[5]);
    if (sums[4] == 0 && skipped > 0) refuse_none_left(reads);
    return {is_sum ? sums[0] : sums[0] / (sums[1] == 0 ? 1 : sums[1]),
            checked.counts_hits ? sums[2] / std::max(sums[3], 1.0) : std::numeric_limits<double>::quiet_NaN(), skipped};
  }
};

trainer::trainer(model_core& net, loss_rule loss, step_rule step, double rate)
    : impl_(new implementation{net, std::move(loss), std::move(step), {}, 0, rate, {}, {}, net.where()}) {
  detail::check_rate("fit", "`lr`", rate, net.definition().element);
  implementation::check_model(net.definition());
}
trainer::~trainer() = default;
not_finite_error::~not_finite_error() = default;

const program& trainer::step_program() const {
  impl_->trace_for_parameters();
  return *impl_->train_program;
}

std::string trainer::explain(std::int64_t batch) const {
  std::vector<shape> shapes;
  for (auto i : step_program().inputs()) {
    shape s = step_program().at(i).results[0].dims;
    for (int k = 0; k < s.rank; ++k)
      if (!s[k].is_number()) s[k] = dim(batch);
    shapes.push_back(s);
  }
  return make_plan(*impl_->train_program, view<const shape>(shapes), impl_->where->isa())->explain();
}

evaluation trainer::evaluate(const sample_source& samples, std::int64_t batch, int threads, sample_failure on_error) {
  auto& at = *impl_;
  const sample_source data = at.bound(samples, "evaluate", "data set");
  if (batch < 1) detail::raise(error_kind::value, "evaluate: batch must be positive");
  if (threads > 0 && threads != at.where->threads()) at.where = std::make_shared<context>(threads, at.where->isa());
  at.trace_for(data);
  if (on_error == sample_failure::raise) at.check_labels(data, "evaluate", "data set");
  else check_open_batch("evaluate", at.net.definition());
  session checks = at.net.session_of(at.check_program, at.where);
  batch_loader reads(data, at.reading_of({.on_error = on_error}, "evaluate", {}));
  return at.measured(checks, reads, batch);
}

void detail::refuse_lists(std::string_view taken, std::size_t outputs, std::size_t targets) {
  text t;
  raise(error_kind::value,
        t << "loss: it takes " << taken << "; got " << static_cast<std::int64_t>(outputs) << " output(s) and "
          << static_cast<std::int64_t>(targets)
          << " target(s); expected a loss of lists, as [](view<const value> outputs, view<const value> targets)");
}

// ---- results of a whole data set ------------------------------------------------------------------------------------

namespace detail {
namespace {

// Runs inference in batches: `f(read, batch, outputs)` receives samples, the same as operands, and outputs. `used`:
// number of fields in use. Returns the skipped samples.
std::vector<left_out_sample> each_inference(
    model_core& net, const sample_source& samples, const evaluation_options& o, std::size_t used,
    const std::function<void(const sample_batch& read, const batch_operands& batch, std::vector<any_tensor> outputs)>&
        f) {
  const auto& d = net.definition();
  const sample_source data = bound_to_inputs(samples, d, "evaluate", "data set");
  const auto fields = data.fields();
  std::int64_t size = o.batch;
  if (size < 1) raise(error_kind::value, "evaluate: batch must be positive");
  text t;
  if (fields.size() < d.inputs.size())
    raise(error_kind::value, t << "evaluate: samples have " << static_cast<std::int64_t>(fields.size())
                               << (fields.size() == 1 ? " field" : " fields") << "; expected at least "
                               << static_cast<std::int64_t>(d.inputs.size()) << ", the inputs of the model");
  std::vector<dtype> types;
  auto p = std::make_shared<program>();
  std::vector<value> in;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    types.push_back(i < d.inputs.size() ? d.inputs[i].type.element : fields[i].element);
    if (!converts_to(fields[i].element, types[i]))
      raise(error_kind::type, t << "evaluate: input `" << printable(d.inputs[i].name) << "` of the model is "
                                << d.inputs[i].type << "; field " << static_cast<std::int64_t>(i)
                                << " of the samples is " << fields[i].element);
    if (i < d.inputs.size()) in.push_back(p->input(d.inputs[i].name, d.inputs[i].type));
  }
  const auto outputs = trace(d, *p, net.parameters(), net.options().seed, false, view<const value>(in));
  for (std::size_t i = 0; i < outputs.size(); ++i) p->output(d.outputs[i].name, outputs[i]);
  if (o.on_error == sample_failure::skip) check_open_batch("evaluate", d);
  session run = net.session_of(p, net.where());
  const auto& dims = d.inputs[0].type.dims;
  if (dims.rank > 0 && dims[0].is_number()) size = dims[0].code;
  batch_operands batch(types);
  batch_loader reads(data, {.on_error = o.on_error,
                            .reader = "evaluate",
                            .pool = &net.where()->pool(),
                            .checks = std::make_shared<const sample_checks>(*p, d.inputs.size(), used)});
  std::vector<left_out_sample> left_out;
  reads.begin(in_order(data.size(), size));
  while (const sample_batch* read = reads.next()) {
    left_out.insert(left_out.end(), reads.left_out().begin(), reads.left_out().end());
    if (read->size() == 0) continue;
    batch.load(*read);
    std::vector<any_tensor> results(outputs.size());
    run.run({batch.shapes().data(), in.size()}, {batch.data().data(), in.size()},
            [&](std::size_t i, const tensor_type& type) -> void* {
              results[i] = any_tensor(type);
              return results[i].mutable_data();
            });
    f(*read, batch, std::move(results));
  }
  return left_out;
}

}  // namespace

std::vector<std::string> output_names(const model_core& net) {
  std::vector<std::string> all;
  for (const auto& o : net.definition().outputs) all.push_back(o.name);
  return all;
}

std::vector<left_out_sample> each_result(model_core& net, const sample_source& data, const evaluation_options& o,
                                         const result_taker& f, const result_taker& probe) {
  const std::size_t inputs = net.definition().inputs.size();
  if (data.fields().size() <= inputs)
    raise(error_kind::value, "evaluate: samples have no field after the inputs of the model; metrics need a target");
  std::vector<left_out_sample> refused;
  const auto take = [&](const sample_batch& read, const batch_operands& batch, std::vector<any_tensor> outputs) {
    std::vector<any_tensor> targets;
    for (std::size_t k = inputs; k < batch.shapes().size(); ++k) {
      any_tensor t(tensor_type{batch.types()[k], batch.shapes()[k]});
      if (t.bytes()) std::memcpy(t.mutable_data(), batch.data()[k], t.bytes());
      targets.push_back(std::move(t));
    }
    take_results(read, {std::move(outputs), std::move(targets)}, inputs, {.on_error = o.on_error, .reader = "evaluate"},
                 f, probe, refused);
  };
  auto left_out = each_inference(net, data, o, data.fields().size(), take);
  left_out.insert(left_out.end(), refused.begin(), refused.end());
  std::sort(left_out.begin(), left_out.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return left_out;
}

predictions predicted(model_core& net, const sample_source& data, const evaluation_options& how) {
  std::vector<std::vector<any_tensor>> parts(net.definition().outputs.size());
  predictions found;
  const auto take = [&](const sample_batch& read, const batch_operands&, std::vector<any_tensor> outputs) {
    found.samples.insert(found.samples.end(), read.indices().begin(), read.indices().end());
    for (std::size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(std::move(outputs[o]));
  };
  found.left_out = each_inference(net, data, how, net.definition().inputs.size(), take);
  std::vector<any_tensor>& all = found.outputs;
  for (std::size_t o = 0; o < parts.size(); ++o) {
    const auto& of = parts[o];
    tensor_type type = of.empty() ? net.definition().outputs[o].type : of[0].type();
    std::int64_t count = 0;
    for (const auto& part : of) {
      shape s = part.shape();
      if (s.rank > 0) s[0] = type.dims[0];
      if (s.rank == 0 || s != type.dims) {
        text t;
        raise(error_kind::shape, t << "predict: output `" << printable(net.definition().outputs[o].name) << "` is "
                                   << of[0].type() << " for one batch and " << part.type()
                                   << " for another; expected results of one shape for each sample");
      }
      count += part.shape().at(0);
    }
    if (type.dims.rank > 0) type.dims[0] = dim(count);
    for (int k = 0; k < type.dims.rank; ++k)
      if (!type.dims[k].is_number()) type.dims[k] = dim(0);  // no samples
    any_tensor whole(type);
    std::size_t at = 0;
    for (const auto& part : of) {
      if (part.bytes()) std::memcpy(static_cast<std::byte*>(whole.mutable_data()) + at, part.data(), part.bytes());
      at += part.bytes();
    }
    all.push_back(std::move(whole));
  }
  return found;
}

}  // namespace detail

// ---- training -------------------------------------------------------------------------------------------------------

namespace {

// Errors: value_error for a checkpoint that does not match this training.
void check_position(const checkpoint_position& p, const fit_options& o, std::int64_t images, std::int64_t shards,
                    std::int64_t batches) {
  const std::int64_t size = o.batch * o.accumulate;
  text t;
  if (p.seed != o.seed) t << "was written with seed " << p.seed << "; this training has seed " << o.seed;
  else if (p.shards != shards)
    t << "was written with " << p.shards << (p.shards == 1 ? " shard" : " shards") << " per batch; this training has "
      << shards;
  else if (p.batch_size != size || p.images != images)
    t << "was written with batches of " << p.batch_size << " from " << p.images
      << " images; this training has batches of " << size << " from " << images << " images";
  else if (p.batch >= batches || p.step != p.epoch * batches + p.batch)
    t << "is at batch " << p.batch << " of epoch " << p.epoch + 1 << " after " << p.step
      << " batches; this training has " << batches << " batches per epoch";
  else if (p.epoch + (p.batch > 0) > o.epochs)
    t << "has " << p.epoch << " epochs and " << p.batch << " batches already, but `epochs` is " << o.epochs
      << "; increase it, or remove the file to start over";
  else if (static_cast<std::int64_t>(p.epochs.size()) != p.epoch + (p.batch > 0)) t << "has no metrics of its epochs";
  if (t.empty()) return;
  text all;
  all << o.checkpoint << ": " << t;
  detail::raise(error_kind::value, all);
}

bool is_power(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Number of shards per batch. Errors: value_error for invalid or mismatched numbers.
std::int64_t shards_of(const fit_options& o) {
  const std::int64_t ranks = o.replicas ? o.replicas->count() : 1, shards = o.shards ? o.shards : o.replicas ? 8 : 1;
  text t;
  if (!is_power(shards) || shards > 4096)
    detail::raise(error_kind::value, t << "fit: `shards` is " << o.shards << "; expected a power of two up to 4096");
  if (!is_power(ranks) || shards % ranks != 0)
    detail::raise(error_kind::value, t << "fit: " << ranks << " replicas cannot share " << shards
                                       << " shards; expected a power of two, up to the number of shards");
  return shards;
}

// Errors: value_error if no batch is left, or if an update would have incomplete batches.
void check_buckets(const fit_options& o, std::int64_t samples) {
  text t;
  if (o.bucket_by && o.accumulate > 1 && !o.drop_last)
    detail::raise(error_kind::value,
                  "fit: `bucket_by` with `accumulate` has partial batches within an update; expected "
                  "`.drop_last = true`, or only one of them");
  if (!o.drop_last || batch_plan(samples, {.batch = o.batch, .drop_last = true, .bucket_by = o.bucket_by}).size() > 0)
    return;
  detail::raise(error_kind::value, t << "fit: `drop_last` drops all " << samples << " samples, which fill no batch of "
                                     << o.batch << (o.bucket_by ? " in any bucket" : ""));
}

// Copies the states of rank 0 for which `is_shared` is true to all processes.
template <class F> void take_states(parameter_store& store, replicas& all, F is_shared) {
  for (std::size_t i = 0; i < store.size(); ++i) {
    if (!is_shared(store[i])) continue;
    any_tensor v = store[i].value();
    all.broadcast(v.mutable_data(), v.bytes());
    store[i].assign(v);
  }
}

// Images per second over all epochs.
double mean_speed(const std::vector<epoch_report>& epochs) {
  double images = 0, seconds = 0;
  for (const auto& e : epochs) {
    images += e.images_per_second * e.seconds;
    seconds += e.seconds;
  }
  return seconds > 0 ? images / seconds : 0;
}

}  // namespace

// One call of `fit`.
class trainer::implementation::fitting {
 public:
  fitting(implementation& trainer, const sample_source& data, const fit_options& o)
      : at_(trainer),
        data_(data),
        o_(o),
        size_(o.batch * o.accumulate),
        batches_(updates_of(in_order_of(data.size())).size()),
        shards_(shards_of(o)),
        others_(o.replicas.get()),
        notifies_(o.observer && (!others_ || others_->rank() == 0)),
        writes_(!o.checkpoint.empty() && (!others_ || others_->rank() == 0)),
        reads_(data, trainer.training_reads(o, data)),
        slices_(shard_slices(o.batch, static_cast<bool>(o.change_batches), trainer.trained.batch.types())) {
    if (o.validation)
      checked_ = std::make_unique<batch_loader>(*o.validation, trainer.reading_of(o, "fit", " of the validation data"));
    plan();
  }

  training_report run() {
    together(others_, [&] {
      for (const auto& state : at_.net.parameters())
        if (!is_in_part(state)) state.require_elements();
    });
    const checkpoint_position position = start();
    begin_ = std::chrono::steady_clock::now();
    training_report report;
    report.epochs = position.epochs;
    bool continues = true;
    if (notifies_) alone(others_, [&] { continues = o_.observer.began(as_begun(position)); });
    report.stopped = !agreed(continues) && position.epoch < o_.epochs;
    if (others_) share_states();
    if (const auto* parts = parts_of_optimizer()) share_slots(*parts);
    // A partly trained epoch continues with its sums.
    epoch_report cut;
    if (position.batch > 0 && !report.stopped) {
      cut = report.epochs.back();
      report.epochs.pop_back();
    }
    for (std::int64_t i = position.epoch; i < o_.epochs && !report.stopped; ++i) {
      const epoch_updates all = updates_of(permutation(data_.size(), o_.seed, i));
      epoch e = i == position.epoch ? begun(i, position.batch, cut, all) : begun(i, 0, {}, all);
      const bool stop = train(e, all);
      report.stopped = e.done < batches_;
      at_.check_states(i + 1, e.now.learning_rate);
      report.epochs.push_back(figures(e));
      // After the last epoch, there is nothing left to stop.
      bool ends = stop;
      alone(others_, [&] { ends = end_epoch(e, report) || ends; });
      last_ = {};
      if (const auto* parts = parts_of_optimizer())
        others_->rank() == 0 ? parts->end_fetching() : parts->hand_over(at_.net.parameters());
      if (!report.stopped) report.stopped = agreed(ends) && i + 1 < o_.epochs;
    }
    report.seconds = seconds_since(begin_);
    report.images_per_second = mean_speed(report.epochs);
    report.arena_bytes = steps_ ? steps_->arena_bytes() : at_.arena_bytes;
    const scaling_state scaling = scaling_in(at_.net.parameters(), at_.how.scaling);
    report.loss_scale = scaling.scale;
    report.skipped_updates = scaling.skipped;
    if (notifies_) alone(others_, [&] { o_.observer.ended(report); });
    if (others_) share_states(), shared(report.best_epoch);
    return report;
  }

 private:
  // An epoch and its running sums.
  struct epoch {
    epoch_report before;              // figures of its batches before the resumed checkpoint
    std::int64_t earlier = 0;         // number of images in those batches
    std::int64_t done = 0, seen = 0;  // completed batches and images
    std::int64_t skipped = 0;
    double waited = 0, waited_before = 0;  // in this epoch; by the reader before this epoch
    double loss = 0;                       // sum over all images, weighted
    double weight = 0;                     // total weight of the loss
    std::int64_t hits = 0, ignored = 0;
    bool counts_hits = true;
    training_progress now;  // passed to observers
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

    double mean_loss() const { return loss / (weight == 0 ? 1 : weight); }
    double accuracy() const {
      return counts_hits ? static_cast<double>(hits) / static_cast<double>(std::max<std::int64_t>(seen - ignored, 1))
                         : std::numeric_limits<double>::quiet_NaN();
    }
  };

  void plan() {
    probe_.reset();
    if (shards_ > 1 || others_ || o_.accumulate > 1) {
      steps_ = at_.steps_in_shards(cut(), others_, o_.bucket_bytes);
    } else updates_ = at_.net.session_of(at_.train_program, at_.where);
    checks_ = at_.net.session_of(at_.check_program, at_.where);
  }
  batch_cut cut() const {
    return {o_.batch, shards_,
            static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(shards_ * o_.accumulate)))};
  }
  // An observer may assign another model to the trained one.
  void follow() {
    if (!at_.trace_for_parameters()) return;
    if (parts_of_optimizer())
      alone(others_, [] {
        detail::raise(error_kind::state,
                      "fit: the model was reassigned while `shard_optimizer` keeps its slots in "
                      "several processes; expected `.shard_optimizer = false`");
      });
    plan();
  }
  const optimizer_parts* parts_of_optimizer() const { return steps_ ? steps_->parts() : nullptr; }
  // Moves each slot to its owner, from the checkpoint or an earlier training.
  void share_slots(const optimizer_parts& parts) {
    parts.distribute(at_.net.parameters(), [this](std::string_view name) -> const any_tensor* {
      return resumed_ ? resumed_->file.find(name) : nullptr;
    });
    resumed_.reset();
  }

  // The decision of rank 0.
  bool agreed(bool yes) const {
    if (others_) others_->broadcast(&yes, sizeof yes);
    return yes;
  }
  // Start position; restores the states of the checkpoint, if resuming.
  checkpoint_position start() {
    if (!others_) return own_start();
    checkpoint_position at;
    if (others_->rank() == 0) alone(others_, [&] { at = own_start(); });
    shared(at.epoch), shared(at.batch), shared(at.step), shared(at.seed);
    std::size_t count = at.epochs.size();
    shared(count);
    at.epochs.resize(count);
    for (auto& e : at.epochs) shared(e);
    return at;
  }
  // Whether a state is a slot that only one process keeps.
  bool is_in_part(const parameter& state) const {
    const auto* parts = parts_of_optimizer();
    return parts && parts->has_slot(state.name());
  }
  // Copies the states of rank 0 to all processes.
  void share_states() {
    take_states(at_.net.parameters(), *others_, [this](const parameter& state) { return !is_in_part(state); });
  }
  training_start as_begun(const checkpoint_position& p) {
    training_start s{at_.net, o_.epochs, batches_, p.epoch, p.batch, p.epochs};
    if (p.batch > 0) s.before.pop_back();
    s.validates = o_.validation.has_value();
    s.has_accuracy = at_.trained.counts_hits;
    s.write_checkpoint = [this](const std::string& path) {
      if (!save_) detail::raise(error_kind::state, "write_checkpoint: call it from an observer at the end of an epoch");
      save_(path);
    };
    s.kept = p.observers;
    s.keep = [this](std::function<std::vector<named_tensor>()> f) { keepers_.push_back(std::move(f)); };
    s.gradients = [this] {
      if (last_.of.empty())
        detail::raise(error_kind::state,
                      "gradients: call it from an observer, after a batch or at the end of an epoch");
      follow();
      return probe().gradients(last_);
    };
    return s;
  }
  template <class T> void shared(T& x) const {
    static_assert(std::is_trivially_copyable_v<T>);
    others_->broadcast(&x, sizeof x);
  }
  checkpoint_position own_start() {
    if (!o_.resume || !std::filesystem::exists(o_.checkpoint)) return {0, 0, 0, o_.seed};
    auto found = read_checkpoint(at_.net.parameters(), o_.checkpoint);
    check_position(found.at, o_, data_.size(), shards_ * o_.accumulate, batches_);
    // Files of earlier versions have no schedule state. It is ignored if the current schedule has none.
    if (!found.at.schedule.empty() && !o_.schedule.state().empty())
      o_.schedule.restore(view<const double>(found.at.schedule));
    found.take([this](const parameter& state) { return !is_in_part(state); });
    const checkpoint_position at = found.at;
    if (parts_of_optimizer()) resumed_ = std::make_unique<checkpoint>(std::move(found));
    return at;
  }
  epoch begun(std::int64_t index, std::int64_t first_batch, const epoch_report& before,
              const epoch_updates& all) const {
    epoch e;
    e.before = before;
    e.done = first_batch;
    e.skipped = before.skipped;
    e.earlier = e.seen = all.samples_before(first_batch) - before.skipped;
    e.weight = before.weight > 0 || at_.trained.has_weight ? before.weight : static_cast<double>(e.seen);
    e.loss = before.loss * e.weight;
    e.ignored = before.ignored;
    if (before.accuracy > 0)
      e.hits = static_cast<std::int64_t>(before.accuracy * static_cast<double>(e.seen - e.ignored) + 0.5);
    e.counts_hits = at_.trained.counts_hits;
    e.now.epoch = index + 1;
    e.now.epochs = o_.epochs;
    e.now.batches = batches_;
    return e;
  }

  // Runs the remaining batches of an epoch. Returns whether the observer ended training.
  bool train(epoch& e, const epoch_updates& updates) {
    bool stop = false;
    e.waited_before = reads_.report().waited;
    alone(others_, [&] { reads_.begin(read_from(e.done, updates), e.now.epoch - 1); });
    while (e.done < batches_ && !stop) {
      const view<const std::int64_t> samples = updates[e.done];
      const std::int64_t n = static_cast<std::int64_t>(samples.size()), before = (e.now.epoch - 1) * batches_ + e.done,
                         all = batches_ * o_.epochs;
      e.now.learning_rate = at_.scheduled_rate(o_.schedule, before, all, others_);
      e.now.batch = e.done + 1;
      follow();
      last_ = {samples, e.now.epoch - 1};
      const auto r = train_batch(e.now, n);
      e.now.batch_loss = r.loss / (r.weight == 0 ? 1 : r.weight);
      e.loss += r.loss;
      e.weight += r.weight;
      e.ignored += static_cast<std::int64_t>(r.ignored);
      e.hits += static_cast<std::int64_t>(r.hits);
      e.seen += static_cast<std::int64_t>(r.samples);
      e.skipped += n - static_cast<std::int64_t>(r.samples);
      ++e.done;
      if (notifies_) alone(others_, [&] { stop = !notify_observer(e, before, all); });
      stop = agreed(stop);
    }
    if (e.done == batches_ && e.seen == 0) refuse_none_left(reads_);
    e.waited = reads_.report().waited - e.waited_before;
    return stop;
  }
  // Notifies the observer of a batch. Returns whether training continues.
  bool notify_observer(epoch& e, std::int64_t before, std::int64_t all) const {
    e.now.loss = e.mean_loss();
    e.now.accuracy = e.accuracy();
    e.now.waited = e.before.waited + reads_.report().waited - e.waited_before;
    e.now.skipped = e.skipped;
    e.now.seconds = seconds_since(begin_);
    e.now.images_per_second = static_cast<double>(e.seen - e.earlier) / std::max(seconds_since(e.begin), 1e-9);
    e.now.seconds_left = static_cast<double>((all - before - 1) * size_) / e.now.images_per_second;
    return o_.observer(e.now);
  }
  static std::vector<std::int64_t> in_order_of(std::int64_t n) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), std::int64_t(0));
    return all;
  }
  // The updates of an epoch, with samples in this order.
  epoch_updates updates_of(const std::vector<std::int64_t>& order) const {
    return {batch_plan(view<const std::int64_t>(order),
                       {.batch = o_.batch, .drop_last = o_.drop_last, .bucket_by = o_.bucket_by}),
            o_.accumulate};
  }
  // The samples that this process reads, from batch `from` of an epoch on.
  batch_plan read_from(std::int64_t from, const epoch_updates& updates) const {
    batch_plan plan;
    for (std::int64_t b = from; b < batches_; ++b) {
      // Shards are read again for each gradient of the batch.
      for (int i = 0; steps_ && i < at_.step.gradients_per_batch; ++i) slices_.add_to(plan, *steps_, updates[b]);
      if (!steps_) plan.add(updates[b]);
    }
    return plan;
  }
  void load_batch() { at_.trained.batch.load(*reads_.next()); }
  // A step on a batch with sums over shards and processes.
  shard_sums train_shards(const training_progress& now, std::int64_t samples) {
    slices_.begin(*steps_, samples);
    auto r = steps_->gradients(samples, [this]() -> const batch_operands& {
      return slices_.next(at_.trained.batch, [this] { load_batch(); });
    });
    if (r.samples == 0) return r;  // all samples were skipped
    if (!std::isfinite(r.loss)) refuse(now, "the loss", probe().not_finite(last_));
    if (o_.check_gradients && !finite_for_all()) refuse(now, "a gradient", probe().not_finite(last_));
    steps_->update(now.learning_rate);
    return r;
  }
  // Trains on a batch; returns the sums over its samples before the update.
  shard_sums train_batch(const training_progress& now, std::int64_t samples) {
    const int gradients = at_.step.gradients_per_batch;
    if (gradients == 1) return train_once(now, samples, false);
    return at_.earlier.whole(at_.net.parameters(), gradients, [&] {
      const shard_sums found = train_once(now, samples, false);
      for (int i = 1; i < gradients; ++i) train_once(now, samples, true);
      return found;
    });
  }
  // A step on the next batch, or on the same one if `again`.
  shard_sums train_once(const training_progress& now, std::int64_t samples, bool again) {
    text t;
    try {
      if (steps_) return train_shards(now, samples);
      if (!again) load_batch();
      const std::int64_t n = at_.trained.batch.count();
      if (n == 0) return {};
      const auto found = at_.run_batch(updates_, now.learning_rate, true);
      if (!std::isfinite(found.loss)) refuse(now, "the loss", probe().not_finite(last_));
      return {found.loss * found.weight, static_cast<double>(found.hits), static_cast<double>(n),
              static_cast<double>(found.ignored), found.weight};
    } catch (const stopped_error& why) {
      detail::raise(error_kind::stopped, t << "fit: stopped in epoch " << now.epoch << ", batch " << now.batch << " of "
                                           << batches_ << ", before its update: " << why.what());
    } catch (const not_finite_error&) { throw; } catch (const sample_error&) {
      throw;
    } catch (const value_error&) {
      // Raised for a gradient, if checked, or for labels.
      const auto why = o_.check_gradients ? probe().not_finite(last_) : std::string();
      if (why.empty()) throw;
      refuse(now, "a gradient", why);
    }
  }
  // Whether all gradients are finite; with a sharded optimizer, each process has only the sums of its part.
  bool finite_for_all() {
    double not_finite = steps_->finite() ? 0 : 1;
    if (steps_->parts()) others_->sum(view<double>(&not_finite, 1));
    return not_finite == 0;
  }
  // Ends training before the update of a batch.
  [[noreturn]] static void refuse(const training_progress& now, std::string_view what, const std::string& why) {
    text t;
    t << "fit: " << what << " is not finite in epoch " << now.epoch << ", batch " << now.batch
      << "; a smaller learning rate may help (now " << now.learning_rate << ")" << why;
    throw not_finite_error(t.string());
  }
  // Computes gradients without an update, for whole batches even with replicas.
  batch_probe& probe() {
    if (!probe_) {
      auto reading = at_.training_reads(o_, data_);
      reading.threads = 0;
      probe_ = std::make_unique<batch_probe>(at_.steps_in_shards(cut(), nullptr, 0, false), at_.net, at_.where,
                                             at_.trained.batch.types(), data_, reading, slices_);
    }
    return *probe_;
  }

  // The report of an epoch, with validation if all of its batches are done.
  epoch_report figures(const epoch& e) {
    epoch_report r;
    r.epoch = e.now.epoch;
    r.seconds = e.before.seconds + seconds_since(e.begin);
    r.loss = e.mean_loss();
    r.accuracy = e.accuracy();
    r.learning_rate = e.now.learning_rate;
    r.images_per_second = static_cast<double>(e.seen) / std::max(r.seconds, 1e-9);
    r.waited = e.before.waited + e.waited;
    r.skipped = e.skipped;
    r.weight = e.weight;
    r.ignored = e.ignored;
    if (o_.validation && e.done == batches_) {
      follow();
      const auto found = at_.measured(checks_, *checked_, at_.batch_of_model(validation_batch), others_);
      r.validation_loss = found.loss;
      r.validation_skipped = found.skipped;
      if (at_.checked.counts_hits) r.validation_accuracy = found.accuracy;
    }
    return r;
  }
  void save(const epoch& e, const training_report& report, const std::string& path, bool ended) const {
    const std::int64_t whole = e.now.epoch - 1;
    std::vector<named_tensor> kept;
    for (const auto& keeper : keepers_)
      for (auto& t : keeper()) kept.push_back(std::move(t));
    write_checkpoint(
        at_.net.parameters(),
        {report.stopped ? whole : whole + 1, report.stopped ? e.done : 0, whole * batches_ + e.done, o_.seed, size_,
         data_.size(), shards_ * o_.accumulate, report.epochs, o_.schedule.state(), ended, std::move(kept)},
        path, [this](const parameter& slot, writer& out) { parts_of_optimizer()->fetch(slot, out); });
  }
  // Notifies the observer of the end of an epoch, then writes the checkpoint with the schedule's current state, even if
  // the observer fails. Returns whether the observer ends training.
  bool end_epoch(epoch& e, const training_report& report) {
    bool ends = false;
    const auto write = [&] {
      if (writes_) save(e, report, o_.checkpoint, ends && e.now.epoch < o_.epochs);
    };
    if (notifies_ && !report.stopped) {
      save_ = [&](const std::string& path) { save(e, report, path, false); };
      try {
        ends = !observe(e, report.epochs.back());
      } catch (...) {
        save_ = nullptr;
        write();
        throw;
      }
      save_ = nullptr;
    }
    write();
    return ends;
  }
  // Notifies the observer of the end of an epoch. Returns whether training continues.
  bool observe(epoch& e, const epoch_report& r) const {
    e.now.epoch_ended = true;
    e.now.loss = r.loss;
    e.now.accuracy = r.accuracy;
    e.now.waited = r.waited;
    e.now.skipped = r.skipped;
    e.now.seconds = seconds_since(begin_);
    e.now.images_per_second = r.images_per_second;
    e.now.validation_loss = r.validation_loss;
    e.now.validation_accuracy = r.validation_accuracy;
    return o_.observer(e.now);
  }

  implementation& at_;
  const sample_source& data_;
  const fit_options& o_;
  const std::int64_t size_;       // samples per update
  const std::int64_t batches_;    // updates per epoch
  const std::int64_t shards_;     // shards per batch
  replicas* const others_;        // null: this process alone
  const bool notifies_, writes_;  // whether this process notifies the observer, writes the checkpoint
  batch_loader reads_;
  shard_slices slices_;
  std::unique_ptr<batch_loader> checked_;  // reads the validation data
  session updates_, checks_;
  batch_samples last_;                            // samples of the last step; none between epochs
  std::unique_ptr<batch_probe> probe_;            // created when a batch is repeated
  std::function<void(const std::string&)> save_;  // writes a checkpoint at the end of an epoch; else empty
  std::vector<std::function<std::vector<named_tensor>()>> keepers_;  // observers' functions for checkpoint contents
  std::unique_ptr<checkpoint> resumed_;                              // checkpoint with optimizer slots still to be read
  std::unique_ptr<shard_steps> steps_;                               // used if a batch has shards; else `updates_`
  std::chrono::steady_clock::time_point begin_;
};

// Errors: value_error for data without samples, which would mean no steps or a validation loss over nothing.
static void check_sizes(const sample_source& data, const fit_options& o) {
  if (data.size() == 0) detail::raise(error_kind::value, "fit: the data set is empty");
  if (o.validation && o.validation->size() == 0)
    detail::raise(error_kind::value,
                  "fit: the validation data are empty; expected a sample or more, or no `validation`");
}

training_report trainer::fit(const sample_source& samples, const fit_options& options) {
  auto& at = *impl_;
  sample_source data = samples;
  fit_options o = options;
  if (o.epochs < 1 || o.batch < 1) detail::raise(error_kind::value, "fit: epochs and batch must be positive");
  if (o.accumulate < 1 || o.accumulate > max_accumulated || o.batch > std::numeric_limits<std::int64_t>::max() / 8192) {
    text t;
    detail::raise(error_kind::value, t << "fit: `accumulate` is " << o.accumulate << " with batches of " << o.batch
                                       << "; expected 1 to 4096 batches, and a total that fits int64");
  }
  if (o.resume && o.checkpoint.empty())
    detail::raise(error_kind::value,
                  "fit: `resume` is true and `checkpoint` is empty; expected the file to continue from");
  check_sizes(data, o);
  if (o.scaling && o.check_gradients)
    detail::raise(error_kind::value,
                  "fit: `check_gradients` with `scaling`, which skips updates with non-finite gradients; "
                  "expected only one of them");
  if (o.scaling && o.shard_optimizer)
    detail::raise(error_kind::unsupported, "fit: `shard_optimizer` with `scaling`; expected only one of them");
  check_gradients_per_batch("fit", at.step, o.scaling.has_value(), 1);
  check_buckets(o, data.size());
  shards_of(o);
  if (at.checks_gradients != o.check_gradients) at.parameters = 0;  // programs are rebuilt
  at.checks_gradients = o.check_gradients;
  if (o.bucket_bytes < 0) {
    text t;
    detail::raise(error_kind::value, t << "fit: `bucket_bytes` is " << o.bucket_bytes << "; expected 0 or more");
  }
  at.in_parts = o.shard_optimizer && o.replicas && o.replicas->count() > 1;
  together(o.replicas.get(), [&] {
    const step_options how{o.compute, o.scaling, o.recompute};
    check_step_options("fit", how, at.net.definition().element);
    if (how != at.how) at.parameters = 0;
    at.how = how;
    data = at.bound(samples, "fit", "training data", o.fill);
    if (o.validation) o.validation = at.bound(*o.validation, "fit", "validation data", o.fill);
    at.trace_for(data, o.change_batches);
    at.check_batches(data, o.batch, "training data", o.drop_last, static_cast<bool>(o.bucket_by));
    const bool skips = o.on_error == sample_failure::skip;
    if (skips) check_open_batch("fit", at.net.definition());
    else at.check_labels(data, "fit", "training data");
    if (o.validation) {
      at.check_fields(*o.validation, "validation data");
      at.check_batches(*o.validation, at.batch_of_model(validation_batch), "validation data");
      if (!skips) at.check_labels(*o.validation, "fit", "validation data");
    }
  });
  if (o.threads > 0 && o.threads != at.where->threads())
    at.where = std::make_shared<context>(o.threads, at.where->isa());
  return implementation::fitting(at, data, o).run();
}

// ---- step by step ---------------------------------------------------------------------------------------------------

scaling_state training_core::scaling() const {
  here();
  return scaling_in(net_.parameters(), how_.scaling);
}
void training_core::here() const {
  if (!operands_) [[unlikely]]  // a moved-from std::function may still hold its function
    detail::raise(error_kind::state, "training: this object was moved from");
}
training_core::training_core(model_core& net, trainer::loss_rule loss, trainer::step_rule step, double rate,
                             const training_options& o)
    : net_(net),
      loss_(std::move(loss)),
      step_(std::move(step)),
      how_{o.compute, o.scaling, o.recompute},
      accumulate_(o.accumulate),
      others_(o.replicas),
      operands_(std::make_shared<batch_operands>(std::vector<dtype>())) {
  if (o.accumulate < 1 || o.accumulate > max_accumulated) {
    text t;
    detail::raise(error_kind::value, t << "training: `accumulate` is " << o.accumulate << "; expected 1 to "
                                       << max_accumulated << " batches");
  }
  if (others_ && !is_power(others_->count())) {
    text t;
    detail::raise(error_kind::value, t << "training: " << others_->count() << " replicas; expected a power of two");
  }
  check_step_options("training", how_, net.definition().element);
  check_gradients_per_batch("training", step_, how_.scaling.has_value(), accumulate_, others_ != nullptr);
  if (step_.gradients_per_batch > 1) before_ = std::make_shared<state_copies>();
  this->rate(rate);
}
void training_core::rate(double r) {
  here();
  detail::check_rate("training", "`lr`", r, net_.definition().element);
  rate_ = r;
}

void training_core::trace_for(view<const tensor_type> targets) {
  const auto& d = net_.definition();
  auto& store = net_.parameters();
  auto p = std::make_shared<program>();
  std::vector<value> in, target_inputs;
  for (const auto& i : d.inputs) in.push_back(p->input(i.name, i.type));
  for (const auto& t : targets) target_inputs.push_back(p->input("targets", t));
  auto outputs = trace(d, *p, store, net_.options().seed, true, view<const value>(in));
  const loss_terms found =
      loss_value(*p, d.element, view<const value>(outputs), view<const value>(target_inputs), loss_);
  p->output("loss", found.loss);
  const bool joins = (accumulate_ > 1 || others_) && !found.weight.empty();
  if (joins) p->output("weight", found.weight);
  p->path.clear();
  checks_ = std::make_shared<const sample_checks>(*p, d.inputs.size(), p->inputs().size());
  p = in_precision(p, how_);
  const value l(p.get(), p->outputs()[0].value);
  if (accumulate_ > 1 || others_) {
    trainable_weights(*p, store);
    const auto own = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(accumulate_)));
    const batch_cut cut{1, 1, own * (others_ ? others_->count() : 1)};
    const auto update = [&](program& into, view<const value> of, view<const value> g) {
      add_updates(into, store, d.element, of, g, step_, how_);
    };
    const auto scale = [&](const value& loss) { return how_.scaling ? scaled_loss(loss, *how_.scaling, store) : loss; };
    const value no_hits = p->number(std::int64_t(0), dtype::int64);
    step_figures parts{l.id(), no_hits.id(), {}, found.is_sum};
    if (joins) parts.weight = p->outputs()[1].value;
    auto programs = in_shards(*p, store, d.element, cut.shards, parts, scale, update, how_.recompute, nullptr);
    if (others_ && shards_wait(*programs.gradients))
      detail::raise(error_kind::unsupported,
                    "training: `replicas` with layers whose statistics are `across_shards`; expected `fit`, or only "
                    "one of them");
    if (others_ && !group_) take_states(store, *others_, [](const parameter&) { return true; });
    group_ = std::make_shared<shard_steps>(std::move(programs), net_, net_.where(), d.element, cut, others_.get(), 0,
                                           nullptr);
  } else {
    session_ = net_.session_of(with_update(p, l, store, d.element, step_, how_, finite_checks::none), net_.where());
  }
  targets_.assign(targets.begin(), targets.end());
  parameters_ = store.identity();
}

double training_core::run(const sample_batch& batch) {
  here();
  const auto& inputs = net_.definition().inputs;
  text t;
  if (batch.fields() <= inputs.size())
    detail::raise(error_kind::value, t << "training: samples have " << batch.fields()
                                       << (batch.fields() == 1 ? " field" : " fields") << "; expected at least "
                                       << inputs.size() + 1
                                       << ": the inputs of the model in their order, then the targets");
  std::vector<dtype> types;
  for (std::size_t f = 0; f < batch.fields(); ++f) {
    const dtype given = batch.type(f).element;
    types.push_back(f < inputs.size() ? inputs[f].type.element : target_type(given, net_.definition().element));
    if (!converts_to(given, types[f]))
      detail::raise(error_kind::type, t << "training: input `" << printable(inputs[f].name) << "` of the model is "
                                        << inputs[f].type << "; field " << f << " of the samples is " << given);
  }
  if (operands_->types() != types) operands_ = std::make_shared<batch_operands>(types);
  operands_->load(batch);
  try {
    return run(view<const shape>(operands_->shapes()), view<const void* const>(operands_->data()),
               view<const dtype>(types).subview(inputs.size(), types.size() - inputs.size()));
  } catch (const value_error&) {
    if (!checks_) throw;
    const auto wrong = checks_->problems(batch, false);
    if (wrong.empty()) throw;
    raise_problem({.reader = "training"}, batch, wrong[0]);
  }
}

double training_core::run(view<const shape> extents, view<const void* const> data, view<const dtype> targets) {
  here();
  const std::size_t inputs = extents.size() - targets.size();
  const auto same = [&](std::size_t i) {
    return targets_[i].element == targets[i] && targets_[i].dims.rank == extents[inputs + i].rank;
  };
  bool known = parameters_ == net_.parameters().identity() && targets_.size() == targets.size();
  for (std::size_t i = 0; known && i < targets.size(); ++i) known = same(i);
  if (!known) {
    if (group_ && group_->added() > 0 && parameters_ == net_.parameters().identity()) {
      text t;
      detail::raise(error_kind::value, t << "training: targets changed type or rank after " << group_->added() << " of "
                                         << accumulate_ << " batches of an update; expected the same in all");
    }
    std::vector<tensor_type> types;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      types.push_back({targets[i], extents[inputs + i]});
      for (int k = 0; k < types[i].dims.rank; ++k) types[i].dims[k] = dyn;
    }
    trace_for(view<const tensor_type>(types));
  }
  if (group_) {
    const double loss = group_->add(extents, data, accumulate_);
    if (group_->added() == 0) group_->update(rate_);
    arena_bytes_ = group_->arena_bytes();
    return loss;
  }
  extents_.assign(extents.begin(), extents.end());
  extents_.emplace_back();
  if (!before_) return run_once(data);
  return before_->whole(net_.parameters(), step_.gradients_per_batch, [&] {
    const double loss = run_once(data);
    for (int i = 1; i < step_.gradients_per_batch; ++i) run_once(data);
    return loss;
  });
}

// A step on operands with the same extents as the last ones.
double training_core::run_once(view<const void* const> data) {
  const auto& d = net_.definition();
  executor& run = session_.at(view<const shape>(extents_));
  arena_bytes_ = run.plan().arena_bytes();
  for (std::size_t i = 0; i < data.size(); ++i) run.bind_input(i, data[i]);
  const float single = static_cast<float>(rate_);
  if (d.element == dtype::float64) run.bind_input(data.size(), &rate_);
  else run.bind_input(data.size(), &single);
  float loss32 = 0;
  double loss64 = 0;
  run.bind_output(0, d.element == dtype::float64 ? static_cast<void*>(&loss64) : &loss32);
  run.run();
  return d.element == dtype::float64 ? loss64 : static_cast<double>(loss32);
}

}  // namespace lamina
