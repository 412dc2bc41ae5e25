// A program that links `failing_allocations` can have its k-th allocation fail: those of `operator new`, which then throws
// std::bad_alloc, and those of tensors, for which lamina raises out_of_memory.
#pragma once

namespace failing_allocations {

/// Counts what the calling thread allocates while it lives, and has the k-th of it fail; 0 fails none.
class failure {
 public:
  explicit failure(long k);
  ~failure();
  failure(const failure&) = delete;
  failure& operator=(const failure&) = delete;
};
/// Has the k-th allocation of all other threads fail while it lives.
class failure_elsewhere {
 public:
  explicit failure_elsewhere(long k);
  ~failure_elsewhere();
  failure_elsewhere(const failure_elsewhere&) = delete;
  failure_elsewhere& operator=(const failure_elsewhere&) = delete;
  /// Whether it came.
  bool came() const;
};
/// Whether the last failure that was asked for came.
bool came();
/// Blocks of `operator new` that are not deleted, of all threads.
long alive();

}  // namespace failing_allocations
