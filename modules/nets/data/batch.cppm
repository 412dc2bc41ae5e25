// Batches of samples: in which order they come, and the memory that they are read into.
export module lamina:data.batch;
import :context;
import :core;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// How samples make batches.
export struct batch_options {
  std::int64_t batch = 32;
  /// Leaves out batches of fewer samples.
  bool drop_last = false;
  /// Whether samples of different extents are padded; where not, they are a shape_error.
  bool pad = true;
  /// The bucket of sample i: a batch has samples of one bucket. Empty: all are one.
  std::function<std::int64_t(std::int64_t)> bucket_by = {};
  /// What shorter samples are filled up with, a number for each field; 0 for fields without one.
  std::vector<std::optional<double>> fill = {};
};

/// Which samples make which batch.
export class batch_plan {
 public:
  batch_plan() = default;
  /// Samples 0 to n - 1 in order, or those of `order`. A batch of a bucket comes when its last sample does; smaller ones come
  /// at the end, by bucket.   Errors: value_error for a batch below 1.
  batch_plan(std::int64_t n, const batch_options& o);
  batch_plan(view<const std::int64_t> order, const batch_options& o);
  /// Adds a batch at the end.
  void add(view<const std::int64_t> samples);
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// The indices of the samples of a batch.
  view<const std::int64_t> operator[](std::int64_t batch) const;

 private:
  std::vector<std::int64_t> samples_;
  std::vector<std::size_t> ends_;
};

/// The samples of a batch in memory, one block for each field. The memory is used again for the next batch, unless a tensor
/// of this one still shares it: once the largest batch was read, tensors and numbers allocate nothing.
export class sample_batch {
 public:
  /// Reads samples, each once; those whose extents are all known by the threads of a pool.
  /// Errors: as of `sample_source::read`; shape_error where samples differ and `pad` is false.
  void read(const sample_source& source, view<const std::int64_t> indices, bool pad = true,
            thread_pool* pool = nullptr);

  /// The indices of its samples in the data set.
  view<const std::int64_t> indices() const { return indices_; }
  std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  std::size_t fields() const { return blocks_.size(); }
  /// Element type and shape: the samples first, then the largest extents.
  const tensor_type& type(std::size_t field) const { return at(field).type; }
  /// The elements in row-major order.   Errors: type_error for a field of strings.
  const void* data(std::size_t field) const;
  /// The same as a tensor, which shares the memory.
  any_tensor tensor(std::size_t field) const;
  template <Element T, class E> void to(std::size_t field, lamina::tensor<T, E>& x) const { x = tensor(field); }
  /// The extent of each sample along the first axis that is open, or along the first where none is.
  view<const std::int64_t> lengths(std::size_t field) const { return at(field).lengths; }
  /// Gives a field other elements, one row for each sample, also of another type.
  /// Errors: shape_error for another number of rows; type_error for strings.
  void set(std::size_t field, const any_tensor& x);
  /// Errors: type_error for a field of numbers.
  view<const std::string> strings(std::size_t field) const;
  /// The shape of a sample's field as it came.
  shape sample_shape(std::size_t field, std::size_t position) const;
  /// Where the sample at a position comes from, as of `sample_source`.
  std::string location(std::size_t position, std::size_t field = detail::no_field, std::int64_t element = -1) const;

 private:
  struct block {
    tensor_type type;
    storage memory, padded;  // samples as they came, one after another; the same padded
    std::size_t used = 0;    // bytes of `memory`
    bool ragged = false;
    std::vector<shape> shapes;
    std::vector<std::int64_t> lengths;
    std::vector<std::string> strings;
  };
  const block& at(std::size_t field) const;
  void take(const sample_source& source, std::size_t position, view<const detail::field_view> fields);
  void finish(const sample_source& source, std::size_t field, bool pad);
  std::vector<block> blocks_;
  std::vector<std::int64_t> indices_;
  std::shared_ptr<const detail::sample_reader> reader_;  // that they were read from
};

/// The batches of a data set, one after another: `for (auto& b : batches(data, {.batch = 32}))`.
/// The batch is read into the same memory each time.
class batch_range {
 public:
  batch_range(sample_source source, batch_plan plan, bool pad)
      : source_(std::move(source)), plan_(std::move(plan)), pad_(pad) {}
  std::int64_t size() const { return plan_.size(); }

  class iterator {
   public:
    iterator(batch_range* range, std::int64_t at) : range_(range), at_(at) {}
    /// Reads the batch.
    const sample_batch& operator*() const {
      range_->batch_.read(range_->source_, range_->plan_[at_], range_->pad_);
      return range_->batch_;
    }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const iterator& o) const { return at_ == o.at_; }
    bool operator!=(const iterator& o) const { return at_ != o.at_; }

   private:
    batch_range* range_;
    std::int64_t at_;
  };
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, size()}; }

 private:
  sample_source source_;
  batch_plan plan_;
  bool pad_;
  sample_batch batch_;
};

export namespace dataset {

/// Errors: value_error for a batch below 1, and as of `sample_source::filled_with`.
template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
batch_range batches(const D& data, const batch_options& o = {}) {
  sample_source source = source_of(data).filled_with(view<const std::optional<double>>(o.fill));
  const std::int64_t n = source.size();
  return {std::move(source), batch_plan(n, o), o.pad};
}

}  // namespace dataset

}  // namespace lamina
