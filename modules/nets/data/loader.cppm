// Batches that threads in the background load ahead of the loop that takes them.
export module lamina:data.loader;
import :context;
import :core;
import :data.batch;
import :data.set;
import lamina.std;

namespace lamina {

/// A sample that could not be read, or cannot be used: a class that there is not, a shape that the model does not take.
export class sample_error : public value_error {
 public:
  sample_error(const std::string& what, std::int64_t index, std::string location, std::exception_ptr cause);
  ~sample_error() override;
  /// Its index in the data set, where it comes from, as a file, if the data set says so, and what was thrown when it was read; of one
  /// that was read, what is wrong with it.
  std::int64_t index() const { return index_; }
  const std::string& location() const { return location_; }
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::int64_t index_;
  std::string location_;
  std::exception_ptr cause_;
};

/// A sample that was left out: its index in the data set, and what is wrong with it, which names where it comes from.
struct left_out_sample {
  std::int64_t index = 0;
  std::string why{};
};

export struct loader_options {
  /// As of `batch_options`.
  std::int64_t batch = 32;
  bool drop_last = false;
  bool pad = true;
  std::function<std::int64_t(std::int64_t)> bucket_by = {};
  std::vector<std::optional<double>> fill = {};
  /// Whether epoch e has the samples in the order of `permutation(size, seed, e)`.
  bool shuffle = false;
  std::int64_t seed = 0;
  /// Threads that load; 0: the loop itself does.
  int threads = 1;
  /// How many batches are loaded before the loop takes them, at most.
  int ahead = 2;
  sample_failure on_error = sample_failure::raise;
};

/// What a loader has done since it was made.
struct loader_report {
  std::int64_t batches = 0, samples = 0;
  /// Samples that could not be read, under `sample_failure::skip`.
  std::int64_t skipped = 0;
  /// Seconds in which the loop waited for data.
  double waited = 0;
  /// Which of the skipped samples came first, and what is wrong with it; empty where none was skipped.
  std::string first_skipped{};
};

/// What is wrong with a sample of a batch.
struct sample_fault {
  std::size_t position = 0;  // in the batch
  std::size_t field = detail::no_field;
  std::int64_t element = -1;  // of the field of the sample; -1: all of it
  error_kind kind = error_kind::value;
  std::string why{};
};
/// Finds samples that were read and cannot be used, in the order of their positions, each once.
class sample_checker {
 public:
  sample_checker() = default;
  sample_checker(const sample_checker&) = delete;
  sample_checker& operator=(const sample_checker&) = delete;
  virtual ~sample_checker();
  /// Also for several threads at once. `numbers`: whether numbers that are not finite are faults.
  virtual std::vector<sample_fault> faults(const sample_batch& batch, bool numbers) const = 0;
};

/// How batches are read.
struct reading {
  int threads = 0, ahead = 2;  // as of `loader_options`
  bool pad = true;
  sample_failure on_error = sample_failure::raise;
  std::string_view reader = "loader";   // in messages
  std::string_view samples = {};        // " of the training data"
  lamina::thread_pool* pool = nullptr;  // reads a batch together where no thread reads ahead
  std::shared_ptr<const sample_checker> checks{};
  // What is done with each batch once it is read; `first` is the sample that its plan begins with.
  std::function<void(sample_batch& batch, std::int64_t epoch, std::int64_t first)> change = {};
};
/// Raises the sample_error for a sample of a batch that cannot be used.
[[noreturn]] void raise_fault(const reading& how, const sample_batch& batch, const sample_fault& wrong);
/// The same of one that is left out.
left_out_sample left_out_for(const reading& how, const sample_batch& batch, const sample_fault& wrong);

/// Reads the batches of a plan, ahead of who takes them. Order and bits do not depend on the number of threads.
class batch_loader {
 public:
  /// Errors: value_error for an option outside its range; resource_error where the system has no more threads.
  batch_loader(sample_source source, const reading& how);
  batch_loader(const batch_loader&) = delete;
  batch_loader& operator=(const batch_loader&) = delete;
  ~batch_loader();
  /// Begins a plan of an epoch; one that is not at its end is left.
  void begin(batch_plan plan, std::int64_t epoch = 0);
  /// The next batch of the plan, also one whose samples were all skipped, or null at its end. It stays until the next call.
  /// Errors: sample_error, in the turn of its batch.
  const sample_batch* next();
  /// The samples that were left out of that batch, in its order.
  view<const left_out_sample> left_out() const;
  loader_report report() const;
  const sample_source& source() const;
  const reading& how() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Loads batches ahead: `for (auto& b : l.epoch(e)) step(b)`. A batch stays until the next one is taken. Order and bits do not
/// depend on the number of threads. Memory is used again: once the largest batches were loaded, tensors and numbers
/// allocate nothing.  One loop takes batches at a time; the data set is read by all threads at once.
/// Errors of the loop: sample_error for a sample that cannot be read, in its turn: batches before it come first.
export class loader {
 public:
  /// Errors: value_error for an option outside its range; resource_error where the system has no more threads.
  template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
  explicit loader(const D& data, const loader_options& o = {}) : loader(o, source_of(data)) {}

  class iterator {
   public:
    iterator(loader* from, const sample_batch* at) : from_(from), at_(at) {}
    const sample_batch& operator*() const { return *at_; }
    iterator& operator++() {
      at_ = from_->next();
      return *this;
    }
    bool operator==(const iterator& o) const { return at_ == o.at_; }
    bool operator!=(const iterator& o) const { return at_ != o.at_; }

   private:
    loader* from_;
    const sample_batch* at_;
  };
  class epoch_range {
   public:
    explicit epoch_range(loader* from) : from_(from) {}
    /// The first batch, or end().
    iterator begin() const { return {from_, from_->next()}; }
    iterator end() const { return {from_, nullptr}; }

   private:
    loader* from_;
  };
  /// Begins an epoch; one that is not at its end is left.
  epoch_range epoch(std::int64_t e = 0) {
    begin(e);
    return epoch_range(this);
  }
  /// The next batch of the epoch, or null at its end.
  const sample_batch* next();
  loader_report report() const { return batches_.report(); }

 private:
  loader(const loader_options& o, const sample_source& source);
  void begin(std::int64_t epoch);
  loader_options options_;
  batch_loader batches_;
};

}  // namespace lamina
