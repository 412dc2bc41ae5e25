// safetensors: every byte that was read is accessible.
#include <cstddef>
#include <cstdlib>
#include <string>

#include "examine.h"
#include "scratch.h"

import lamina;

void examine(const unsigned char* data, unsigned long size) {
  static const scratch_folder folder;
  const std::string path = folder / "a.safetensors";
  write_bytes(path, data, size);
  try {
    unsigned long sum = 0;
    for (const auto& t : lamina::read_safetensors(path).tensors) {
      for (std::size_t i = 0; i < t.value.bytes(); ++i) sum += static_cast<unsigned long>(t.value.data()[i]);
      sum += t.value.print().size();
    }
    if (sum > 255 * (size + 1) + (1UL << 32)) std::abort();
  } catch (const lamina::file_error&) {}
}
