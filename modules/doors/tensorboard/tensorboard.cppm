// Event files for TensorBoard.
//
//     import lamina;
//     import lamina.tensorboard;
//     fit(net, data, loss::cross_entropy{}, optim::adam{}, {.epochs = 5, .observer = tensorboard("runs/first")});
export module lamina.tensorboard;
import lamina;
import lamina.std;

export namespace lamina {

/// An event file in a folder, which is created if missing: scalars and histograms by tag and step. Records are in the
/// file when a call returns.
/// Errors: file_error; state_error for a moved-from object; value_error for a tag that is empty or not UTF-8.
/// Source: TensorFlow, tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.h.
class event_file {
 public:
  /// With `first_step` above 0, TensorBoard drops events of other files in the folder from this step on, as needed when
  /// a run resumes from a checkpoint.
  explicit event_file(const std::string& folder, std::int64_t first_step = 0);
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Errors: also value_error for an empty histogram.
  void histogram(std::string_view tag, const value_histogram& h, std::int64_t step);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  append_file file_;
};

struct tensorboard_options {
  std::int64_t every_batches = 10;  ///< interval in batches for loss and learning rate; 0: never
  std::int64_t every_epochs = 1;    ///< interval in epochs for histograms
  bool weights = false;             ///< histograms of parameters and running statistics
  bool gradients = false;           ///< histograms of gradients, on the last batch of the epoch
  std::int64_t ranges = 64;         ///< buckets per histogram
};
/// Writes events of a training to the folders `train` and `validation` in `folder`, which TensorBoard plots together:
/// `loss`, `accuracy`, `learning_rate` and `images_per_second` per epoch, `batch/loss` and `batch/learning_rate`, and
/// histograms `weights/NAME` and `gradients/NAME`. Steps count batches. Training that resumes from a checkpoint writes
/// new files.
/// Errors: value_error for options that are negative or 0; those of `event_file`.
observer tensorboard(std::string folder, const tensorboard_options& o = {});

}  // namespace lamina
