module lamina:data.set.impl;
import :core;
import :data.set;
import :dtype;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

[[noreturn]] void refuse_sample(std::int64_t i, const text& why) {
  text t;
  detail::raise(error_kind::value, t << "data set: sample " << i << ": " << why.view());
}

// Copies elements of a sample into its place in a batch, whose extents are as large or larger: `axis` and those behind it.
void copy_into(const shape& from, const std::byte* in, const shape& to, std::byte* out, int axis, std::size_t size) {
  if (axis == from.rank) {
    std::memcpy(out, in, size);
    return;
  }
  std::int64_t in_step = static_cast<std::int64_t>(size), out_step = in_step;
  bool same = true;  // all axes behind this one
  for (int i = axis + 1; i < from.rank; ++i) {
    in_step *= from.at(i);
    out_step *= to.at(i);
    same = same && from[i] == to[i];
  }
  if (same) {
    if (from.at(axis) && in_step) std::memcpy(out, in, static_cast<std::size_t>(from.at(axis) * in_step));
    return;
  }
  for (std::int64_t i = 0; i < from.at(axis); ++i)
    copy_into(from, in + i * in_step, to, out + i * out_step, axis + 1, size);
}

void check_field(const sample_field& wanted, const field_reference& found, std::int64_t i, std::size_t f) {
  bool fits_it = found.type.element == wanted.element && found.type.dims.rank == wanted.dims.rank;
  for (int k = 0; fits_it && k < wanted.dims.rank; ++k)
    fits_it = wanted.dims[k] == dyn || wanted.dims[k] == found.type.dims[k];
  if (fits_it && (found.data || found.type.bytes() == 0)) return;
  text t;
  refuse_sample(i, t << "field " << static_cast<std::int64_t>(f) << " is " << found.type << "; expected "
                     << tensor_type{wanted.element, wanted.dims} << (fits_it ? ", and it has no memory" : ""));
}

}  // namespace

std::vector<sample_field> sample_source::fields_of_first(const held& data) {
  if (data.size() == 0)
    detail::raise(error_kind::value,
                  "data set: it is empty, and nothing else tells what its samples have; give it a member `fields()`");
  std::vector<sample_field> found;
  data.sample(0, [&](view<const field_reference> all) {
    for (const auto& f : all) {
      shape s = f.type.dims;
      for (int i = 0; i < s.rank; ++i) s[i] = dyn;
      found.push_back({f.type.element, s});
    }
  });
  return found;
}

void sample_source::read_one(std::int64_t i, const reader& f) const {
  if (i < 0 || i >= size()) {
    text t;
    refuse_sample(i, t << "there are " << size());
  }
  try {
    held_->sample(i, [&](view<const field_reference> all) {
      if (all.size() != fields_.size()) {
        text t;
        refuse_sample(i, t << static_cast<std::int64_t>(all.size()) << " fields; expected "
                           << static_cast<std::int64_t>(fields_.size()) << ", as the first one has");
      }
      for (std::size_t k = 0; k < all.size(); ++k) check_field(fields_[k], all[k], i, k);
      f(all);
    });
  } catch (const stopped_error&) { throw; } catch (const std::exception& why) {
    if (std::string_view(why.what()).starts_with("data set: sample ")) throw;
    text t;
    refuse_sample(i, t << why.what());
  }
}

void sample_source::read(view<const std::int64_t> indices, const place& where) const {
  if (held_->batch(indices, where)) return;
  const auto n = static_cast<std::int64_t>(indices.size());
  bool fixed = true;
  for (const auto& f : fields_) fixed = fixed && f.dims.is_static();
  // Extents that differ: samples are kept until those of all of them are known.
  std::vector<shape> extents;
  for (const auto& f : fields_) extents.push_back(f.dims);
  std::vector<std::vector<any_tensor>> kept;
  if (!fixed) {
    for (auto& s : extents)
      for (int k = 0; k < s.rank; ++k)
        if (s[k] == dyn) s[k] = dim(0);
    for (auto i : indices)
      read_one(i, [&](view<const field_reference> all) {
        auto& of = kept.emplace_back();
        for (std::size_t f = 0; f < all.size(); ++f) {
          of.emplace_back(all[f].type);
          if (all[f].type.bytes()) std::memcpy(of.back().mutable_data(), all[f].data, all[f].type.bytes());
          for (int k = 0; k < extents[f].rank; ++k)
            extents[f][k] = dim(std::max(extents[f].at(k), all[f].type.dims.at(k)));
        }
      });
  }
  std::vector<std::byte*> to;
  std::vector<std::size_t> bytes;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    shape s{dim(n)};
    for (int k = 0; k < extents[f].rank; ++k) s.push_back(extents[f][k]);
    const tensor_type all{fields_[f].element, s};
    to.push_back(static_cast<std::byte*>(where(f, s)));
    bytes.push_back(n ? all.bytes() / static_cast<std::size_t>(n) : 0);
    if (!fixed && all.bytes()) std::memset(to.back(), 0, all.bytes());
  }
  const auto put = [&](std::size_t k, std::size_t f, const shape& dims, const void* data) {
    if (dims.size() == 0) return;
    copy_into(dims, static_cast<const std::byte*>(data), extents[f], to[f] + k * bytes[f], 0,
              size_of(fields_[f].element));
  };
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!fixed)
      for (std::size_t f = 0; f < to.size(); ++f) put(k, f, kept[k][f].shape(), kept[k][f].data());
    else
      read_one(indices[k], [&](view<const field_reference> all) {
        for (std::size_t f = 0; f < all.size(); ++f) put(k, f, all[f].type.dims, all[f].data);
      });
  }
}

// ---- data sets in memory --------------------------------------------------------------------------------------------

namespace dataset {

rows::rows(std::vector<any_tensor> tensors) : tensors_(std::move(tensors)) {
  text t;
  for (const auto& x : tensors_)
    if (x.shape().rank == 0 || x.shape().at(0) != tensors_[0].shape().at(0))
      detail::raise(error_kind::shape, t << "dataset::of: tensors of " << tensors_[0].type() << " and " << x.type()
                                         << "; expected the same number of rows");
}
std::int64_t rows::size() const { return tensors_.empty() ? 0 : tensors_[0].shape().at(0); }
std::vector<sample_field> rows::fields() const {
  std::vector<sample_field> all;
  for (const auto& x : tensors_) {
    shape s;
    for (int i = 1; i < x.shape().rank; ++i) s.push_back(x.shape()[i]);
    all.push_back({x.element(), s});
  }
  return all;
}
std::vector<any_tensor> rows::operator[](std::int64_t i) const {
  check_indices({&i, 1}, size());
  std::vector<any_tensor> sample;
  const auto all = fields();
  for (std::size_t f = 0; f < all.size(); ++f) {
    const tensor_type type{all[f].element, all[f].dims};
    const auto& x = tensors_[f];
    const auto before = static_cast<std::size_t>(x.data() - static_cast<const std::byte*>(x.memory().data()));
    sample.emplace_back(x.memory(), type, before + static_cast<std::size_t>(i) * type.bytes());
  }
  return sample;
}

void check_indices(view<const std::int64_t> indices, std::int64_t size) {
  for (auto i : indices)
    if (i < 0 || i >= size) {
      text t;
      detail::raise(error_kind::value, t << "data set: there is no sample " << i << " of " << size);
    }
}
std::vector<std::int64_t> counted(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::max<std::int64_t>(last - first, 0)));
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace dataset

}  // namespace lamina
