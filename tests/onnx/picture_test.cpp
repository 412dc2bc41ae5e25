// ImageDecoder: pictures in each supported format, and invalid files.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/message.h"
#include "../support/onnx_writer.h"
#include "../support/picture_files.h"

namespace t = onnx_test;
using namespace lamina;
using engine_test::message_of;
using namespace picture_files;

namespace {

any_tensor decoded(const bytes_of_file& file, const std::string& form = "RGB") {
  static std::map<std::string, ir::session> sessions;
  auto at = sessions.find(form);
  if (at == sessions.end()) {
    const t::graph graph{.nodes = {t::node("ImageDecoder", {"x"}, {"y"}, {t::string("pixel_format", form)})},
                         .inputs = {t::value("x", t::uint8, {"n"})},
                         .outputs = {t::untyped("y")}};
    const auto model = t::model{.main = graph, .opsets = {t::opset("", 20)}}.done();
    auto net = onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
    at = sessions.emplace(form, ir::session::owning(net.program, std::move(net.states))).first;
  }
  any_tensor x(tensor_type{dtype::uint8, {static_cast<std::int64_t>(file.size())}});
  if (!file.empty()) std::memcpy(x.mutable_data(), file.data(), file.size());
  return at->second.run(std::vector<any_tensor>{x})[0];
}
std::vector<int> numbers(const any_tensor& x) {
  const auto all = x.elements<std::uint8_t>();
  return {all.begin(), all.end()};
}
bool is_2x2(const bytes_of_file& file) {
  const any_tensor x = decoded(file);
  return x.shape() == shape{2, 2, 3} && numbers(x) == std::vector<int>(std::begin(samples), std::end(samples));
}
bool refused(const bytes_of_file& file, std::string_view why) {
  const std::string message = message_of([&] { decoded(file); });
  if (message.find(why) != message.npos) return true;
  BOOST_TEST_MESSAGE(message);
  return false;
}
// Whether this build has a library for a format.
bool reads(const bytes_of_file& file) {
  return message_of([&] { decoded(file); }).find("built without") == std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pictures)

BOOST_AUTO_TEST_CASE(formats_without_a_library) {
  BOOST_TEST(is_2x2(bmp(24, 2, 2, bmp_rows)));
  bytes_of_file down(bmp_rows.begin() + 8, bmp_rows.end());
  down.insert(down.end(), bmp_rows.begin(), bmp_rows.begin() + 8);
  BOOST_TEST(is_2x2(bmp(24, 2, -2, down)));
  BOOST_TEST(is_2x2(bmp(32, 2, 2, {255, 0, 0, 9, 30, 20, 10, 9, 0, 0, 255, 9, 0, 255, 0, 9})));
  BOOST_TEST(numbers(decoded(bmp(8, 2, 1, {1, 2, 3, 0, 4, 5, 6, 0, 1, 0, 0, 0}))) ==
             (std::vector<int>{6, 5, 4, 3, 2, 1}));
  BOOST_TEST(is_2x2(text_file("P3 # colors\n2 2\n255\n255 0 0 0 255 0\n0 0 255 10 20 30")));
  BOOST_TEST(is_2x2([] {
    bytes_of_file f = text_file("P6\n2 2\n255\n");
    for (int s : samples) f.push_back(static_cast<std::uint8_t>(s));
    return f;
  }()));
  BOOST_TEST(numbers(decoded(text_file("P2 2 1 3 0 2"))) == (std::vector<int>{0, 0, 0, 170, 170, 170}));
  bytes_of_file wide = text_file("P5 1 1 65535 ");
  wide.insert(wide.end(), {0x80, 0x00});
  BOOST_TEST(numbers(decoded(wide)) == (std::vector<int>{128, 128, 128}));
}

BOOST_AUTO_TEST_CASE(formats_with_a_library) {
  if (reads(png_rgb)) {
    BOOST_TEST(is_2x2(png_rgb));
    BOOST_TEST(is_2x2(png_alpha));
  }
  if (reads(jpeg)) {
    BOOST_TEST((decoded(jpeg).shape() == shape{8, 8, 3}));
    BOOST_TEST(numbers(decoded(jpeg))[0] == 200);
  }
}

BOOST_AUTO_TEST_CASE(forms_of_pixels) {
  const auto file = bmp(24, 2, 2, bmp_rows);
  BOOST_TEST(numbers(decoded(file, "BGR")) == (std::vector<int>{0, 0, 255, 0, 255, 0, 255, 0, 0, 30, 20, 10}));
  const any_tensor gray = decoded(file, "Grayscale");
  BOOST_TEST((gray.shape() == shape{2, 2, 1}));
  BOOST_TEST(numbers(gray) == (std::vector<int>{76, 150, 29, 18}));
  BOOST_TEST(message_of([&] { decoded(file, "CMYK"); }).find("expected RGB, BGR or Grayscale") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_not_read) {
  BOOST_TEST(refused(text_file("II*\0"), "format TIFF; expected BMP, JPEG, PNG or PNM"));
  BOOST_TEST(refused(text_file("RIFF....WEBPVP8 "), "format WebP"));
  BOOST_TEST(refused({}, "is not a picture of a known format; expected BMP, JPEG, PNG or PNM"));
  BOOST_TEST(refused(text_file("P4 1 1 "), "expected P2, P3, P5 or P6"));
  BOOST_TEST(refused(bmp(16, 1, 1, {0, 0, 0, 0}), "compressed or has 16 bits"));
  BOOST_TEST(refused(bmp(24, 1, 1, {0, 0, 0, 0}, 12), "is an old BMP file"));
  BOOST_CHECK_THROW(decoded(text_file("II*\0")), unsupported_error);
}

// Extents beyond the file's data are refused before memory is allocated.
BOOST_AUTO_TEST_CASE(sizes_that_are_wrong) {
  memory::limit(memory::counters().current + (std::int64_t(64) << 20));
  BOOST_TEST(refused(bmp(24, 20000, 5000, bmp_rows), " bytes; got 70 (is it truncated?)"));
  BOOST_TEST(refused(bmp(24, 2, 3, bmp_rows), "ends before its last pixel"));
  BOOST_TEST(refused(bmp(24, -2, 2, bmp_rows), "; expected 1 to 2^27 pixels"));
  BOOST_TEST(refused(bmp(24, 2, std::numeric_limits<std::int32_t>::min(), bmp_rows), "; expected 1 to 2^27 pixels"));
  BOOST_TEST(refused(text_file("P6 9000 9000 255 "), "; expected at least "));
  BOOST_TEST(refused(text_file("P6 2 2 255 1234567"), "ends before its last pixel"));
  BOOST_TEST(refused(text_file("P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11"), "ends before its last pixel"));
  BOOST_TEST(refused(text_file("P6 99999999999999999999 2 255 "), "damaged PNM header"));
  if (reads(png_rgb)) {
    BOOST_TEST(refused(png_huge, "; expected 1 to 2^27 pixels"));
    BOOST_TEST(refused(png_large, "; expected at least "));
  }
  if (reads(jpeg)) BOOST_TEST(refused(jpeg_huge, "; expected 1 to 2^27 pixels"));
  memory::limit(0);
}

// Any change to a file gives a picture or an error.
BOOST_AUTO_TEST_CASE(damaged_files_do_no_harm) {
  std::uint32_t state = 1;
  const auto random = [&](std::size_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  int read = 0;
  for (const auto& file :
       {png_rgb, png_alpha, jpeg, bmp(24, 2, 2, bmp_rows), bmp(8, 2, 1, {1, 2, 3, 0, 4, 5, 6, 0, 1, 0, 0, 0}),
        text_file("P3 # colors\n2 2\n255\n255 0 0 0 255 0\n0 0 255 10 20 30")})
    for (int i = 0; i < 600; ++i) {
      bytes_of_file other = file;
      for (std::size_t k = random(4) + 1; k > 0; --k)
        other[random(other.size())] = static_cast<std::uint8_t>(random(256));
      if (random(4) == 0) other.resize(random(other.size()) + 1);
      try {
        decoded(other);
        ++read;
      } catch (const error&) {}
    }
  BOOST_TEST(read > 0);
}

BOOST_AUTO_TEST_SUITE_END()
