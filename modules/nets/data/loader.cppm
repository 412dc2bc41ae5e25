// Batches that background threads load ahead of the consuming loop.
export module lamina:data.loader;
import :context;
import :core;
import :data.batch;
import :data.set;
import lamina.std;

namespace lamina {

/// A sample that could not be read or cannot be used, such as an unknown class or a shape that the model does not take.
export class sample_error : public value_error {
 public:
  sample_error(const std::string& what, std::int64_t index, std::string location, std::exception_ptr cause);
  ~sample_error() override;
  /// Index in the data set; origin, such as a file, if the data set provides it; the exception thrown while reading or,
  /// for a sample that was read, the error that describes the fault.
  std::int64_t index() const { return index_; }
  const std::string& location() const { return location_; }
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::int64_t index_;
  std::string location_;
  std::exception_ptr cause_;
};

/// A skipped sample: its index in the data set, and the reason, including its origin.
struct left_out_sample {
  std::int64_t index = 0;
  std::string why{};
};

export struct loader_options {
  /// As in `batch_options`.
  std::int64_t batch = 32;
  bool drop_last = false;
  bool pad = true;
  std::function<std::int64_t(std::int64_t)> bucket_by = {};
  std::vector<std::optional<double>> fill = {};
  /// Whether epoch e uses the order `permutation(size, seed, e)`.
  bool shuffle = false;
  std::int64_t seed = 0;
  /// Loading threads; 0: the loop itself loads.
  int threads = 1;
  /// Maximum number of batches loaded ahead of the loop.
  int ahead = 2;
  sample_failure on_error = sample_failure::raise;
};

/// Statistics of a loader since its construction.
struct loader_report {
  std::int64_t batches = 0, samples = 0;
  /// Number of samples skipped under `sample_failure::skip`.
  std::int64_t skipped = 0;
  /// Seconds that the loop waited for data.
  double waited = 0;
  /// The first skipped sample and the reason; empty if none was skipped.
  std::string first_skipped{};
};

/// A fault of a sample in a batch.
struct sample_problem {
  std::size_t position = 0;  // in the batch
  std::size_t field = detail::no_field;
  std::int64_t element = -1;  // in the field of the sample; -1: all of it
  error_kind kind = error_kind::value;
  std::string why{};
};
/// Finds samples that were read but cannot be used, by increasing position, each once.
class sample_checker {
 public:
  sample_checker() = default;
  sample_checker(const sample_checker&) = delete;
  sample_checker& operator=(const sample_checker&) = delete;
  virtual ~sample_checker();
  /// Thread-safe. `numbers`: whether numbers that are not finite are faults.
  virtual std::vector<sample_problem> problems(const sample_batch& batch, bool numbers) const = 0;
};

/// How batches are read.
struct reading {
  int threads = 0, ahead = 2;  // as in `loader_options`
  bool pad = true;
  sample_failure on_error = sample_failure::raise;
  std::string_view reader = "loader";   // in messages
  std::string_view samples = {};        // suffix, such as " of the training data"
  lamina::thread_pool* pool = nullptr;  // reads batches in parallel if no thread reads ahead
  std::shared_ptr<const sample_checker> checks{};
  // Transforms each batch after reading; `first` is the first sample of its plan.
  std::function<void(sample_batch& batch, std::int64_t epoch, std::int64_t first)> change = {};
};
/// Raises the sample_error for a faulty sample of a batch.
[[noreturn]] void raise_problem(const reading& how, const sample_batch& batch, const sample_problem& wrong);
/// Record of a skipped faulty sample.
left_out_sample left_out_for(const reading& how, const sample_batch& batch, const sample_problem& wrong);

/// Reads the batches of a plan ahead of the consumer. Order and results do not depend on the number of threads.
class batch_loader {
 public:
  /// Errors: value_error for an option outside its range; resource_error if the system has no more threads.
  batch_loader(sample_source source, const reading& how);
  batch_loader(const batch_loader&) = delete;
  batch_loader& operator=(const batch_loader&) = delete;
  ~batch_loader();
  /// Starts the plan of an epoch; an unfinished one is abandoned.
  void begin(batch_plan plan, std::int64_t epoch = 0);
  /// The next batch of the plan, which is empty if all its samples were skipped, or null at the end. Valid until the
  /// next call.
  /// Errors: sample_error, when its batch is due.
  const sample_batch* next();
  /// The skipped samples of that batch, in order.
  view<const left_out_sample> left_out() const;
  loader_report report() const;
  const sample_source& source() const;
  const reading& how() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Loads batches ahead: `for (auto& b : l.epoch(e)) step(b)`. A batch is valid until the next one is taken. Order and
/// results do not depend on the number of threads. Memory is reused: after the largest batches, loading tensors and
/// numbers allocates nothing.  Only one loop may take batches at a time; all threads read the data set at once.
/// Errors of the loop: sample_error for a sample that cannot be read, when its batch is due: earlier batches come
/// first.
export class loader {
 public:
  /// Errors: value_error for an option outside its range; resource_error if the system has no more threads.
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
    /// Iterator to the first batch, or end().
    iterator begin() const { return {from_, from_->next()}; }
    iterator end() const { return {from_, nullptr}; }

   private:
    loader* from_;
  };
  /// Starts an epoch; an unfinished one is abandoned.
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
