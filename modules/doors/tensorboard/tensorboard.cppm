// Files of events that TensorBoard shows.
//
//     import lamina;
//     import lamina.tensorboard;
//     fit(net, data, loss::cross_entropy{}, optim::adam{}, {.epochs = 5, .observer = tensorboard("runs/first")});
export module lamina.tensorboard;
import lamina;
import lamina.std;

export namespace lamina {

/// A file of events in a folder, which is made if it is missing: numbers and histograms by tag and step. Records are in the file when a
/// call returns.
/// Errors: file_error; state_error for one that was moved; value_error for a tag that is empty or no UTF-8.
/// Source: TensorFlow, tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.h.
class event_file {
 public:
  /// With `first_step` above 0 TensorBoard drops what other files of the folder have from this step on, as a run that goes on from a
  /// checkpoint has it.
  explicit event_file(const std::string& folder, std::int64_t first_step = 0);
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Errors: also value_error for a histogram without numbers.
  void histogram(std::string_view tag, const value_histogram& h, std::int64_t step);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  append_file file_;
};

struct tensorboard_options {
  std::int64_t every_batches = 10;  ///< loss and rate of a batch of how many; 0: of none
  std::int64_t every_epochs = 1;    ///< of how many epochs there are histograms
  bool weights = false;             ///< histograms of parameters and running statistics
  bool gradients = false;           ///< histograms of gradients, on the last batch of the epoch
  std::int64_t ranges = 64;         ///< of a histogram
};
/// Writes events of a training into the folders `train` and `validation` of `folder`, which TensorBoard draws in one picture: `loss`,
/// `accuracy`, `learning_rate` and `images_per_second` of each epoch, `batch/loss` and `batch/learning_rate`, and histograms `weights/NAME` and
/// `gradients/NAME`. Steps count batches. Training that goes on from a checkpoint goes on in new files.
/// Errors: value_error for options that are negative or 0; those of `event_file`.
observer tensorboard(std::string folder, const tensorboard_options& o = {});

}  // namespace lamina
