// Ctrl-C as a stop request, which the program checks between two batches.
#pragma once
#include <csignal>

/// During its lifetime the first SIGINT only sets a flag; a second one terminates the program as usual.
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
