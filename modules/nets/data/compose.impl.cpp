module lamina:data.compose.impl;
import :core;
import :data.compose;
import :data.functions;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

void selection::outside(std::int64_t i, std::int64_t count) {
  text t;
  t << "data set: index " << i << " is outside 0.." << count - 1;
  if (count == 0) t << ": it has no samples";
  raise(error_kind::value, t);
}

namespace {
void check_count(std::int64_t count, std::string_view caller) {
  if (count >= 0) return;
  text t;
  t << "dataset::" << caller << ": the count is " << count << "; expected at least 0";
  raise(error_kind::value, t);
}
}  // namespace

selection first_of(std::int64_t count, std::int64_t size, std::string_view caller) {
  check_count(count, caller);
  return {0, std::min(count, size)};
}
selection without_first_of(std::int64_t count, std::int64_t size) {
  check_count(count, "skip");
  const std::int64_t first = std::min(count, size);
  return {first, size - first};
}

selection checked_list(std::vector<std::int64_t> indices, std::int64_t size) {
  for (std::size_t k = 0; k < indices.size(); ++k)
    if (indices[k] < 0 || indices[k] >= size) {
      text t;
      t << "dataset::subset: index " << indices[k] << " at position " << k << " is outside 0.." << size - 1;
      raise(error_kind::value, t);
    }
  return selection(std::move(indices));
}

std::pair<selection, selection> halves(std::int64_t size, double ratio, std::int64_t seed) {
  if (!(ratio >= 0 && ratio <= 1)) {
    text t;
    t << "dataset::split: ratio is " << ratio << "; expected 0 to 1";
    raise(error_kind::value, t);
  }
  const auto order = permutation(size, seed, 0);
  const auto middle = order.begin() + std::llround(ratio * static_cast<double>(size));
  return {selection(std::vector<std::int64_t>(order.begin(), middle)),
          selection(std::vector<std::int64_t>(middle, order.end()))};
}

namespace {
void check_folds(std::int64_t size, std::int64_t k) {
  text t;
  if (k < 2 || k > size)
    raise(error_kind::value,
          t << "dataset::folds: k is " << k << " with " << size << " samples; expected 2 to the number of samples");
}
}  // namespace

std::vector<std::pair<selection, selection>> fold_parts(std::int64_t size, std::int64_t k, std::int64_t seed) {
  check_folds(size, k);
  const auto order = permutation(size, seed, 0);
  std::vector<std::pair<selection, selection>> all;
  for (std::int64_t f = 0; f < k; ++f) {
    const auto first = order.begin() + f * size / k, last = order.begin() + (f + 1) * size / k;
    std::vector<std::int64_t> outside(order.begin(), first);
    outside.insert(outside.end(), last, order.end());
    all.emplace_back(selection(std::move(outside)), selection(std::vector<std::int64_t>(first, last)));
  }
  return all;
}

std::vector<std::pair<selection, selection>> fold_parts(std::int64_t size, std::int64_t k, std::int64_t seed,
                                                        view<const std::int64_t> classes) {
  check_folds(size, k);
  if (static_cast<std::int64_t>(classes.size()) != size) {
    text t;
    raise(error_kind::value, t << "dataset::folds: there are " << static_cast<std::int64_t>(classes.size())
                               << " classes and " << size << " samples; expected one class per sample");
  }
  // Samples are sorted by class and dealt out one by one, so neither class counts nor fold sizes differ by more than
  // one.
  const auto order = permutation(size, seed, 0);
  auto dealt = order;
  std::stable_sort(dealt.begin(), dealt.end(), [&](std::int64_t a, std::int64_t b) {
    return classes[static_cast<std::size_t>(a)] < classes[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> fold_of(dealt.size());
  for (std::size_t i = 0; i < dealt.size(); ++i)
    fold_of[static_cast<std::size_t>(dealt[i])] = static_cast<std::int64_t>(i) % k;
  std::vector<std::pair<selection, selection>> all;
  for (std::int64_t f = 0; f < k; ++f) {
    std::vector<std::int64_t> outside, inside;
    for (const auto i : order) (fold_of[static_cast<std::size_t>(i)] == f ? inside : outside).push_back(i);
    all.emplace_back(selection(std::move(outside)), selection(std::move(inside)));
  }
  return all;
}

void check_sizes(std::int64_t a, std::int64_t b) {
  if (a == b) return;
  text t;
  t << "dataset::zip: the data sets have " << a << " and " << b
    << " samples; expected equal sizes; dataset::take(n) shortens one";
  raise(error_kind::value, t);
}

std::vector<tensor_type> merged_types(view<const tensor_type> a, view<const tensor_type> b) {
  std::vector<tensor_type> all(a.begin(), a.end());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const bool alike = k < b.size() && a[k].element == b[k].element && a[k].dims.rank == b[k].dims.rank;
    if (!alike || a.size() != b.size()) {
      text t;
      t << "dataset::concat: field " << k << " is " << a[k] << " in the first data set and ";
      if (k < b.size()) t << b[k];
      else t << "missing";
      t << " in the second";
      raise(error_kind::type, t);
    }
    for (int i = 0; i < a[k].dims.rank; ++i)
      if (a[k].dims[i] != b[k].dims[i]) all[k].dims[i] = dyn;
  }
  return all;
}

std::function<std::int64_t(std::int64_t)> length_buckets(const sample_source& data, std::size_t field,
                                                         std::int64_t width) {
  text t;
  t << "dataset::length_buckets: ";
  if (width < 1) raise(error_kind::value, t << "the width is " << width << "; expected at least 1");
  if (field >= data.fields().size())
    raise(error_kind::value, t << "field " << field << " of " << data.fields().size() << "; fields are counted from 0");
  struct one {
    const sample_source& data;
    std::size_t field;
    std::int64_t length = 0;
  } of{data, field};
  auto buckets = std::make_shared<std::vector<std::int64_t>>();
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.sample(
        i,
        [](void* state, view<const field_view> fields) {
          auto& x = *static_cast<one*>(state);
          x.length = length_of(fields[x.field].type.dims, x.data.fields()[x.field].dims);
        },
        &of);
    buckets->push_back(of.length / width);
  }
  return [buckets](std::int64_t i) { return buckets->at(static_cast<std::size_t>(i)); };
}

}  // namespace lamina::detail
