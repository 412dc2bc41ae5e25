// Repeats a batch without an update: computes its gradients, or finds its first non-finite part.
module lamina:train.probe.impl;
import :context;
import :core;
import :data.batch;
import :data.loader;
import :data.set;
import :dtype;
import :io;
import :model;
import :program;
import :shape;
import :train.batch.impl;
import :train.finite.impl;
import :train.shards.impl;
import :train.slices.impl;
import lamina.std;

namespace lamina {

/// Samples of a data set, in the order of their update, and their epoch.
struct batch_samples {
  view<const std::int64_t> of;
  std::int64_t epoch = 0;
};

class batch_probe {
 public:
  /// `types`: input type of the programs for each field.
  batch_probe(std::unique_ptr<shard_steps> steps, const model_core& net, std::shared_ptr<context> where,
              std::vector<dtype> types, const sample_source& data, const reading& how, shard_slices slices)
      : steps_(std::move(steps)),
        net_(net),
        where_(std::move(where)),
        reads_(data, how),
        operands_(std::move(types)),
        slices_(std::move(slices)) {}

  std::vector<named_tensor> gradients(const batch_samples& samples) {
    begin(samples);
    steps_->gradients(static_cast<std::int64_t>(samples.of.size()),
                      [this]() -> const batch_operands& { return next(); });
    return steps_->named_gradients();
  }
  /// End of a message about the first non-finite part; empty if it is not found.
  std::string not_finite(const batch_samples& samples) {
    text t;
    try {
      begin(samples);
      steps_->each_shard(
          static_cast<std::int64_t>(samples.of.size()), [this]() -> const batch_operands& { return next(); },
          [&](view<const shape> extents, view<const void* const> data) {
            if (!t.empty()) return;
            input_place at;
            const auto why = first_not_finite(steps_->gradients_program(), net_, where_, extents, data, at);
            if (why.empty()) return;
            t << "; " << why;
            if (at.row < 0) return;
            const auto row = static_cast<std::size_t>(slices_.first() + at.row);
            detail::put_sample(t << ", first in ", read_->indices()[row], read_->location(row, at.input, at.element));
          });
    } catch (const error&) {}  // only details of an error that is already being reported
    return t.string();
  }

 private:
  void begin(const batch_samples& samples) {
    batch_plan plan;
    slices_.add_to(plan, *steps_, samples.of);
    slices_.begin(*steps_, static_cast<std::int64_t>(samples.of.size()));
    reads_.begin(std::move(plan), samples.epoch);
  }
  const batch_operands& next() {
    return slices_.next(operands_, [this] {
      read_ = reads_.next();
      operands_.load(*read_);
    });
  }

  std::unique_ptr<shard_steps> steps_;
  const model_core& net_;
  std::shared_ptr<context> where_;
  batch_loader reads_;
  batch_operands operands_;
  shard_slices slices_;
  const sample_batch* read_ = nullptr;
};

}  // namespace lamina
