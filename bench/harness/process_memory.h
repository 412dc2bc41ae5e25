// Memory of this process as reported by the kernel.
#pragma once
#include <fstream>
#include <string>

namespace bench {

/// Bytes listed under `key` in a file of /proc/self; 0 if the kernel does not report them.
inline long bytes_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word == key) {
      long kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

/// Proportional set size (PSS): shared pages are divided among the processes that share them.
inline long proportional_bytes() { return bytes_in("/proc/self/smaps_rollup", "Pss:"); }
/// Resident bytes of this process, now and at their peak.
inline long resident_bytes() { return bytes_in("/proc/self/status", "VmRSS:"); }
inline long peak_resident_bytes() { return bytes_in("/proc/self/status", "VmHWM:"); }

}  // namespace bench
