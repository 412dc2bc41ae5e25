module lamina:data.set.impl;
import :cache.key;
import :core;
import :data.set;
import :dtype;
import :io;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using detail::field_pattern;
using detail::field_view;

namespace {
thread_local std::int64_t epoch_of_thread = 0;
}
std::int64_t dataset::epoch() { return epoch_of_thread; }
detail::epoch_scope::epoch_scope(std::int64_t epoch) : before_(std::exchange(epoch_of_thread, epoch)) {}
detail::epoch_scope::~epoch_scope() { epoch_of_thread = before_; }

detail::sample_reader::~sample_reader() = default;
std::string detail::sample_reader::location(std::int64_t, std::size_t, std::int64_t) const { return {}; }

text& detail::put_sample(text& t, std::int64_t index, std::string_view location, std::string_view of) {
  t << "sample " << index << of;
  if (!location.empty()) t << " (" << printable(location, 300) << ")";
  return t;
}

namespace {

[[noreturn]] void field_mismatch(std::int64_t sample, std::size_t field, const tensor_type& found,
                                 const tensor_type& expected) {
  text t;
  t << "data set: field " << field << " of sample " << sample << " is ";
  if (found.element == dtype::string && found.dims.rank == 0) t << "a string";
  else t << found;
  t << "; expected ";
  if (expected.element == dtype::string) t << "a std::string";
  else t << expected;
  const bool other_element = found.element != expected.element;
  if (!other_element && found.dims.rank != expected.dims.rank) t << ": the samples of a data set have one rank";
  detail::raise(other_element ? error_kind::type : error_kind::shape, t);
}

// Whether a sample's field matches the type declared by the data set.
bool fits_field(const tensor_type& found, const tensor_type& expected) {
  return found.element == expected.element && found.dims.rank == expected.dims.rank && fits(expected.dims, found.dims);
}

// Calls f(fields) with the fields of a sample.
template <class F> void with_sample(const detail::sample_reader& r, std::int64_t i, F&& f) {
  r.sample(i, [](void* state, view<const field_view> fields) { (*static_cast<F*>(state))(fields); }, &f);
}

// Completes element type and rank from the first sample, for C++ types without them.
void complete(const detail::sample_reader& r, view<const field_pattern> patterns, std::vector<tensor_type>& types) {
  const bool all_known = std::all_of(patterns.begin(), patterns.end(), [](const auto& p) { return p.known; });
  if (all_known) return;
  if (r.size() == 0)
    detail::raise(error_kind::value,
                  "data set: it is empty, and its C++ type does not give the element type and rank of its fields");
  with_sample(r, 0, [&](view<const field_view> fields) {
    for (std::size_t k = 0; k < fields.size(); ++k) {
      if (patterns[k].known) continue;
      types[k].element = fields[k].type.element;
      types[k].dims = fields[k].type.dims;
      for (int a = 0; a < types[k].dims.rank; ++a) types[k].dims[a] = dyn;
      if (types[k].element == dtype::string || !fields[k].type.is_tensor()) {
        text t;
        t << "data set: field " << k << " of sample 0 is " << fields[k].type << "; expected a tensor of numbers";
        detail::raise(error_kind::type, t);
      }
    }
  });
}

}  // namespace

std::int64_t detail::length_of(const shape& s, const shape& pattern) {
  for (int a = 0; a < s.rank; ++a)
    if (!pattern[a].is_number()) return s.at(a);
  return s.rank ? s.at(0) : 1;
}

namespace {
void fill_elements(std::byte* to, std::size_t bytes, std::size_t element, const detail::filler& fill) {
  if (!fill.given) std::memset(to, 0, bytes);
  else
    for (std::size_t at = 0; at < bytes; at += element) std::memcpy(to + at, fill.element.data(), element);
}
}  // namespace

void detail::copy_padded(const std::byte* from, const shape& s, std::byte* to, const shape& padded, std::size_t element,
                         const filler& fill, int axis) {
  // Trailing axes with equal extents are contiguous in both blocks.
  int same = s.rank;
  while (same > axis && s[same - 1] == padded[same - 1]) --same;
  const auto bytes = [element](const shape& x, int first) {
    return static_cast<std::size_t>(x.size(first, x.rank)) * element;
  };
  if (same <= axis + 1) {
    const std::size_t filled = bytes(s, axis), all = bytes(padded, axis);
    if (filled) std::memcpy(to, from, filled);
    if (all > filled) fill_elements(to + filled, all - filled, element, fill);
    return;
  }
  const std::size_t step = bytes(s, axis + 1), padded_step = bytes(padded, axis + 1);
  const auto n = static_cast<std::size_t>(s.at(axis)), all = static_cast<std::size_t>(padded.at(axis));
  for (std::size_t i = 0; i < n; ++i)
    copy_padded(from + i * step, s, to + i * padded_step, padded, element, fill, axis + 1);
  if (all > n && padded_step) fill_elements(to + n * padded_step, (all - n) * padded_step, element, fill);
}

sample_source::sample_source(std::shared_ptr<const detail::sample_reader> reader, view<const field_pattern> patterns,
                             view<const tensor_type> known)
    : reader_(std::move(reader)), size_(reader_->size()) {
  if (!known.empty() && known.size() != patterns.size()) {
    text t;
    t << "data set: sample_types() gives " << known.size() << " types, and a sample has " << patterns.size()
      << " fields";
    detail::raise(error_kind::value, t);
  }
  if (patterns.size() > detail::max_fields || patterns.empty()) {
    text t;
    t << "data set: a sample has " << patterns.size() << " fields; expected 1 to " << detail::max_fields;
    detail::raise(error_kind::value, t);
  }
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    fields_.push_back(known.empty() ? patterns[k].type : known[k]);
    if (!known.empty() && patterns[k].known && !fits_field(known[k], patterns[k].type)) {
      text t;
      t << "data set: sample_types() gives " << known[k] << " for field " << k << ", which is " << patterns[k].type;
      detail::raise(error_kind::type, t);
    }
  }
  if (known.empty()) complete(*reader_, patterns, fields_);
  fills_.resize(fields_.size());
  names_.resize(fields_.size());
}

sample_source sample_source::filled_with(view<const std::optional<double>> numbers) const {
  text t;
  if (numbers.size() > fields_.size())
    detail::raise(error_kind::value, t << "data set: `fill` has " << numbers.size() << " numbers; expected at most "
                                       << fields_.size() << ", one for each field of a sample");
  sample_source filled = *this;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (!numbers[k]) continue;
    detail::filler& fill = filled.fills_[k];
    const dtype element = fields_[k].element;
    const bool holds = element != dtype::string && with_type(element, [&]<class T>() {
                         T x{};
                         if (!detail::to_element(*numbers[k], x)) return false;
                         std::memcpy(fill.element.data(), &x, sizeof x);
                         return true;
                       });
    if (!holds)
      detail::raise(error_kind::value, t << "data set: field " << k << " is " << element
                                         << ", but its shorter samples are padded with " << *numbers[k]
                                         << "; expected a number of that type, or a field of another type");
    fill.given = true;
  }
  return filled;
}

sample_source sample_source::named(std::vector<std::string> names) const {
  text t;
  if (names.size() != fields_.size())
    detail::raise(error_kind::value, t << "data set: " << names.size() << " names, and a sample has " << fields_.size()
                                       << (fields_.size() == 1 ? " field" : " fields"));
  for (std::size_t k = 0; k < names.size(); ++k)
    if (!names[k].empty() && std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(k), names[k]) !=
                                 names.begin() + static_cast<std::ptrdiff_t>(k))
      detail::raise(error_kind::value, t << "data set: two fields are named `" << printable(names[k]) << "`");
  sample_source same = *this;
  same.names_ = std::move(names);
  return same;
}

namespace {
// Selected fields of the samples of another data set.
class chosen_fields final : public detail::sample_reader {
 public:
  // `whole` reads samples, `reader` reads batches.
  chosen_fields(sample_source whole, std::shared_ptr<const sample_reader> reader, view<const std::size_t> fields)
      : whole_(std::move(whole)), reader_(std::move(reader)), fields_(fields.begin(), fields.end()) {}
  std::int64_t size() const override { return whole_.size(); }
  void sample(std::int64_t i, taker take, void* state) const override {
    const auto choose = [&](view<const field_view> all) {
      std::array<field_view, detail::max_fields> some;
      for (std::size_t k = 0; k < fields_.size(); ++k) some[k] = all[fields_[k]];
      take(state, {some.data(), fields_.size()});
    };
    whole_.sample(
        i, [](void* s, view<const field_view> all) { (*static_cast<decltype(choose)*>(s))(all); },
        const_cast<void*>(static_cast<const void*>(&choose)));
  }
  bool read(view<const std::int64_t> indices, view<void* const> destinations) const override {
    if (fields_.size() != whole_.fields().size()) return false;  // the other fields have no destination
    std::array<void*, detail::max_fields> all{};
    for (std::size_t k = 0; k < fields_.size(); ++k) all[fields_[k]] = destinations[k];
    return reader_->read(indices, {all.data(), fields_.size()});
  }

 private:
  sample_source whole_;
  std::shared_ptr<const sample_reader> reader_;
  std::vector<std::size_t> fields_;
};
}  // namespace

sample_source sample_source::chosen(view<const std::size_t> fields) const {
  text t;
  if (fields.empty()) detail::raise(error_kind::value, "data set: no field is chosen; expected at least one");
  for (std::size_t k = 0; k < fields.size(); ++k) {
    if (fields[k] >= fields_.size())
      detail::raise(error_kind::value,
                    t << "data set: field " << fields[k] << " of " << fields_.size() << "; fields are counted from 0");
    if (std::find(fields.begin(), fields.begin() + k, fields[k]) != fields.begin() + k)
      detail::raise(error_kind::value, t << "data set: field " << fields[k] << " is chosen twice");
  }
  sample_source some = *this;
  some.reader_ = std::make_shared<const chosen_fields>(*this, reader_, fields);
  for (std::size_t k = 0; k < fields.size(); ++k) {
    some.fields_[k] = fields_[fields[k]];
    some.fills_[k] = fills_[fields[k]];
    some.names_[k] = names_[fields[k]];
  }
  some.fields_.resize(fields.size());
  some.fills_.resize(fields.size());
  some.names_.resize(fields.size());
  return some;
}
sample_source sample_source::chosen(view<const std::string> names) const {
  std::vector<std::size_t> fields;
  for (const auto& name : names) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (name.empty() || found == names_.end()) {
      text t;
      t << "data set: no field is named `" << printable(name) << "`";
      std::vector<std::string_view> known;
      for (const auto& n : names_)
        if (!n.empty()) known.push_back(n);
      if (known.empty()) t << ": fields have no names; `dataset::named` gives some";
      else suggest_names(t, name, known);
      detail::raise(error_kind::value, t);
    }
    fields.push_back(static_cast<std::size_t>(found - names_.begin()));
  }
  return chosen(view<const std::size_t>(fields));
}

void sample_source::check(view<const std::int64_t> indices) const {
  for (auto i : indices)
    if (i < 0 || i >= size_) {
      text t;
      t << "data set: index " << i << " is outside 0.." << size_ - 1;
      if (size_ == 0) t << ": it has no samples";
      detail::raise(error_kind::value, t);
    }
}

void sample_source::sample(std::int64_t i, detail::sample_reader::taker take, void* state) const {
  check({&i, 1});
  auto checked = [&](view<const field_view> fields) {
    if (fields.size() != fields_.size()) {
      text t;
      t << "data set: sample " << i << " has " << fields.size() << " fields; expected " << fields_.size();
      detail::raise(error_kind::shape, t);
    }
    for (std::size_t k = 0; k < fields.size(); ++k)
      if (!fits_field(fields[k].type, fields_[k])) field_mismatch(i, k, fields[k].type, fields_[k]);
    take(state, fields);
  };
  try {
    reader_->sample(
        i, [](void* s, view<const field_view> fields) { (*static_cast<decltype(checked)*>(s))(fields); }, &checked);
  } catch (const error&) {
    throw;  // errors of the library are self-explanatory
  } catch (const std::bad_alloc&) { throw; } catch (const std::exception& why) {
    text t;
    detail::raise(error_kind::value, t << "data set: sample " << i << " cannot be read: " << why.what());
  }
}

void sample_source::batch_shapes(view<const std::int64_t> indices, view<shape> shapes) const {
  if (shapes.size() != fields_.size())
    detail::raise(error_kind::value, "data set: batch_shapes needs room for one shape per field");
  check(indices);
  bool ragged = false;
  for (std::size_t k = 0; k < fields_.size(); ++k) {
    shapes[k] = with_first(dim(static_cast<std::int64_t>(indices.size())), fields_[k].dims);
    for (int a = 1; a < shapes[k].rank; ++a)
      if (!shapes[k][a].is_number()) {
        shapes[k][a] = dim(0);
        ragged = true;
      }
  }
  if (!ragged) return;
  auto widen = [](void* state, view<const field_view> fields) {
    auto& all = *static_cast<view<shape>*>(state);
    for (std::size_t k = 0; k < fields.size(); ++k)
      for (int a = 0; a < fields[k].type.dims.rank; ++a)
        all[k][a + 1] = dim(std::max(all[k].at(a + 1), fields[k].type.dims.at(a)));
  };
  for (auto i : indices) sample(i, widen, &shapes);
}

std::vector<shape> sample_source::batch_shapes(view<const std::int64_t> indices) const {
  std::vector<shape> shapes(fields_.size());
  batch_shapes(indices, view<shape>(shapes));
  return shapes;
}

namespace {
// Destination of the samples of a batch.
struct placing {
  view<const tensor_type> types;
  view<void* const> destinations;
  const shape* shapes;  // padded shape of one sample, per field
  const detail::filler* fills;
  view<std::int64_t* const> lengths;
  std::int64_t index;
  std::size_t position;

  void put(view<const field_view> fields) const {
    for (std::size_t k = 0; k < fields.size(); ++k) {
      const auto& [type, data] = fields[k];
      if (k < lengths.size() && lengths[k]) lengths[k][position] = detail::length_of(type.dims, types[k].dims);
      if (type.element == dtype::string) {
        static_cast<std::string*>(destinations[k])[position] = *static_cast<const std::string*>(data);
        continue;
      }
      for (int a = 0; a < type.dims.rank; ++a)
        if (type.dims.at(a) > shapes[k].at(a)) field_mismatch(index, k, type, {type.element, shapes[k]});
      const std::size_t size = size_of(type.element);
      auto* to =
          static_cast<std::byte*>(destinations[k]) + position * static_cast<std::size_t>(shapes[k].size()) * size;
      if (type.dims.rank == 0) std::memcpy(to, data, size);
      else detail::copy_padded(static_cast<const std::byte*>(data), type.dims, to, shapes[k], size, fills[k]);
    }
  }
};
}  // namespace

void sample_source::read(view<const std::int64_t> indices, view<void* const> destinations, view<const shape> shapes,
                         view<std::int64_t* const> lengths) const {
  if (destinations.size() != fields_.size() || (!shapes.empty() && shapes.size() != fields_.size()) ||
      (!lengths.empty() && lengths.size() != fields_.size())) {
    text t;
    t << "data set: a sample has " << fields_.size() << " fields; expected a destination, shape and length for each";
    detail::raise(error_kind::value, t);
  }
  check(indices);
  std::array<shape, detail::max_fields> padded;
  const view<shape> batch(padded.data(), fields_.size());
  if (shapes.empty()) batch_shapes(indices, batch);
  else std::copy(shapes.begin(), shapes.end(), batch.begin());
  bool as_stored = true;
  for (std::size_t k = 0; k < batch.size(); ++k) {
    if (batch[k].rank != fields_[k].dims.rank + 1) {
      text t;
      t << "data set: field " << k << " of a batch cannot be " << batch[k] << "; expected the samples first, then "
        << fields_[k].dims;
      detail::raise(error_kind::shape, t);
    }
    batch[k] = without_first(batch[k]);
    as_stored = as_stored && batch[k] == fields_[k].dims;
  }
  if (as_stored && reader_->read(indices, destinations)) {
    for (std::size_t k = 0; k < lengths.size(); ++k)
      if (lengths[k]) std::fill_n(lengths[k], indices.size(), detail::length_of(fields_[k].dims, fields_[k].dims));
    return;
  }
  placing p{fields_, destinations, padded.data(), fills_.data(), lengths, 0, 0};
  for (; p.position < indices.size(); ++p.position) {
    p.index = indices[p.position];
    sample(p.index, [](void* state, view<const field_view> f) { static_cast<const placing*>(state)->put(f); }, &p);
  }
}

}  // namespace lamina
