// Data sets of any samples, and what training reads of them: batches of fields in memory.
export module lamina:data.set;
import :cache.key;
import :core;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// One field of the samples of a data set: a tensor, or a number, of which the shape has no axes.
export struct sample_field {
  dtype element = dtype::float32;
  shape dims;  // of one sample; `dyn` for extents that samples do not share, or that are not known
  bool operator==(const sample_field&) const = default;
};
/// A field of one sample where it lies.
struct field_reference {
  tensor_type type;
  const void* data;
};

namespace detail {

// ---- the fields of a sample -----------------------------------------------------------------------------------------

template <class T> inline constexpr bool is_tensor_field = false;
template <Element T, class E> inline constexpr bool is_tensor_field<tensor<T, E>> = true;
template <class T> inline constexpr bool is_number_list = false;
template <Element T> inline constexpr bool is_number_list<std::vector<T>> = true;
template <Element T, std::size_t N> inline constexpr bool is_number_list<std::array<T, N>> = true;
template <class T>
concept FieldType = Element<T> || is_tensor_field<T> || is_number_list<T> || std::same_as<T, any_tensor>;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; } && !is_number_list<T>;

/// Calls f with each field of a sample: the sample itself, the elements of a tuple or a pair, or the members of an aggregate.
template <class S, class F> constexpr decltype(auto) with_fields(const S& s, F&& f) {
  if constexpr (FieldType<S>) return f(s);
  else if constexpr (TupleLike<S>) return std::apply(std::forward<F>(f), s);
  else return with_members(s, [&](auto, const auto&... members) -> decltype(auto) { return f(members...); });
}
template <class... T> struct field_list {};
template <class S> using fields_of_sample =
    decltype(with_fields(std::declval<const S&>(), []<class... T>(const T&...) { return field_list<T...>{}; }));
template <class L> inline constexpr bool all_fields = false;
template <class... T> inline constexpr bool all_fields<field_list<T...>> = sizeof...(T) > 0 && (FieldType<T> && ...);
template <class S> consteval bool is_sample() {
  if constexpr (FieldType<S> || std::same_as<S, std::vector<any_tensor>>) return true;
  else if constexpr (TupleLike<S>) return all_fields<fields_of_sample<S>>;
  else if constexpr (!std::is_aggregate_v<S>) return false;
  else if constexpr (member_count<S> > 0) return all_fields<fields_of_sample<S>>;
  else return false;
}

template <class T> field_reference reference_to(const T& field) {
  if constexpr (Element<T>) return {{dtype_of<T>, {}}, &field};
  else if constexpr (std::same_as<T, any_tensor>) return {field.type(), field.data()};
  else if constexpr (is_tensor_field<T>) return {field.type(), field.data().data()};
  else return {{dtype_of<typename T::value_type>, shape{dim(static_cast<std::int64_t>(field.size()))}}, field.data()};
}
/// What the type of a field says of it.
template <class T> sample_field field_of_type() {
  if constexpr (Element<T>) return {dtype_of<T>, {}};
  else if constexpr (is_tensor_field<T>) {
    shape s = T::pattern;
    for (int i = 0; i < s.rank; ++i)
      if (!s[i].is_number()) s[i] = dyn;
    return {dtype_of<typename T::element_type>, s};
  } else if constexpr (requires { std::tuple_size<T>::value; })
    return {dtype_of<typename T::value_type>, shape{dim(static_cast<std::int64_t>(std::tuple_size_v<T>))}};
  else if constexpr (std::same_as<T, any_tensor>) return {};
  else return {dtype_of<typename T::value_type>, shape{dyn}};
}

}  // namespace detail

/// A data set: `size()`, and `operator[](i)` that gives sample i, from several threads at once. A sample is a tensor, a number, a list of
/// numbers, an aggregate of up to 16 of them, a tuple or a pair, or a `std::vector<any_tensor>`.
export template <class D>
concept Dataset = std::copyable<D> && requires(const D& d, std::int64_t i) {
  { d.size() } -> std::convertible_to<std::int64_t>;
  d[i];
} && detail::is_sample<std::remove_cvref_t<decltype(std::declval<const D&>()[std::int64_t()])>>();

template <class D> struct dataset_check {
  static consteval text message() {
    text t;
    if constexpr (!Dataset<D>)
      t << "the data set is `" << type_name<D>()
        << "`; it must have size() and operator[](i) that gives a sample: tensors, numbers or lists of numbers, alone, "
           "in an "
           "aggregate of up to 16, or in a tuple";
    return t;
  }
};

/// A data set as training reads it, whatever its samples are: copies share it.
export class sample_source {
 public:
  /// Gives memory for a field of a batch of this shape, [samples x ...].
  using place = std::function<void*(std::size_t field, const shape& dims)>;
  template <class D> requires(!std::same_as<D, sample_source>) && Dataset<D>
  sample_source(const D& data) : held_(std::make_shared<const holder<D>>(data)), fields_(held_->fields()) {}

  std::int64_t size() const { return held_->size(); }
  /// The fields of each sample. Errors: value_error for a data set whose fields only its samples tell, and that has none.
  const std::vector<sample_field>& fields() const { return fields_; }
  /// The classes of all samples where the data set holds them; else empty.
  view<const std::int64_t> labels() const { return held_->labels(); }
  /// Reads samples one behind the other into one block of memory for each field, of which `where` is asked once. Samples that are
  /// smaller than others of the batch are filled up with zeros. Several threads may read at once.
  /// Errors: value_error naming a sample that cannot be read, or that has other fields than the first one.
  void read(view<const std::int64_t> indices, const place& where) const;

 private:
  using reader = std::function<void(view<const field_reference> fields)>;
  struct held {
    virtual ~held() = default;
    virtual std::int64_t size() const = 0;
    virtual std::vector<sample_field> fields() const = 0;
    virtual view<const std::int64_t> labels() const { return {}; }
    virtual void sample(std::int64_t i, const reader& f) const = 0;
    /// Whether it has read a batch by itself.
    virtual bool batch(view<const std::int64_t>, const place&) const { return false; }
  };
  template <class D> struct holder;
  static std::vector<sample_field> fields_of_first(const held& data);
  void read_one(std::int64_t i, const reader& f) const;

  std::shared_ptr<const held> held_;
  std::vector<sample_field> fields_;
};

template <class D> struct sample_source::holder final : held {
  explicit holder(const D& d) : data(d) {}
  D data;
  using sample_type = std::remove_cvref_t<decltype(std::declval<const D&>()[std::int64_t()])>;
  std::int64_t size() const override { return static_cast<std::int64_t>(data.size()); }
  std::vector<sample_field> fields() const override {
    if constexpr (requires {
                    data.image_shape();
                    data.batch(view<const std::int64_t>(), nullptr, nullptr);
                  })
      return {{dtype::float32, data.image_shape()}, {dtype::int64, {}}};
    else if constexpr (requires {
                         { data.fields() } -> std::convertible_to<std::vector<sample_field>>;
                       })
      return data.fields();
    else if constexpr (std::same_as<sample_type, std::vector<any_tensor>> || std::same_as<sample_type, any_tensor>)
      return fields_of_first(*this);
    else {
      auto found = []<class... T>(detail::field_list<T...>) {
        return std::pair(std::vector<sample_field>{detail::field_of_type<T>()...},
                         (std::same_as<T, any_tensor> || ...));
      }(detail::fields_of_sample<sample_type>{});
      return found.second ? fields_of_first(*this) : found.first;
    }
  }
  view<const std::int64_t> labels() const override {
    if constexpr (requires {
                    { data.labels() } -> std::convertible_to<view<const std::int64_t>>;
                  })
      return data.labels();
    else return {};
  }
  void sample(std::int64_t i, const reader& f) const override {
    const auto& s = data[i];
    if constexpr (std::same_as<sample_type, std::vector<any_tensor>>) {
      std::vector<field_reference> all;
      for (const auto& t : s) all.push_back({t.type(), t.data()});
      f(view<const field_reference>(all));
    } else
      detail::with_fields(s, [&](const auto&... field) {
        const field_reference all[] = {detail::reference_to(field)...};
        f({all, sizeof...(field)});
      });
  }
  bool batch(view<const std::int64_t> indices, const place& where) const override {
    if constexpr (requires {
                    data.image_shape();
                    data.batch(indices, nullptr, nullptr);
                  }) {
      shape s{dim(static_cast<std::int64_t>(indices.size()))};
      const shape image = data.image_shape();
      for (int i = 0; i < image.rank; ++i) s.push_back(image[i]);
      void* images = where(0, s);
      data.batch(indices, static_cast<float*>(images), static_cast<std::int64_t*>(where(1, shape{s[0]})));
      return true;
    } else return false;
  }
};

/// A data set as training reads it.
export template <class D> requires accepted<diagnostic<dataset_check<D>>()> sample_source source_of(const D& data) {
  return sample_source(data);
}
export inline sample_source source_of(const sample_source& data) { return data; }

// ---- data sets in memory, and of other data sets --------------------------------------------------------------------

export namespace dataset {

/// Samples that are rows of tensors: sample i has position i of the first axis of each.
class rows {
 public:
  /// Errors: shape_error where a tensor is one number, or they have different numbers of rows.
  explicit rows(std::vector<any_tensor> tensors);
  std::int64_t size() const;
  std::vector<sample_field> fields() const;
  /// Shares the memory of the tensors. Errors: value_error for a sample that there is not.
  std::vector<any_tensor> operator[](std::int64_t i) const;

 private:
  std::vector<any_tensor> tensors_;
};
/// Rows of tensors as samples: `dataset::of(x, y)` has x [N, ...] as its first field and y [N, ...] as its second.
template <class... T> requires(sizeof...(T) > 0) && (std::convertible_to<const T&, any_tensor> && ...) rows
    of(const T&... tensors) {
  return rows({any_tensor(tensors)...});
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
