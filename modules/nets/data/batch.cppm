// Batches of samples: their order and their memory.
export module lamina:data.batch;
import :context;
import :core;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// How samples are grouped into batches.
export struct batch_options {
  std::int64_t batch = 32;
  /// Drops incomplete batches.
  bool drop_last = false;
  /// Pads samples of different extents; if false, they are a shape_error.
  bool pad = true;
  /// Bucket of sample i: a batch has samples of one bucket. Empty: one bucket.
  std::function<std::int64_t(std::int64_t)> bucket_by = {};
  /// Padding value of shorter samples, per field; 0 for fields without one.
  std::vector<std::optional<double>> fill = {};
};

/// Assignment of samples to batches.
export class batch_plan {
 public:
  batch_plan() = default;
  /// Samples 0 to n - 1 in order, or those of `order`. A full batch is placed where its last sample is; incomplete ones
  /// come at the end, by bucket.   Errors: value_error for a batch below 1.
  batch_plan(std::int64_t n, const batch_options& o);
  batch_plan(view<const std::int64_t> order, const batch_options& o);
  /// Adds a batch at the end.
  void add(view<const std::int64_t> samples);
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// Sample indices of a batch.
  view<const std::int64_t> operator[](std::int64_t batch) const;

 private:
  std::vector<std::int64_t> samples_;
  std::vector<std::size_t> ends_;
};

/// The samples of a batch in memory, one block per field. Memory is reused for the next batch, unless a tensor of this
/// one still shares it: after the largest batch, reading tensors and numbers allocates nothing.
export class sample_batch {
 public:
  /// Reads samples, each once; the threads of `pool` read them in parallel if all extents are known.
  /// Errors: as `sample_source::read`; shape_error if samples differ and `pad` is false.
  void read(const sample_source& source, view<const std::int64_t> indices, bool pad = true,
            thread_pool* pool = nullptr);

  /// Indices of its samples in the data set.
  view<const std::int64_t> indices() const { return indices_; }
  std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  std::size_t fields() const { return blocks_.size(); }
  /// Element type and shape: number of samples, then the largest extents.
  const tensor_type& type(std::size_t field) const { return at(field).type; }
  /// The elements in row-major order.   Errors: type_error for a field of strings.
  const void* data(std::size_t field) const;
  /// The same as a tensor, which shares the memory.
  any_tensor tensor(std::size_t field) const;
  template <Element T, class E> void to(std::size_t field, lamina::tensor<T, E>& x) const { x = tensor(field); }
  /// Extent of each sample along the first axis with a dynamic extent, else along the first axis.
  view<const std::int64_t> lengths(std::size_t field) const { return at(field).lengths; }
  /// Replaces the elements of a field, one row per sample; the type may change.
  /// Errors: shape_error for another number of rows; type_error for strings.
  void set(std::size_t field, const any_tensor& x);
  /// Errors: type_error for a field of numbers.
  view<const std::string> strings(std::size_t field) const;
  /// Shape of a sample's field before padding.
  shape sample_shape(std::size_t field, std::size_t position) const;
  /// Origin of the sample at a position, as in `sample_source`.
  std::string location(std::size_t position, std::size_t field = detail::no_field, std::int64_t element = -1) const;

 private:
  struct block {
    tensor_type type;
    storage memory, padded;  // unpadded samples, one after another; the same padded
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
  std::shared_ptr<const detail::sample_reader> reader_;  // source of the samples
};

/// The batches of a data set in sequence: `for (auto& b : batches(data, {.batch = 32}))`. Each batch reuses the memory
/// of the previous one.
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

/// Errors: value_error for a batch below 1, and as `sample_source::filled_with`.
template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
batch_range batches(const D& data, const batch_options& o = {}) {
  sample_source source = source_of(data).filled_with(view<const std::optional<double>>(o.fill));
  const std::int64_t n = source.size();
  return {std::move(source), batch_plan(n, o), o.pad};
}

}  // namespace dataset

}  // namespace lamina
