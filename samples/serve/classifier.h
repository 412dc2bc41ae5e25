// LeNet over a saved file, behind a queue that forms batches.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
  std::chrono::milliseconds patience{1000};    // after which an answer is of no use
};

/// What became of an image.
enum class verdict { classified, full, late, stopping, failed };
struct prediction {
  verdict what = verdict::failed;
  std::size_t label = 0;
  std::array<float, class_count> probabilities{};
  std::string reason{};    // where it failed
};

class classifier {
 public:
  /// Opens the weights. Throws std::exception, with the reason in words.
  explicit classifier(const classifier_options& o);
  ~classifier();
  /// From any thread; waits for the answer.
  prediction classify(const image_bytes& image);
  /// Reads the weights again while images are classified. False: they stay as they are, and `said` says why.
  bool reload(std::string& said);
  /// Answers what was accepted.
  void stop();
  /// Figures in the text form of Prometheus.
  std::string metrics() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Writes a net that nobody has trained, for a first try.
void write_untrained(const std::string& path, std::int64_t seed);
