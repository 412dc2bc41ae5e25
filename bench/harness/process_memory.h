// The memory of this process as the kernel counts it.
#pragma once
#include <fstream>
#include <string>

namespace bench {

/// Bytes that a file of /proc/self names; 0 where the kernel does not say.
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

/// Bytes of this process, pages that are shared divided among those who share them (PSS).
inline long proportional_bytes() { return bytes_in("/proc/self/smaps_rollup", "Pss:"); }
/// Bytes of this process that are in memory, and the most that ever were.
inline long resident_bytes() { return bytes_in("/proc/self/status", "VmRSS:"); }
inline long peak_resident_bytes() { return bytes_in("/proc/self/status", "VmHWM:"); }

}  // namespace bench
