// The names of the kernels' symbols, and the sources in which they lie, by their addresses: a table that the build makes
// of the archives.
#pragma once
#include <cstddef>

namespace lamina::bundle {

struct kernel_name {
  const void* address;
  const char* name;
  const char* family;  // the source in which it lies: <family>.cpp
};
extern const kernel_name kernel_names[];
extern const std::size_t kernel_name_count;

}  // namespace lamina::bundle
