// Data sets made of tensors and of other data sets.
export module lamina:data.compose;
import :core;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

export namespace dataset {

/// What rows of tensors are as samples; those of `of`.
void check_rows(view<const any_tensor> tensors);
tensor_type row_type(const any_tensor& tensor);
any_tensor row_of(const any_tensor& tensor, std::int64_t i);

/// Samples that are rows of tensors: sample i has position i of the first axis of each, in the memory of the tensors.
template <std::size_t N> class rows {
 public:
  explicit rows(std::array<any_tensor, N> tensors) : tensors_(std::move(tensors)) { check_rows(tensors_); }
  std::int64_t size() const { return tensors_[0].shape().at(0); }
  std::array<tensor_type, N> sample_types() const {
    std::array<tensor_type, N> all;
    for (std::size_t f = 0; f < N; ++f) all[f] = row_type(tensors_[f]);
    return all;
  }
  /// Errors: value_error for a sample that there is not.
  std::array<any_tensor, N> operator[](std::int64_t i) const {
    std::array<any_tensor, N> sample;
    for (std::size_t f = 0; f < N; ++f) sample[f] = row_of(tensors_[f], i);
    return sample;
  }

 private:
  std::array<any_tensor, N> tensors_;
};
/// Rows of tensors as samples: `dataset::of(x, y)` has x [N, ...] as its first field and y [N, ...] as its second.
/// Errors: shape_error where a tensor is one number, or they have different numbers of rows.
template <class... T> requires(sizeof...(T) > 0) && (std::convertible_to<const T&, any_tensor> &&
                                                     ...) rows<sizeof...(T)> of(const T&... tensors) {
  return rows<sizeof...(T)>({any_tensor(tensors)...});
}

/// What a function makes of each sample, when it is read.
template <class D, class F> class mapped {
 public:
  mapped(D data, F f) : data_(std::move(data)), f_(std::move(f)) {}
  std::int64_t size() const { return static_cast<std::int64_t>(data_.size()); }
  auto operator[](std::int64_t i) const { return f_(data_[i]); }

 private:
  D data_;
  F f_;
};
template <class D, class F> requires std::invocable<const F&, decltype(std::declval<const D&>()[std::int64_t()])>
mapped<D, F> map(D data, F f) {
  return {std::move(data), std::move(f)};
}

/// Some samples of a data set, in an order.
template <class D> class chosen {
 public:
  chosen(D data, std::vector<std::int64_t> indices)
      : data_(std::move(data)), indices_(std::make_shared<const std::vector<std::int64_t>>(std::move(indices))) {}
  std::int64_t size() const { return static_cast<std::int64_t>(indices_->size()); }
  decltype(auto) operator[](std::int64_t i) const { return data_[indices_->at(static_cast<std::size_t>(i))]; }
  const std::vector<std::int64_t>& indices() const { return *indices_; }

 private:
  D data_;
  std::shared_ptr<const std::vector<std::int64_t>> indices_;
};
/// Refuses an index outside of a data set. Errors: value_error.
void check_indices(view<const std::int64_t> indices, std::int64_t size);
/// The numbers from `first` to below `last`.
std::vector<std::int64_t> counted(std::int64_t first, std::int64_t last);

/// The samples of these indices. Errors: value_error for an index outside of the data set.
template <class D> chosen<D> subset(D data, std::vector<std::int64_t> indices) {
  check_indices(indices, static_cast<std::int64_t>(data.size()));
  return {std::move(data), std::move(indices)};
}
/// The first samples, as many as there are at most.
template <class D> chosen<D> take(D data, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(data.size());
  return {std::move(data), counted(0, std::min(std::max<std::int64_t>(count, 0), n))};
}
/// All but the first samples.
template <class D> chosen<D> skip(D data, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(data.size());
  return {std::move(data), counted(std::min(std::max<std::int64_t>(count, 0), n), n)};
}
/// All samples in an order that depends on the seed alone.
template <class D> chosen<D> shuffle(D data, std::int64_t seed) {
  auto order = permutation(static_cast<std::int64_t>(data.size()), seed, 0);
  return {std::move(data), std::move(order)};
}
/// The samples for which a function gives true, which is asked of all of them now.
template <class D, class F> requires std::predicate<const F&, decltype(std::declval<const D&>()[std::int64_t()])>
chosen<D> filter(D data, const F& f) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(data.size()); ++i)
    if (f(data[i])) kept.push_back(i);
  return {std::move(data), std::move(kept)};
}
/// Two parts of a data set, of which the first has this share of the samples, drawn by the seed. Errors: value_error for a share outside 0..1.
template <class D> std::pair<chosen<D>, chosen<D>> split(const D& data, double share, std::int64_t seed) {
  const auto n = static_cast<std::int64_t>(data.size());
  auto order = permutation(n, seed, 0);
  if (!(share >= 0 && share <= 1)) detail::raise(error_kind::value, "dataset::split: expected a share between 0 and 1");
  const auto first = static_cast<std::int64_t>(share * static_cast<double>(n) + 0.5);
  std::vector<std::int64_t> a(order.begin(), order.begin() + first), b(order.begin() + first, order.end());
  return {{data, std::move(a)}, {data, std::move(b)}};
}

/// The samples of one data set behind those of another, of one type.
template <class A, class B> class joined {
 public:
  joined(A a, B b) : a_(std::move(a)), b_(std::move(b)) {}
  std::int64_t size() const { return static_cast<std::int64_t>(a_.size()) + static_cast<std::int64_t>(b_.size()); }
  auto operator[](std::int64_t i) const {
    const auto n = static_cast<std::int64_t>(a_.size());
    return i < n ? a_[i] : b_[i - n];
  }

 private:
  A a_;
  B b_;
};
template <class A, class B> joined<A, B> concat(A a, B b) { return {std::move(a), std::move(b)}; }

}  // namespace dataset

}  // namespace lamina
