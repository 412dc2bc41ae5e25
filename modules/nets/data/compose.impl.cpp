module lamina:data.compose.impl;
import :core;
import :data.compose;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::dataset {

void check_rows(view<const any_tensor> tensors) {
  text t;
  for (const auto& x : tensors)
    if (x.shape().rank == 0 || x.shape().at(0) != tensors[0].shape().at(0))
      detail::raise(error_kind::shape, t << "dataset::of: tensors of " << tensors[0].type() << " and " << x.type()
                                         << "; expected the same number of rows");
}
tensor_type row_type(const any_tensor& tensor) {
  shape s;
  for (int i = 1; i < tensor.shape().rank; ++i) s.push_back(tensor.shape()[i]);
  return {tensor.element(), s};
}
any_tensor row_of(const any_tensor& tensor, std::int64_t i) {
  check_indices({&i, 1}, tensor.shape().at(0));
  const tensor_type type = row_type(tensor);
  const auto before = static_cast<std::size_t>(tensor.data() - static_cast<const std::byte*>(tensor.memory().data()));
  return {tensor.memory(), type, before + static_cast<std::size_t>(i) * type.bytes()};
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

}  // namespace lamina::dataset
