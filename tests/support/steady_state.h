// Side effects of a function: allocations, locks and system calls. A program that links `steady_state` has
// counting versions of the malloc family and of the pthread locks. Sanitizers replace these: nothing is counted there.
#pragma once

#include <functional>

namespace steady_state {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define LAMINA_TEST_SANITIZED 1
#endif
#endif
#ifdef LAMINA_TEST_SANITIZED
inline constexpr bool observed = false;
#else
inline constexpr bool observed = true;
#endif

struct counts {
  long allocations = 0, releases = 0, locks = 0;
  bool operator==(const counts&) const = default;
};
/// Counts over one call, on all threads.
counts count(const std::function<void()>& f);

/// Runs f in a child process that may only read, write and exit; any other system call kills it.
/// True if f ran to its end.
bool makes_no_system_call(const std::function<void()>& f);

}  // namespace steady_state
