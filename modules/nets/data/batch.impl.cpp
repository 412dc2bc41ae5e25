module lamina:data.batch.impl;
import :context;
import :core;
import :data.batch;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  std::iota(all.begin(), all.end(), std::int64_t(0));
  return all;
}

// Ensures `bytes` of memory and preserves the first `kept`: reuses the block if it is large enough and not shared.
void reserve(storage& s, std::size_t bytes, std::size_t kept) {
  if (s && s.unique() && s.bytes() >= bytes) return;
  storage more(kept ? std::max(bytes, 2 * s.bytes()) : std::max(bytes, std::size_t(1)));
  if (kept) std::memcpy(more.data(), s.data(), kept);
  s = std::move(more);
}

}  // namespace

batch_plan::batch_plan(std::int64_t n, const batch_options& o) : batch_plan(counted(n), o) {}

batch_plan::batch_plan(view<const std::int64_t> order, const batch_options& o) {
  if (o.batch < 1) {
    text t;
    t << "batches: batch is " << o.batch << "; expected at least 1";
    detail::raise(error_kind::value, t);
  }
  const auto n = static_cast<std::size_t>(o.batch);
  samples_.reserve(order.size());
  std::map<std::int64_t, std::vector<std::int64_t>> waiting;
  const auto emit = [this](std::vector<std::int64_t>& bucket) {
    add(view<const std::int64_t>(bucket));
    bucket.clear();
  };
  for (auto i : order) {
    auto& bucket = waiting[o.bucket_by ? o.bucket_by(i) : 0];
    bucket.push_back(i);
    if (bucket.size() == n) emit(bucket);
  }
  if (o.drop_last) return;
  for (auto& [key, bucket] : waiting)
    if (!bucket.empty()) emit(bucket);
}

void batch_plan::add(view<const std::int64_t> samples) {
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  ends_.push_back(samples_.size());
}

view<const std::int64_t> batch_plan::operator[](std::int64_t batch) const {
  if (batch < 0 || batch >= size()) {
    text t;
    t << "batches: batch " << batch << " is outside 0.." << size() - 1;
    detail::raise(error_kind::value, t);
  }
  const auto b = static_cast<std::size_t>(batch), first = b ? ends_[b - 1] : 0;
  return {samples_.data() + first, ends_[b] - first};
}

const sample_batch::block& sample_batch::at(std::size_t field) const {
  if (field < blocks_.size()) return blocks_[field];
  text t;
  t << "sample_batch: field " << field << " of " << blocks_.size() << "; fields are counted from 0";
  detail::raise(error_kind::value, t);
}

const void* sample_batch::data(std::size_t field) const {
  const block& b = at(field);
  if (b.type.element == dtype::string)
    detail::raise(error_kind::type, "sample_batch: a field of strings is not a tensor; use `strings(field)`");
  return (b.ragged ? b.padded : b.memory).data();
}

any_tensor sample_batch::tensor(std::size_t field) const {
  static_cast<void>(data(field));
  const block& b = at(field);
  return {b.ragged ? b.padded : b.memory, b.type};
}

void sample_batch::set(std::size_t field, const any_tensor& x) {
  static_cast<void>(at(field));
  text t;
  if (x.element() == dtype::string) detail::raise(error_kind::type, "sample_batch: a field can only be set to numbers");
  if (x.shape().rank == 0 || x.shape().at(0) != size())
    detail::raise(error_kind::shape, t << "sample_batch: field " << field << " of " << size()
                                       << (size() == 1 ? " sample" : " samples") << " is set to " << x.type()
                                       << "; expected one row per sample");
  block& b = blocks_[field];
  b.type = x.type();
  b.ragged = false;
  if (x.bytes() && x.data() == x.memory().data()) b.memory = x.memory();
  else {
    b.memory = storage(std::max(x.bytes(), std::size_t(1)));
    if (x.bytes()) std::memcpy(b.memory.data(), x.data(), x.bytes());
  }
}

view<const std::string> sample_batch::strings(std::size_t field) const {
  const block& b = at(field);
  if (b.type.element == dtype::string) return {b.strings.data(), indices_.size()};
  text t;
  t << "sample_batch: field " << field << " is " << b.type << "; expected strings";
  detail::raise(error_kind::type, t);
}

shape sample_batch::sample_shape(std::size_t field, std::size_t position) const {
  const block& b = at(field);
  return b.ragged ? b.shapes[position] : without_first(b.type.dims);
}

std::string sample_batch::location(std::size_t position, std::size_t field, std::int64_t element) const {
  return reader_ ? reader_->location(indices_[position], field, element) : std::string();
}

void sample_batch::take(const sample_source& source, std::size_t position, view<const detail::field_view> fields) {
  for (std::size_t k = 0; k < fields.size(); ++k) {
    block& b = blocks_[k];
    const auto& [type, data] = fields[k];
    b.lengths[position] = detail::length_of(type.dims, source.fields()[k].dims);
    if (type.element == dtype::string) {
      b.strings[position] = *static_cast<const std::string*>(data);
      continue;
    }
    if (position == 0) b.type.dims = type.dims;
    b.shapes[position] = type.dims;
    b.ragged = b.ragged || type.dims != b.shapes[0];
    for (int a = 0; a < type.dims.rank; ++a) b.type.dims[a] = dim(std::max(b.type.dims.at(a), type.dims.at(a)));
    const std::size_t bytes = type.bytes();
    reserve(b.memory, b.used + bytes, b.used);
    if (bytes) std::memcpy(static_cast<std::byte*>(b.memory.data()) + b.used, data, bytes);
    b.used += bytes;
  }
}

void sample_batch::finish(const sample_source& source, std::size_t field, bool pad) {
  block& b = blocks_[field];
  const shape one = b.type.dims;
  b.type.dims = with_first(dim(static_cast<std::int64_t>(indices_.size())), one);
  if (b.type.element == dtype::string) return;
  if (!b.ragged) {
    reserve(b.memory, 0, 0);
    return;
  }
  if (!pad) {
    std::size_t k = 0;
    while (b.shapes[k] == b.shapes[0]) ++k;
    text t;
    t << "batches: field " << field << " is " << b.shapes[0];
    detail::put_sample(t << " in ", indices_[0], location(0)) << " and " << b.shapes[k];
    detail::put_sample(t << " in ", indices_[k], location(k)) << "; {.pad = true} pads the shorter ones";
    detail::raise(error_kind::shape, t);
  }
  reserve(b.padded, b.type.bytes(), 0);
  const std::size_t size = size_of(b.type.element), step = static_cast<std::size_t>(one.size()) * size;
  const auto* from = static_cast<const std::byte*>(b.memory.data());
  auto* to = static_cast<std::byte*>(b.padded.data());
  for (std::size_t k = 0; k < indices_.size(); ++k) {
    detail::copy_padded(from, b.shapes[k], to + k * step, one, size, source.fill(field));
    from += static_cast<std::size_t>(b.shapes[k].size()) * size;
  }
}

namespace {
// Reads samples of known extents into `to` and `lengths`, in runs that are read in parallel.
void read_known(const sample_source& source, view<const std::int64_t> indices, view<void* const> to,
                view<std::int64_t* const> lengths, thread_pool* pool) {
  static constexpr std::size_t run = 32;
  const std::size_t runs = (indices.size() + run - 1) / run;
  if (!pool || runs < 2 || pool->threads() < 2) return source.read(indices, to, {}, lengths);
  struct job {
    const sample_source& source;
    view<const std::int64_t> indices;
    view<void* const> to;
    view<std::int64_t* const> lengths;
    std::int64_t epoch;
  } j{source, indices, to, lengths, dataset::epoch()};
  pool->run(
      runs,
      [](void* state, std::size_t i, int) {
        const auto& at = *static_cast<const job*>(state);
        const detail::epoch_scope scope(at.epoch);
        const std::size_t first = i * run, count = std::min(run, at.indices.size() - first), fields = at.to.size();
        std::array<void*, detail::max_fields> part{};
        std::array<std::int64_t*, detail::max_fields> lengths_of_part{};
        for (std::size_t k = 0; k < fields; ++k) {
          part[k] = static_cast<std::byte*>(at.to[k]) + first * at.source.fields()[k].bytes();
          lengths_of_part[k] = at.lengths[k] + first;
        }
        at.source.read(at.indices.subview(first, count), {part.data(), fields}, {}, {lengths_of_part.data(), fields});
      },
      &j);
}
}  // namespace

void sample_batch::read(const sample_source& source, view<const std::int64_t> indices, bool pad, thread_pool* pool) {
  const auto types = source.fields();
  blocks_.resize(types.size());
  indices_.assign(indices.begin(), indices.end());
  reader_ = source.reader();
  bool known = true;
  for (std::size_t k = 0; k < types.size(); ++k) {
    block& b = blocks_[k];
    b.type = types[k];
    b.used = 0;
    b.ragged = false;
    b.lengths.resize(indices.size());
    known = known && types[k].element != dtype::string && types[k].dims.is_static();
    if (types[k].element == dtype::string) b.strings.resize(indices.size());
    else b.shapes.resize(indices.size());
    if (b.memory && !b.memory.unique()) b.memory = {};
    if (indices.empty())
      for (int a = 0; a < b.type.dims.rank; ++a)
        if (!b.type.dims[a].is_number()) b.type.dims[a] = dim(0);
  }
  if (!known) {
    struct target {
      sample_batch& batch;
      const sample_source& source;
      std::size_t position;
    } t{*this, source, 0};
    for (; t.position < indices.size(); ++t.position)
      source.sample(
          indices[t.position],
          [](void* state, view<const detail::field_view> fields) {
            auto& to = *static_cast<target*>(state);
            to.batch.take(to.source, to.position, fields);
          },
          &t);
    for (std::size_t k = 0; k < blocks_.size(); ++k) finish(source, k, pad);
    return;
  }
  std::array<void*, detail::max_fields> to{};
  std::array<std::int64_t*, detail::max_fields> lengths{};
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    block& b = blocks_[k];
    b.type.dims = with_first(dim(static_cast<std::int64_t>(indices.size())), b.type.dims);
    reserve(b.memory, b.type.bytes(), 0);
    to[k] = b.memory.data();
    lengths[k] = b.lengths.data();
  }
  read_known(source, indices, {to.data(), blocks_.size()}, {lengths.data(), blocks_.size()}, pool);
}

}  // namespace lamina
