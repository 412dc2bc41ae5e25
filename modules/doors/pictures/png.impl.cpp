module;
#ifdef LAMINA_PNG
#include <png.h>
#endif
// PNG through libpng, if the library was built with it.
module lamina.pictures:png.impl;
import :format;
import lamina;
import lamina.std;

namespace lamina::pictures {

#ifdef LAMINA_PNG

picture decoded_png(file_bytes_view file) {
  // Deflate expands a byte to at most 1032 bytes, and a byte has at most 8 pixels.
  constexpr std::int64_t pixels_per_byte = 8 * 1032;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto failed = [&] {
    std::string why = std::string("is a PNG file that libpng cannot read: ") + image.message;
    png_image_free(&image);
    return no_picture(std::move(why));
  };
  if (!png_image_begin_read_from_memory(&image, file.data(), file.size())) return failed();
  picture made = picture_of(image.height, image.width, file.size(), pixels_per_byte);
  if (!made.pixels) {
    png_image_free(&image);
    return made;
  }
  auto* to = reinterpret_cast<std::uint8_t*>(made.pixels.mutable_data());
  const bool alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  if (!alpha) return png_image_finish_read(&image, nullptr, to, 0, nullptr) ? std::move(made) : failed();
  // Drops alpha.
  const std::size_t count = std::size_t(image.height) * image.width;
  std::vector<std::uint8_t> all(4 * count);
  if (!png_image_finish_read(&image, nullptr, all.data(), 0, nullptr)) return failed();
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < 3; ++k) to[3 * i + k] = all[4 * i + k];
  return made;
}

#else

picture decoded_png(file_bytes_view) {
  return no_picture("is a PNG file; lamina was built without libpng (libpng-dev)", true);
}

#endif

}  // namespace lamina::pictures
