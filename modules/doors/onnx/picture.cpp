// Pictures in files: what the operator ImageDecoder reads. Each decoder takes hostile bytes: the size that a file names is compared
// with its length before memory is taken.
module lamina.onnx:picture;
import lamina;
import lamina.std;

namespace lamina::onnx {

using file_bytes_view = view<const std::uint8_t>;

/// What a decoder gives: uint8 [height, width, 3], red first; or why there is none.
struct picture {
  any_tensor pixels{};
  std::string why{};
  bool unsupported = false;  // where the file may be right
};

/// The memory of a picture of this size, or an empty one with a reason: for one that no file of so many bytes holds, by the most
/// pixels that one byte can stand for, or that has more than 2^27 pixels.
picture picture_of(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_per_byte);
/// The reason alone.
picture no_picture(std::string why, bool unsupported = false);

/// By their signatures: BMP, PNM, and PNG and JPEG where the library was built with libpng and libjpeg.
picture decoded_picture(file_bytes_view file);
picture decoded_bmp(file_bytes_view file);
picture decoded_pnm(file_bytes_view file);
picture decoded_png(file_bytes_view file);
picture decoded_jpeg(file_bytes_view file);

}  // namespace lamina::onnx
