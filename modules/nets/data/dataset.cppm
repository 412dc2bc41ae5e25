// Data sets with any sample type: the sample types, and the type-erased form that batches are read from.
export module lamina:data.set;
import :cache.key;
import :core;
import :data;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- positions ------------------------------------------------------------------------------------------------------

export namespace augment {
/// Key of random draws: the numbers depend only on these members, so results do not depend on threads. Each function
/// draws from its own stream; `site` separates two calls of one function.
struct position {
  std::int64_t seed = 0, epoch = 0, index = 0;
  std::int64_t site = 0;
  /// For functions that take a seed and a step, such as those for sound.
  constexpr operator random_state() const { return {seed + (site << 32), (epoch << 32) + index}; }
};
}  // namespace augment

export namespace dataset {
/// Epoch, from 0, for which this thread reads a sample: set by `fit` and `loader`; 0 elsewhere.
std::int64_t epoch();
}  // namespace dataset

namespace detail {
/// Sets the epoch for which this thread reads, during its lifetime.
class epoch_scope {
 public:
  explicit epoch_scope(std::int64_t epoch);
  ~epoch_scope();
  epoch_scope(const epoch_scope&) = delete;
  epoch_scope& operator=(const epoch_scope&) = delete;

 private:
  std::int64_t before_;
};
}  // namespace detail

// ---- samples --------------------------------------------------------------------------------------------------------

namespace detail {
/// A field of one sample, without a copy: numbers in row-major order, or one std::string.
struct field_view {
  tensor_type type;
  const void* data = nullptr;
};
/// Field type deduced from a C++ type. `known` is false for tensors whose element type and rank only a sample has.
struct field_pattern {
  bool known = true;
  tensor_type type;
};

constexpr shape with_open_extents(shape s) {
  for (int i = 0; i < s.rank; ++i)
    if (!s[i].is_number()) s[i] = dyn;
  return s;
}

template <class F> struct field_traits;
template <Element T> struct field_traits<T> {
  static constexpr field_pattern pattern{true, {dtype_of<T>, {}}};
  static field_view of(const T& x) { return {pattern.type, &x}; }
};
template <Element T, class E> struct field_traits<tensor<T, E>> {
  static constexpr field_pattern pattern{true, {dtype_of<T>, with_open_extents(E::pattern)}};
  static field_view of(const tensor<T, E>& x) { return {x.type(), x.data().data()}; }
};
template <> struct field_traits<std::string> {
  static constexpr field_pattern pattern{true, {dtype::string, {}}};
  static field_view of(const std::string& x) { return {pattern.type, &x}; }
};
template <> struct field_traits<any_tensor> {
  static constexpr field_pattern pattern{false, {}};
  static field_view of(const any_tensor& x) { return {x.type(), x.data()}; }
};

template <Element T> struct field_traits<std::vector<T>> {
  static constexpr field_pattern pattern{true, {dtype_of<T>, {dyn}}};
  static field_view of(const std::vector<T>& x) {
    return {{dtype_of<T>, {dim(static_cast<std::int64_t>(x.size()))}}, x.data()};
  }
};
template <Element T, std::size_t N> struct field_traits<std::array<T, N>> {
  static constexpr field_pattern pattern{true, {dtype_of<T>, {dim(static_cast<std::int64_t>(N))}}};
  static field_view of(const std::array<T, N>& x) { return {pattern.type, x.data()}; }
};

template <class T> inline constexpr bool is_any_sample = false;

template <class F>
concept Field = requires { field_traits<std::remove_cvref_t<F>>::pattern; };

template <class S>
concept TupleLike = requires { std::tuple_size<S>::value; };

/// Maximum number of fields of a sample.
inline constexpr std::size_t max_fields = max_members;

}  // namespace detail

/// A sample whose number of fields is known at run time: up to 16 tensors. Its data set has `sample_types()`.
export struct any_sample {
  std::array<any_tensor, detail::max_fields> fields;
  std::size_t count = 0;
};

namespace detail {
template <> inline constexpr bool is_any_sample<any_sample> = true;

/// Calls f(field...) with the fields of a sample.
template <class S, class F> decltype(auto) with_fields(const S& s, F&& f) {
  if constexpr (Field<S>) return f(s);
  else if constexpr (TupleLike<S>) return std::apply(f, s);
  else {
    return with_members(s, [&](auto, const auto&... members) -> decltype(auto) { return f(members...); });
  }
}

template <class... F> struct field_list {
  static constexpr std::size_t size = sizeof...(F);
};
struct list_fields {
  template <class... F> field_list<F...> operator()(const F&...) const;
};
template <class S> using fields_of = decltype(with_fields(std::declval<const S&>(), list_fields{}));

// An object that is never constructed: only the addresses of its members are used, whose names the compiler spells.
template <class T> union unmade {
  char none;
  T object;
  constexpr unmade() : none() {}
  constexpr ~unmade() {}
};
template <class T> inline constexpr unmade<T> unmade_sample{};
template <class S, std::size_t I> constexpr auto address_of_member() {
  return with_members(unmade_sample<S>.object,
                      [](auto, const auto&... m) { return std::get<I>(std::tuple<decltype(&m)...>(&m...)); });
}
template <class P, P p> consteval std::string_view pretty_name() { return __PRETTY_FUNCTION__; }
template <auto> struct constant_of;
/// Name of a member of an aggregate; empty if a member has no address, such as a bit-field.
template <class S, std::size_t I> consteval std::string_view member_name() {
  if constexpr (requires { typename constant_of<address_of_member<S, I>()>; }) {
    constexpr auto p = address_of_member<S, I>();
    const std::string_view all = pretty_name<decltype(p), p>();
    const auto begin = all.rfind('.') + 1;
    return all.substr(begin, all.size() - 1 - begin);
  } else return {};
}
/// Field names of a sample if it is an aggregate; else none.
template <class S> std::vector<std::string> member_names() {
  if constexpr (Field<S> || TupleLike<S> || is_any_sample<S> || !std::is_aggregate_v<S> || std::is_array_v<S>)
    return {};
  else
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return std::vector<std::string>{std::string(member_name<S, I>())...};
    }(std::make_index_sequence<member_count<S>>());
}

template <class D> using sample_of = std::remove_cvref_t<decltype(std::declval<const D&>()[std::int64_t(0)])>;

// Message about invalid fields of a sample.
template <class D, class List> struct fields_check;
template <class D, class... F> struct fields_check<D, field_list<F...>> {
  static consteval text message() {
    text t;
    const bool fits[] = {Field<F>..., true};
    const std::string_view names[] = {type_name<F>()..., {}};
    for (std::size_t i = 0; i < sizeof...(F); ++i)
      if (t.empty() && !fits[i])
        t << "field " << i << " of a sample of `" << type_name<D>() << "` is a `" << names[i]
          << "`; expected a tensor, a number of an element type or a list of them, or a std::string";
    if (sizeof...(F) == 0 || sizeof...(F) > max_fields)
      t << "a sample of `" << type_name<D>() << "` has " << sizeof...(F) << " fields; expected 1 to " << max_fields;
    return t;
  }
};
// Message about an invalid sample.
template <class D, class S> consteval text sample_message() {
  text t;
  if constexpr (Field<S>) return t;
  else if constexpr (is_any_sample<S>) {
    if constexpr (!requires(const D& d) { d.sample_types(); })
      t << "`" << type_name<D>() << "` has samples whose number of fields is known only at run time, and no "
        << "`sample_types() const` for their types";
    return t;
  } else if constexpr (TupleLike<S> || (std::is_aggregate_v<S> && !std::is_array_v<S>)) {
    if constexpr (!TupleLike<S> && member_count<S> == 0)
      return t << "a sample of `" << type_name<D>() << "` is a `" << type_name<S>()
               << "`, whose members cannot be counted; expected at most 16, or a std::tuple";
    else return fields_check<D, fields_of<S>>::message();
  } else
    return t << "a sample of `" << type_name<D>() << "` is a `" << type_name<S>()
             << "`; expected a tensor, a number, a list of numbers, a std::string, or an aggregate, std::tuple or "
                "std::pair of those";
}
/// Message about a type that has no samples; samples may be of any type, also ones that `dataset::map` turns into
/// fields.
template <class D> struct samples_check {
  static consteval text message() {
    text t;
    if constexpr (requires { typename D::extents_type; })
      t << "a tensor is not a data set, since it counts elements; dataset::of_tensors(x) has its rows as samples";
    else if constexpr (!requires(const D& d) {
                         { d.size() } -> std::convertible_to<std::int64_t>;
                       })
      t << "`" << type_name<D>() << "` is not a data set: it has no `size() const` that returns a number";
    else if constexpr (
        !requires(const D& d) { d[std::int64_t(0)]; } || !requires { requires !std::is_void_v<sample_of<D>>; })
      t << "`" << type_name<D>()
        << "` is not a data set: it has no `operator[](std::int64_t) const` that returns a sample";
    return t;
  }
};
template <class D>
concept HasSamples = samples_check<D>::message().empty();
template <class D> struct dataset_check {
  static consteval text message() {
    if constexpr (!HasSamples<D>) return samples_check<D>::message();
    else return sample_message<D, sample_of<D>>();
  }
};
}  // namespace detail

/// A data set: `size()` samples, where `operator[](i)` returns one: a tensor, a number, a std::vector or std::array of
/// numbers, a std::string, an aggregate of up to 16 members, std::tuple or std::pair of those, or `any_sample`. Its
/// fields are counted from 0 in this order.
/// Optional members: `labels()`, the classes of all samples, which are checked before training; `sample_types()`, a
/// range of `tensor_type` with details beyond the C++ types of the fields, with `dyn` for extents that differ between
/// samples; `field_names()`, a range of names for fields that are not aggregate members; and `read(view<const
/// std::int64_t> indices, view<void* const> destinations)`, which writes a batch whose extents are all known.
/// `location(i)`, a string with the origin of sample i, such as a file, for error messages; or `location(i, field,
/// element)` with defaults, which also locates an element of a field.
/// Reading is const and is done by several threads at once.
export template <class D>
concept Dataset = detail::dataset_check<std::remove_cvref_t<D>>::message().empty();

/// Handling of a sample that cannot be read or used: raise an error, or skip and count it.
export enum class sample_failure : std::uint8_t { raise, skip };

// ---- the type-erased form -------------------------------------------------------------------------------------------

namespace detail {
/// Padding element of a field.
struct filler {
  std::array<std::byte, 8> element{};
  bool given = false;  // else zeros
};
/// Copies elements of shape `s` into a block of shape `padded`, from `axis` on, and fills the rest with the padding
/// element.
void copy_padded(const std::byte* from, const shape& s, std::byte* to, const shape& padded, std::size_t element,
                 const filler& fill, int axis = 0);
/// Extent of a sample along the first axis that is dynamic in the pattern, else along the first axis; 1 for numbers.
std::int64_t length_of(const shape& s, const shape& pattern);

/// Reads samples of any type.
class sample_reader {
 public:
  using taker = void (*)(void* state, view<const field_view> fields);
  sample_reader() = default;
  sample_reader(const sample_reader&) = delete;
  sample_reader& operator=(const sample_reader&) = delete;
  virtual ~sample_reader();
  virtual std::int64_t size() const = 0;
  /// Calls `take` with the fields of a sample, which are valid until it returns.
  virtual void sample(std::int64_t i, taker take, void* state) const = 0;
  /// Writes a batch whose extents are all known, if the data set has a `read` member; returns whether it did.
  virtual bool read(view<const std::int64_t> indices, view<void* const> destinations) const = 0;
  /// Classes of all samples, if the data set has them.
  virtual view<const std::int64_t> labels() const { return {}; }
  /// As in `sample_source`.
  virtual std::string location(std::int64_t i, std::size_t field, std::int64_t element) const;
};

/// Appends "sample 7", with its origin in parentheses if known.
text& put_sample(text& t, std::int64_t index, std::string_view location, std::string_view of = {});

/// Means no particular field.
inline constexpr std::size_t no_field = static_cast<std::size_t>(-1);
template <class D>
concept Located = requires(const D& d, std::int64_t i) {
  { d.location(i) } -> std::convertible_to<std::string>;
};
template <class D>
concept FieldsLocated = requires(const D& d, std::int64_t i, std::size_t field) {
  { d.location(i, field, i) } -> std::convertible_to<std::string>;
};
/// Origin of a sample of a data set; empty if unknown.
template <class D>
std::string location_in(const D& data, std::int64_t i, std::size_t field = no_field, std::int64_t element = -1) {
  if constexpr (FieldsLocated<D>) return data.location(i, field, element);
  else if constexpr (Located<D>) return data.location(i);
  else return {};
}
}  // namespace detail

/// Type-erased data set for trainers and loaders. Copies share the data; several threads may read.
export class sample_source {
 public:
  sample_source() = default;
  template <class D> requires(!std::same_as<D, sample_source>) && accepted<diagnostic<detail::dataset_check<D>>()>
  sample_source(const D& data);
  std::int64_t size() const { return size_; }
  /// Element type and shape of each field of a sample. An extent that may differ between samples is `dyn`.
  view<const tensor_type> fields() const { return fields_; }
  /// Whether an extent of this field may differ between samples.
  bool is_ragged(std::size_t field) const { return !fields_[field].dims.is_static(); }

  /// The same samples with a padding value per field for batches. Fields without a value, also those after the last
  /// one, keep their padding: zeros at first.
  /// Errors: value_error for more values than fields, and for a value that the field's element type cannot represent.
  sample_source filled_with(view<const std::optional<double>> numbers) const;
  const detail::filler& fill(std::size_t field) const { return fills_[field]; }

  /// Name of each field: the aggregate member, or as given by the data set or `named`, else empty.
  view<const std::string> names() const { return names_; }
  /// The same samples with field names.   Errors: value_error for another number of names, and for duplicates.
  sample_source named(std::vector<std::string> names) const;
  /// Selected fields of the same samples, in this order, by index or name.
  /// Errors: value_error for an empty selection, and for fields that do not exist or are duplicated.
  sample_source chosen(view<const std::size_t> fields) const;
  sample_source chosen(view<const std::string> names) const;

  /// Shape of each field of a batch: the number of samples, then the largest extents. Reads the samples if an extent is
  /// dynamic.  Errors: value_error for an index outside 0..size() - 1; shape_error and type_error naming sample and
  /// field.
  void batch_shapes(view<const std::int64_t> indices, view<shape> shapes) const;
  std::vector<shape> batch_shapes(view<const std::int64_t> indices) const;

  /// Writes the samples of a batch, one after another, into one memory block per field. Shorter samples are padded to
  /// `shapes`, as `batch_shapes` returns them (computed if omitted), with zeros or the values of `filled_with`. A field
  /// of strings is written to that many std::string objects. `lengths`, if given, has for each field null or room for
  /// one number per sample: its extent along the first axis with a dynamic extent, else along the first axis; 1 for
  /// numbers.
  /// Allocates nothing for tensors and numbers, except what the data set itself does.
  /// Errors: as `batch_shapes`; shape_error for a sample larger than `shapes`; value_error for another number of
  /// blocks.
  void read(view<const std::int64_t> indices, view<void* const> destinations, view<const shape> shapes = {},
            view<std::int64_t* const> lengths = {}) const;

  /// Classes of all samples if the data set has them; else empty.
  view<const std::int64_t> labels() const { return reader_->labels(); }

  /// Origin of sample i, such as a file or a line of one, and with `field` the element of that field; empty if unknown.
  std::string location(std::int64_t i, std::size_t field = detail::no_field, std::int64_t element = -1) const {
    return reader_->location(i, field, element);
  }
  const std::shared_ptr<const detail::sample_reader>& reader() const { return reader_; }

  /// Calls `take(state, fields)` with the fields of one sample, checked against `fields()`.
  void sample(std::int64_t i, detail::sample_reader::taker take, void* state) const;

  // `known` refines the types that the C++ types leave open; it is empty or has one type per field.
  sample_source(std::shared_ptr<const detail::sample_reader> reader, view<const detail::field_pattern> patterns,
                view<const tensor_type> known);

 private:
  void check(view<const std::int64_t> indices) const;
  std::shared_ptr<const detail::sample_reader> reader_;
  std::vector<tensor_type> fields_;
  std::vector<detail::filler> fills_;  // of each field
  std::vector<std::string> names_;
  std::int64_t size_ = 0;
};

namespace detail {
template <class D> class reader_of final : public sample_reader {
 public:
  explicit reader_of(std::shared_ptr<const D> data) : data_(std::move(data)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(data_->size()); }
  void sample(std::int64_t i, taker take, void* state) const override {
    const auto& s = (*data_)[index_for(i)];
    if constexpr (is_any_sample<std::remove_cvref_t<decltype(s)>>) {
      std::array<field_view, max_fields> fields;
      for (std::size_t k = 0; k < s.count; ++k) fields[k] = field_traits<any_tensor>::of(s.fields[k]);
      take(state, view<const field_view>(fields.data(), s.count));
    } else
      with_fields(s, [&](const auto&... f) {
        const field_view fields[] = {field_traits<std::remove_cvref_t<decltype(f)>>::of(f)...};
        take(state, fields);
      });
  }
  bool read(view<const std::int64_t> indices, view<void* const> destinations) const override {
    if constexpr (requires { data_->read(indices, destinations); }) {
      data_->read(indices, destinations);
      return true;
    } else return false;
  }
  view<const std::int64_t> labels() const override {
    if constexpr (requires {
                    { data_->labels() } -> std::convertible_to<view<const std::int64_t>>;
                  })
      return data_->labels();
    else return {};
  }
  std::string location(std::int64_t i, std::size_t field, std::int64_t element) const override {
    return location_in(*data_, i, field, element);
  }

 private:
  // Standard containers have unsigned indices.
  static auto index_for(std::int64_t i) {
    if constexpr (requires { typename D::size_type; }) return static_cast<typename D::size_type>(i);
    else return i;
  }
  std::shared_ptr<const D> data_;
};
template <class List> struct patterns_of;
template <class... F> struct patterns_of<field_list<F...>> {
  static constexpr field_pattern value[] = {field_traits<F>::pattern...};
};
}  // namespace detail

namespace detail {
// A source is made from a data set, a shared pointer to one, or a source.
template <class D> struct source_check : dataset_check<D> {};
template <class D> struct source_check<std::shared_ptr<D>> : dataset_check<std::remove_const_t<D>> {};
template <> struct source_check<sample_source> {
  static consteval text message() { return {}; }
};

/// Field names of a data set's samples; empty if they have none.
template <class D> std::vector<std::string> field_names_of(const D& data) {
  if constexpr (requires { data.field_names(); }) {
    std::vector<std::string> all;
    for (const auto& name : data.field_names()) all.emplace_back(name);
    return all;
  } else return member_names<sample_of<D>>();
}
template <class D> sample_source unnamed_source_at(std::shared_ptr<const D> data) {
  using sample = sample_of<D>;
  auto reader = std::make_shared<const reader_of<D>>(data);
  if constexpr (is_any_sample<sample>) {
    const auto known = data->sample_types();
    const std::vector<field_pattern> open(std::size(known), field_pattern{false, {}});
    return {std::move(reader), open, known};
  } else {
    using patterns = patterns_of<fields_of<sample>>;
    if constexpr (requires { data->sample_types(); }) {
      const auto known = data->sample_types();
      return {std::move(reader), patterns::value, known};
    } else return {std::move(reader), patterns::value, {}};
  }
}
template <class D> sample_source source_at(std::shared_ptr<const D> data) {
  auto names = field_names_of(*data);
  const sample_source source = unnamed_source_at(std::move(data));
  return names.empty() ? source : source.named(std::move(names));
}
}  // namespace detail

/// Makes a type-erased data set. It keeps a copy of the data set, or the given shared pointer.
export template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
sample_source source_of(const D& data) {
  if constexpr (std::same_as<D, sample_source>) return data;
  else if constexpr (requires { data.use_count(); })
    return detail::source_at(std::shared_ptr<const typename D::element_type>(data));
  else return detail::source_at(std::make_shared<const D>(data));
}

template <class D> requires(!std::same_as<D, sample_source>) && accepted<diagnostic<detail::dataset_check<D>>()>
sample_source::sample_source(const D& data) : sample_source(source_of(data)) {}

}  // namespace lamina
