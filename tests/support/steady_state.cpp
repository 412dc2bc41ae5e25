#include "steady_state.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
std::atomic<long> allocations{0}, releases{0}, locks{0};
}

namespace steady_state {

counts count(const std::function<void()>& f) {
  counts before{allocations, releases, locks};
  f();
  return {allocations - before.allocations, releases - before.releases, locks - before.locks};
}

bool makes_no_system_call(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) ::_exit(2);
    f();
    ::syscall(SYS_exit, 0);  // `_exit` ends all threads by another call, which is not allowed
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error("cannot wait for the child");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) throw std::runtime_error("this system has no seccomp");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace steady_state

#ifndef LAMINA_TEST_SANITIZED

namespace {
void add(std::atomic<long>& n) { n.fetch_add(1, std::memory_order_relaxed); }

// The system's own version of a function that this file replaces.
template <class F> F system_version(std::atomic<F>& known, const char* name) {
  F f = known.load(std::memory_order_relaxed);
  if (!f) known.store(f = reinterpret_cast<F>(::dlsym(RTLD_NEXT, name)), std::memory_order_relaxed);
  return f;
}
std::atomic<int (*)(pthread_mutex_t*)> mutex_lock{nullptr}, mutex_trylock{nullptr};
std::atomic<int (*)(pthread_rwlock_t*)> read_lock{nullptr}, write_lock{nullptr};
}  // namespace

// glibc's own allocator functions, so that allocating needs no symbol lookup.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(std::size_t n) noexcept {
  add(allocations);
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t each) noexcept {
  add(allocations);
  return __libc_calloc(n, each);
}
void* realloc(void* p, std::size_t n) noexcept {
  add(allocations);
  return __libc_realloc(p, n);
}
void* memalign(std::size_t alignment, std::size_t n) noexcept {
  add(allocations);
  return __libc_memalign(alignment, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) noexcept {
  add(allocations);
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) noexcept {
  add(allocations);
  *p = __libc_memalign(alignment, n);
  return *p ? 0 : ENOMEM;
}
void free(void* p) noexcept {
  add(releases);
  __libc_free(p);
}

int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  add(locks);
  return system_version(mutex_lock, "pthread_mutex_lock")(m);
}
int pthread_mutex_trylock(pthread_mutex_t* m) noexcept {
  add(locks);
  return system_version(mutex_trylock, "pthread_mutex_trylock")(m);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* m) noexcept {
  add(locks);
  return system_version(read_lock, "pthread_rwlock_rdlock")(m);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* m) noexcept {
  add(locks);
  return system_version(write_lock, "pthread_rwlock_wrlock")(m);
}
}  // extern "C"

#endif
