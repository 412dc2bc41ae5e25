// What is in weights, gradients and predictions.
export module lamina:train.inspect;
import :core;
import :data;
import :data.set;
import :model;
import :tensor;
import :train;
import :train.metric;
import lamina.std;

namespace lamina {

/// How numbers are distributed: their extent, sums, and how many lie in each of several ranges of one width.
export struct value_histogram {
  std::int64_t count = 0;       ///< of finite numbers
  std::int64_t not_finite = 0;  ///< NaN and infinite ones, which are in nothing else
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits{};  ///< the upper end of each range, which belongs to it; the first one begins at `min`
  std::vector<std::int64_t> counts{};  ///< in each range
  double mean() const { return count ? sum / static_cast<double>(count) : 0; }
  double deviation() const;
};
/// The histogram of a tensor or a list of numbers. Numbers that are all the same have one range; no finite number has none.
/// Errors: type_error for strings; value_error unless 1 <= ranges <= 65,536.
export value_histogram histogram_of(const metric::numbers& x, std::int64_t ranges = 64);

/// What a model takes a sample for.
export struct wrong_prediction {
  std::int64_t index = 0;  ///< in the data set
  std::int64_t label = 0, found = 0;
  double probability = 0;  ///< of the class that was found
  double loss = 0;         ///< cross entropy
};
struct prediction_options {
  bool probabilities = false;  ///< whether the model gives probabilities, and not logits
};

namespace detail {
/// Adds the samples of a batch that are wrong; `first` is the index of its first one.
void add_wrong(std::vector<wrong_prediction>& to, const any_tensor& output, const any_tensor& target,
               std::int64_t first, const prediction_options& o);
std::vector<wrong_prediction> by_loss(std::vector<wrong_prediction> all);
}  // namespace detail

/// The samples whose largest result is not that of their class, those of the largest loss first. Results are [N, C], targets int64 [N].
/// Errors: as those of `fit`; shape_error and type_error for other results or targets; value_error for a label outside the classes.
export template <class M, class D>
requires(is_model<std::remove_cvref_t<M>> || std::same_as<std::remove_cvref_t<M>, model_core>) &&
        accepted<diagnostic<detail::source_check<D>>()>
std::vector<wrong_prediction> wrong_predictions(M& net, const D& data, const prediction_options& o = {}) {
  std::vector<wrong_prediction> all;
  std::int64_t first = 0;
  detail::each_result(detail::trained_core(net), source_of(data), {},
                      [&](view<const any_tensor> outputs, view<const any_tensor> targets) {
                        detail::add_wrong(all, outputs[0], targets[0], first, o);
                        first += targets[0].shape().at(0);
                      });
  return detail::by_loss(std::move(all));
}

export struct sheet_options {
  std::string title = "Wrong predictions", subtitle{};
  std::int64_t columns = 8;
  bool inverted = true;  ///< gray pictures: 0 is white, as the ground of MNIST
};
/// A sheet of pictures of a data set, each with the class that was found, its probability, and the class that it is, as SVG. Colors have
/// 16 levels.
/// Errors: value_error for an index or a class outside of the data set, for pictures of other than 1 or 3 channels, and unless 1 <=
/// columns <= 100.
export std::string picture_sheet(const image_dataset& data, view<const wrong_prediction> shown,
                                 const sheet_options& o = {});

/// A table of labels and classes that were found, each cell as dark as its part of the label, as SVG; with the names of classes where they
/// are given.   Errors: value_error for other than 1 to 200 classes, or another number of names.
export std::string confusion_picture(const metric::confusion_matrix& table, view<const std::string> names = {},
                                     std::string_view title = "Confusion");

}  // namespace lamina
