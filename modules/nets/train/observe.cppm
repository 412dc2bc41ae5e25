// Observers of training: what they are told, and those of the library.
export module lamina:train.observe;
import :core;
import :io;
import :model;
import lamina.std;

namespace lamina {

// ---- what they are told ---------------------------------------------------------------------------------------------

/// Where training stands; what observers are told after every batch and at the end of every epoch.
export struct training_progress {
  std::int64_t epoch = 0, epochs = 0;   // epoch counts from 1
  std::int64_t batch = 0, batches = 0;  // of this epoch
  double loss = 0, accuracy = 0;        // mean over this epoch so far; accuracy 0..1, NaN where there are no classes
  double learning_rate = 0;
  double images_per_second = 0, seconds = 0, seconds_left = 0;
  bool epoch_ended = false;
  std::optional<double> validation_loss, validation_accuracy;  // at the end of an epoch, where there is validation data
  double batch_loss = 0;                                       // of this batch alone, before its update
  double waited = 0;         // seconds in which steps of this epoch waited for their samples
  std::int64_t skipped = 0;  // samples of this epoch that could not be read
};

export struct epoch_report {
  std::int64_t epoch = 0;
  double loss = 0, accuracy = 0, learning_rate = 0, seconds = 0, images_per_second = 0;
  std::optional<double> validation_loss, validation_accuracy;
  double waited = 0;         // seconds in which steps waited for their samples
  std::int64_t skipped = 0;  // samples of training that were left out: they could not be read or used
  std::int64_t validation_skipped = 0;
  double weight = 0;         // of all samples, by which batches count in the loss
  std::int64_t ignored = 0;  // classes that the loss leaves out, as the accuracy does
};
export struct training_report {
  std::vector<epoch_report> epochs;  // also those before training was continued from a checkpoint
  double seconds = 0;                // of training and validation in this call
  double images_per_second = 0;      // of training alone, in all epochs of the report
  bool stopped = false;              // an observer ended it before its last batch
  std::size_t arena_bytes = 0;       // of results, of the plan of a step (of a shard) that has the most
  double loss_scale = 0;             // that the next step would have; 0: losses are not scaled
  std::int64_t skipped_updates = 0;  // whose gradients were not finite, since scaling began
  std::int64_t best_epoch = 0;       // whose weights `keep_best` has put into the model; 0: no observer did
};

/// What observers are told before the first batch. It may be kept until training ends.
export struct training_start {
  model_core& net;                                  // that is trained
  std::int64_t epochs = 0, batches = 0;             // in all; of an epoch
  std::int64_t whole_epochs = 0, batches_done = 0;  // before this call, of the checkpoint that training goes on from
  std::vector<epoch_report> before{};               // figures of the whole epochs
  bool validates = false, has_accuracy = false;
  /// Writes all that training needs to go on from the end of this epoch. Errors: file_error; state_error unless it is called while an
  /// observer is told of the end of an epoch.
  std::function<void(const std::string& path)> write_checkpoint{};
  /// Computes the gradients of the trainable parameters for the batch that was done last, by the parameters as they are now, without an update.
  /// The whole batch is computed by this process. Errors: state_error unless it is called while an observer is told of a batch or of the end of an epoch;
  /// those of a step.
  std::function<std::vector<named_tensor>()> gradients{};
  /// What observers have put into the checkpoint that training goes on from.
  std::vector<named_tensor> kept{};
  /// Has checkpoints of this training hold what a function gives when one is written, for `kept` of a training that goes on from it.
  std::function<void(std::function<std::vector<named_tensor>()>)> keep{};
};

namespace detail {
/// An observer whose type is forgotten.
class observer_base {
 public:
  observer_base() = default;
  observer_base(const observer_base&) = delete;
  observer_base& operator=(const observer_base&) = delete;
  virtual ~observer_base();
  virtual bool began(const training_start&) = 0;
  virtual bool told(const training_progress&) = 0;
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
  bool told(const training_progress& p) override { return f_(p); }
  void ended(training_report& r) override {
    if constexpr (requires { f_.ended(r); }) f_.ended(r);
  }

 private:
  F f_;
};
}  // namespace detail

/// Looks at the progress after every batch and at the end of every epoch; false ends training after this batch. An epoch whose last batch
/// is done is validated all the same. Any function of the progress is one; a class with `operator()` may also have `began(const
/// training_start&)` and `ended(training_report&)`; a `began` that gives false says that nothing is left to be trained. Copies share their
/// state.
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
  /// Whether training goes on.
  bool began(const training_start& s) const { return !about_ || about_->began(s); }
  /// Whether training goes on.
  bool operator()(const training_progress& p) const { return !about_ || about_->told(p); }
  /// Is told once training ends without an error.
  void ended(training_report& r) const {
    if (about_) about_->ended(r);
  }

 private:
  std::shared_ptr<detail::observer_base> about_;
};

// ---- those of the library -------------------------------------------------------------------------------------------

/// Several observers as one; training ends when any of them says so.
export observer observers(std::vector<observer> all);
/// On a terminal a bar with rate, loss, accuracy and time left; elsewhere one plain line per epoch. Writes to stdout.
export observer progress_bar();

/// The number of an epoch by which epochs are compared. Of losses smaller ones are better, of accuracies larger ones.
export enum class monitored { validation_loss, validation_accuracy, loss, accuracy };

/// Ends training where no epoch has been better than the best one for `patience` epochs in a row. Where training goes on from a
/// checkpoint, the epochs before count; where they have ended it already nothing is trained.
/// Errors: value_error when training begins: `patience` below 1, `min_delta` that is no finite number >= 0, a number that this training
/// does not have, as that of validation without validation data.
export struct stop_early {
  std::int64_t patience = 5;
  double min_delta = 0;  ///< a gain that is not larger than this is none
  monitored of = monitored::validation_loss;
  std::int64_t from_epoch = 1;  ///< epochs before it do not count
  operator observer() const;
};

/// Keeps parameters and running statistics of the best epoch in memory, and puts them into the model when training ends; not where it ends
/// with an error: the model is then as the last whole step has left it, and the best epoch is in the file. The memory of the optimizer
/// stays that of the last step, as does the checkpoint of `fit`.
/// Errors: as `stop_early`; file_error.
export struct keep_best {
  monitored of = monitored::validation_loss;
  double min_delta = 0;
  /// A file that they are also written to, as by `save`. Training that goes on from a checkpoint takes them from there; without it, they are in
  /// the checkpoint, too.
  std::string path{};
  operator observer() const;
};

/// Writes checkpoints into a folder, which is made if it is missing: `epoch-0007.safetensors` for the last ones, `best.safetensors` for the
/// best one. A file is removed when a new one is whole, and none that another training wrote. `fit` goes on from a copy of one.
/// Errors: as `stop_early`; value_error for a `last` or `every` that is wrong; file_error.
export struct keep_checkpoints {
  std::string folder;
  std::int64_t last = 1;   ///< how many; 0: none
  std::int64_t every = 1;  ///< an epoch of how many is written, counted from the first one
  bool best = false;
  monitored of = monitored::validation_loss;
  double min_delta = 0;
  operator observer() const;
};

struct log_options {
  bool every_batch = false;  ///< a row for each batch too, with its number and its own loss
};
/// Writes a row for each epoch: epoch, loss, accuracy, learning_rate, seconds, images_per_second, validation_loss, validation_accuracy,
/// waited (seconds for samples), skipped (samples); with `every_batch` also batch and batch_loss, which are empty in rows of epochs. A row is in the file before training goes on. A number is
/// read as the same bits; what is not there is left empty.
/// Training that begins writes the file again. One that goes on from a checkpoint appends, behind the rows up to where it goes on; rows
/// after that are of batches that are done again, and go. A file that is not there begins with the epochs before.
/// Errors: file_error when training begins, also for a file that is no such log; file_error.
export observer csv_log(std::string path, const log_options& o = {});
/// The same as lines of JSON, each an object, which lacks what is not there. Source: jsonlines.org.
export observer json_lines(std::string path, const log_options& o = {});

}  // namespace lamina
