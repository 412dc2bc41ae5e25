// Streams of samples of unknown number, such as from a socket or from a file larger than memory.
export module lamina:data.stream;
import :core;
import :data.batch;
import :data.set;
import :random;
import lamina.std;

namespace lamina {

/// How samples of a stream are grouped into batches.
export struct sample_stream_options {
  std::int64_t batch = 32;
  /// Drops an incomplete last batch.
  bool drop_last = false;
  /// Pads samples of different extents; if false, they are a shape_error.
  bool pad = true;
  /// Size of the shuffle buffer that samples are drawn from; 1: original order.
  std::int64_t shuffle = 1, seed = 0;
  /// Padding value of shorter samples, per field; 0 for fields without one.
  std::vector<std::optional<double>> fill = {};
};

namespace detail {
/// Samples in memory and their positions in a stream.
template <class S> class taken_samples {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
  const S& operator[](std::int64_t i) const { return samples_[static_cast<std::size_t>(i)]; }
  std::string location(std::int64_t i) const {
    return "sample " + std::to_string(numbers_[static_cast<std::size_t>(i)]) + " of a stream";
  }
  void add(S sample, std::int64_t number) {
    samples_.push_back(std::move(sample));
    numbers_.push_back(number);
  }
  /// Moves sample i to the end of `to`, and the last sample to position i.
  void give(std::int64_t i, taken_samples& to) {
    const auto at = static_cast<std::size_t>(i);
    std::swap(samples_[at], samples_.back());
    std::swap(numbers_[at], numbers_.back());
    to.add(std::move(samples_.back()), numbers_.back());
    samples_.pop_back();
    numbers_.pop_back();
  }

 private:
  std::vector<S> samples_;
  std::vector<std::int64_t> numbers_;
};
/// Element type of a range.
template <class R> using element_of = std::remove_cvref_t<decltype(*std::begin(std::declval<R&>()))>;
template <class R> struct stream_check {
  static consteval text message() {
    text t;
    if constexpr (!requires(R& r) {
                    std::begin(r) != std::end(r);
                    ++std::declval<decltype(std::begin(r))&>();
                    *std::begin(r);
                  })
      t << "`" << type_name<R>() << "` is not a range: it has no `begin()` and `end()` that samples can be read from";
    else return dataset_check<taken_samples<element_of<R>>>::message();
    return t;
  }
};
/// Errors: value_error for an option outside its range.
void check_stream(const sample_stream_options& o);
}  // namespace detail

/// The batches of a range of samples. Each sample is read once, when its batch is due: `for (auto& b :
/// dataset::stream(range, {.batch = 64})) step(b);`. A shuffled order depends only on `seed`. Each batch reuses the
/// memory of the previous one.
export template <class R> class sample_stream {
 public:
  using sample = detail::element_of<R>;
  sample_stream(R range, const sample_stream_options& o)
      : range_(std::make_unique<R>(std::move(range))),
        options_(o),
        waiting_(std::make_unique<detail::taken_samples<sample>>()) {
    detail::check_stream(o);
  }
  /// The next batch, or null at the end. Valid until the next call.
  /// Errors: as `sample_batch::read`; those of the range.
  const sample_batch* next() {
    if (!at_) at_.emplace(std::begin(*range_));
    auto now = std::make_shared<detail::taken_samples<sample>>();
    while (now->size() < options_.batch && wait() > 0) waiting_->give(draw(), *now);
    if (now->size() == 0 || (options_.drop_last && now->size() < options_.batch)) return nullptr;
    std::vector<std::int64_t> all(static_cast<std::size_t>(now->size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    const auto source = source_of(std::shared_ptr<const detail::taken_samples<sample>>(now))
                            .filled_with(view<const std::optional<double>>(options_.fill));
    batch_.read(source, view<const std::int64_t>(all), options_.pad);
    return &batch_;
  }

  class iterator {
   public:
    iterator(sample_stream* from, const sample_batch* at) : from_(from), at_(at) {}
    const sample_batch& operator*() const { return *at_; }
    iterator& operator++() {
      at_ = from_->next();
      return *this;
    }
    bool operator==(const iterator& o) const { return at_ == o.at_; }
    bool operator!=(const iterator& o) const { return at_ != o.at_; }

   private:
    sample_stream* from_;
    const sample_batch* at_;
  };
  iterator begin() { return {this, next()}; }
  iterator end() { return {this, nullptr}; }

 private:
  // Fills the shuffle buffer up to its size or the end of the range; returns the number of buffered samples.
  std::int64_t wait() {
    while (waiting_->size() < options_.shuffle && *at_ != std::end(*range_)) {
      waiting_->add(**at_, taken_++);
      ++*at_;
    }
    return waiting_->size();
  }
  std::int64_t draw() {
    if (waiting_->size() == 1) return 0;
    const double u = philox(options_.seed).uniform<double>(static_cast<std::uint64_t>(draw_count_++));
    return std::min(waiting_->size() - 1, static_cast<std::int64_t>(u * static_cast<double>(waiting_->size())));
  }
  std::unique_ptr<R> range_;
  sample_stream_options options_;
  std::unique_ptr<detail::taken_samples<sample>> waiting_;
  std::optional<decltype(std::begin(std::declval<R&>()))> at_{};
  std::int64_t taken_ = 0, draw_count_ = 0;
  sample_batch batch_;
};

export namespace dataset {

/// The batches of a range of unknown size, each sample read once.
/// Errors: value_error for an option outside its range.
template <class R> requires accepted<diagnostic<detail::stream_check<R>>()>
sample_stream<R> stream(R range, const sample_stream_options& o = {}) {
  return {std::move(range), o};
}
/// Collects all samples of a range as a data set in memory, for `fit`.
template <class R> requires accepted<diagnostic<detail::stream_check<R>>()> auto collect(R&& range) {
  detail::taken_samples<detail::element_of<std::remove_reference_t<R>>> all;
  std::int64_t number = 0;
  for (auto&& sample : range) all.add(std::forward<decltype(sample)>(sample), number++);
  return all;
}

}  // namespace dataset

}  // namespace lamina
