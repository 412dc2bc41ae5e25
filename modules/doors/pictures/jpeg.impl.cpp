module;
#ifdef LAMINA_JPEG
#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>
#endif
// JPEG through libjpeg, if the library was built with it.
module lamina.pictures:jpeg.impl;
import :format;
import lamina;
import lamina.std;

namespace lamina::pictures {

#ifdef LAMINA_JPEG

namespace {

// libjpeg reports errors by longjmp: functions that call setjmp must not have objects with destructors.
struct jpeg_reader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX]{};
  bool too_many_scans = false;
};
constexpr int max_scans = 100;  // each scan processes the whole image, however few bytes it has

[[noreturn]] void leave(j_common_ptr c) {
  auto& r = *static_cast<jpeg_reader*>(c->client_data);
  c->err->format_message(c, r.message);
  std::longjmp(r.back, 1);
}
void on_message(j_common_ptr c, int level) {
  const int code = c->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) leave(c);
}
void on_progress(j_common_ptr c) {
  auto& r = *static_cast<jpeg_reader*>(c->client_data);
  if (r.info.input_scan_number <= max_scans) return;
  r.too_many_scans = true;
  std::longjmp(r.back, 1);
}

bool read_head(jpeg_reader& r, const unsigned char* data, std::size_t bytes) {
  r.info.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = leave;
  r.errors.emit_message = on_message;
  r.info.client_data = &r;
  if (setjmp(r.back)) return false;
  jpeg_create_decompress(&r.info);
  r.progress.progress_monitor = on_progress;
  r.info.progress = &r.progress;
  jpeg_mem_src(&r.info, data, static_cast<unsigned long>(bytes));
  return jpeg_read_header(&r.info, TRUE) == JPEG_HEADER_OK;
}
bool read_rows(jpeg_reader& r, unsigned char* to, std::size_t row_bytes) {
  if (setjmp(r.back)) return false;
  r.info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&r.info);
  while (r.info.output_scanline < r.info.output_height) {
    JSAMPROW row = to + r.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&r.info, &row, 1);
  }
  jpeg_finish_decompress(&r.info);
  return true;
}

}  // namespace

picture decoded_jpeg(file_bytes_view file) {
  // A block of 64 pixels takes at least one bit, except that all scans but one may skip it; chroma has fewer blocks.
  constexpr std::int64_t pixels_per_byte = 8 * 64 * 4;
  const auto r = std::make_unique<jpeg_reader>();
  struct release {
    jpeg_reader& of;
    ~release() { jpeg_destroy_decompress(&of.info); }
  } const later{*r};
  const auto failed = [&] {
    return no_picture(r->too_many_scans ? "is a JPEG file of more than " + std::to_string(max_scans) + " scans"
                                        : std::string("is a JPEG file that libjpeg cannot read: ") + r->message);
  };
  if (!read_head(*r, file.data(), file.size())) return failed();
  if (r->info.jpeg_color_space == JCS_CMYK || r->info.jpeg_color_space == JCS_YCCK)
    return no_picture("is a CMYK JPEG file; expected color or gray", true);
  picture made = picture_of(r->info.image_height, r->info.image_width, file.size(), pixels_per_byte);
  if (!made.pixels) return made;
  if (!read_rows(*r, reinterpret_cast<unsigned char*>(made.pixels.mutable_data()),
                 std::size_t(r->info.image_width) * 3))
    return failed();
  return made;
}

#else

picture decoded_jpeg(file_bytes_view) {
  return no_picture("is a JPEG file; lamina was built without libjpeg (libjpeg-dev)", true);
}

#endif

}  // namespace lamina::pictures
