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
import :optimize;
import :parameter;
import :plan;
import :program;
import :random;
import :shape;
import :tensor;
import :train;
import :train.optim;
import lamina.std;

namespace lamina {

namespace {

constexpr std::string_view step_name = "optimiser.step";

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

struct trainer::implementation {
  model_core& net;
  loss_rule loss;
  step_rule step;
  double base_rate;
  std::shared_ptr<program> train_program, check_program;
  std::shared_ptr<context> where;
  std::vector<std::byte> images;            // the current batch in the model's element type
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;

  // Inputs: images, labels, and for training the learning rate. Outputs: mean loss, number of hits.
  std::shared_ptr<program> traced(bool training) {
    const auto& d = net.definition();
    if (d.inputs.size() != 1 || d.outputs.size() != 1)
      detail::raise(error_kind::value, "fit: the model must have one input and one output to be trained on images and labels");
    auto p = std::make_shared<program>();
    value x = p->input(d.inputs[0].name, d.inputs[0].type);
    value y = p->input("labels", {dtype::int64, shape{d.inputs[0].type.dims[0]}});
    auto outputs = trace(d, *p, net.parameters(), net.options().seed, training, {&x, 1});
    p->path = "loss";
    value l = loss(outputs[0], y);
    p->output("loss", l);
    p->path = "accuracy";
    p->output("hits", reduce_sum(cast<std::int64_t>(argmax(outputs[0]) == y)));
    p->path.clear();
    if (!training) return p;

    std::vector<value> weights;
    auto& store = net.parameters();
    for (auto s : p->states()) {
      const parameter* w = store.find(p->at(s).name);
      if (w->role() == state_role::parameter && w->trainable()) weights.emplace_back(p.get(), value_id{s, 0});
    }
    if (weights.empty()) detail::raise(error_kind::state, "fit: no parameter of the model is trainable");
    auto g = gradients(l, view<const value>(weights));
    value rate = p->input("learning rate", {d.element, {}});
    if (!store.find(step_name)) store.make(std::string(step_name), {dtype::float32, {}}, initialiser::constant(0), 0, state_role::optimiser, false);
    value count = p->state(step_name, {dtype::float32, {}});
    value next = count + 1;
    p->assign(count, next);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      update_scope scope(*p, store, p->at(weights[i].id()).name, rate, next);
      p->assign(weights[i], step(scope, weights[i], g[i]));
    }
    return p;
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

  // Reads the examples of a batch; runs of them side by side.
  void load(const image_dataset& data, view<const std::int64_t> indices) {
    auto n = indices.size();
    auto each = static_cast<std::size_t>(data.image_shape().size());
    pixels.resize(n * each);
    labels.resize(n);
    struct job { const image_dataset& data; view<const std::int64_t> indices; float* pixels; std::int64_t* labels; std::size_t each; } j{data, indices, pixels.data(), labels.data(), each};
    static constexpr std::size_t run = 32;
    auto work = [](void* state, std::size_t i, int) {
      auto& at = *static_cast<job*>(state);
      std::size_t first = i * run, count = std::min(run, at.indices.size() - first);
      at.data.batch(at.indices.subview(first, count), at.pixels + first * at.each, at.labels + first);
    };
    std::size_t runs = (n + run - 1) / run;
    if (where->threads() > 1) where->pool().run(runs, work, &j);
    else for (std::size_t i = 0; i < runs; ++i) work(&j, i, 0);
    if (net.definition().element == dtype::float64) {
      images.resize(pixels.size() * sizeof(double));
      auto* out = reinterpret_cast<double*>(images.data());
      for (std::size_t i = 0; i < pixels.size(); ++i) out[i] = pixels[i];
    }
  }
  const void* loaded() const { return net.definition().element == dtype::float64 ? static_cast<const void*>(images.data()) : pixels.data(); }

  struct batch_result { double loss; std::int64_t hits; };
  batch_result run_batch(plan_runner& plans, const image_dataset& data, view<const std::int64_t> indices, double rate, bool training) {
    load(data, indices);
    auto n = static_cast<std::int64_t>(indices.size());
    const shape shapes[] = {batch_shape(n, data), shape{dim(n)}, shape{}};
    executor& e = plans.at({shapes, training ? 3u : 2u}, net.definition());
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
      t << why.what() << "; the labels of this batch are " << *low << ".." << *high << ", the output of the model is " << net.definition().outputs[0].type.dims;
      detail::raise(error_kind::value, t);
    }
    return {wide ? loss64 : static_cast<double>(loss32), hits};
  }
};

trainer::trainer(model_core& net, loss_rule loss, step_rule step, double rate) : impl_(new implementation{net, std::move(loss), std::move(step), rate, {}, {}, net.where(), {}, {}, {}}) {
  if (impl_->step) impl_->train_program = impl_->traced(true);
  impl_->check_program = impl_->traced(false);
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
  plan_runner plans(at.check_program, &at.net.parameters(), at.where, at.net.options().passes);
  evaluation r;
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), std::int64_t(0));
  for (std::int64_t first = 0; first < data.size(); first += batch) {
    auto n = std::min(batch, data.size() - first);
    auto b = at.run_batch(plans, data, {order.data() + first, static_cast<std::size_t>(n)}, 0, false);
    r.loss += b.loss * static_cast<double>(n);
    r.accuracy += static_cast<double>(b.hits);
  }
  if (data.size()) {
    r.loss /= static_cast<double>(data.size());
    r.accuracy /= static_cast<double>(data.size());
  }
  return r;
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

void save_checkpoint(const parameter_store& store, const checkpoint_position& at, const std::string& path) {
  std::vector<named_tensor> all;
  for (std::size_t i = 0; i < store.size(); ++i) all.push_back({store[i].name(), store[i].value()});
  write_safetensors(path, view<const named_tensor>(all.data(), all.size()),
                    {{"format", "lamina checkpoint 1"}, {"epoch", std::to_string(at.epoch)}, {"batch", std::to_string(at.batch)},
                     {"step", std::to_string(at.step)}, {"seed", std::to_string(at.seed)}});
}

namespace {

// A checkpoint that fits a store; the store does not change before `take`.
struct checkpoint {
  safetensors_file file;
  checkpoint_position at;
  std::vector<std::pair<parameter*, const any_tensor*>> found;
  void take() const {
    for (auto& [p, v] : found) p->assign(*v);
  }
};

checkpoint read_checkpoint(parameter_store& store, const std::string& path) {
  checkpoint c{read_safetensors(path), {}, {}};
  const auto& file = c.file;
  auto fail = [&](std::string_view field, std::string_view words) {
    text t;
    t << path << ": " << field << " " << words;
    detail::raise(error_kind::file, t);
  };
  if (auto f = file.metadata.find("format"); f == file.metadata.end() || f->second != "lamina checkpoint 1") fail("metadata `format`", "is not `lamina checkpoint 1`, so this is no checkpoint");
  auto number = [&](const char* name) {
    auto f = file.metadata.find(name);
    char* end = nullptr;
    std::int64_t v = f == file.metadata.end() ? -1 : static_cast<std::int64_t>(std::strtoll(f->second.c_str(), &end, 10));
    if (f == file.metadata.end() || f->second.empty() || *end) fail(std::string("metadata `") + name + "`", "is missing or no number");
    return v;
  };
  auto& at = c.at = {number("epoch"), number("batch"), number("step"), number("seed")};
  constexpr std::int64_t most = std::int64_t(1) << 31;
  if (at.epoch < 0 || at.epoch > most || at.batch < 0 || at.batch > most || at.step < 0) fail("the position", "is negative or beyond all bounds");
  for (std::size_t i = 0; i < store.size(); ++i) {
    const any_tensor* v = file.find(store[i].name());
    if (!v) fail("state `" + store[i].name() + "`", "is missing");
    if (v->type() != store[i].value().type()) {
      text w;
      w << "is " << v->type() << " and the model expects " << store[i].value().type();
      fail("state `" + store[i].name() + "`", w.view());
    }
    c.found.emplace_back(&store[i], v);
  }
  for (const auto& t : file.tensors)
    if (!store.find(t.name)) fail("state `" + t.name + "`", "is in the file, but not in the model");
  return c;
}

}  // namespace

checkpoint_position load_checkpoint(parameter_store& store, const std::string& path) {
  auto found = read_checkpoint(store, path);
  found.take();
  return found.at;
}

// ---- training -------------------------------------------------------------------------------------------------------

training_report trainer::fit(const image_dataset& data, const fit_options& o) {
  auto& at = *impl_;
  if (o.epochs < 1 || o.batch < 1) detail::raise(error_kind::value, "fit: epochs and batch must be positive");
  if (data.size() == 0) detail::raise(error_kind::value, "fit: the data set is empty");
  at.batch_shape(1, data);
  if (o.validation) at.batch_shape(1, *o.validation);
  if (o.threads > 0 && o.threads != at.where->threads()) at.where = std::make_shared<context>(o.threads, at.where->isa());
  plan_runner plans(at.train_program, &at.net.parameters(), at.where, at.net.options().passes);
  plan_runner checks(at.check_program, &at.net.parameters(), at.where, at.net.options().passes);

  const std::int64_t batches = (data.size() + o.batch - 1) / o.batch, steps = batches * o.epochs;
  checkpoint_position position{0, 0, 0, o.seed};
  if (o.resume && !o.checkpoint.empty() && std::filesystem::exists(o.checkpoint)) {
    auto found = read_checkpoint(at.net.parameters(), o.checkpoint);
    position = found.at;
    text t;
    if (position.seed != o.seed)
      t << o.checkpoint << ": was written with seed " << position.seed << " and training goes on with seed " << o.seed;
    else if (position.batch >= batches || position.step != position.epoch * batches + position.batch)
      t << o.checkpoint << ": stands at batch " << position.batch << " of epoch " << position.epoch + 1 << " after " << position.step
        << " batches, which is no place in epochs of " << batches << " batches";
    if (!t.empty()) detail::raise(error_kind::value, t);
    found.take();
  }
  auto begin = std::chrono::steady_clock::now();
  training_report report;
  double training_seconds = 0;
  std::int64_t trained = 0;
  for (std::int64_t epoch = position.epoch; epoch < o.epochs && !report.stopped; ++epoch) {
    auto order = permutation(data.size(), o.seed, epoch);
    auto epoch_begin = std::chrono::steady_clock::now();
    training_progress now;
    now.epoch = epoch + 1;
    now.epochs = o.epochs;
    now.batches = batches;
    double loss = 0;
    std::int64_t hits = 0, seen = 0;
    const std::int64_t first_batch = epoch == position.epoch ? position.batch : 0;
    for (std::int64_t b = first_batch; b < batches && !report.stopped; ++b) {
      std::int64_t first = b * o.batch, n = std::min(o.batch, data.size() - first);
      now.learning_rate = o.schedule(at.base_rate, epoch * batches + b, steps);
      auto r = at.run_batch(plans, data, {order.data() + first, static_cast<std::size_t>(n)}, now.learning_rate, true);
      loss += r.loss * static_cast<double>(n);
      hits += r.hits;
      seen += n;
      if (!std::isfinite(r.loss)) {
        text t;
        t << "fit: the loss is not finite in epoch " << epoch + 1 << ", batch " << b + 1 << "; a smaller learning rate may help (now " << now.learning_rate << ")";
        detail::raise(error_kind::value, t);
      }
      if (o.observer) {
        now.batch = b + 1;
        now.loss = loss / static_cast<double>(seen);
        now.accuracy = static_cast<double>(hits) / static_cast<double>(seen);
        now.seconds = seconds_since(begin);
        now.images_per_second = static_cast<double>(seen) / std::max(seconds_since(epoch_begin), 1e-9);
        now.seconds_left = static_cast<double>((steps - epoch * batches - b - 1) * o.batch) / now.images_per_second;
        if (!o.observer(now)) {
          report.stopped = true;
          if (!o.checkpoint.empty())
            save_checkpoint(at.net.parameters(), {b + 1 == batches ? epoch + 1 : epoch, b + 1 == batches ? 0 : b + 1, epoch * batches + b + 1, o.seed}, o.checkpoint);
        }
      }
    }
    epoch_report e;
    e.epoch = epoch + 1;
    e.seconds = seconds_since(epoch_begin);
    e.loss = loss / static_cast<double>(std::max<std::int64_t>(seen, 1));
    e.accuracy = static_cast<double>(hits) / static_cast<double>(std::max<std::int64_t>(seen, 1));
    e.learning_rate = now.learning_rate;
    e.images_per_second = static_cast<double>(seen) / std::max(e.seconds, 1e-9);
    training_seconds += e.seconds;
    trained += seen;
    if (o.validation && !report.stopped) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(o.validation->size()));
      std::iota(all.begin(), all.end(), std::int64_t(0));
      double v_loss = 0, v_hits = 0;
      constexpr std::int64_t chunk = 256;
      for (std::int64_t first = 0; first < o.validation->size(); first += chunk) {
        auto n = std::min(chunk, o.validation->size() - first);
        auto r = at.run_batch(checks, *o.validation, {all.data() + first, static_cast<std::size_t>(n)}, 0, false);
        v_loss += r.loss * static_cast<double>(n);
        v_hits += static_cast<double>(r.hits);
      }
      e.validation_loss = v_loss / static_cast<double>(std::max<std::int64_t>(o.validation->size(), 1));
      e.validation_accuracy = v_hits / static_cast<double>(std::max<std::int64_t>(o.validation->size(), 1));
    }
    report.epochs.push_back(e);
    if (!report.stopped && !o.checkpoint.empty()) save_checkpoint(at.net.parameters(), {epoch + 1, 0, (epoch + 1) * batches, o.seed}, o.checkpoint);
    if (o.observer && !report.stopped) {
      now.epoch_ended = true;
      now.loss = e.loss;
      now.accuracy = e.accuracy;
      now.seconds = seconds_since(begin);
      now.images_per_second = e.images_per_second;
      now.validation_loss = e.validation_loss;
      now.validation_accuracy = e.validation_accuracy;
      if (!o.observer(now)) report.stopped = true;
    }
  }
  report.seconds = seconds_since(begin);
  report.images_per_second = training_seconds > 0 ? static_cast<double>(trained) / training_seconds : 0;
  return report;
}

}  // namespace lamina
