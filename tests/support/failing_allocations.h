// A program that links `failing_allocations` can make its k-th allocation fail: of `operator new`, which then throws
// std::bad_alloc, and of tensors, for which lamina raises out_of_memory.
#pragma once

namespace failing_allocations {

/// While alive, counts the allocations of the calling thread and makes the k-th fail; 0 fails none.
class failure {
 public:
  explicit failure(long k);
  ~failure();
  failure(const failure&) = delete;
  failure& operator=(const failure&) = delete;
};
/// While alive, makes the k-th allocation of all other threads fail.
class failure_elsewhere {
 public:
  explicit failure_elsewhere(long k);
  ~failure_elsewhere();
  failure_elsewhere(const failure_elsewhere&) = delete;
  failure_elsewhere& operator=(const failure_elsewhere&) = delete;
  /// Whether it failed.
  bool came() const;
};
/// Whether the last requested failure happened.
bool came();
/// Number of blocks of `operator new` that are not deleted, over all threads.
long alive();

}  // namespace failing_allocations
