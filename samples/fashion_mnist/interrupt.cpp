#include "interrupt.h"

#include <atomic>

namespace {
std::atomic<bool> noted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not wait");
}  // namespace

interrupt_guard::interrupt_guard() {
  noted = false;
  struct sigaction action{};
  action.sa_handler = [](int) { noted = true; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}
interrupt_guard::~interrupt_guard() { sigaction(SIGINT, &before_, nullptr); }
bool interrupt_guard::raised() const { return noted; }
