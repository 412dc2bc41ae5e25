// Ctrl-C as a wish to stop: the program looks at it between two batches.
#pragma once
#include <csignal>

/// While it lives, the first SIGINT is only noted; a second one ends the program as ever.
class interrupt_guard {
 public:
  interrupt_guard();
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
  bool raised() const;

 private:
  struct sigaction before_{};
};
