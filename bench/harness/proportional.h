// The memory of this process as the kernel counts it.
#pragma once
#include <fstream>
#include <string>

namespace bench {

/// Bytes of this process, pages that are shared divided among those who share them (PSS); 0 where the kernel does not say.
inline long proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;)
    if (word == "Pss:") {
      long kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

}  // namespace bench
