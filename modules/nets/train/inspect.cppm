// Inspection of weights, gradients and predictions.
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

/// Distribution of numbers: range, sums, and counts in bins of equal width.
export struct value_histogram {
  std::int64_t count = 0;       ///< number of finite values
  std::int64_t not_finite = 0;  ///< number of NaN and infinite values, which no other member includes
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits{};        ///< inclusive upper end of each bin; the first one begins at `min`
  std::vector<std::int64_t> counts{};  ///< per bin
  double mean() const { return count ? sum / static_cast<double>(count) : 0; }
  double deviation() const;
};
/// Histogram of a tensor or a list of numbers. Equal numbers get one bin; without finite numbers there is none.
/// Errors: type_error for strings; value_error unless 1 <= ranges <= 65,536.
export value_histogram histogram_of(const metric::numbers& x, std::int64_t ranges = 64);

/// A misclassified sample.
export struct wrong_prediction {
  std::int64_t index = 0;  ///< in the data set
  std::int64_t label = 0, found = 0;
  double probability = 0;  ///< of the predicted class
  double loss = 0;         ///< cross entropy
};
struct prediction_options {
  bool probabilities = false;  ///< whether outputs are probabilities, not logits
};

namespace detail {
/// Appends the misclassified samples of a batch; `first` is the index of its first sample.
void add_wrong(std::vector<wrong_prediction>& to, const any_tensor& output, const any_tensor& target,
               std::int64_t first, const prediction_options& o);
std::vector<wrong_prediction> by_loss(std::vector<wrong_prediction> all);
}  // namespace detail

/// Misclassified samples, by decreasing loss. Outputs are [N, C], targets int64 [N].
/// Errors: as for `fit`; shape_error and type_error for other outputs or targets; value_error for a label outside the
/// classes.
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
  bool inverted = true;  ///< gray images: 0 is white, as the background of MNIST
};
/// A sheet of images from a data set as SVG, each with its predicted class, the probability, and its label. Colors have
/// 16 levels.
/// Errors: value_error for an index or a class outside the data set, for images without 1 or 3 channels, and unless
/// `columns` is 1 to 100.
export std::string picture_sheet(const image_dataset& data, view<const wrong_prediction> shown,
                                 const sheet_options& o = {});

/// A table of labels and predicted classes as SVG, each cell as dark as its fraction of the label, with class names if
/// given.
/// Errors: value_error unless there are 1 to 200 classes, or for another number of names.
export std::string confusion_picture(const metric::confusion_matrix& table, view<const std::string> names = {},
                                     std::string_view title = "Confusion");

}  // namespace lamina
