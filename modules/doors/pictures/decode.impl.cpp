// File signatures, and the formats that need no library.
module lamina.pictures:decode.impl;
import :format;
import lamina;
import lamina.std;

namespace lamina::pictures {

picture no_picture(std::string why, bool unsupported) { return {{}, std::move(why), unsupported}; }

picture picture_of(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_per_byte) {
  constexpr std::int64_t max_pixels = std::int64_t(1) << 27, max_side = std::int64_t(1) << 24;
  text t;
  t << "is a picture of " << height << " x " << width << " pixels";
  if (height < 1 || width < 1 || height > max_side || width > max_side || height * width > max_pixels)
    return no_picture((t << "; expected 1 to 2^27 pixels").string());
  const std::int64_t needed = (height * width - 1) / pixels_per_byte;
  if (needed > static_cast<std::int64_t>(bytes))
    return no_picture(
        (t << "; expected at least " << needed << " bytes; got " << bytes << " (is it truncated?)").string());
  return {any_tensor({dtype::uint8, {height, width, 3}})};
}

namespace {

std::uint8_t* pixels_of(picture& p) { return reinterpret_cast<std::uint8_t*>(p.pixels.mutable_data()); }

bool begins(file_bytes_view file, std::string_view with, std::size_t at = 0) {
  return file.size() >= at + with.size() && std::memcmp(file.data() + at, with.data(), with.size()) == 0;
}

/// Reads the decimal numbers of a PNM header and, in plain PNM, of its samples, separated by white space and comments.
class pnm_numbers {
 public:
  explicit pnm_numbers(file_bytes_view file) : file_(file) {}
  /// The next number, up to 2^24; -1 if there is none.
  std::int64_t next() {
    skip();
    std::int64_t v = -1;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_) {
      v = 10 * std::max<std::int64_t>(v, 0) + (file_[at_] - '0');
      if (v > std::int64_t(1) << 24) return -1;
    }
    return v;
  }
  /// Offset after the single white space that ends a header.
  std::size_t rest() const { return std::min(at_ + 1, file_.size()); }

 private:
  void skip() {
    for (bool comment = false; at_ < file_.size(); ++at_) {
      const std::uint8_t c = file_[at_];
      if (comment) comment = c != '\n' && c != '\r';
      else if (c == '#') comment = true;
      else if (c != ' ' && (c < '\t' || c > '\r')) return;
    }
  }
  file_bytes_view file_;
  std::size_t at_ = 2;
};

constexpr const char* too_short = "ends before its last pixel";

}  // namespace

picture decoded_pnm(file_bytes_view file) {
  const bool plain = file[1] == '2' || file[1] == '3';
  const std::int64_t channels = file[1] == '3' || file[1] == '6' ? 3 : 1;
  if (file[1] != '2' && file[1] != '3' && file[1] != '5' && file[1] != '6')
    return no_picture("is an unsupported PNM file; expected P2, P3, P5 or P6", true);
  pnm_numbers numbers(file);
  const std::int64_t width = numbers.next(), height = numbers.next(), high = numbers.next();
  if (high < 1 || high > 65535) return no_picture("has a damaged PNM header");
  picture made = picture_of(height, width, file.size(), 1);
  if (!made.pixels) return made;
  const std::int64_t samples = height * width * channels, each = high > 255 ? 2 : 1;
  const std::size_t at = numbers.rest();
  if (!plain && static_cast<std::int64_t>(file.size() - at) < samples * each) return no_picture(too_short);
  std::uint8_t* to = pixels_of(made);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto place = at + static_cast<std::size_t>(i * each);
    std::int64_t v = plain ? numbers.next() : each == 1 ? file[place] : file[place] * 256 + file[place + 1];
    if (v < 0) return no_picture(too_short);
    v = std::min(v, high);
    const auto byte = static_cast<std::uint8_t>(high == 255 ? v : (v * 255 + high / 2) / high);
    for (std::int64_t k = 0; k < 3 / channels; ++k) *to++ = byte;
  }
  return made;
}

picture decoded_bmp(file_bytes_view file) {
  if (file.size() < 54) return no_picture("has a damaged BMP header");
  const auto little = [&](std::size_t at, std::size_t bytes) { return detail::little_endian(file.data() + at, bytes); };
  const std::size_t data = little(10, 4), head = little(14, 4), bits = little(28, 2);
  const auto width = static_cast<std::int32_t>(little(18, 4));
  const std::int64_t stored_height = static_cast<std::int32_t>(little(22, 4)),
                     height = stored_height < 0 ? -stored_height : stored_height;
  if (head < 40) return no_picture("is an old BMP file; expected a header of 40 bytes or more", true);
  if (little(30, 4) != 0 || (bits != 8 && bits != 24 && bits != 32))
    return no_picture("is a BMP file that is compressed or has " + std::to_string(bits) +
                          " bits per pixel; expected uncompressed with 8, 24 or 32",
                      true);
  picture made = picture_of(height, width, file.size(), 1);
  if (!made.pixels) return made;
  const std::size_t bytes = bits / 8, row = (static_cast<std::size_t>(width) * bytes + 3) / 4 * 4;
  const std::size_t colors = bits != 8 ? 0 : little(46, 4) ? std::min<std::size_t>(little(46, 4), 256) : 256;
  const std::size_t palette = 14 + head;
  if (palette > file.size() || 4 * colors > file.size() - palette || data > file.size() ||
      (file.size() - data) / row < static_cast<std::size_t>(height))
    return no_picture(too_short);
  std::uint8_t* to = pixels_of(made);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::size_t line = data + static_cast<std::size_t>(stored_height < 0 ? y : height - 1 - y) * row;
    for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
      std::size_t at = line + x * bytes;
      if (bits == 8) {
        if (file[at] >= colors) return no_picture("has a pixel outside its palette");
        at = palette + 4 * file[at];
      }
      for (std::size_t k = 0; k < 3; ++k) *to++ = file[at + 2 - k];
    }
  }
  return made;
}

picture decode(file_bytes_view file) {
  if (begins(file, "\xff\xd8")) return decoded_jpeg(file);
  if (begins(file, "\x89PNG\r\n\x1a\n")) return decoded_png(file);
  if (begins(file, "BM")) return decoded_bmp(file);
  if (file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '7') return decoded_pnm(file);
  const char* other = begins(file, "II*") || begins(file, "MM")                     ? "TIFF"
                      : begins(file, "RIFF") && begins(file, "WEBP", 8)             ? "WebP"
                      : begins(file, "jP  ", 4) || begins(file, "\xff\x4f\xff\x51") ? "JPEG 2000"
                                                                                    : nullptr;
  if (!other) return no_picture("is not a picture of a known format; expected BMP, JPEG, PNG or PNM");
  return no_picture(std::string("is a picture in the format ") + other + "; expected BMP, JPEG, PNG or PNM", true);
}

}  // namespace lamina::pictures
