// Symbol name and source file of each kernel, by its address. The build generates the table from the archives.
#pragma once
#include <cstddef>

namespace lamina::bundle {

struct kernel_name {
  const void* address;
  const char* name;
  const char* family;  // source file that defines it: <family>.cpp
};
extern const kernel_name kernel_names[];
extern const std::size_t kernel_name_count;

}  // namespace lamina::bundle
