// Pictures: every pixel that was read is accessible, and the gray picture is computed from the colors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "examine.h"

import lamina;
import lamina.pictures;

using namespace lamina;

void examine(const unsigned char* data, unsigned long size) {
  static const bool limited = (memory::limit(std::int64_t(64) << 20), true);
  static_cast<void>(limited);
  try {
    const auto x = pictures::read_bytes({data, size}, "picture");
    const auto gray = pictures::read_bytes({data, size}, "picture", pictures::color::gray);
    const auto plane = static_cast<std::size_t>(gray.size());
    if (static_cast<std::size_t>(x.size()) != 3 * plane) std::abort();
    const auto* p = x.data().data();
    for (std::size_t i = 0; i < plane; ++i)
      if (gray.data()[i] != pictures::gray_of(p[i], p[plane + i], p[2 * plane + i])) std::abort();
  } catch (const file_error&) {
  } catch (const unsupported_error&) {
  } catch (const out_of_memory&) {}
}
