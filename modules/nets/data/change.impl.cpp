module lamina:data.change.impl;
import :core;
import :data.augment;
import :data.batch;
import :data.change;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

std::vector<tensor_type> batch_change::types(view<const tensor_type> fields) const {
  std::vector<tensor_type> all(fields.begin(), fields.end());
  return types_ ? types_(std::move(all)) : all;
}

void batch_change::operator()(sample_batch& batch, const augment::position& at, view<const tensor_type> types) const {
  change_(batch, at);
  for (std::size_t k = 0; k < types.size(); ++k) {
    const tensor_type& is = batch.type(k);
    const shape one = is.dims.rank > 0 ? without_first(is.dims) : is.dims;
    if (is.element == types[k].element && is.dims.rank == types[k].dims.rank + 1 && fits(types[k].dims, one)) continue;
    text t;
    t << "fit: after `change_batches`, field " << k << " of a batch is " << is << "; expected samples of " << types[k];
    detail::raise(error_kind::type, t << ", as its `types` says");
  }
}

namespace augment {

namespace {

using pictures = tensor<float, extents<dyn, dyn, dyn, dyn>>;

std::vector<tensor_type> mixed_types(std::string_view caller, std::vector<tensor_type> fields, std::size_t input,
                                     std::size_t target, std::int64_t classes, int rank) {
  text t;
  t << "augment::" << caller << ": ";
  if (input >= fields.size() || target >= fields.size() || input == target)
    detail::raise(error_kind::value, t << "`input` is field " << input << " and `target` field " << target << " of "
                                       << fields.size() << "; expected two different fields");
  if (classes < 0) detail::raise(error_kind::value, t << "`classes` is " << classes << "; expected 0 or more");
  const tensor_type& x = fields[input];
  tensor_type& y = fields[target];
  if (x.element != dtype::float32 || (rank > 0 && x.dims.rank != rank)) {
    t << "field " << input << " is " << x << "; expected float32";
    if (rank > 0) t << " [channels x height x width]";
    detail::raise(error_kind::type, t);
  }
  const bool fits =
      classes > 0 ? is_integer(y.element) && y.dims.rank == 0 : y.element == dtype::float32 && y.dims.rank == 1;
  if (!fits) {
    t << "field " << target << " is " << y << "; expected ";
    if (classes > 0) t << "an integer class";
    else t << "a row of float32, or `.classes = n` for classes";
    detail::raise(error_kind::type, t);
  }
  if (classes > 0) y = {dtype::float32, shape{dim(classes)}};
  return fields;
}

// One-hot rows of classes.
matrix<float> rows_of_classes(std::string_view caller, const sample_batch& b, std::size_t target,
                              std::int64_t classes) {
  auto rows = matrix<float>(b.size(), classes);
  auto to = rows.writable();
  with_type(b.type(target).element, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const auto* from = static_cast<const T*>(b.data(target));
      for (std::int64_t i = 0; i < b.size(); ++i) {
        const auto c = static_cast<std::int64_t>(from[i]);
        if (c < 0 || c >= classes) {
          text t;
          detail::raise(error_kind::value, t << "augment::" << caller << ": class " << c << " of sample "
                                             << b.indices()[static_cast<std::size_t>(i)] << " is outside 0.."
                                             << classes - 1);
        }
        to[static_cast<std::size_t>(i * classes + c)] = 1;
      }
    }
  });
  return rows;
}

// Mixes the samples of a batch with `mix`, which maps images of any extents.
template <class Mix> void mix_batch(std::string_view caller, sample_batch& b, std::size_t input, std::size_t target,
                                    std::int64_t classes, Mix mix) {
  const tensor_type type = b.type(input);
  shape s = type.dims;
  if (s.rank != 4) s = {s[0], dim(1), dim(1), dim(type.dims.size(1, type.dims.rank))};
  mixed_batch all{pictures(any_tensor(b.tensor(input).memory(), {dtype::float32, s})),
                  classes > 0 ? rows_of_classes(caller, b, target, classes) : matrix<float>(b.tensor(target))};
  all = mix(all);
  b.set(input, any_tensor(any_tensor(all.images).memory(), type));
  b.set(target, any_tensor(all.targets));
}

}  // namespace

std::vector<tensor_type> batch_mixup::types(std::vector<tensor_type> fields) const {
  return mixed_types("batch_mixup", std::move(fields), input, target, classes, 0);
}
void batch_mixup::operator()(sample_batch& batch, const position& at) const {
  mix_batch("batch_mixup", batch, input, target, classes, [&](const mixed_batch& b) { return mixup(b, at); });
}
std::vector<tensor_type> batch_cutmix::types(std::vector<tensor_type> fields) const {
  return mixed_types("batch_cutmix", std::move(fields), input, target, classes, 3);
}
void batch_cutmix::operator()(sample_batch& batch, const position& at) const {
  mix_batch("batch_cutmix", batch, input, target, classes, [&](const mixed_batch& b) { return cutmix(b, at); });
}

}  // namespace augment

}  // namespace lamina
