// Image decoders. They accept untrusted bytes: each checks the declared size against the file's length before it
// allocates memory.
export module lamina.pictures:format;
import lamina;
import lamina.std;

namespace lamina::pictures {

using text = message_text;
using file_bytes_view = view<const std::uint8_t>;

/// Result of a decoder: uint8 [height, width, 3], red first; or the reason why there is none.
export struct picture {
  any_tensor pixels{};
  std::string why{};
  bool unsupported = false;  // the file may be valid
};
/// Decodes a file by its signature: uncompressed BMP, PNM, and PNG and JPEG if the library was built with libpng and
/// libjpeg. Alpha is dropped; color profiles and orientation are ignored.
export picture decode(view<const std::uint8_t> file);

/// 0.299 red + 0.587 green + 0.114 blue.
export constexpr std::uint8_t gray_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

/// Allocates an image of this size. Returns an empty one with a reason if `bytes` bytes cannot encode so many pixels,
/// given the maximum of pixels per byte, or if it has more than 2^27 pixels.
picture picture_of(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_per_byte);
/// A result with only a reason.
picture no_picture(std::string why, bool unsupported = false);

picture decoded_bmp(file_bytes_view file);
picture decoded_pnm(file_bytes_view file);
picture decoded_png(file_bytes_view file);
picture decoded_jpeg(file_bytes_view file);

}  // namespace lamina::pictures
