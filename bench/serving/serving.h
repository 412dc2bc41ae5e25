// Serving of LeNet and a ResNet-50 behind plain functions, so that the harness needs no module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bench::serving {

enum class network { lenet, resnet50 };

/// The reference model of one worker.
class reference {
 public:
  virtual ~reference() = default;
  /// Classifies one image.
  virtual void classify() = 0;
  /// Bytes used by this reference model alone, as counted by the library.
  virtual std::size_t own_bytes() const = 0;
};
std::unique_ptr<reference> make_reference(network of);
/// Bytes of the weights that all reference models share.
std::size_t shared_bytes(network of);
/// Bytes currently allocated by the library's allocator.
std::int64_t handed_out();

/// Load on a LeNet queue with `workers` workers: each client repeatedly submits `window` images and waits for their
/// results.
struct queue_load {
  int workers, batch, clients, window;
  double seconds;
};
struct queue_result {
  double images_per_s = 0, images_per_batch = 0;
};
queue_result serve(const queue_load& load);

}  // namespace bench::serving
