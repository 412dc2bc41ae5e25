// Sharded training steps: gradients of the parts of a batch, summed in a fixed order, and one update with their sum.
module lamina:train.shards.impl;
import :context;
import :core;
import :data.batch;
import :dtype;
import :execute;
import :gradient;
import :io;
import :model;
import :op;
import :op.elementwise;
import :op.shape;
import :parameter;
import :passes;
import :program;
import :rewriter;
import :session;
import :shape;
import :tensor;
import :train.batch.impl;
import :train.blocks.impl;
import :train.lockstep.impl;
import :train.optim;
import :train.parts.impl;
import :train.replicas;
import lamina.std;

namespace lamina {

/// Runs work of this process alone; if it fails, all processes end.
template <class F> void alone(replicas* others, F f) {
  if (!others) return f();
  try {
    f();
  } catch (const std::exception& why) {
    others->fail(why.what());
    throw;
  }
}

/// Runs a check that all processes make: a failure in all of them is an ordinary error, a failure in some ends all.
template <class F> void together(replicas* others, F f) {
  if (!others) return f();
  std::exception_ptr error;
  std::string why;
  try {
    f();
  } catch (const std::exception& e) {
    error = std::current_exception();
    why = e.what();
  }
  double failed[] = {error ? 1.0 : 0.0};
  others->sum(view<double>(failed, 1));
  if (error) {
    if (failed[0] < others->count()) others->fail(why);
    std::rethrow_exception(error);
  }
  if (failed[0] > 0) detail::raise(error_kind::state, "fit: another replica failed; see its error");
}

/// The gradient program of a training step, and the update program.
struct shard_programs {
  std::shared_ptr<program> gradients, update;
  // For each output after the hits: its range of a block, and the input of the update that reads it.
  struct place {
    number_range numbers;
    std::size_t input;
    int sum_for = everyone;  // only rank that needs the sum, or everyone
  };
  std::vector<place> places{};
  std::int64_t numbers = 0;
  // For a weighted mean, the place of its weight, the last one: gradients are sums, which the update divides.
  std::optional<place> weight{};
  bool is_sum = false;                 // losses are summed, without a mean
  std::vector<std::string> trained{};  // names of the parameters whose gradients are the first inputs of the update
  // With a sharded optimizer: each parameter, its range of a block, and the rank that updates it. The ranges of a rank
  // are contiguous, in rank order.
  struct shared_weight {
    std::string name;
    number_range numbers;
    int owner;
  };
  std::vector<shared_weight> shared{};
};

/// Reduces an update to the part of this process.
void share_update(shard_programs& made, const optimizer_parts& parts, view<const value> weights,
                  view<const value> gradients) {
  const auto own = parts.own_part(*made.update, weights, gradients.subview(0, weights.size()));
  for (auto& p : made.places) {
    if (p.input >= weights.size()) continue;
    const int owner = parts.owner(p.input);
    made.shared.push_back({made.update->at(weights[p.input].id()).name, p.numbers, owner});
    if (!own.joint) p.sum_for = owner;
  }
  made.update = own.update;
}

/// Splits a traced step into the gradient and the update program. `loss` and `hits` are values of `forward`, whose inputs
/// are those of the model and the targets; `step` adds the update of the weights by their gradients to a program.
/// gradients: inputs: those of `forward`, the shard's share of the batch, and the increment of the step of random numbers,
///   int64 [2]; outputs: the loss, hits, then gradients and statistics, all but hits times the share. For a loss with
///   weights, loss and gradients are instead times its weight, which is the last output; sums are unscaled.
/// update: inputs: gradients, statistics, the weight if there is one, the rate.
using shard_update = std::function<void(program& p, view<const value> weights, view<const value> gradients)>;
/// `scale` returns the loss to differentiate; `recompute` selects the values of the forward pass to recompute.
using loss_scale = std::function<value(const value& loss)>;
struct step_figures {
  value_id loss, hits;
  std::optional<value_id> weight{};  // for a weighted mean
  bool is_sum = false;
};
/// Divides gradients of sums by the sum of the weights, which is output `at` of the gradients and input `at` of the
/// update.
std::vector<value> divided_by_weight(shard_programs& made, const value& weight, std::size_t at,
                                     std::vector<value> sums) {
  made.gradients->output("weight", weight);
  made.weight = {{made.numbers++, 1}, at};
  made.places.push_back(*made.weight);
  const value all = made.update->input("weight", weight.type()), by = where(all == 0, 1, all);
  for (auto& g : sums) g = g / by;
  return sums;
}
shard_programs in_shards(const program& forward, const parameter_store& store, dtype element, std::int64_t shards,
                         const step_figures& figures, const loss_scale& scale, const shard_update& update,
                         const recomputation& recompute, optimizer_parts* parts) {
  shard_programs made{std::make_shared<program>(), std::make_shared<program>()};
  program &p = *made.gradients, &q = *made.update;
  rewriter copy(forward, p);
  copy.copy_inputs();
  const value share = p.input("share", {element, {}}), shift = p.input("shard", {dtype::int64, shape{2}});
  std::vector<value> weights;
  for (auto s : forward.states()) {
    const parameter* of = store.find(forward.at(s).name);
    copy.copy(s);
    if (of->role() == state_role::generator) {
      // Random numbers differ between shards as they do between steps.
      any_tensor factor(tensor_type{dtype::int64, shape{2}});
      const std::int64_t by[] = {1, shards};
      std::memcpy(factor.mutable_data(), by, sizeof by);
      copy.set({s, 0}, copy.at({s, 0}) * p.constant(factor) + shift);
    } else if (of->role() == state_role::parameter && of->trainable()) weights.push_back(copy.at({s, 0}));
  }
  const value of_batch = figures.weight ? copy.reach(*figures.weight) : value();
  const value mean = copy.reach(figures.loss), l = !of_batch.empty() ? mean * of_batch
                                                   : figures.is_sum  ? mean
                                                                     : mean * share;
  made.is_sum = figures.is_sum;
  p.output("loss", l);
  p.output("hits", copy.reach(figures.hits));
  for (const auto& a : forward.assignments()) copy.reach(a.value);
  const value of_gradients = scale(l);
  const auto forward_nodes = static_cast<std::int32_t>(p.nodes().size());
  std::vector<value> of, sums, found;  // inputs of the update, in order
  for (const auto& g : gradients(of_gradients, view<const value>(weights))) {
    found.push_back(g);
    sums.push_back(q.input("gradient", g.type()));
  }
  for (const auto& w : weights) {
    made.trained.push_back(p.at(w.id()).name);
    of.push_back(q.state(made.trained.back(), w.type()));
  }
  for (const auto& a : forward.assignments()) {
    const node& s = forward.at(a.state);
    const value state = q.state(s.name, s.results[0]);
    if (store.find(s.name)->role() == state_role::generator) {
      any_tensor one(tensor_type{dtype::int64, shape{2}});
      const std::int64_t by[] = {0, 1};
      std::memcpy(one.mutable_data(), by, sizeof by);
      q.assign(state, state + q.constant(one));
      continue;
    }
    found.push_back(copy.reach(a.value) * share);
    q.assign(state, q.input("statistic", s.results[0]));
  }
  // Nodes are in the order of the backward pass, last layers first, so outputs are finished one after the other.
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  const auto gradients_end = order.begin() + static_cast<std::ptrdiff_t>(weights.size());
  std::stable_sort(order.begin(), gradients_end,
                   [&](std::size_t a, std::size_t b) { return found[a].id() < found[b].id(); });
  for (const auto i : order) {
    p.output("gradient", found[i]);
    made.places.push_back({{made.numbers, found[i].type().dims.size()}, i});
    made.numbers += made.places.back().numbers.count;
  }
  const auto joined = of_batch.empty() ? sums : divided_by_weight(made, of_batch, found.size(), sums);
  if (parts) {
    order.resize(weights.size());
    parts->split(order, found);
  }
  update(q, of, joined);
  if (parts) share_update(made, *parts, of, sums);
  if (recompute && shards_wait(p))
    detail::raise(error_kind::unsupported,
                  "fit: `recompute` with layers whose statistics are `across_shards`; expected only one of them");
  if (recompute) made.gradients = with_recomputation(p, forward_nodes, recompute);
  return made;
}

/// Exchanges a block in buckets, each as soon as it is complete, in a fixed order.
class bucket_exchange {
 public:
  /// Adjacent places form a bucket of `bytes` or slightly more, whose sum is for one rank or everyone; 0: one bucket
  /// for all adjacent places with the same receiver.
  bucket_exchange(view<const shard_programs::place> places, std::size_t element_bytes, std::int64_t bytes) {
    for (const auto& p : places) {
      if (buckets_.empty() || buckets_.back().sum_for != p.sum_for ||
          (bytes > 0 && buckets_.back().numbers.count * static_cast<std::int64_t>(element_bytes) >= bytes))
        buckets_.push_back({{p.numbers.first, 0}, 0, p.sum_for});
      buckets_.back().numbers.count += p.numbers.count;
      ++buckets_.back().places;
      bucket_of_.push_back(buckets_.size() - 1);
    }
  }
  /// Starts the exchange of another block.
  void restart() {
    missing_.clear();
    for (const auto& b : buckets_) missing_.push_back(b.places);
    next_ = 0;
  }
  /// Marks place i as complete. Calls `begin` with each range that can be sent, and the receiver of its sum.
  template <class F> void ready(std::size_t i, F begin) {
    --missing_[bucket_of_[i]];
    for (; next_ < buckets_.size() && missing_[next_] == 0; ++next_)
      begin(buckets_[next_].numbers, buckets_[next_].sum_for);
  }
  /// Marks all places.
  template <class F> void all_ready(F begin) {
    for (std::size_t i = 0; i < bucket_of_.size(); ++i) ready(i, begin);
  }

 private:
  struct bucket {
    number_range numbers;
    std::size_t places;
    int sum_for;
  };
  std::vector<bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // bucket of each place
  std::vector<std::size_t> missing_;    // incomplete places of each bucket
  std::size_t next_ = 0;                // next bucket to send
};

/// How the samples of an update are split: batches of `batch` samples, each into `of_batch` shards; `shards` in total,
/// the last of which may be empty.
struct batch_cut {
  std::int64_t batch, of_batch, shards;
};
/// A shard of an update.
struct batch_part {
  std::int64_t number = 0, first = 0, count = 0;  // index among all shards; range of samples
};

std::vector<number_range> ranges_of(const shard_programs& programs) {
  std::vector<number_range> ranges;
  for (const auto& p : programs.places) ranges.push_back(p.numbers);
  return ranges;
}

/// Sums of a step over the shards of a batch, for the samples that could be read. The loss is multiplied by the weight,
/// which is that of the loss or the number of samples.
struct shard_sums {
  double loss = 0, hits = 0, samples = 0, ignored = 0, weight = 0;
};

/// Runs steps in shards.
class shard_steps {
 public:
  shard_steps(shard_programs programs, model_core& net, const std::shared_ptr<context>& where, dtype element,
              const batch_cut& cut, replicas* others, std::int64_t bucket_bytes, std::unique_ptr<optimizer_parts> parts)
      : programs_(std::move(programs)),
        net_(net),
        parts_(std::move(parts)),
        lockstep_(shards_wait(*programs_.gradients)
                      ? std::make_unique<lockstep_stages>(*programs_.gradients, net, where, element,
                                                          ranges_of(programs_), others)
                      : nullptr),
        gradients_(net.session_of(programs_.gradients, where)),
        update_(net.session_of(programs_.update, where)),
        element_(element),
        cut_(cut),
        others_(others),
        buckets_(view<const shard_programs::place>(programs_.places), size_of(element), bucket_bytes),
        sums_(element, programs_.numbers),
        figures_(dtype::float64, 4) {}

  std::size_t arena_bytes() const { return arena_bytes_; }
  /// Shards that this process computes for an update of `count` samples.
  std::vector<batch_part> parts(std::int64_t count) const {
    const std::int64_t ranks = others_ ? others_->count() : 1, rank = others_ ? others_->rank() : 0,
                       each = cut_.shards / ranks;
    std::vector<batch_part> own;
    for (std::int64_t i = rank * each; i < (rank + 1) * each; ++i) {
      const std::int64_t first = std::min(i / cut_.of_batch * cut_.batch, count),
                         n = std::min(cut_.batch, count - first), s = i % cut_.of_batch, begin = s * n / cut_.of_batch;
      own.push_back({i, first + begin, (s + 1) * n / cut_.of_batch - begin});
    }
    return own;
  }
  /// Adds the samples of each nonempty shard of this process to a plan.
  void add_parts(batch_plan& to, view<const std::int64_t> samples) const {
    for (const auto& s : parts(static_cast<std::int64_t>(samples.size())))
      if (s.count > 0) to.add(samples.subview(static_cast<std::size_t>(s.first), static_cast<std::size_t>(s.count)));
  }
  /// Computes the gradients of this process's shards of a batch of `count` samples, and returns the sums over all
  /// processes. `load()` returns the samples of the next nonempty shard. Skipped samples are left out; in lockstep they
  /// count as samples without a gradient.
  template <class F> shard_sums gradients(std::int64_t count, F load) {
    if (lockstep_) return gradients_in_lockstep(count, load);
    sums_.restart();
    figures_.restart();
    // Outlives the lambda: pending sums access this block even while an error is reported to other processes.
    number_block block = sums_.take();
    alone(others_, [&] {
      const auto own = parts(count);
      for (const auto& s : own) {
        number_block figures = figures_.take();
        if (&s != &own.front()) block = sums_.take();
        block.clear();
        figures.clear();
        const shard now = s.count > 0 ? shard_of(s.number, count, load()) : shard{s.number};
        if (others_ && &s == &own.back()) run_last(now, block, figures);
        else {
          if (now.count > 0) run(now, block, figures, nullptr);
          sums_.add_to(block);
        }
        sums_.take_in(std::move(block));
        figures_.add(std::move(figures));
      }
    });
    return found(count);
  }
  /// Whether the sums of the last gradients are finite.
  bool finite() { return sums_.total().finite(); }
  /// Sums of the last gradients, by parameter name.
  std::vector<named_tensor> named_gradients() {
    std::vector<named_tensor> all(programs_.trained.size());
    for (const auto& p : programs_.places) {
      if (p.input >= all.size()) continue;  // a statistic
      any_tensor g(programs_.update->at(programs_.update->inputs()[p.input]).results[0]);
      if (g.bytes()) std::memcpy(g.mutable_data(), sums_.total().at(p.numbers.first), g.bytes());
      if (const double by = weight_in(sums_.total()); programs_.weight && by != 0) divide(g, by);
      all[p.input] = {programs_.trained[p.input], std::move(g)};
    }
    return all;
  }
  /// Gradient program of a shard.
  const program& gradients_program() const { return *programs_.gradients; }
  /// Calls f(extents, data) with the operands of that program for each shard of a batch of `count` samples. `load` as
  /// in `gradients`.
  template <class L, class F> void each_shard(std::int64_t count, L load, F f) {
    for (const auto& s : parts(count)) {
      const shard now = s.count > 0 ? shard_of(s.number, count, load()) : shard{s.number};
      if (now.count > 0) with_operands(now, f);
    }
  }
  /// Adds the gradients of a batch to those of earlier batches, as the next shard of an update: each of `batches`, in
  /// all processes, has the same share. Returns the loss of the batch. After `batches` calls, call `update`; the next
  /// call starts a new update.
  double add(view<const shape> extents, view<const void* const> data, std::int64_t batches) {
    const std::int64_t ranks = others_ ? others_->count() : 1,
                       first = others_ ? others_->rank() * cut_.shards / ranks : 0;
    if (added_ == 0) sums_.restart();
    number_block block = sums_.take(), figures(dtype::float64, 4);
    const double share = 1 / static_cast<double>(batches * ranks);
    alone(others_, [&] {
      run({first + added_, share, extents[0].rank > 0 ? extents[0].at(0) : 1, extents, data}, block, figures, nullptr);
    });
    const double own = programs_.weight ? weight_in(block) : programs_.is_sum ? 1 : share;
    sums_.add_to(block);
    sums_.take_in(std::move(block));
    ++added_;
    if (added_ == batches) {
      added_ = 0;
      while (std::bit_ceil(sums_.added()) != sums_.added()) {
        block = sums_.take();
        block.clear();
        sums_.add_to(block);
        sums_.take_in(std::move(block));
      }
      if (others_) {
        sums_.total().begin_sum(*others_, {0, programs_.numbers});
        others_->finish_sums();
      }
    }
    return own == 0 ? 0 : *static_cast<double*>(figures.at(0)) / own;
  }
  /// Number of batches added since the last update.
  std::int64_t added() const { return added_; }
  /// Ownership of optimizer slots; null: each process keeps all.
  const optimizer_parts* parts() const { return parts_.get(); }
  /// Updates with the sums of the last gradients.
  void update(double rate) {
    if (!parts_) return update_own(rate);
    alone(others_, [&] {
      update_own(rate);
      share_weights();
    });
  }

 private:
  // Weight in a block; 0 if the loss has none.
  double weight_in(number_block& block) const {
    if (!programs_.weight) return 0;
    const void* at = block.at(programs_.weight->numbers.first);
    return element_ == dtype::float64 ? *static_cast<const double*>(at)
                                      : static_cast<double>(*static_cast<const float*>(at));
  }
  void divide(any_tensor& g, double by) const {
    const auto each = [&](auto* x) {
      for (std::int64_t i = 0; i < g.shape().size(); ++i) x[i] /= static_cast<std::remove_pointer_t<decltype(x)>>(by);
    };
    if (element_ == dtype::float64) each(reinterpret_cast<double*>(g.mutable_data()));
    else each(reinterpret_cast<float*>(g.mutable_data()));
  }
  // Rescales means if some of `count` samples were skipped, since nothing was added for their share. Gradients of sums
  // have no share.
  void share_among(double samples, std::int64_t count) {
    if (lockstep_ || samples <= 0 || samples >= static_cast<double>(count)) return;
    for (const auto& p : programs_.places) {
      const bool is_gradient = p.input < programs_.trained.size(),
                 is_weight = programs_.weight && p.input == programs_.weight->input;
      if (!is_weight && (!is_gradient || !(programs_.weight || programs_.is_sum)))
        sums_.total().scale(p.numbers, static_cast<double>(count) / samples);
    }
  }
  // Finishes the pending sums of a batch of `count` samples.
  shard_sums found(std::int64_t count) {
    if (others_) {
      figures_.total().begin_sum(*others_, {0, 4});
      others_->finish_sums();
    }
    const auto figure = [this](std::int64_t i) { return *static_cast<double*>(figures_.total().at(i)); };
    shard_sums s{figure(0), figure(1), figure(2), figure(3), figure(2)};
    if (programs_.weight) s.weight = weight_in(sums_.total());
    else s.loss *= programs_.is_sum ? s.samples : static_cast<double>(count);
    share_among(s.samples, count);
    return s;
  }
  // The same if shards depend on each other: all shards of this process run the stages of the program together.
  template <class F> shard_sums gradients_in_lockstep(std::int64_t count, F load) {
    sums_.restart();
    figures_.restart();
    number_block block = sums_.take();
    block.clear();
    alone(others_, [&] {
      std::vector<lockstep_shard> shards;
      for (const auto& s : parts(count)) {
        shards.emplace_back();
        const batch_operands* samples = s.count > 0 ? &load() : nullptr;
        if (samples && samples->count() > 0)
          shards.back().take(*samples, element_, {0, s.number},
                             static_cast<double>(samples->count()) / static_cast<double>(count));
      }
      lockstep_->run(shards, block);
      for (const auto& s : shards) {
        number_block figures = figures_.take();
        figures.clear();
        const double of[] = {s.loss, static_cast<double>(s.hits[0]), static_cast<double>(s.samples),
                             static_cast<double>(s.hits[1])};
        std::memcpy(figures.at(0), of, sizeof of);
        figures_.add(std::move(figures));
      }
    });
    sums_.take_in(std::move(block));
    if (others_) {
      buckets_.restart();
      buckets_.all_ready([&](number_range which, int sum_for) { sums_.total().begin_sum(*others_, which, sum_for); });
    }
    return found(count);
  }
  void update_own(double rate) {
    std::vector<shape> extents;
    for (auto i : programs_.update->inputs()) extents.push_back(programs_.update->at(i).results[0].dims);
    executor& e = update_.at(view<const shape>(extents));
    for (const auto& p : programs_.places) e.bind_input(p.input, sums_.total().at(p.numbers.first));
    const auto single = static_cast<float>(rate);
    e.bind_input(programs_.places.size(), element_ == dtype::float64 ? static_cast<const void*>(&rate) : &single);
    e.run();
  }
  /// Exchanges the parameters updated by each process, by way of the block of sums.
  void share_weights() {
    number_block& block = sums_.total();
    auto& store = net_.parameters();
    const int rank = others_->rank();
    std::vector<std::size_t> ends(static_cast<std::size_t>(others_->count()), 0);
    for (const auto& w : programs_.shared) {
      const parameter& p = *store.find(w.name);
      ends[static_cast<std::size_t>(w.owner)] += p.value().bytes();
      if (w.owner == rank) std::memcpy(block.at(w.numbers.first), p.value().data(), p.value().bytes());
    }
    for (std::size_t r = 1; r < ends.size(); ++r) ends[r] += ends[r - 1];
    others_->all_gather(block.at(0), view<const std::size_t>(ends));
    for (const auto& w : programs_.shared) {
      if (w.owner == rank) continue;
      parameter& p = *store.find(w.name);
      std::memcpy(p.mutable_data(), block.at(w.numbers.first), p.value().bytes());
      p.changed();
    }
  }
  /// A shard and its share of the batch; it may be empty.
  struct shard {
    std::int64_t number;
    double share = 0;
    std::int64_t count = 0;
    view<const shape> extents{};
    view<const void* const> data{};
  };
  /// The shard of samples in a batch of `of` samples.
  static shard shard_of(std::int64_t number, std::int64_t of, const batch_operands& samples) {
    return {number, static_cast<double>(samples.count()) / static_cast<double>(of), samples.count(),
            view<const shape>(samples.shapes()), view<const void* const>(samples.data())};
  }
  /// Runs the last shard of this process: each gradient is added to the earlier sums and then exchanged.
  void run_last(const shard& s, number_block& block, number_block& figures) {
    const auto begin = [&](number_range which, int sum_for) {
      sums_.add_to(block, which);
      block.begin_sum(*others_, which, sum_for);
    };
    buckets_.restart();
    if (s.count == 0) return buckets_.all_ready(begin);
    run(s, block, figures, [&](std::size_t output) {
      if (output >= 2) buckets_.ready(output - 2, begin);
      others_->progress();
    });
  }
  // Calls f(extents, data) with the operands of the gradient program.
  template <class F> void with_operands(const shard& s, F f) {
    std::vector<shape> extents(s.extents.begin(), s.extents.end());
    std::vector<const void*> data(s.data.begin(), s.data.end());
    const std::int64_t shift[] = {0, s.number};
    const auto single = static_cast<float>(s.share);
    extents.emplace_back();
    data.push_back(element_ == dtype::float64 ? static_cast<const void*>(&s.share) : &single);
    extents.push_back(shape{2});
    data.push_back(shift);
    f(view<const shape>(extents), view<const void* const>(data));
  }
  void run(const shard& s, number_block& block, number_block& figures, const executor::output_ready& ready) {
    with_operands(s, [&](view<const shape> extents, view<const void* const> data) {
      run(s, extents, data, block, figures, ready);
    });
  }
  void run(const shard& s, view<const shape> extents, view<const void* const> data, number_block& block,
           number_block& figures, const executor::output_ready& ready) {
    executor& e = gradients_.at(extents);
    arena_bytes_ = std::max(arena_bytes_, e.plan().arena_bytes());
    for (std::size_t i = 0; i < data.size(); ++i) e.bind_input(i, data[i]);
    double loss64 = 0;
    float loss32 = 0;
    std::array<std::int64_t, 2> hits{};
    e.bind_output(0, element_ == dtype::float64 ? static_cast<void*>(&loss64) : &loss32);
    e.bind_output(1, hits.data());
    for (std::size_t i = 0; i < programs_.places.size(); ++i)
      e.bind_output(2 + i, block.at(programs_.places[i].numbers.first));
    if (ready) e.run_reporting(ready);
    else e.run();
    *static_cast<double*>(figures.at(0)) = element_ == dtype::float64 ? loss64 : static_cast<double>(loss32);
    *static_cast<double*>(figures.at(1)) = static_cast<double>(hits[0]);
    *static_cast<double*>(figures.at(2)) = static_cast<double>(s.count);
    *static_cast<double*>(figures.at(3)) = static_cast<double>(hits[1]);
  }

  shard_programs programs_;
  model_core& net_;
  std::unique_ptr<optimizer_parts> parts_;
  std::unique_ptr<lockstep_stages> lockstep_;  // only if the program has sums over shards
  session gradients_, update_;
  std::size_t arena_bytes_ = 0;
  dtype element_;
  batch_cut cut_;
  replicas* others_;
  bucket_exchange buckets_;
  pairwise_sum sums_, figures_;
  std::int64_t added_ = 0;  // batches added to the current update
};

}  // namespace lamina
