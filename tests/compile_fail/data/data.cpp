// Invalid data sets, and functions that do not accept their samples.
import lamina.std;
import lamina;
using namespace lamina;

using numbers = std::vector<float>;

// case: dataset_tensor
// expect: a tensor is not a data set, since it counts elements; dataset::of_tensors(x) has its rows as samples
namespace dataset_tensor {
void use(const matrix<float>& x) {
#ifdef BAD
  source_of(x);
#else
  source_of(dataset::of_tensors(x));
#endif
}
}  // namespace dataset_tensor

// case: dataset_size
// expect: `pages` is not a data set: it has no `size() const` that returns a number
namespace dataset_size {
struct pages {
#ifdef BAD
  std::int64_t size() { return 1; }
#else
  std::int64_t size() const { return 1; }
#endif
  float operator[](std::int64_t) const { return 0; }
};
void use() { source_of(pages{}); }
}  // namespace dataset_size

// case: dataset_index
// expect: `pages` is not a data set: it has no `operator[](std::int64_t) const` that returns a sample
namespace dataset_index {
struct pages {
  std::int64_t size() const { return 1; }
#ifndef BAD
  float operator[](std::int64_t) const { return 0; }
#endif
};
void use() { source_of(pages{}); }
}  // namespace dataset_index

// case: dataset_sample
// expect: a sample of `pages` is a `const char *`; expected a tensor, a number, a list of numbers, a std::string, or an aggregate, std::tuple or std::pair of those
namespace dataset_sample {
struct pages {
  std::int64_t size() const { return 1; }
#ifdef BAD
  const char* operator[](std::int64_t) const { return ""; }
#else
  std::string operator[](std::int64_t) const { return ""; }
#endif
};
void use() { source_of(pages{}); }
}  // namespace dataset_sample

// case: dataset_field
// expect: field 1 of a sample of `pages` is a `const char *`; expected a tensor, a number of an element type or a list of them, or a std::string
namespace dataset_field {
#ifdef BAD
using name = const char*;
#else
using name = std::string;
#endif
struct pages {
  std::int64_t size() const { return 1; }
  std::pair<float, name> operator[](std::int64_t) const { return {1.f, ""}; }
};
void use() { source_of(pages{}); }
}  // namespace dataset_field

// case: dataset_fields
// expect: a sample of `pages` has 17 fields; expected 1 to 16
namespace dataset_fields {
#ifdef BAD
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#else
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#endif
struct pages {
  std::int64_t size() const { return 1; }
  sample operator[](std::int64_t) const { return {}; }
};
void use() { source_of(pages{}); }
}  // namespace dataset_fields

// case: dataset_members
// expect: a sample of `pages` is a `nothing`, whose members cannot be counted; expected at most 16, or a std::tuple
namespace dataset_members {
struct nothing {
#ifndef BAD
  float x;
#endif
};
struct pages {
  std::int64_t size() const { return 1; }
  nothing operator[](std::int64_t) const { return {}; }
};
void use() { source_of(pages{}); }
}  // namespace dataset_members

// case: dataset_types
// expect: `pages` has samples whose number of fields is known only at run time, and no `sample_types() const` for their types
namespace dataset_types {
struct pages {
  std::int64_t size() const { return 1; }
  any_sample operator[](std::int64_t) const { return {}; }
#ifndef BAD
  std::vector<tensor_type> sample_types() const { return {{}}; }
#endif
};
void use() { source_of(pages{}); }
}  // namespace dataset_types

// case: dataset_map
// expect: dataset::map: the function takes neither a sample, a `float`, nor its fields, nor a sample and its index or augment::position, as const
namespace dataset_map {
#ifdef BAD
using argument = std::string;
#else
using argument = float;
#endif
void use(const numbers& x) {
  dataset::map(x, [](const argument& s) { return s; });
}
}  // namespace dataset_map

// case: dataset_filter
// expect: dataset::filter: the predicate takes neither a sample, a `float`, nor its fields, nor a sample and its index or augment::position, as const
namespace dataset_filter {
#ifdef BAD
using argument = std::string;
#else
using argument = float;
#endif
void use(const numbers& x) {
  dataset::filter(x, [](const argument&) { return true; });
}
}  // namespace dataset_filter

// case: dataset_predicate
// expect: dataset::filter: the predicate returns a `answer`; expected a bool
namespace dataset_predicate {
struct answer {};
#ifdef BAD
using result = answer;
#else
using result = bool;
#endif
void use(const numbers& x) {
  dataset::filter(x, [](float) { return result{}; });
}
}  // namespace dataset_predicate

// case: dataset_zip_rows
// expect: dataset::zip: the number of fields of a sample is known only at run time; map it to a tuple first
namespace dataset_zip_rows {
void use(const numbers& x, const tensor_rows& rows) {
#ifdef BAD
  dataset::zip(x, rows);
#else
  dataset::zip(x, rows | dataset::map([](const any_sample& s) { return s.fields[0]; }));
#endif
}
}  // namespace dataset_zip_rows

// case: dataset_zip_fields
// expect: dataset::zip: the samples have 17 fields together; expected at most 16
namespace dataset_zip_fields {
#ifdef BAD
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#else
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#endif
void use(const numbers& x, const std::vector<sample>& y) { dataset::zip(x, y); }
}  // namespace dataset_zip_fields

// case: dataset_lengths_rows
// expect: dataset::with_lengths: the number of fields of a sample is known only at run time; map it to a tuple first
namespace dataset_lengths_rows {
void use(const tensor_rows& rows) {
#ifdef BAD
  dataset::with_lengths<0>(rows);
#else
  dataset::with_lengths<0>(rows | dataset::map([](const any_sample& s) { return s.fields[0]; }));
#endif
}
}  // namespace dataset_lengths_rows

// case: dataset_lengths_field
// expect: dataset::with_lengths: field 2 of 2; fields are counted from 0
namespace dataset_lengths_field {
#ifdef BAD
inline constexpr std::size_t field = 2;
#else
inline constexpr std::size_t field = 1;
#endif
void use(const std::vector<std::pair<float, std::vector<float>>>& x) { dataset::with_lengths<field>(x); }
}  // namespace dataset_lengths_field

// case: dataset_lengths_fields
// expect: dataset::with_lengths: the samples have 17 fields with their lengths; expected at most 16
namespace dataset_lengths_fields {
#ifdef BAD
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#else
using sample = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int, int, int, int>;
#endif
void use(const std::vector<sample>& x) { dataset::with_lengths<0>(x); }
}  // namespace dataset_lengths_fields

// case: dataset_concat
// expect: dataset::concat: the samples are a `float` and a `double`; expected one type
namespace dataset_concat {
#ifdef BAD
using number = double;
#else
using number = float;
#endif
void use(const numbers& x, const std::vector<number>& y) { dataset::concat(x, y); }
}  // namespace dataset_concat

// case: stream_range
// expect: `pages` is not a range: it has no `begin()` and `end()` that samples can be read from
namespace stream_range {
struct pages {
  std::vector<float> all;
#ifndef BAD
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
#endif
};
void use() { dataset::stream(pages{}); }
}  // namespace stream_range
