// Observers of training: the data that they receive, and the observers of the library.
export module lamina:train.observe;
import :core;
import :io;
import :model;
import lamina.std;

namespace lamina {

// ---- data passed to observers ---------------------------------------------------------------------------------------

/// Training progress, passed to observers after every batch and at the end of every epoch.
export struct training_progress {
  std::int64_t epoch = 0, epochs = 0;   // epoch counts from 1
  std::int64_t batch = 0, batches = 0;  // of this epoch
  double loss = 0, accuracy = 0;        // mean over this epoch so far; accuracy 0..1, NaN without classes
  double learning_rate = 0;
  double images_per_second = 0, seconds = 0, seconds_left = 0;
  bool epoch_ended = false;
  std::optional<double> validation_loss, validation_accuracy;  // at the end of an epoch, if there is validation data
  double batch_loss = 0;                                       // of this batch alone, before its update
  double waited = 0;         // seconds that the steps of this epoch waited for their samples
  std::int64_t skipped = 0;  // skipped samples of this epoch
};

export struct epoch_report {
  std::int64_t epoch = 0;
  double loss = 0, accuracy = 0, learning_rate = 0, seconds = 0, images_per_second = 0;
  std::optional<double> validation_loss, validation_accuracy;
  double waited = 0;         // seconds that steps waited for their samples
  std::int64_t skipped = 0;  // training samples that were skipped because they could not be read or used
  std::int64_t validation_skipped = 0;
  double weight = 0;         // total weight of the samples in the loss
  std::int64_t ignored = 0;  // targets that loss and accuracy ignore
};
export struct training_report {
  std::vector<epoch_report> epochs;  // includes epochs before a resumed checkpoint
  double seconds = 0;                // training and validation in this call
  double images_per_second = 0;      // training only, over all epochs of the report
  bool stopped = false;              // an observer ended training before its last batch
  std::size_t arena_bytes = 0;       // memory of results, the maximum over the plans of a step (of a shard)
  double loss_scale = 0;             // scale of the next step; 0: no loss scaling
  std::int64_t skipped_updates = 0;  // updates with gradients that were not finite, since scaling began
  std::int64_t best_epoch = 0;       // epoch whose weights `keep_best` has restored; 0: none
};

/// Passed to observers before the first batch. May be kept until training ends.
export struct training_start {
  model_core& net;                                  // the trained model
  std::int64_t epochs = 0, batches = 0;             // in total; per epoch
  std::int64_t whole_epochs = 0, batches_done = 0;  // done before this call, from the resumed checkpoint
  std::vector<epoch_report> before{};               // reports of the whole epochs
  bool validates = false, has_accuracy = false;
  /// Writes a checkpoint from which training can resume after this epoch. Errors: file_error; state_error unless called
  /// while an observer handles the end of an epoch.
  std::function<void(const std::string& path)> write_checkpoint{};
  /// Computes the gradients of the trainable parameters for the last batch, at the current parameters, without an
  /// update. This process computes the whole batch. Errors: state_error unless called while an observer handles a batch
  /// or the end of an epoch; errors of a step.
  std::function<std::vector<named_tensor>()> gradients{};
  /// States that observers stored in the resumed checkpoint.
  std::vector<named_tensor> kept{};
  /// Registers a function whose result is stored in each checkpoint of this training; a resumed training finds it in
  /// `kept`.
  std::function<void(std::function<std::vector<named_tensor>()>)> keep{};
};

namespace detail {
/// Type-erased observer.
class observer_base {
 public:
  observer_base() = default;
  observer_base(const observer_base&) = delete;
  observer_base& operator=(const observer_base&) = delete;
  virtual ~observer_base();
  virtual bool began(const training_start&) = 0;
  virtual bool progressed(const training_progress&) = 0;
  virtual void ended(training_report&) = 0;
};
template <class F> class observer_of final : public observer_base {
 public:
  explicit observer_of(F f) : f_(std::move(f)) {}
  bool began(const training_start& s) override {
    if constexpr (requires { requires std::same_as<decltype(f_.began(s)), bool>; }) return f_.began(s);
    else if constexpr (requires { f_.began(s); }) f_.began(s);
    return true;
  }
  bool progressed(const training_progress& p) override { return f_(p); }
  void ended(training_report& r) override {
    if constexpr (requires { f_.ended(r); }) f_.ended(r);
  }

 private:
  F f_;
};
}  // namespace detail

/// An observer is called with the progress after every batch and at the end of every epoch; false ends training after
/// this batch. If that was the last batch of an epoch, the epoch is still validated. Any function of the progress is an
/// observer; a class with `operator()` may also have `began(const training_start&)`, which may return false if nothing
/// is left to train, and `ended(training_report&)`. Copies share their state.
export class observer {
 public:
  observer() = default;
  template <class F> requires(!std::same_as<F, observer>) && requires(F& f, const training_progress& p) {
    { f(p) } -> std::convertible_to<bool>;
  } observer(F f) {
    if constexpr (std::same_as<F, std::function<bool(const training_progress&)>>)
      if (!f) return;
    about_ = std::make_shared<detail::observer_of<F>>(std::move(f));
  }
  explicit operator bool() const { return static_cast<bool>(about_); }
  /// Whether training continues.
  bool began(const training_start& s) const { return !about_ || about_->began(s); }
  /// Whether training continues.
  bool operator()(const training_progress& p) const { return !about_ || about_->progressed(p); }
  /// Called when training ends without an error.
  void ended(training_report& r) const {
    if (about_) about_->ended(r);
  }

 private:
  std::shared_ptr<detail::observer_base> about_;
};

// ---- observers of the library ---------------------------------------------------------------------------------------

/// Combines observers; training ends when any of them returns false.
export observer observers(std::vector<observer> all);
/// A progress bar with rate, loss, accuracy and time left on a terminal; otherwise one plain line per epoch. Writes to
/// stdout.
export observer progress_bar();

/// The metric by which epochs are compared. Losses are better if smaller, accuracies if larger.
export enum class monitored { validation_loss, validation_accuracy, loss, accuracy };

/// Ends training when no epoch improves on the best one for `patience` epochs in a row. In a resumed training, earlier
/// epochs count; if they already ended it, nothing is trained.
/// Errors: value_error when training begins: `patience` below 1, `min_delta` that is not a finite number >= 0, or a
/// metric that this training does not have, such as a validation metric without validation data.
export struct stop_early {
  std::int64_t patience = 5;
  double min_delta = 0;  ///< improvements up to this do not count
  monitored of = monitored::validation_loss;
  std::int64_t from_epoch = 1;  ///< earlier epochs do not count
  operator observer() const;
};

/// Keeps parameters and running statistics of the best epoch in memory, and restores them when training ends. After an
/// error they are not restored: the model is as the last whole step left it, and the best epoch is in the file. The
/// optimizer slots and the checkpoint of `fit` remain those of the last step.
/// Errors: as `stop_early`; file_error.
export struct keep_best {
  monitored of = monitored::validation_loss;
  double min_delta = 0;
  /// A file that they are also saved to, as by `save`. Resumed training reads them from there; without a file, they are
  /// in the checkpoint.
  std::string path{};
  operator observer() const;
};

/// Writes checkpoints into a folder, which is created if missing: `epoch-0007.safetensors` for the last epochs,
/// `best.safetensors` for the best one. An old file is removed once the new one is complete; files of other trainings
/// are never removed. `fit` resumes from a copy of such a file.
/// Errors: as `stop_early`; value_error for an invalid `last` or `every`; file_error.
export struct keep_checkpoints {
  std::string folder;
  std::int64_t last = 1;   ///< number of last checkpoints to keep; 0: none
  std::int64_t every = 1;  ///< writes every n-th epoch, counted from the first one
  bool best = false;
  monitored of = monitored::validation_loss;
  double min_delta = 0;
  operator observer() const;
};

struct log_options {
  bool every_batch = false;  ///< also a row for each batch, with its number and its own loss
};
/// Writes a CSV row for each epoch: epoch, loss, accuracy, learning_rate, seconds, images_per_second, validation_loss,
/// validation_accuracy, waited (seconds for samples), skipped (samples); with `every_batch` also batch and batch_loss,
/// empty in epoch rows. A row is in the file before training continues. Numbers round-trip exactly; missing ones are
/// empty.
/// A new training overwrites the file. A resumed one appends after the rows up to its checkpoint; later rows are
/// removed, since their batches run again. If the file is missing, it starts with the earlier epochs.
/// Errors: file_error when training begins, also for a file that is not such a log; file_error.
export observer csv_log(std::string path, const log_options& o = {});
/// The same as JSON Lines, one object per row, without missing values. Source: jsonlines.org.
export observer json_lines(std::string path, const log_options& o = {});

}  // namespace lamina
