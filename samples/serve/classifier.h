// LeNet with saved weights, behind a queue that forms batches.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

inline constexpr std::size_t image_side = 28, image_pixels = image_side * image_side, class_count = 10;
using image_bytes = std::array<std::uint8_t, image_pixels>;
extern const std::array<const char*, class_count> class_names;

struct classifier_options {
  std::string weights;
  int workers = 2;
  int batch = 32;
  std::chrono::microseconds delay{200};
  int capacity = 1024;
  std::chrono::milliseconds patience{1000};  // requests that wait longer expire
};

/// Outcome of a request.
enum class verdict { classified, full, late, stopping, no_memory, failed };
struct prediction {
  verdict what = verdict::failed;
  std::size_t label = 0;
  std::array<float, class_count> probabilities{};
  std::string reason{};  // error message if `what` is `failed`
};

/// An accepted request.
class classification {
 public:
  virtual ~classification() = default;
  /// Whether the prediction is ready. Also true if the deadline passed before a worker began: the verdict is `late`.
  virtual bool ready() = 0;
  /// The prediction; call once. Errors: only std::bad_alloc.
  virtual prediction take() = 0;
};

class classifier {
 public:
  /// Loads the weights and starts the workers. Throws std::exception whose message gives the reason.
  explicit classifier(const classifier_options& o);
  ~classifier();
  /// Submits an image without blocking; callable from any thread. `done` is called once when the prediction is ready,
  /// by a worker or within this call; it must not throw or block. Null if the image is refused: `why` has the verdict.
  std::unique_ptr<classification> begin(const image_bytes& image, std::function<void()> done, prediction& why);
  /// Reloads the weights while images are classified. False on failure: the weights stay and `message` has the reason.
  bool reload(std::string& message);
  /// Stops the workers; waiting images get the verdict `stopping`.
  void stop();
  /// Metrics in Prometheus text format.
  std::string metrics() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Saves an untrained net, for a first try.
void write_untrained(const std::string& path, std::int64_t seed);
