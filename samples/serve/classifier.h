// LeNet over a saved file, behind a queue that forms batches.
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
  std::chrono::milliseconds patience{1000};  // after which an answer is of no use
};

/// What became of an image.
enum class verdict { classified, full, late, stopping, no_memory, failed };
struct prediction {
  verdict what = verdict::failed;
  std::size_t label = 0;
  std::array<float, class_count> probabilities{};
  std::string reason{};  // where it failed
};

/// An image that was accepted.
class classification {
 public:
  virtual ~classification() = default;
  /// Whether the answer is there. It is when the time for it has passed and no worker has begun: then it is `late`.
  virtual bool ready() = 0;
  /// The answer, once. Errors: none besides std::bad_alloc.
  virtual prediction take() = 0;
};

class classifier {
 public:
  /// Opens the weights and starts the workers. Throws std::exception, with the reason in words.
  explicit classifier(const classifier_options& o);
  ~classifier();
  /// Accepts an image; from any thread, and without waiting. `done` is called once when the answer is ready, by a worker or
  /// at once; it throws nothing and returns soon. Null where the image is refused: `why` says as what.
  std::unique_ptr<classification> begin(const image_bytes& image, std::function<void()> done, prediction& why);
  /// Reads the weights again while images are classified. False: they stay as they are, and `said` says why.
  bool reload(std::string& said);
  /// Ends the workers; images that wait are answered as `stopping`.
  void stop();
  /// Figures in the text form of Prometheus.
  std::string metrics() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Writes a net that nobody has trained, for a first try.
void write_untrained(const std::string& path, std::int64_t seed);
