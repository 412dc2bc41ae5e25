module lamina:train.impl;
import :context;
import :core;
import :data;
import :dtype;
import :execute;
import :gradient;
import :io;
import :model;
import :op;
import :op.elementwise;
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
import :train.checkpoint.impl;
import :train.optim;
import :train.replicas;
import :train.shards.impl;
import lamina.std;

namespace lamina {

namespace {

constexpr std::string_view step_name = "optimizer.step";
constexpr std::int64_t validation_batch = 256;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

namespace {
// Adds the loss as the output 0 of a program, which runs write into one number of the model's element type.
value loss_output(program& p, dtype element, const value& results, const value& targets,
                  const trainer::loss_rule& loss) {
  p.path = "loss";
  const value l = loss(results, targets);
  if (l.empty() || l.type() != tensor_type{element, {}}) {
    text t;
    t << "loss: it must give one number, " << tensor_type{element, {}} << ", and gives ";
    if (l.empty()) t << "an empty value";
    else t << l.type();
    if (!l.empty() && l.type().dims.rank > 0) t << "; average it, as in reduce_mean(x)";
    detail::raise(!l.empty() && l.type().element != element ? error_kind::type : error_kind::shape, t);
  }
  p.output("loss", l);
  return l;
}

// The trainable parameters that a program reads.
std::vector<value> trainable_weights(program& p, const parameter_store& store) {
  std::vector<value> weights;
  for (auto s : p.states()) {
    const parameter* w = store.find(p.at(s).name);
    if (w->role() == state_role::parameter && w->trainable()) weights.emplace_back(&p, value_id{s, 0});
  }
  if (weights.empty()) detail::raise(error_kind::state, "fit: no parameter of the model is trainable");
  return weights;
}

// An assignment of each weight by the optimizer's rule; the learning rate is an input.
void add_updates(program& p, parameter_store& store, dtype element, view<const value> weights, view<const value> g,
                 const trainer::step_rule& step) {
  value rate = p.input("learning rate", {element, {}});
  if (!store.find(step_name))
    store.make(std::string(step_name), {dtype::float32, {}}, initializer::constant(0), 0, state_role::optimizer, false);
  value count = p.state(step_name, {dtype::float32, {}});
  value next = count + 1;
  p.assign(count, next);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    update_scope scope(p, store, p.at(weights[i].id()).name, rate, next);
    p.assign(weights[i], step(scope, weights[i], g[i]));
  }
}
}  // namespace

struct trainer::implementation {
  class fitting;
  model_core& net;
  loss_rule loss;
  step_rule step;
  double base_rate;
  std::shared_ptr<program> train_program, check_program;
  std::shared_ptr<context> where;
  std::int64_t classes = 0;       // that the model tells apart; 0 where that is not known
  std::vector<std::byte> images;  // the current batch in the model's element type
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::uint64_t parameters = 0;  // identity of those that the programs were traced with

  // Images are read in the element type of the results.
  static void check_input(const model_definition& d) {
    const auto& [name, type] = d.inputs[0];
    text t;
    if (!is_real(d.element))
      detail::raise(error_kind::type, t << "fit: output `" << printable(d.outputs[0].name) << "` of the model is "
                                        << d.outputs[0].type << "; expected float32 or float64");
    if (type.element != d.element)
      detail::raise(error_kind::type, t << "fit: input `" << printable(name) << "` of the model is " << type
                                        << "; expected " << d.element << ", as its output is");
    if (type.dims.rank == 0)
      detail::raise(error_kind::shape, t << "fit: input `" << printable(name) << "` of the model is one number");
  }
  // How many images the model takes at a time; `otherwise` where that is open.
  std::int64_t batch_of_model(std::int64_t otherwise) const {
    const dim n = net.definition().inputs[0].type.dims[0];
    return n.is_number() ? n.code : otherwise;
  }
  // A model whose number of images is fixed takes no smaller last batch.
  void check_batches(const image_dataset& data, std::int64_t batch, std::string_view name) const {
    batch_shape(batch_of_model(1), data);
    if (data.size() == 0) return;
    const std::int64_t first = std::min(batch, data.size()), last = data.size() % first, n = batch_of_model(first);
    if (first == n && (last == 0 || batch_of_model(0) == 0)) return;
    text t;
    t << "fit: the model takes " << n << (n == 1 ? " image" : " images") << " at a time, and the " << name
      << " has batches of " << first;
    if (first == n) t << " and a last one of " << last;
    detail::raise(error_kind::shape, t << "; expected a batch of " << n << " that divides the number of images, or a "
                                       << "model whose first extent is open");
  }

  // Inputs: images and labels. Outputs: mean loss, number of hits.
  std::shared_ptr<program> forward(bool training) {
    const auto& d = net.definition();
    if (d.inputs.size() != 1 || d.outputs.size() != 1)
      detail::raise(error_kind::value,
                    "fit: the model must have one input and one output to be trained on images and labels");
    check_input(d);
    auto p = std::make_shared<program>();
    value x = p->input(d.inputs[0].name, d.inputs[0].type);
    value y = p->input("labels", {dtype::int64, shape{d.inputs[0].type.dims[0]}});
    auto outputs = trace(d, *p, net.parameters(), net.options().seed, training, {&x, 1});
    if (const auto& dims = outputs[0].type().dims; dims.rank == 2 && dims[1].is_number()) classes = dims[1].code;
    loss_output(*p, d.element, outputs[0], y, loss);
    p->path = "accuracy";
    p->output("hits", reduce_sum(cast<std::int64_t>(argmax(outputs[0]) == y)));
    p->path.clear();
    return p;
  }
  // The same, and for training the learning rate, and the update.
  std::shared_ptr<program> traced(bool training) {
    auto p = forward(training);
    if (!training) return p;
    auto& store = net.parameters();
    const auto weights = trainable_weights(*p, store);
    const auto g = gradients(value(p.get(), p->outputs()[0].value), view<const value>(weights));
    add_updates(*p, store, net.definition().element, view<const value>(weights), view<const value>(g), step);
    return p;
  }
  std::unique_ptr<shard_steps> steps_in_shards(std::int64_t shards, replicas* others) {
    auto& store = net.parameters();
    const dtype element = net.definition().element;
    const auto p = forward(true);
    trainable_weights(*p, store);
    const auto update = [&](program& into, view<const value> weights, view<const value> g) {
      add_updates(into, store, element, weights, g, step);
    };
    return std::make_unique<shard_steps>(
        in_shards(*p, store, element, shards, p->outputs()[0].value, p->outputs()[1].value, update), net, where,
        element, shards, others);
  }

  // Makes the programs where there are none, or where another model was assigned to this one. Whether it did.
  bool trace_for_parameters() {
    if (net.parameters().identity() == parameters) return false;
    if (step) train_program = traced(true);
    check_program = traced(false);
    parameters = net.parameters().identity();
    return true;
  }

  shape batch_shape(std::int64_t n, const image_dataset& data) const {
    shape s{dim(n)}, image = data.image_shape();
    for (int i = 0; i < image.rank; ++i) s.push_back(image[i]);
    const auto& pattern = net.definition().inputs[0].type.dims;
    if (!fits(pattern, s)) {
      text t;
      t << "fit: the model takes " << pattern << " and the images of the data set make " << s;
      detail::raise(error_kind::shape, t);
    }
    return s;
  }

  void check_labels(const image_dataset& data, std::string_view who, std::string_view name) const {
    if (classes == 0) return;
    const auto given = data.labels();
    const auto wrong =
        std::find_if(given.begin(), given.end(), [this](std::int64_t l) { return l < 0 || l >= classes; });
    if (wrong == given.end()) return;
    text t;
    t << who << ": label " << *wrong << " of image " << wrong - given.begin() << " of the " << name << " is outside 0.."
      << classes - 1 << "; the model has " << classes << (classes == 1 ? " class" : " classes");
    detail::raise(error_kind::value, t);
  }

  // The rate that a schedule gives for batch `at` of `all`.
  double scheduled_rate(const optim::schedule& schedule, std::int64_t at, std::int64_t all) const {
    const double rate = schedule(base_rate, at, all);
    // A name is made for a rate that may be wrong alone: this is called for each batch.
    if (!(rate >= 0) || rate > static_cast<double>(std::numeric_limits<float>::max()))
      detail::check_rate("fit", "the schedule's rate for step " + std::to_string(at), rate, net.definition().element);
    return rate;
  }

  // The last update of an epoch shows in no loss any more.
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
        << "; a smaller learning rate may help (now " << rate
        << "), and the model has to begin again or from a checkpoint";
      detail::raise(error_kind::value, t);
    }
  }

  // Reads the examples of a batch; runs of them side by side.
  void load(const image_dataset& data, view<const std::int64_t> indices) {
    auto n = indices.size();
    auto each = static_cast<std::size_t>(data.image_shape().size());
    pixels.resize(n * each);
    labels.resize(n);
    struct job {
      const image_dataset& data;
      view<const std::int64_t> indices;
      float* pixels;
      std::int64_t* labels;
      std::size_t each;
    } j{data, indices, pixels.data(), labels.data(), each};
    static constexpr std::size_t run = 32;
    auto work = [](void* state, std::size_t i, int) {
      auto& at = *static_cast<job*>(state);
      std::size_t first = i * run, count = std::min(run, at.indices.size() - first);
      at.data.batch(at.indices.subview(first, count), at.pixels + first * at.each, at.labels + first);
    };
    std::size_t runs = (n + run - 1) / run;
    if (where->threads() > 1) where->pool().run(runs, work, &j);
    else
      for (std::size_t i = 0; i < runs; ++i) work(&j, i, 0);
    if (net.definition().element == dtype::float64) {
      images.resize(pixels.size() * sizeof(double));
      auto* out = reinterpret_cast<double*>(images.data());
      for (std::size_t i = 0; i < pixels.size(); ++i) out[i] = pixels[i];
    }
  }
  const void* loaded() const {
    return net.definition().element == dtype::float64 ? static_cast<const void*>(images.data()) : pixels.data();
  }

  struct batch_result {
    double loss;
    std::int64_t hits;
  };
  batch_result run_batch(session& steps, const image_dataset& data, view<const std::int64_t> indices, double rate,
                         bool training) {
    load(data, indices);
    auto n = static_cast<std::int64_t>(indices.size());
    const shape shapes[] = {batch_shape(n, data), shape{dim(n)}, shape{}};
    executor& e = steps.at({shapes, training ? 3u : 2u});
    double loss64 = 0;
    float loss32 = 0, rate32 = static_cast<float>(rate);
    std::int64_t hits = 0;
    bool wide = net.definition().element == dtype::float64;
    e.bind_input(0, loaded());
    e.bind_input(1, labels.data());
    if (training) e.bind_input(2, wide ? static_cast<const void*>(&rate) : &rate32);
    e.bind_output(0, wide ? static_cast<void*>(&loss64) : &loss32);
    e.bind_output(1, &hits);
    try {
      e.run();
    } catch (const value_error& why) {
      auto [low, high] = std::minmax_element(labels.begin(), labels.end());
      text t;
      t << why.what() << "; the labels of this batch are " << *low << ".." << *high << ", the output of the model is "
        << net.definition().outputs[0].type.dims;
      detail::raise(error_kind::value, t);
    }
    return {wide ? loss64 : static_cast<double>(loss32), hits};
  }

  // Mean loss and accuracy over a data set, of which others take their share of the batches.
  evaluation measured(session& checks, const image_dataset& data, std::int64_t batch, replicas* others = nullptr) {
    evaluation r;
    std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
    std::iota(order.begin(), order.end(), std::int64_t(0));
    std::vector<double> found_of;  // loss and hits of each batch
    const std::int64_t ranks = others ? others->count() : 1, rank = others ? others->rank() : 0;
    alone(others, [&] {
      for (std::int64_t first = 0, b = 0; first < data.size(); first += batch, ++b) {
        const auto n = std::min(batch, data.size() - first);
        batch_result found{};
        if (b % ranks == rank)
          found = run_batch(checks, data, {order.data() + first, static_cast<std::size_t>(n)}, 0, false);
        found_of.push_back(found.loss * static_cast<double>(n));
        found_of.push_back(static_cast<double>(found.hits));
      }
    });
    if (others) others->sum(view<double>(found_of));
    for (std::size_t i = 0; i < found_of.size(); i += 2) {
      r.loss += found_of[i];
      r.accuracy += found_of[i + 1];
    }
    const auto count = static_cast<double>(std::max<std::int64_t>(data.size(), 1));
    return {r.loss / count, r.accuracy / count};
  }
};

trainer::trainer(model_core& net, loss_rule loss, step_rule step, double rate)
    : impl_(new implementation{net, std::move(loss), std::move(step), rate, {}, {}, net.where(), 0, {}, {}, {}}) {
  detail::check_rate("fit", "`lr`", rate, net.definition().element);
  impl_->trace_for_parameters();
}
trainer::~trainer() = default;

const program& trainer::step_program() const { return *impl_->train_program; }

std::string trainer::explain(std::int64_t batch) const {
  shape s = impl_->net.definition().inputs[0].type.dims;
  for (int i = 0; i < s.rank; ++i)
    if (!s[i].is_number()) s[i] = dim(batch);
  const shape shapes[] = {s, shape{s[0]}, shape{}};
  return make_plan(*impl_->train_program, {shapes, 3}, impl_->where->isa())->explain();
}

evaluation trainer::evaluate(const image_dataset& data, std::int64_t batch, int threads) {
  auto& at = *impl_;
  if (batch < 1) detail::raise(error_kind::value, "evaluate: batch must be positive");
  if (threads > 0 && threads != at.where->threads()) at.where = std::make_shared<context>(threads, at.where->isa());
  at.trace_for_parameters();
  at.check_labels(data, "evaluate", "data set");
  session checks = at.net.session_of(at.check_program, at.where);
  return at.measured(checks, data, batch);
}

// ---- training -------------------------------------------------------------------------------------------------------

namespace {

// Refuses a checkpoint that another training wrote than the one that is to go on.
void check_position(const checkpoint_position& p, const fit_options& o, std::int64_t images, std::int64_t shards) {
  const std::int64_t batches = (images + o.batch - 1) / o.batch;
  text t;
  if (p.seed != o.seed) t << "was written with seed " << p.seed << " and training goes on with seed " << o.seed;
  else if (p.shards != shards)
    t << "was written with " << p.shards << (p.shards == 1 ? " shard" : " shards")
      << " of each batch and training goes on with " << shards;
  else if (p.batch_size != o.batch || p.images != images)
    t << "was written with batches of " << p.batch_size << " from " << p.images
      << " images and training goes on with batches of " << o.batch << " from " << images << " images";
  else if (p.batch >= batches || p.step != p.epoch * batches + p.batch)
    t << "stands at batch " << p.batch << " of epoch " << p.epoch + 1 << " after " << p.step
      << " batches, which is no place in epochs of " << batches << " batches";
  else if (p.epoch + (p.batch > 0) > o.epochs)
    t << "has " << p.epoch << " epochs and " << p.batch << " batches already, and training is to have " << o.epochs
      << " epochs; ask for more, or remove the file to begin again";
  else if (static_cast<std::int64_t>(p.epochs.size()) != p.epoch + (p.batch > 0))
    t << "lacks the figures of its epochs";
  if (t.empty()) return;
  text all;
  all << o.checkpoint << ": " << t;
  detail::raise(error_kind::value, all);
}

// Into how many shards batches are cut. Errors: value_error for numbers that do not fit.
std::int64_t shards_of(const fit_options& o) {
  const auto is_power = [](std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; };
  const std::int64_t ranks = o.replicas ? o.replicas->count() : 1, shards = o.shards ? o.shards : o.replicas ? 8 : 1;
  text t;
  if (!is_power(shards) || shards > 4096)
    detail::raise(error_kind::value,
                  t << "fit: `shards` is " << o.shards << "; expected 1, 2, 4, 8 and so on, up to 4096");
  if (!is_power(ranks) || shards % ranks != 0)
    detail::raise(error_kind::value, t << "fit: " << ranks << " replicas cannot share " << shards
                                       << " shards; expected 1, 2, 4, 8 and so on of them, up to the number of shards");
  return shards;
}

// Images per second of all epochs.
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
  fitting(implementation& trainer, const image_dataset& data, const fit_options& o)
      : at_(trainer),
        data_(data),
        o_(o),
        batches_((data.size() + o.batch - 1) / o.batch),
        shards_(shards_of(o)),
        others_(o.replicas.get()),
        tells_(o.observer && (!others_ || others_->rank() == 0)),
        writes_(!o.checkpoint.empty() && (!others_ || others_->rank() == 0)) {
    plan();
  }

  training_report run() {
    const checkpoint_position position = start();
    begin_ = std::chrono::steady_clock::now();
    training_report report;
    report.epochs = position.epochs;
    // An epoch that was begun goes on with its sums.
    epoch_report cut;
    if (position.batch > 0) {
      cut = report.epochs.back();
      report.epochs.pop_back();
    }
    for (std::int64_t i = position.epoch; i < o_.epochs && !report.stopped; ++i) {
      const auto order = permutation(data_.size(), o_.seed, i);
      epoch e = i == position.epoch ? begun(i, position.batch, cut) : begun(i, 0, {});
      const bool stop = train(e, view<const std::int64_t>(order));
      report.stopped = e.done < batches_;
      at_.check_states(i + 1, e.now.learning_rate);
      report.epochs.push_back(figures(e));
      if (writes_) alone(others_, [&] { save(e, report); });
      // After the last epoch nothing is left to be ended.
      bool ends = stop;
      if (tells_ && !report.stopped) alone(others_, [&] { ends = !observe(e, report.epochs.back()) || ends; });
      if (!report.stopped) report.stopped = agreed(ends) && i + 1 < o_.epochs;
    }
    report.seconds = seconds_since(begin_);
    report.images_per_second = mean_speed(report.epochs);
    return report;
  }

 private:
  // An epoch and its sums so far.
  struct epoch {
    epoch_report before;              // figures of its batches before the checkpoint that training goes on from
    std::int64_t earlier = 0;         // images of those batches
    std::int64_t done = 0, seen = 0;  // batches and images
    double loss = 0;                  // of all images
    std::int64_t hits = 0;
    training_progress now;  // what observers are told
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

    double mean_loss() const { return loss / static_cast<double>(seen); }
    double accuracy() const { return static_cast<double>(hits) / static_cast<double>(seen); }
  };

  void plan() {
    if (shards_ > 1 || others_) steps_ = at_.steps_in_shards(shards_, others_);
    else updates_ = at_.net.session_of(at_.train_program, at_.where);
    checks_ = at_.net.session_of(at_.check_program, at_.where);
  }
  // An observer may assign another model to the one that is trained.
  void follow() {
    if (at_.trace_for_parameters()) plan();
  }

  // What rank 0 says.
  bool agreed(bool yes) const {
    if (others_) others_->broadcast(&yes, sizeof yes);
    return yes;
  }
  // Where training begins; the states are those of the checkpoint if there is one to continue from.
  checkpoint_position start() {
    if (!others_) return own_start();
    checkpoint_position at;
    if (others_->rank() == 0) alone(others_, [&] { at = own_start(); });
    shared(at.epoch), shared(at.batch), shared(at.step), shared(at.seed);
    std::size_t count = at.epochs.size();
    shared(count);
    at.epochs.resize(count);
    for (auto& e : at.epochs) shared(e);
    auto& store = at_.net.parameters();
    for (std::size_t i = 0; i < store.size(); ++i) {
      any_tensor v = store[i].value();
      others_->broadcast(v.mutable_data(), v.bytes());
      store[i].assign(v);
    }
    return at;
  }
  template <class T> void shared(T& x) const {
    static_assert(std::is_trivially_copyable_v<T>);
    others_->broadcast(&x, sizeof x);
  }
  checkpoint_position own_start() {
    if (!o_.resume || !std::filesystem::exists(o_.checkpoint)) return {0, 0, 0, o_.seed};
    auto found = read_checkpoint(at_.net.parameters(), o_.checkpoint);
    check_position(found.at, o_, data_.size(), shards_);
    found.take();
    return found.at;
  }
  epoch begun(std::int64_t index, std::int64_t first_batch, const epoch_report& before) const {
    epoch e;
    e.before = before;
    e.done = first_batch;
    e.earlier = e.seen = first_batch * o_.batch;
    e.loss = before.loss * static_cast<double>(e.seen);
    e.hits = static_cast<std::int64_t>(before.accuracy * static_cast<double>(e.seen) + 0.5);
    e.now.epoch = index + 1;
    e.now.epochs = o_.epochs;
    e.now.batches = batches_;
    return e;
  }

  // Runs the batches that are left of an epoch. Whether the observer ended training.
  bool train(epoch& e, view<const std::int64_t> order) {
    bool stop = false;
    while (e.done < batches_ && !stop) {
      const std::int64_t first = e.done * o_.batch, n = std::min(o_.batch, data_.size() - first),
                         before = (e.now.epoch - 1) * batches_ + e.done, all = batches_ * o_.epochs;
      e.now.learning_rate = at_.scheduled_rate(o_.schedule, before, all);
      e.now.batch = e.done + 1;
      follow();
      const auto r = train_batch(e.now, order.subview(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
      e.loss += r.loss * static_cast<double>(n);
      e.hits += r.hits;
      e.seen += n;
      ++e.done;
      if (tells_) alone(others_, [&] { stop = !tell(e, before, all); });
      stop = agreed(stop);
    }
    return stop;
  }
  // Tells the observer of a batch. Whether training goes on.
  bool tell(epoch& e, std::int64_t before, std::int64_t all) const {
    e.now.loss = e.mean_loss();
    e.now.accuracy = e.accuracy();
    e.now.seconds = seconds_since(begin_);
    e.now.images_per_second = static_cast<double>(e.seen - e.earlier) / std::max(seconds_since(e.begin), 1e-9);
    e.now.seconds_left = static_cast<double>((all - before - 1) * o_.batch) / e.now.images_per_second;
    return o_.observer(e.now);
  }
  // A step on a batch whose shards are summed, also over others.
  batch_result train_shards(view<const std::int64_t> indices, double rate) {
    const auto operands = [&](const batch_part& s, std::vector<shape>& extents, std::vector<const void*>& data) {
      at_.load(data_, indices.subview(static_cast<std::size_t>(s.first), static_cast<std::size_t>(s.count)));
      extents = {at_.batch_shape(s.count, data_), shape{dim(s.count)}};
      data = {at_.loaded(), at_.labels.data()};
    };
    const auto r = steps_->gradients(static_cast<std::int64_t>(indices.size()), operands);
    if (std::isfinite(r.loss)) steps_->update(rate);
    return {r.loss, static_cast<std::int64_t>(r.hits)};
  }
  batch_result train_batch(const training_progress& now, view<const std::int64_t> indices) {
    text t;
    try {
      const auto r = steps_ ? train_shards(indices, now.learning_rate)
                            : at_.run_batch(updates_, data_, indices, now.learning_rate, true);
      if (std::isfinite(r.loss)) return r;
    } catch (const stopped_error& why) {
      detail::raise(error_kind::stopped, t << "fit: stopped in epoch " << now.epoch << ", batch " << now.batch << " of "
                                           << batches_ << ", whose update is not done: " << why.what());
    }
    detail::raise(error_kind::value, t << "fit: the loss is not finite in epoch " << now.epoch << ", batch "
                                       << now.batch << "; a smaller learning rate may help (now " << now.learning_rate
                                       << ")");
  }

  // The figures of an epoch, also on the validation data if all of its batches are done.
  epoch_report figures(const epoch& e) {
    epoch_report r;
    r.epoch = e.now.epoch;
    r.seconds = e.before.seconds + seconds_since(e.begin);
    r.loss = e.mean_loss();
    r.accuracy = e.accuracy();
    r.learning_rate = e.now.learning_rate;
    r.images_per_second = static_cast<double>(e.seen) / std::max(r.seconds, 1e-9);
    if (o_.validation && e.done == batches_) {
      follow();
      const auto found = at_.measured(checks_, *o_.validation, at_.batch_of_model(validation_batch), others_);
      r.validation_loss = found.loss;
      r.validation_accuracy = found.accuracy;
    }
    return r;
  }
  void save(const epoch& e, const training_report& report) const {
    const std::int64_t whole = e.now.epoch - 1;
    save_checkpoint(at_.net.parameters(),
                    {report.stopped ? whole : whole + 1, report.stopped ? e.done : 0, whole * batches_ + e.done,
                     o_.seed, o_.batch, data_.size(), shards_, report.epochs},
                    o_.checkpoint);
  }
  // Tells the observer of the end of an epoch. Whether training goes on.
  bool observe(epoch& e, const epoch_report& r) const {
    e.now.epoch_ended = true;
    e.now.loss = r.loss;
    e.now.accuracy = r.accuracy;
    e.now.seconds = seconds_since(begin_);
    e.now.images_per_second = r.images_per_second;
    e.now.validation_loss = r.validation_loss;
    e.now.validation_accuracy = r.validation_accuracy;
    return o_.observer(e.now);
  }

  implementation& at_;
  const image_dataset& data_;
  const fit_options& o_;
  const std::int64_t batches_;  // of an epoch
  const std::int64_t shards_;   // of a batch
  replicas* const others_;      // null: this process alone
  const bool tells_, writes_;   // the observer, the checkpoint
  session updates_, checks_;
  std::unique_ptr<shard_steps> steps_;  // where a batch has shards; else `updates_`
  std::chrono::steady_clock::time_point begin_;
};

training_report trainer::fit(const image_dataset& data, const fit_options& o) {
  auto& at = *impl_;
  if (o.epochs < 1 || o.batch < 1) detail::raise(error_kind::value, "fit: epochs and batch must be positive");
  if (o.resume && o.checkpoint.empty())
    detail::raise(error_kind::value,
                  "fit: `resume` is true and `checkpoint` is empty; expected the file to continue from");
  if (data.size() == 0) detail::raise(error_kind::value, "fit: the data set is empty");
  shards_of(o);
  together(o.replicas.get(), [&] {
    at.trace_for_parameters();
    at.check_batches(data, o.batch, "training data");
    at.check_labels(data, "fit", "training data");
    if (o.validation) {
      at.check_batches(*o.validation, at.batch_of_model(validation_batch), "validation data");
      at.check_labels(*o.validation, "fit", "validation data");
    }
  });
  if (o.threads > 0 && o.threads != at.where->threads())
    at.where = std::make_shared<context>(o.threads, at.where->isa());
  return implementation::fitting(at, data, o).run();
}

// ---- step by step ---------------------------------------------------------------------------------------------------

void training_core::here() const {
  if (!loss_) [[unlikely]]
    detail::raise(error_kind::state, "training: it was moved to another one, which has its steps");
}
void training_core::rate(double r) {
  here();
  detail::check_rate("training", "`lr`", r, net_.definition().element);
  rate_ = r;
}

double training_core::run(view<const shape> extents, view<const void* const> data, dtype targets) {
  here();
  const auto& d = net_.definition();
  const shape& given = extents[extents.size() - 1];
  tensor_type wanted{targets, given};
  for (int i = 0; i < wanted.dims.rank; ++i) wanted.dims[i] = dyn;
  const auto parameters = net_.parameters().identity();
  if (targets_ != wanted || parameters_ != parameters) {
    auto p = std::make_shared<program>();
    std::vector<value> in;
    for (const auto& i : d.inputs) in.push_back(p->input(i.name, i.type));
    value y = p->input("targets", wanted);
    auto outputs = trace(d, *p, net_.parameters(), net_.options().seed, true, view<const value>(in));
    const value l = loss_output(*p, d.element, outputs[0], y, loss_);
    p->path.clear();
    const auto weights = trainable_weights(*p, net_.parameters());
    const auto g = gradients(l, view<const value>(weights));
    add_updates(*p, net_.parameters(), d.element, view<const value>(weights), view<const value>(g), step_);
    session_ = net_.session_of(p, net_.where());
    targets_ = wanted;
    parameters_ = parameters;
  }
  extents_.assign(extents.begin(), extents.end());
  extents_.emplace_back();
  executor& run = session_.at(view<const shape>(extents_));
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
