// Picture files as tensors, and folders of pictures by class.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files.h"

import lamina;
import lamina.pictures;

#include "../support/message.h"
#include "../support/picture_files.h"

using namespace lamina;
using namespace picture_files;
using engine_test::message_of;

namespace {

std::string chars_of(const bytes_of_file& b) { return {b.begin(), b.end()}; }
pictures::picture_tensor read_back(const bytes_of_file& b, pictures::color c = pictures::color::rgb) {
  return pictures::read_bytes({b.data(), b.size()}, "p", c);
}
std::string refusal(const bytes_of_file& b) {
  return message_of([&] { read_back(b); });
}
bool is_in(const std::string& whole, std::string_view part) {
  if (whole.find(part) != whole.npos) return true;
  BOOST_TEST_MESSAGE(whole);
  return false;
}

// Whether a tensor equals the picture of `samples`, in planes.
bool is_samples(const pictures::picture_tensor& x) {
  if (x.shape() != shape{3, 2, 2}) return false;
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t i = 0; i < 4; ++i)
      if (x(c, i / 2, i % 2) != samples[3 * i + c]) return false;
  return true;
}
bool has_library(const bytes_of_file& b) { return refusal(b).find("built without") == std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(picture_reading)

BOOST_AUTO_TEST_CASE(channels_come_first) {
  BOOST_TEST(is_samples(read_back(bmp(24, 2, 2, bmp_rows))));
  BOOST_TEST(is_samples(read_back(text_file("P3 2 2 255 255 0 0 0 255 0 0 0 255 10 20 30"))));
  if (has_library(png_rgb)) {
    BOOST_TEST(is_samples(read_back(png_rgb)));
    BOOST_TEST(is_samples(read_back(png_alpha)));
  }
  if (has_library(jpeg)) BOOST_TEST((read_back(jpeg).shape() == shape{3, 8, 8}));
}

BOOST_AUTO_TEST_CASE(gray_is_one_channel) {
  const auto x = read_back(bmp(24, 2, 2, bmp_rows), pictures::color::gray);
  BOOST_TEST((x.shape() == shape{1, 2, 2}));
  BOOST_TEST(x(0, 0, 0) == 76);  // 0.299 x 255
  BOOST_TEST(x(0, 0, 1) == 150);
  BOOST_TEST(x(0, 1, 0) == 29);
  BOOST_TEST(x(0, 1, 1) == 18);
  const auto y = read_back(text_file("P2 2 1 255 7 200"), pictures::color::gray);
  BOOST_TEST((y(0, 0, 0) == 7 && y(0, 0, 1) == 200));
}

BOOST_AUTO_TEST_CASE(files_that_are_wrong_are_one_error) {
  test_files::folder dir;
  BOOST_TEST(is_in(message_of([&] { pictures::read(dir / "none.png"); }), "none.png: no such file"));
  test_files::write_raw(dir / "cut.ppm", "P6 100 100 255 abc");
  BOOST_CHECK_THROW(pictures::read(dir / "cut.ppm"), file_error);
  BOOST_TEST(
      is_in(message_of([&] { pictures::read(dir / "cut.ppm"); }),
            "cut.ppm: is a picture of 100 x 100 pixels; expected at least 9999 bytes; got 18 (is it truncated?)"));
  BOOST_TEST(is_in(refusal({}), "p: the file is empty"));
  BOOST_TEST(is_in(refusal(text_file("P6 2 2 255\nabcdefg")), "p: ends before its last pixel"));
  BOOST_TEST(is_in(refusal(text_file("P6 16777216 16777216 255 ")), "; expected 1 to 2^27 pixels"));
  BOOST_TEST(
      is_in(refusal(text_file("hello")), "p: is not a picture of a known format; expected BMP, JPEG, PNG or PNM"));
  BOOST_CHECK_THROW(read_back(text_file("P4 1 1 1")), unsupported_error);
  if (has_library(png_rgb)) {
    BOOST_TEST(is_in(refusal(png_huge), "2^27 pixels"));
    BOOST_TEST(is_in(refusal(png_large), "; expected at least "));
    for (std::size_t n = 8; n + 12 < png_rgb.size(); n += 5) {
      const bytes_of_file cut(png_rgb.begin(), png_rgb.begin() + static_cast<std::ptrdiff_t>(n));
      BOOST_CHECK_THROW(read_back(cut), file_error);
    }
  }
  if (has_library(jpeg)) BOOST_TEST(is_in(refusal(jpeg_huge), "2^27 pixels"));
}

BOOST_AUTO_TEST_CASE(folders_are_classes) {
  test_files::folder dir;
  namespace fs = std::filesystem;
  BOOST_TEST(is_in(message_of([&] { pictures::folder(dir / "data"); }), "data: cannot be read"));
  fs::create_directory(dir / "data");
  BOOST_TEST(is_in(message_of([&] { pictures::folder(dir / "data"); }), "data: the folder has no subfolders"));
  for (const char* c : {"data/dog", "data/cat"}) fs::create_directory(dir / c);
  test_files::write_raw(dir / "data/cat/b.ppm", "P3 2 2 255 255 0 0 0 255 0 0 0 255 10 20 30");
  test_files::write_raw(dir / "data/cat/a.PGM", "P2 3 1 255 1 2 3");
  test_files::write_raw(dir / "data/cat/notes.txt", "no picture");
  // Hidden files, and a folder with a picture's extension, are skipped.
  fs::create_directory(dir / "data/.cache");
  fs::create_directory(dir / "data/dog/inner.png");
  test_files::write_raw(dir / "data/dog/.hidden.bmp", "BM");
  BOOST_TEST(
      is_in(message_of([&] { pictures::folder(dir / "data"); }),
            "data/dog: the folder of a class has no file that ends in .bmp, .jpeg, .jpg, .pgm, .png, .pnm or .ppm"));
  test_files::write_raw(dir / "data/dog/1.bmp", chars_of(bmp(24, 2, 2, bmp_rows)));
  const pictures::folder data(dir / "data");
  BOOST_TEST(data.size() == 3);
  BOOST_TEST(data.class_names() == (std::vector<std::string>{"cat", "dog"}), boost::test_tools::per_element());
  BOOST_TEST((data[0].image.shape() == shape{3, 1, 3}));
  BOOST_TEST(data[0].image(2, 0, 2) == 3);
  BOOST_TEST(data[0].label == 0);
  BOOST_TEST(is_samples(data[1].image));
  BOOST_TEST(is_samples(data[2].image));
  BOOST_TEST(data[2].label == 1);
  BOOST_TEST(is_in(data.path(0), "a.PGM"));
  BOOST_TEST(is_in(message_of([&] { data[3]; }), "index 3 is outside 0..2"));
  const pictures::folder gray(dir / "data", pictures::color::gray);
  BOOST_TEST((gray[1].image.shape() == shape{1, 2, 2}));
  test_files::write_raw(dir / "data/dog/1.bmp", "BM");
  BOOST_TEST(is_in(message_of([&] { data[2]; }), "dog/1.bmp: has a damaged BMP header"));
}

BOOST_AUTO_TEST_SUITE_END()
