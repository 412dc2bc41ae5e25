// Counts what a run does besides computing: allocations and locks by standing in for the C library's functions, system
// calls by a filter of the kernel.
#pragma once

namespace bench::steady {

struct counts {
  long allocations, locks, system_calls;
};

/// In a process of its own: calls `body`, which calls begin() and end() around what is counted.
counts counted(void (*body)());
/// From here on this process counts, and its system calls fail.
void begin();
/// Ends the process and hands over what was counted.
[[noreturn]] void end();

}  // namespace bench::steady
