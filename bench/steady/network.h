// Steady-state LeNet behind plain functions, so that the harness needs no module and lamina's side no standard header.
#pragma once

namespace bench::steady {

/// Inference of one image by a reference executor whose buffers are bound once.
void infer();
/// Trains batches of 64 images; calls `before` before batch `first`, and `after` once `count` batches are done.
void train(long first, long count, void (*before)(), void (*after)());

}  // namespace bench::steady
