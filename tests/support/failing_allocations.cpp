#include "failing_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> blocks{0};
thread_local long left = 0;
thread_local bool failed = false;
std::atomic<long> left_elsewhere{0};
std::atomic<bool> failed_elsewhere{false};
thread_local bool spared = false;  // this thread requested failures of the other threads

// Whether this allocation must fail.
bool fails() {
  if (left_elsewhere > 0 && !spared && --left_elsewhere == 0) return failed_elsewhere = true;
  if (left == 0 || --left > 0) return false;
  failed = true;
  return true;
}

}  // namespace

namespace failing_allocations {

failure::failure(long k) {
  left = k;
  failed = false;
}
failure::~failure() { left = 0; }
failure_elsewhere::failure_elsewhere(long k) {
  spared = true;
  failed_elsewhere = false;
  left_elsewhere = k;
}
failure_elsewhere::~failure_elsewhere() {
  left_elsewhere = 0;
  spared = false;
}
bool failure_elsewhere::came() const { return failed_elsewhere; }
bool came() { return failed; }
long alive() { return blocks; }

}  // namespace failing_allocations

// The standard library's other forms (arrays, nothrow) call these two.
void* operator new(std::size_t bytes) {
  void* p = fails() ? nullptr : std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  ++blocks;
  return p;
}
void operator delete(void* p) noexcept {
  if (p) --blocks;
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
// Sanitizers define their own array forms.
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (...) { return nullptr; }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& t) noexcept { return operator new(bytes, t); }
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { operator delete(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { operator delete(p); }

// Allocates the memory of tensors.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* p = nullptr;
  if (fails() || posix_memalign(&p, alignment, bytes) != 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return p;
}
