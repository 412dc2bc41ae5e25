// Calibration profiles for quantization: a profile that loads is the same after writing and reading it.
#include <cstdlib>
#include <string_view>

#include "examine.h"

import lamina;

void examine(const unsigned char* data, unsigned long size) {
  try {
    const auto p = lamina::read_profile({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!(lamina::read_profile(p.to_json(), "again") == p)) std::abort();
  } catch (const lamina::file_error&) {
  } catch (const lamina::unsupported_error&) {}
}
