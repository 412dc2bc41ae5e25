// The samples that a process reads for the updates of an epoch: shards of batches, or whole batches of which it uses
// its shards.
module lamina:train.slices.impl;
import :core;
import :data.batch;
import :train.batch.impl;
import :train.shards.impl;
import lamina.std;

namespace lamina {

/// The batches of an epoch, grouped into updates.
class epoch_updates {
 public:
  epoch_updates() = default;
  /// `accumulate` batches of `plan` are one update; the last one may have fewer.
  epoch_updates(batch_plan plan, std::int64_t accumulate) : plan_(std::move(plan)), accumulate_(accumulate) {}
  std::int64_t size() const { return (plan_.size() + accumulate_ - 1) / accumulate_; }
  /// The samples of an update, one batch after another.
  view<const std::int64_t> operator[](std::int64_t update) const {
    const auto first = plan_[update * accumulate_],
               last = plan_[std::min((update + 1) * accumulate_, plan_.size()) - 1];
    return {first.data(), static_cast<std::size_t>(last.data() - first.data()) + last.size()};
  }
  /// Number of samples in the updates before one.
  std::int64_t samples_before(std::int64_t update) const {
    std::int64_t count = 0;
    for (std::int64_t u = 0; u < update; ++u) count += static_cast<std::int64_t>((*this)[u].size());
    return count;
  }

 private:
  batch_plan plan_;
  std::int64_t accumulate_ = 1;
};

/// Provides the shards of updates as they are read: one by one or, if `whole`, cut from batches of `batch` samples,
/// since a batch transformation needs all samples of a batch.
class shard_slices {
 public:
  shard_slices(std::int64_t batch, bool whole, std::vector<dtype> types)
      : batch_(batch), whole_(whole), slice_(std::move(types)) {}
  /// Adds the samples to read for an update to a plan.
  void add_to(batch_plan& plan, const shard_steps& steps, view<const std::int64_t> samples) const {
    if (!whole_) return steps.add_parts(plan, samples);
    const auto count = static_cast<std::int64_t>(samples.size());
    std::int64_t added = -1;
    for (const auto& p : steps.parts(count)) {
      if (p.count == 0 || p.first / batch_ == added) continue;
      added = p.first / batch_;
      const std::int64_t first = added * batch_, n = std::min(batch_, count - first);
      plan.add(samples.subview(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
    }
  }
  /// Starts an update of `count` samples.
  void begin(const shard_steps& steps, std::int64_t count) {
    parts_.clear();
    next_ = 0;
    loaded_ = -1;
    if (!whole_) return;
    for (const auto& p : steps.parts(count))
      if (p.count > 0) parts_.push_back(p);
  }
  /// The samples of the next nonempty shard. `load()` reads the next samples into `read`.
  template <class F> const batch_operands& next(const batch_operands& read, F load) {
    if (!whole_) {
      load();
      return read;
    }
    const batch_part& p = parts_[next_++];
    if (p.first / batch_ != loaded_) load();
    loaded_ = p.first / batch_;
    // If samples of a batch were skipped, its last shards have fewer.
    const std::int64_t first = std::min(p.first - loaded_ * batch_, read.count());
    slice_.load(read, first_ = first, std::min(p.count, read.count() - first));
    return slice_;
  }
  /// Index in the read samples at which the last shard begins.
  std::int64_t first() const { return first_; }

 private:
  std::int64_t batch_;
  bool whole_;
  batch_operands slice_;
  std::vector<batch_part> parts_;  // nonempty parts of the update
  std::size_t next_ = 0;
  std::int64_t loaded_ = -1;  // loaded batch of the update
  std::int64_t first_ = 0;
};

}  // namespace lamina
