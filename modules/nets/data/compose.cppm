// Lazy data set adapters: nothing is read before a sample is accessed.
export module lamina:data.compose;
import :core;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
/// Indices of a data set: a range, or a list shared by copies.
class selection {
 public:
  selection(std::int64_t first, std::int64_t count) : first_(first), count_(count) {}
  explicit selection(std::vector<std::int64_t> list)
      : count_(static_cast<std::int64_t>(list.size())),
        list_(std::make_shared<const std::vector<std::int64_t>>(std::move(list))) {}
  std::int64_t size() const { return count_; }
  /// Errors: value_error for an index outside 0..size() - 1.
  std::int64_t operator[](std::int64_t i) const {
    if (i < 0 || i >= count_) [[unlikely]]
      outside(i, count_);
    return list_ ? (*list_)[static_cast<std::size_t>(i)] : first_ + i;
  }
  [[noreturn]] static void outside(std::int64_t i, std::int64_t count);

 private:
  std::int64_t first_ = 0, count_ = 0;
  std::shared_ptr<const std::vector<std::int64_t>> list_;
};
/// Errors: value_error for a negative count.
selection first_of(std::int64_t count, std::int64_t size, std::string_view caller);
selection without_first_of(std::int64_t count, std::int64_t size);
/// Errors: value_error for an index outside 0..size - 1.
selection checked_list(std::vector<std::int64_t> indices, std::int64_t size);
/// Errors: value_error unless 0 <= ratio <= 1.
std::pair<selection, selection> halves(std::int64_t size, double ratio, std::int64_t seed);
/// For each of k folds, the samples outside and inside it. Errors: value_error unless 2 <= k <= size.
std::vector<std::pair<selection, selection>> fold_parts(std::int64_t size, std::int64_t k, std::int64_t seed);
/// The same, stratified by class.
std::vector<std::pair<selection, selection>> fold_parts(std::int64_t size, std::int64_t k, std::int64_t seed,
                                                        view<const std::int64_t> classes);
void check_sizes(std::int64_t a, std::int64_t b);
/// Field types that cover samples of both types.
std::vector<tensor_type> merged_types(view<const tensor_type> a, view<const tensor_type> b);

template <class D>
concept HasTypes = requires(const D& d) { d.sample_types(); };
template <class D>
concept HasRead =
    HasTypes<D> && requires(const D& d, view<const std::int64_t> i, view<void* const> to) { d.read(i, to); };
template <class D> std::int64_t size_of_data(const D& d) { return static_cast<std::int64_t>(d.size()); }
/// Returns a sample; stored samples are copied and share the memory of their tensors.
template <class D> sample_of<D> sample_at(const D& d, std::int64_t i) {
  if constexpr (requires { typename D::size_type; }) return d[static_cast<typename D::size_type>(i)];
  else return d[i];
}

// ---- views ----------------------------------------------------------------------------------------------------------

/// Selected samples of a data set, in a given order.
template <class D> class selected {
 public:
  selected(D data, selection which) : data_(std::move(data)), which_(std::move(which)) {
    if constexpr (HasRead<D>) {
      std::size_t k = 0;
      for (const auto& type : data_.sample_types())
        if (k < bytes_.size()) bytes_[k++] = type.dims.is_static() ? type.bytes() : 0;
    }
  }
  std::int64_t size() const { return which_.size(); }
  sample_of<D> operator[](std::int64_t i) const { return sample_at(data_, which_[i]); }
  auto sample_types() const requires HasTypes<D> { return data_.sample_types(); }
  std::string location(std::int64_t i, std::size_t field = no_field, std::int64_t element = -1) const {
    return location_in(data_, which_[i], field, element);
  }
  std::vector<std::string> field_names() const { return field_names_of(data_); }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const requires HasRead<D> {
    std::array<std::int64_t, 64> part;
    std::array<void*, max_fields> to;
    for (std::size_t first = 0; first < indices.size(); first += part.size()) {
      const std::size_t n = std::min(part.size(), indices.size() - first);
      for (std::size_t i = 0; i < n; ++i) part[i] = which_[indices[first + i]];
      for (std::size_t k = 0; k < destinations.size(); ++k)
        to[k] = static_cast<std::byte*>(destinations[k]) + first * bytes_[k];
      data_.read(view<const std::int64_t>(part.data(), n), view<void* const>(to.data(), destinations.size()));
    }
  }

 private:
  D data_;
  selection which_;
  std::array<std::size_t, max_fields> bytes_{};  // bytes per field of a sample, for batch reads
};

/// Operands of a function: a sample; its fields; a sample and its index; or a sample and its random position.
template <class S> consteval bool has_fields() {
  if constexpr (TupleLike<S>) return true;
  else if constexpr (std::is_aggregate_v<S> && !std::is_array_v<S>) return member_count<S> > 0;
  else return false;
}
template <class S>
concept HasFields = has_fields<S>();
template <class F, class S> struct takes_fields : std::false_type {};
template <class F, class S> requires(!Field<S> && !is_any_sample<S> && HasFields<S>) struct takes_fields<F, S> {
  template <class... A> static constexpr bool with(field_list<A...>*) { return std::is_invocable_v<const F&, A...>; }
  static constexpr bool value = with(static_cast<fields_of<S>*>(nullptr));
};
template <class F, class S>
concept Applicable = std::is_invocable_v<const F&, const S&> || std::is_invocable_v<const F&, const S&, std::int64_t> ||
                     std::is_invocable_v<const F&, const S&, const augment::position&> || takes_fields<F, S>::value;
template <class F, class S> requires Applicable<F, S>
decltype(auto) apply_to(const F& f, const S& s, std::int64_t i, std::int64_t seed = 0) {
  if constexpr (std::is_invocable_v<const F&, const S&>) return f(s);
  else if constexpr (std::is_invocable_v<const F&, const S&, std::int64_t>) return f(s, i);
  else if constexpr (std::is_invocable_v<const F&, const S&, const augment::position&>)
    return f(s, augment::position{.seed = seed, .epoch = dataset::epoch(), .index = i});
  else return with_fields(s, f);
}
template <class F, class D> using applied =
    std::remove_cvref_t<decltype(apply_to(std::declval<const F&>(), std::declval<const sample_of<D>&>(), 0))>;

/// Applies a function to each sample.
template <class D, class F> class mapped {
 public:
  mapped(D data, F f, std::int64_t seed) : data_(std::move(data)), f_(std::move(f)), seed_(seed) {}
  std::int64_t size() const { return size_of_data(data_); }
  applied<F, D> operator[](std::int64_t i) const { return apply_to(f_, sample_at(data_, i), i, seed_); }
  std::string location(std::int64_t i) const { return location_in(data_, i); }  // its fields differ
  /// Names from the function's `field_names(names)`, or the member names of its results.
  std::vector<std::string> field_names() const {
    if constexpr (requires { f_.field_names(std::vector<std::string>()); })
      return f_.field_names(field_names_of(data_));
    else return member_names<applied<F, D>>();
  }

 private:
  D data_;
  F f_;
  std::int64_t seed_;
};

template <class... A> std::tuple<A...> as_tuple(const A&... a) { return {a...}; }
template <class A, class B> auto joined(const A& a, const B& b) {
  return with_fields(
      a, [&](const auto&... x) { return with_fields(b, [&](const auto&... y) { return as_tuple(x..., y...); }); });
}
/// Fields of two data sets combined into one sample.
template <class A, class B> class zipped {
 public:
  zipped(A a, B b) : a_(std::move(a)), b_(std::move(b)) { check_sizes(size_of_data(a_), size_of_data(b_)); }
  std::int64_t size() const { return size_of_data(a_); }
  auto operator[](std::int64_t i) const { return joined(sample_at(a_, i), sample_at(b_, i)); }
  std::string location(std::int64_t i, std::size_t field = no_field, std::int64_t element = -1) const {
    constexpr std::size_t of_a = fields_of<sample_of<A>>::size;
    if (field != no_field)
      return field < of_a ? location_in(a_, i, field, element) : location_in(b_, i, field - of_a, element);
    const std::string a = location_in(a_, i), b = location_in(b_, i);
    return a.empty() || b.empty() || a == b ? (a.empty() ? b : a) : a + " and " + b;
  }
  std::vector<tensor_type> sample_types() const requires(HasTypes<A> && HasTypes<B>) {
    std::vector<tensor_type> all;
    for (const auto& t : a_.sample_types()) all.push_back(t);
    for (const auto& t : b_.sample_types()) all.push_back(t);
    return all;
  }
  /// If both have the same name, the second field is unnamed.
  std::vector<std::string> field_names() const {
    auto all = named_or_not(a_);
    for (auto& name : named_or_not(b_)) {
      const bool is_new = std::find(all.begin(), all.end(), name) == all.end();
      all.push_back(is_new ? std::move(name) : std::string());
    }
    return all;
  }

 private:
  template <class D> static std::vector<std::string> named_or_not(const D& d) {
    auto names = field_names_of(d);
    names.resize(fields_of<sample_of<D>>::size);
    return names;
  }
  A a_;
  B b_;
};

/// A data set with field names.
template <class D> class named_fields {
 public:
  named_fields(D data, std::vector<std::string> names) : data_(std::move(data)), names_(std::move(names)) {}
  std::int64_t size() const { return size_of_data(data_); }
  sample_of<D> operator[](std::int64_t i) const { return sample_at(data_, i); }
  auto sample_types() const requires HasTypes<D> { return data_.sample_types(); }
  const std::vector<std::string>& field_names() const { return names_; }
  auto labels() const requires requires(const D& d) { d.labels(); } { return data_.labels(); }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const requires HasRead<D> {
    data_.read(indices, destinations);
  }

 private:
  D data_;
  std::vector<std::string> names_;
};

/// Concatenation of two data sets.
template <class A, class B> class concatenated {
 public:
  concatenated(A a, B b) : a_(std::move(a)), b_(std::move(b)) {}
  std::int64_t size() const { return size_of_data(a_) + size_of_data(b_); }
  sample_of<A> operator[](std::int64_t i) const {
    const std::int64_t n = size_of_data(a_);
    if (i < 0 || i >= size()) selection::outside(i, size());
    return i < n ? sample_at(a_, i) : sample_at(b_, i - n);
  }
  std::string location(std::int64_t i, std::size_t field = no_field, std::int64_t element = -1) const {
    const std::int64_t n = size_of_data(a_);
    return i < n ? location_in(a_, i, field, element) : location_in(b_, i - n, field, element);
  }
  std::vector<tensor_type> sample_types() const requires(HasTypes<A> && HasTypes<B>) {
    const auto a = a_.sample_types(), b = b_.sample_types();
    return merged_types(a, b);
  }
  std::vector<std::string> field_names() const { return field_names_of(a_); }

 private:
  A a_;
  B b_;
};

/// Caches each sample after its first access.
template <class D> class cached {
 public:
  explicit cached(D data) : data_(std::make_shared<kept>(std::move(data))) {}
  std::int64_t size() const { return size_of_data(data_->data); }
  sample_of<D> operator[](std::int64_t i) const {
    if (i < 0 || i >= size()) selection::outside(i, size());
    auto& place = data_->samples[static_cast<std::size_t>(i)];
    auto& mutex = data_->mutexes[static_cast<std::size_t>(i) % data_->mutexes.size()];
    {
      const std::lock_guard lock(mutex);
      if (place) return *place;
    }
    // Made without the lock: if two threads make a sample, the first one's result stays.
    auto made = sample_at(data_->data, i);
    const std::lock_guard lock(mutex);
    if (!place) place.emplace(std::move(made));
    return *place;
  }
  auto sample_types() const requires HasTypes<D> { return data_->data.sample_types(); }
  std::string location(std::int64_t i, std::size_t field = no_field, std::int64_t element = -1) const {
    return location_in(data_->data, i, field, element);
  }
  std::vector<std::string> field_names() const { return field_names_of(data_->data); }

 private:
  struct kept {
    explicit kept(D d) : data(std::move(d)), samples(static_cast<std::size_t>(size_of_data(data))) {}
    D data;
    std::vector<std::optional<sample_of<D>>> samples;
    std::array<std::mutex, 16> mutexes;
  };
  std::shared_ptr<kept> data_;
};
}  // namespace detail

}  // namespace lamina
