// Image data sets: images and labels are stored as bytes and become tensors on access.
export module lamina:data;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// The two published splits of a data set.
export enum class data_split { train, test };

/// Conversion of bytes: (x / 255 - mean) / deviation.
export struct normalization {
  double mean = 0, deviation = 1;
};

/// One image [channels x height x width] and its class.
struct example {
  tensor<float, extents<dyn, dyn, dyn>> image;
  std::int64_t label = 0;
};

/// Every `step`-th example of a data set, from `first` on; `index` and `end` count examples.
template <class Dataset> class example_iterator {
 public:
  example_iterator(const Dataset* dataset, std::int64_t index, std::int64_t step)
      : dataset_(dataset), index_(index), step_(step) {}
  example operator*() const { return (*dataset_)[index_]; }
  example_iterator& operator++() {
    index_ += step_;
    return *this;
  }
  bool operator!=(const example_iterator& o) const { return index_ < o.index_; }
  bool operator==(const example_iterator& o) const { return !(*this != o); }

 private:
  const Dataset* dataset_;
  std::int64_t index_, step_;
};

/// Images of bytes, each with a class. Copies share memory; reading from several threads is safe.
export class image_dataset {
 public:
  using images_type = tensor<std::uint8_t, extents<dyn, dyn, dyn, dyn>>;  // [examples x channels x height x width]

  /// Errors: shape_error if the numbers of images and labels differ; value_error for a label without a class name, or a
  /// deviation that is not positive.
  image_dataset(images_type images, vector<std::int64_t> labels, std::vector<std::string> class_names,
                normalization n = {});

  std::int64_t size() const { return images_.extent(0); }
  /// Shape of one image: [channels x height x width].
  lamina::shape image_shape() const { return {images_.shape()[1], images_.shape()[2], images_.shape()[3]}; }
  /// Errors: state_error for a moved-from data set.
  const std::vector<std::string>& class_names() const;
  /// The original bytes.
  const images_type& bytes() const { return images_; }
  view<const std::int64_t> labels() const { return labels_.data(); }

  /// The i-th image, normalized. Errors: value_error for an index outside 0..size() - 1.
  tensor<float, extents<dyn, dyn, dyn>> image(std::int64_t i) const;
  std::int64_t label(std::int64_t i) const;
  example operator[](std::int64_t i) const { return {image(i), label(i)}; }
  /// Writes the normalized images of `indices` to `images` [count x channels x height x width], their classes to
  /// `labels`.
  /// Errors: value_error for an index outside 0..size() - 1, before anything is written.
  void batch(view<const std::int64_t> indices, float* images, std::int64_t* labels) const;
  /// Types of a sample's fields, and the batch read for `sample_source`.
  std::array<tensor_type, 2> sample_types() const { return {{{dtype::float32, image_shape()}, {dtype::int64, {}}}}; }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const {
    batch(indices, static_cast<float*>(destinations[0]), static_cast<std::int64_t*>(destinations[1]));
  }

  auto begin() const { return example_iterator<image_dataset>(this, 0, 1); }
  auto end() const { return example_iterator<image_dataset>(this, size(), 1); }

 private:
  void check(std::int64_t i) const;
  images_type images_;
  vector<std::int64_t> labels_;
  std::shared_ptr<const std::vector<std::string>> class_names_;
  std::array<float, 256> values_;  // normalized value of each byte
};

/// The part of a data set for one of several workers: examples worker, worker + workers, ...
template <class Dataset> class shard_view {
 public:
  shard_view(Dataset dataset, std::int64_t worker, std::int64_t workers)
      : dataset_(std::move(dataset)), worker_(worker), workers_(workers) {}
  std::int64_t size() const { return worker_ < dataset_.size() ? (dataset_.size() - worker_ - 1) / workers_ + 1 : 0; }
  auto begin() const { return example_iterator<Dataset>(&dataset_, worker_, workers_); }
  auto end() const { return example_iterator<Dataset>(&dataset_, dataset_.size(), workers_); }

 private:
  Dataset dataset_;
  std::int64_t worker_, workers_;
};

namespace detail {
void check_shard(std::int64_t worker, std::int64_t workers);
}
/// Splits a data set over workers, which together process every example once.
/// Errors: value_error unless 0 <= worker < workers.
export template <class Dataset>
shard_view<Dataset> shard(const Dataset& dataset, std::int64_t worker, std::int64_t workers) {
  detail::check_shard(worker, workers);
  return {dataset, worker, workers};
}

export namespace datasets {

/// Where Debian's package dataset-fashion-mnist installs its files.
inline constexpr std::string_view fashion_mnist_directory = "/usr/share/datasets/fashion-mnist";

/// Reads images and labels from two idx files: bytes [n x height x width] or [n x channels x height x width], and bytes
/// [n].
/// Errors: file_error with the file, what was expected and what was found.
image_dataset from_idx(const std::string& images, const std::string& labels, std::vector<std::string> class_names,
                       normalization n = {});

/// Fashion-MNIST: 60000 images for training and 10000 for testing, [1 x 28 x 28], ten classes of clothing. `directory`
/// has {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, plain or with .gz.
/// Errors: file_error for missing data, with how to get it, and for files without an image.
/// Source: Xiao, Rasul, Vollgraf, "Fashion-MNIST" (2017), arXiv:1708.07747.
image_dataset fashion_mnist(data_split s, const std::string& directory = std::string(fashion_mnist_directory),
                            normalization n = {});

}  // namespace datasets

}  // namespace lamina
