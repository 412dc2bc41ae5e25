#include "picture.h"

#include <png.h>

#include <cstring>

bool read_png(const std::string& bytes, unsigned width, unsigned height, std::vector<std::uint8_t>& pixels,
              std::string& why) {
  pixels.resize(std::size_t(width) * height);
  png_image png;
  std::memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) {
    why = std::string("not a readable PNG: ") + png.message;
    return false;
  }
  // Checked before any pixel is decoded, so that a small file cannot cause a large allocation.
  if (png.width != width || png.height != height) {
    why = "the picture is " + std::to_string(png.width) + " x " + std::to_string(png.height) + " pixels; expected " +
          std::to_string(width) + " x " + std::to_string(height);
    png_image_free(&png);
    return false;
  }
  png.format = PNG_FORMAT_GRAY;
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&png, &black, pixels.data(), 0, nullptr) || (png.warning_or_error & PNG_IMAGE_ERROR)) {
    why = std::string("not a readable PNG: ") + png.message;
    png_image_free(&png);
    return false;
  }
  return true;
}
