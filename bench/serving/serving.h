// LeNet and a ResNet-50 served, behind plain functions: the harness needs no module.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bench::serving {

/// What one worker has.
struct reference;
reference* make_reference();
void release(reference* r);
/// One image.
void classify(reference& r);
/// Bytes that it has for itself, by the library's own count.
std::size_t own_bytes(const reference& r);
/// Bytes of the weights that all of them share.
std::size_t shared_bytes();
/// The same of a network of ResNet-50's size.
struct large_reference;
large_reference* make_large_reference();
void release(large_reference* r);
void classify(large_reference& r);
std::size_t own_bytes(const large_reference& r);
std::size_t shared_bytes_of_large();
/// Bytes that the library's allocator has handed out.
std::int64_t handed_out();

/// Images per second through a queue of so many workers: each client sends `window` images and waits for their answers.
struct queue_load {
  int workers, batch, clients, window;
  double seconds;
};
struct queue_result {
  double images_per_s = 0, images_per_batch = 0;
};
queue_result serve(const queue_load& load);

}  // namespace bench::serving
