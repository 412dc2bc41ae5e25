// A library to preload into any program, which makes allocations and threads fail. Environment variables:
// - LAMINA_FAIL_ALLOCATION=K: the K-th allocation of the process fails, counted from before `main`: of `operator new`,
//   which then throws std::bad_alloc, and of tensors.
//   LAMINA_FAIL_COUNT=N: those after it too, N in all.
// - LAMINA_FAIL_THREAD=K: the K-th thread start and all later ones fail.
// - LAMINA_FAIL_REPORT=FILE: receives the number of allocations when the process exits normally.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0}, threads{0};

long number(const char* name, long otherwise) {
  const char* const s = std::getenv(name);
  return s ? std::strtol(s, nullptr, 10) : otherwise;
}

bool fails() {
  static constinit std::atomic<long> first{-1}, last{-1};
  if (first < 0) {
    const long k = number("LAMINA_FAIL_ALLOCATION", 0);
    last = k + number("LAMINA_FAIL_COUNT", 1) - 1;
    first = k;
  }
  const long now = ++allocations;
  return first > 0 && now >= first && now <= last;
}

[[gnu::destructor]] void report() {
  const char* const file = std::getenv("LAMINA_FAIL_REPORT");
  const int to = file ? ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
  if (to < 0) return;
  char digits[32];
  const int n = std::snprintf(digits, sizeof digits, "%ld\n", allocations.load());
  [[maybe_unused]] const auto written = ::write(to, digits, static_cast<std::size_t>(n));
  ::close(to);
}

}  // namespace

#pragma GCC visibility push(default)

// The standard library's other forms (arrays, nothrow) call this one.
void* operator new(std::size_t bytes) {
  void* const p = fails() ? nullptr : std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* p = nullptr;
  if (fails() || ::posix_memalign(&p, alignment, bytes) != 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return p;
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* of) {
  static const long first = number("LAMINA_FAIL_THREAD", 0);
  if (const long now = ++threads; first > 0 && now >= first) return EAGAIN;
  static const auto system = reinterpret_cast<decltype(&::pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return system(thread, attributes, run, of);
}
