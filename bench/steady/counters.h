// Counts what a run does besides computing: allocations and locks by interposing the C library's functions, system
// calls by a seccomp filter.
#pragma once

namespace bench::steady {

struct counts {
  long allocations, locks, system_calls;
};

/// Runs `body` in a separate process; `body` calls begin() and end() around the counted code.
counts counted(void (*body)());
/// Starts counting in this process; from here on its system calls fail.
void begin();
/// Ends the process and returns its counts to the parent.
[[noreturn]] void end();

}  // namespace bench::steady
