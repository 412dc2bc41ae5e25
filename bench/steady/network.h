// LeNet as steady state runs it, behind plain functions: the harness needs no module, and our side no standard header.
#pragma once

namespace bench::steady {

/// Inference of one image by a reference executor, buffers bound once.
void infer();
/// Trains batches of 64 images; calls `before` ahead of batch `first` and `after` when `count` batches are done.
void train(long first, long count, void (*before)(), void (*after)());

}  // namespace bench::steady
