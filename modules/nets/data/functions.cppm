// Data set adapters, as functions and in pipes: `data | dataset::map(f) | dataset::take(100)`.
export module lamina:data.functions;
import :core;
import :data.compose;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
template <class D>
concept AcceptedSamples = accepted<diagnostic<samples_check<D>>()>;

/// A pipe step, applied to the data set on its left.
template <class F> struct dataset_step {
  F f;
  template <class D> requires AcceptedSamples<D> friend auto operator|(const D& data, const dataset_step& step) {
    return step.f(data);
  }
};
template <class F> dataset_step(F) -> dataset_step<F>;

template <class D, class F> struct map_check {
  static consteval text message() {
    text t;
    if constexpr (!HasSamples<D>) return samples_check<D>::message();
    else if constexpr (!Applicable<F, sample_of<D>>)
      t << "dataset::map: the function takes neither a sample, a `" << type_name<sample_of<D>>()
        << "`, nor its fields, nor a sample and its index or augment::position, as const";
    return t;
  }
};
template <class D, class F> struct filter_check {
  static consteval text message() {
    text t;
    if constexpr (!HasSamples<D>) return samples_check<D>::message();
    else if constexpr (!Applicable<F, sample_of<D>>)
      t << "dataset::filter: the predicate takes neither a sample, a `" << type_name<sample_of<D>>()
        << "`, nor its fields, nor a sample and its index or augment::position, as const";
    else if constexpr (!std::convertible_to<applied<F, D>, bool>)
      t << "dataset::filter: the predicate returns a `" << type_name<applied<F, D>>() << "`; expected a bool";
    return t;
  }
};

std::function<std::int64_t(std::int64_t)> length_buckets(const sample_source& data, std::size_t field,
                                                         std::int64_t width);

/// Fields of a sample, followed by the lengths of selected fields.
template <std::size_t... Fields> struct fields_and_lengths {
  template <class F> static std::int64_t length(const F& f) {
    constexpr field_pattern pattern = field_traits<F>::pattern;
    const shape s = field_traits<F>::of(f).type.dims;
    return length_of(s, pattern.known ? pattern.type.dims : s);
  }
  template <class S> auto operator()(const S& s) const {
    return with_fields(s, [](const auto&... f) {
      const auto all = std::tie(f...);
      return std::tuple(f..., length(std::get<Fields>(all))...);
    });
  }
  /// A length field is named after its field plus `_length`.
  static std::vector<std::string> field_names(std::vector<std::string> names) {
    if (!names.empty())
      for (const std::size_t field : {Fields...})
        names.push_back(names[field].empty() ? std::string() : names[field] + "_length");
    return names;
  }
};
template <class D, std::size_t... Fields> struct lengths_check {
  static consteval text message() {
    text t;
    if constexpr (!Dataset<D>) return dataset_check<D>::message();
    else if constexpr (is_any_sample<sample_of<D>>)
      t << "dataset::with_lengths: the number of fields of a sample is known only at run time; map it to a tuple "
           "first";
    else {
      constexpr std::size_t count = fields_of<sample_of<D>>::size;
      for (const std::size_t field : {Fields...})
        if (t.empty() && field >= count)
          t << "dataset::with_lengths: field " << field << " of " << count << "; fields are counted from 0";
      if (t.empty() && count + sizeof...(Fields) > max_fields)
        t << "dataset::with_lengths: the samples have " << count + sizeof...(Fields)
          << " fields with their lengths; expected at most " << max_fields;
    }
    return t;
  }
};
template <class A, class B> struct zip_check {
  static consteval text message() {
    text t;
    if constexpr (!Dataset<A>) return dataset_check<A>::message();
    else if constexpr (!Dataset<B>) return dataset_check<B>::message();
    else if constexpr (is_any_sample<sample_of<A>> || is_any_sample<sample_of<B>>)
      t << "dataset::zip: the number of fields of a sample is known only at run time; map it to a tuple first";
    else if constexpr (requires {
                         requires fields_of<sample_of<A>>::size + fields_of<sample_of<B>>::size > max_fields;
                       })
      t << "dataset::zip: the samples have " << fields_of<sample_of<A>>::size + fields_of<sample_of<B>>::size
        << " fields together; expected at most " << max_fields;
    return t;
  }
};
template <class A, class B> struct concat_check {
  static consteval text message() {
    text t;
    if constexpr (!HasSamples<A>) return samples_check<A>::message();
    else if constexpr (!HasSamples<B>) return samples_check<B>::message();
    else if constexpr (!std::same_as<sample_of<A>, sample_of<B>>)
      t << "dataset::concat: the samples are a `" << type_name<sample_of<A>>() << "` and a `"
        << type_name<sample_of<B>>() << "`; expected one type";
    return t;
  }
};
}  // namespace detail

export namespace dataset {

/// Applies `f` to each sample on access: to the sample, its fields, the sample and its index, or the sample and an
/// `augment::position` of seed, epoch (0 outside `fit` and `loader`) and index. Several threads call `f` at once;
/// random draws should depend only on these arguments, so that results do not depend on threads.
template <class D, class F> requires accepted<diagnostic<detail::map_check<D, F>>()>
auto map(const D& data, F f, std::int64_t seed = 0) {
  return detail::mapped<D, F>(data, std::move(f), seed);
}
// The seed's type is deduced, so that compilers report a problem with the function first.
template <class F, std::integral Seed = std::int64_t> auto map(F f, Seed seed = 0) {
  return detail::dataset_step{[f, seed](const auto& data) { return map(data, f, static_cast<std::int64_t>(seed)); }};
}

/// The fields of each sample as a std::tuple, followed by the lengths of the selected fields, by index from 0: the
/// extent along the first axis with a dynamic extent, else along the first axis. Passes lengths to a model or a loss:
/// `fit(net, dataset::with_lengths<0, 1>(data), loss::ctc{}, ...)`.
template <std::size_t... Fields, class D>
requires(sizeof...(Fields) > 0) && accepted<diagnostic<detail::lengths_check<D, Fields...>>()>
auto with_lengths(const D& data) {
  return map(data, detail::fields_and_lengths<Fields...>{});
}
template <std::size_t... Fields> requires(sizeof...(Fields) > 0) auto with_lengths() {
  return detail::dataset_step{[](const auto& data) { return with_lengths<Fields...>(data); }};
}

/// The samples with field names, by which `fit`, `evaluate` and `predict` match them to the inputs of a model.
/// Errors, once batches are read: value_error for another number of names, and for duplicates.
template <class D> requires accepted<diagnostic<detail::dataset_check<D>>()>
auto named(const D& data, std::vector<std::string> names) {
  return detail::named_fields<D>(data, std::move(names));
}
inline auto named(std::vector<std::string> names) {
  return detail::dataset_step{[names](const auto& data) { return named(data, names); }};
}
/// Selected fields by name, in this order: the last step before `fit` or a loader.
/// Errors: as `sample_source::chosen`.
template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
sample_source fields(const D& data, const std::vector<std::string>& names) {
  return source_of(data).chosen(view<const std::string>(names));
}
inline auto fields(std::vector<std::string> names) {
  return detail::dataset_step{[names](const auto& data) { return fields(data, names); }};
}

/// Buckets for `bucket_by` of `fit`, loaders and batches: a bucket has the samples whose length of a field, as in
/// `with_lengths`, is in 0..width - 1, width..2 width - 1 and so on. Reads each sample once, immediately.   Errors:
/// value_error for a width below 1 or a field that does not exist.
template <class D> requires accepted<diagnostic<detail::source_check<D>>()>
std::function<std::int64_t(std::int64_t)> length_buckets(const D& data, std::size_t field, std::int64_t width) {
  return detail::length_buckets(source_of(data), field, width);
}

/// The samples for which the predicate is true. It is evaluated once per sample, when the filter is created.
template <class D, class F> requires accepted<diagnostic<detail::filter_check<D, F>>()>
auto filter(const D& data, F f) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < detail::size_of_data(data); ++i)
    if (detail::apply_to(f, detail::sample_at(data, i), i)) kept.push_back(i);
  return detail::selected<D>(data, detail::selection(std::move(kept)));
}
template <class F> auto filter(F f) {
  return detail::dataset_step{[f](const auto& data) { return filter(data, f); }};
}

/// The first `count` samples, or all if fewer.   Errors: value_error for a negative count.
template <class D> requires detail::AcceptedSamples<D> auto take(const D& data, std::int64_t count) {
  return detail::selected<D>(data, detail::first_of(count, detail::size_of_data(data), "take"));
}
inline auto take(std::int64_t count) {
  return detail::dataset_step{[count](const auto& data) { return take(data, count); }};
}
/// All samples but the first `count`.   Errors: value_error for a negative count.
template <class D> requires detail::AcceptedSamples<D> auto skip(const D& data, std::int64_t count) {
  return detail::selected<D>(data, detail::without_first_of(count, detail::size_of_data(data)));
}
inline auto skip(std::int64_t count) {
  return detail::dataset_step{[count](const auto& data) { return skip(data, count); }};
}
/// The samples with these indices, in this order.   Errors: value_error for an index outside the data set.
template <class D> requires detail::AcceptedSamples<D> auto subset(const D& data, std::vector<std::int64_t> indices) {
  return detail::selected<D>(data, detail::checked_list(std::move(indices), detail::size_of_data(data)));
}
inline auto subset(std::vector<std::int64_t> indices) {
  return detail::dataset_step{[indices](const auto& data) { return subset(data, indices); }};
}
/// The samples in the order of `permutation(size, seed, 0)`.
template <class D> requires detail::AcceptedSamples<D> auto shuffle(const D& data, std::int64_t seed) {
  return detail::selected<D>(data, detail::selection(permutation(detail::size_of_data(data), seed, 0)));
}
inline auto shuffle(std::int64_t seed) {
  return detail::dataset_step{[seed](const auto& data) { return shuffle(data, seed); }};
}
/// Splits the samples randomly into two data sets: a fraction `ratio` of the samples, and the rest.
/// Errors: value_error unless 0 <= ratio <= 1.
template <class D> requires detail::AcceptedSamples<D> auto split(const D& data, double ratio, std::int64_t seed) {
  auto parts = detail::halves(detail::size_of_data(data), ratio, seed);
  return std::pair<detail::selected<D>, detail::selected<D>>{{data, std::move(parts.first)},
                                                             {data, std::move(parts.second)}};
}
inline auto split(double ratio, std::int64_t seed) {
  return detail::dataset_step{[ratio, seed](const auto& data) { return split(data, ratio, seed); }};
}
/// Cross-validation: `k` pairs of data sets for training and validation. Each sample is in exactly one validation set;
/// their sizes differ by at most one. The training set of a pair has all other samples. The order is random, and
/// samples are not copied.
/// Errors: value_error unless 2 <= k <= the number of samples.
template <class D> requires detail::AcceptedSamples<D> auto folds(const D& data, std::int64_t k, std::int64_t seed) {
  std::vector<std::pair<detail::selected<D>, detail::selected<D>>> all;
  for (auto& [train, validation] : detail::fold_parts(detail::size_of_data(data), k, seed))
    all.emplace_back(detail::selected<D>(data, std::move(train)), detail::selected<D>(data, std::move(validation)));
  return all;
}
/// The same with one class per sample (stratified folds): the counts of each class in the validation sets differ by at
/// most one.   Errors: value_error also if the numbers of classes and samples differ.
template <class D> requires detail::AcceptedSamples<D>
auto folds(const D& data, std::int64_t k, std::int64_t seed, view<const std::int64_t> classes) {
  std::vector<std::pair<detail::selected<D>, detail::selected<D>>> all;
  for (auto& [train, validation] : detail::fold_parts(detail::size_of_data(data), k, seed, classes))
    all.emplace_back(detail::selected<D>(data, std::move(train)), detail::selected<D>(data, std::move(validation)));
  return all;
}
inline auto folds(std::int64_t k, std::int64_t seed) {
  return detail::dataset_step{[k, seed](const auto& data) { return folds(data, k, seed); }};
}
/// Caches each sample after its first access.
template <class D> requires detail::AcceptedSamples<D> auto cache(const D& data) { return detail::cached<D>(data); }
inline auto cache() {
  return detail::dataset_step{[](const auto& data) { return cache(data); }};
}
/// Combines the fields of all data sets into a std::tuple.   Errors: value_error for different numbers of samples.
template <class A, class B> requires accepted<diagnostic<detail::zip_check<A, B>>()> auto zip(const A& a, const B& b) {
  return detail::zipped<A, B>(a, b);
}
template <class A, class B, class C, class... D> auto zip(const A& a, const B& b, const C& c, const D&... more) {
  return zip(zip(a, b), c, more...);
}
/// Concatenates data sets.   Errors: type_error if their fields differ.
template <class A, class B> requires accepted<diagnostic<detail::concat_check<A, B>>()>
auto concat(const A& a, const B& b) {
  return detail::concatenated<A, B>(a, b);
}
template <class A, class B, class C, class... D> auto concat(const A& a, const B& b, const C& c, const D&... more) {
  return concat(concat(a, b), c, more...);
}

}  // namespace dataset

}  // namespace lamina
