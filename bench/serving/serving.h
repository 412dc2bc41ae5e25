// LeNet and a ResNet-50 served, behind plain functions: the harness needs no module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bench::serving {

enum class network { lenet, resnet50 };

/// What one worker has: a reference model.
class reference {
 public:
  virtual ~reference() = default;
  /// One image.
  virtual void classify() = 0;
  /// Bytes that it has for itself, by the library's own count.
  virtual std::size_t own_bytes() const = 0;
};
std::unique_ptr<reference> make_reference(network of);
/// Bytes of the weights that all of them share.
std::size_t shared_bytes(network of);
/// Bytes that the library's allocator has handed out.
std::int64_t handed_out();

/// Images of LeNet per second through a queue of so many workers: each client sends `window` images and waits for their
/// answers.
struct queue_load {
  int workers, batch, clients, window;
  double seconds;
};
struct queue_result {
  double images_per_s = 0, images_per_batch = 0;
};
queue_result serve(const queue_load& load);

}  // namespace bench::serving
