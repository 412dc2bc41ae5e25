module lamina:data.impl;
import :core;
import :data;
import :dtype;
import :io;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- images ---------------------------------------------------------------------------------------------------------

const std::vector<std::string>& image_dataset::class_names() const {
  if (!class_names_) detail::raise(error_kind::state, "image_dataset: it was moved from and has no images");
  return *class_names_;
}

image_dataset::image_dataset(images_type images, vector<std::int64_t> labels, std::vector<std::string> class_names,
                             normalization n)
    : images_(std::move(images)),
      labels_(std::move(labels)),
      class_names_(std::make_shared<const std::vector<std::string>>(std::move(class_names))) {
  if (labels_.size() != images_.extent(0)) {
    text t;
    t << "image_dataset: " << images_.extent(0) << " images and " << labels_.size() << " labels";
    detail::raise(error_kind::shape, t);
  }
  for (std::int64_t i = 0; i < labels_.size(); ++i)
    if (auto l = label(i); l < 0 || l >= static_cast<std::int64_t>(class_names_->size())) {
      text t;
      t << "image_dataset: label " << i << " is " << l << ", and there are " << class_names_->size() << " classes";
      detail::raise(error_kind::value, t);
    }
  if (!(n.deviation > 0)) {
    text t;
    t << "image_dataset: expected a deviation > 0; got " << n.deviation;
    detail::raise(error_kind::value, t);
  }
  for (std::size_t x = 0; x < values_.size(); ++x)
    values_[x] = static_cast<float>((static_cast<double>(x) / 255 - n.mean) / n.deviation);
}

void image_dataset::check(std::int64_t i) const {
  if (i >= 0 && i < size()) return;
  text t;
  t << "image_dataset: index " << i << " is outside 0.." << size() - 1;
  detail::raise(error_kind::value, t);
}

std::int64_t image_dataset::label(std::int64_t i) const {
  check(i);
  return labels_.data()[static_cast<std::size_t>(i)];
}

tensor<float, extents<dyn, dyn, dyn>> image_dataset::image(std::int64_t i) const {
  auto out = tensor<float, extents<dyn, dyn, dyn>>::uninitialized(image_shape());
  std::int64_t ignored = 0;
  batch({&i, 1}, out.writable().data(), &ignored);
  return out;
}

void image_dataset::batch(view<const std::int64_t> indices, float* images, std::int64_t* labels) const {
  for (auto i : indices) check(i);
  auto count = images_.shape().size(1, 4);
  auto* bytes = images_.data().data();
  auto* classes = labels_.data().data();
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const std::uint8_t* in = bytes + indices[k] * count;
    float* out = images + static_cast<std::int64_t>(k) * count;
    for (std::int64_t j = 0; j < count; ++j) out[j] = values_[in[j]];
    labels[k] = classes[indices[k]];
  }
}

void detail::check_shard(std::int64_t worker, std::int64_t workers) {
  if (worker >= 0 && worker < workers) return;
  text t;
  t << "shard: worker " << worker << " of " << workers << "; workers count from 0";
  raise(error_kind::value, t);
}

// ---- files ----------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void wrong_shape(const std::string& path, std::string_view expected, const any_tensor& found) {
  text t;
  t << path << ": " << expected << "; got " << found.type();
  detail::raise(error_kind::file, t);
}

// Path of a file in a directory, plain or compressed.
std::string present(const std::string& directory, std::string_view name) {
  std::string plain = directory + "/" + std::string(name), compressed = plain + ".gz";
  if (std::filesystem::exists(compressed)) return compressed;
  if (std::filesystem::exists(plain)) return plain;
  text t;
  t << "fashion_mnist: there is no " << name << ".gz in " << directory
    << "; install the data with `apt-get install dataset-fashion-mnist`, or give its directory with --data DIR";
  detail::raise(error_kind::file, t);
}

}  // namespace

image_dataset datasets::from_idx(const std::string& images, const std::string& labels,
                                 std::vector<std::string> class_names, normalization n) {
  auto pixels = read_idx(images), classes = read_idx(labels);
  shape s = pixels.shape();
  if (pixels.element() != dtype::uint8 || (s.rank != 3 && s.rank != 4))
    wrong_shape(images, "expected uint8 images of rank 3 or 4", pixels);
  if (classes.element() != dtype::uint8 || classes.shape().rank != 1)
    wrong_shape(labels, "expected uint8 labels of rank 1", classes);
  if (classes.shape()[0] != s[0]) {
    text t;
    t << labels << ": expected " << s[0] << " labels, one per image in " << images << "; got " << classes.shape()[0];
    detail::raise(error_kind::file, t);
  }
  auto found = classes.elements<std::uint8_t>();
  auto wide = vector<std::int64_t>::uninitialized(classes.shape());
  auto out = wide.writable();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] >= class_names.size()) {
      text t;
      t << labels << ": expected label " << i << " below " << class_names.size() << "; got " << int(found[i]);
      detail::raise(error_kind::file, t);
    }
    out[i] = found[i];
  }
  if (s.rank == 3) s = {s[0], 1, s[1], s[2]};
  return {image_dataset::images_type(pixels.memory(), s), std::move(wide), std::move(class_names), n};
}

image_dataset datasets::fashion_mnist(data_split s, const std::string& directory, normalization n) {
  std::string prefix = s == data_split::train ? "train" : "t10k";
  auto images = present(directory, prefix + "-images-idx3-ubyte"),
       labels = present(directory, prefix + "-labels-idx1-ubyte");
  auto result = from_idx(
      images, labels,
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}, n);
  if (result.image_shape() != shape{1, 28, 28}) {
    text t;
    t << images << ": expected images of [28x28]; got " << result.image_shape();
    detail::raise(error_kind::file, t);
  }
  if (result.size() == 0) detail::raise(error_kind::file, images + ": expected at least one image; got none");
  return result;
}

}  // namespace lamina
