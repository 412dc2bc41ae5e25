// Decoders of pictures in files. Each takes hostile bytes: the size that a file names is compared with its length before memory is
// taken.
export module lamina.pictures:format;
import lamina;
import lamina.std;

namespace lamina::pictures {

using text = message_text;
using file_bytes_view = view<const std::uint8_t>;

/// What a decoder gives: uint8 [height, width, 3], red first; or why there is none.
export struct picture {
  any_tensor pixels{};
  std::string why{};
  bool unsupported = false;  // where the file may be right
};
/// The picture in the bytes of a file, by its signature: BMP without compression, PNM, and PNG and JPEG where the library was
/// built with libpng and libjpeg. Opacity is left out; profiles and orientation are not heeded.
export picture decode(view<const std::uint8_t> file);

/// 0.299 red + 0.587 green + 0.114 blue.
export constexpr std::uint8_t gray_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

/// The memory of a picture of this size, or an empty one with a reason: for one that no file of so many bytes holds, by the most
/// pixels that one byte can stand for, or that has more than 2^27 pixels.
picture picture_of(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_per_byte);
/// The reason alone.
picture no_picture(std::string why, bool unsupported = false);

picture decoded_bmp(file_bytes_view file);
picture decoded_pnm(file_bytes_view file);
picture decoded_png(file_bytes_view file);
picture decoded_jpeg(file_bytes_view file);

}  // namespace lamina::pictures
