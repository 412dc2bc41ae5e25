// Small pictures as the bytes of files: those of libraries, and writers for the formats without one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace picture_files {

using bytes_of_file = std::vector<std::uint8_t>;

// red, green; blue, {10, 20, 30}
inline const bytes_of_file png_rgb{137, 80,  78,  71,  13,  10,  26, 10,  0,   0,   0,   13,  73,  72,  68,  82,
                                   0,   0,   0,   2,   0,   0,   0,  2,   8,   2,   0,   0,   0,   253, 212, 154,
                                   115, 0,   0,   0,   22,  73,  68, 65,  84,  120, 156, 99,  248, 207, 192, 192,
                                   240, 159, 129, 129, 129, 225, 63, 151, 136, 28,  0,   26,  88,  3,   58,  130,
                                   224, 171, 83,  0,   0,   0,   0,  73,  69,  78,  68,  174, 66,  96,  130};
inline const bytes_of_file png_alpha{137, 80,  78,  71,  13,  10, 26, 10,  0,   0,  0,   13,  73,  72,  68,  82,  0,
                                     0,   0,   2,   0,   0,   0,  2,  8,   6,   0,  0,   0,   114, 182, 13,  36,  0,
                                     0,   0,   26,  73,  68,  65, 84, 120, 156, 99, 252, 207, 192, 192, 206, 248, 159,
                                     129, 129, 137, 145, 225, 63, 3,  151, 168, 28, 3,   0,   36,  45,  3,   71,  1,
                                     216, 134, 131, 0,   0,   0,  0,  73,  69,  78, 68,  174, 66,  96,  130};
inline const bytes_of_file png_huge{137, 80,  78,  71,  13,  10,  26, 10,  0,   0,  0,  13, 73, 72,  68,  82, 0,
                                    0,   234, 96,  0,   0,   234, 96, 8,   2,   0,  0,  0,  15, 176, 226, 21, 0,
                                    0,   0,   11,  73,  68,  65,  84, 120, 156, 99, 96, 0,  3,  0,   0,   7,  0,
                                    1,   178, 134, 172, 244, 0,   0,  0,   0,   73, 69, 78, 68, 174, 66,  96, 130};
inline const bytes_of_file png_large{137, 80,  78,  71,  13,  10, 26,  10,  0,   0,  0,  13, 73,  72,  68,  82,  0,
                                     0,   78,  32,  0,   0,   23, 112, 8,   2,   0,  0,  0,  214, 209, 117, 253, 0,
                                     0,   0,   11,  73,  68,  65, 84,  120, 156, 99, 96, 0,  3,   0,   0,   7,   0,
                                     1,   178, 134, 172, 244, 0,  0,   0,   0,   73, 69, 78, 68,  174, 66,  96,  130};
inline const bytes_of_file jpeg{
    255, 216, 255, 224, 0,   16,  74,  70,  73,  70,  0,   1,  1,  0,  0,   1,   0,  1,   0,   0,   255, 219, 0,   67,
    0,   3,   2,   2,   3,   2,   2,   3,   3,   3,   3,   4,  3,  3,  4,   5,   8,  5,   5,   4,   4,   5,   10,  7,
    7,   6,   8,   12,  10,  12,  12,  11,  10,  11,  11,  13, 14, 18, 16,  13,  14, 17,  14,  11,  11,  16,  22,  16,
    17,  19,  20,  21,  21,  21,  12,  15,  23,  24,  22,  20, 24, 18, 20,  21,  20, 255, 219, 0,   67,  1,   3,   4,
    4,   5,   4,   5,   9,   5,   5,   9,   20,  13,  11,  13, 20, 20, 20,  20,  20, 20,  20,  20,  20,  20,  20,  20,
    20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20, 20, 20, 20,  20,  20, 20,  20,  20,  20,  20,  20,  20,
    20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20,  20, 20, 20, 255, 192, 0,  17,  8,   0,   8,   0,   8,   3,
    1,   34,  0,   2,   17,  1,   3,   17,  1,   255, 196, 0,  21, 0,  1,   1,   0,  0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,   0,   4,   255, 196, 0,   20, 16, 1,  0,   0,   0,  0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,   255, 196, 0,   21,  1,   1,  1,  0,  0,   0,   0,  0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   7,   8,   255, 196, 0,   20,  17,  1,   0,  0,  0,  0,   0,   0,  0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   255, 218, 0,   12,  3,   1,   0,   2,   17, 3,  17, 0,   63,  0,  144, 0,   122, 144, 127, 255, 217};
// The same JPEG with extents of 65,500.
inline const bytes_of_file jpeg_huge = [] {
  bytes_of_file b = jpeg;
  const std::uint8_t head[] = {255, 192, 0, 17, 8};  // start of a frame: its extents follow, two bytes each
  const auto at = std::search(b.begin(), b.end(), std::begin(head), std::end(head)) + std::ssize(head);
  for (std::ptrdiff_t i = 0; i < 4; ++i) at[i] = i % 2 ? 220 : 255;
  return b;
}();

inline constexpr int samples[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};

inline bytes_of_file text_file(const std::string& s) { return {s.begin(), s.end()}; }
inline bytes_of_file bmp(int bits, std::int32_t width, std::int32_t height, const bytes_of_file& rest,
                         std::uint32_t head = 40) {
  bytes_of_file b{'B', 'M'};
  const auto put = [&](std::uint32_t v, int n) {
    for (int i = 0; i < n; ++i, v >>= 8) b.push_back(static_cast<std::uint8_t>(v));
  };
  put(0, 8);
  put(bits == 8 ? 54 + 4 * 2 : 54, 4);
  put(head, 4);
  put(static_cast<std::uint32_t>(width), 4);
  put(static_cast<std::uint32_t>(height), 4);
  put(1, 2);
  put(static_cast<std::uint32_t>(bits), 2);
  put(0, 16);
  put(bits == 8 ? 2 : 0, 4);
  put(0, 4);
  b.insert(b.end(), rest.begin(), rest.end());
  return b;
}
inline const bytes_of_file bmp_rows{255, 0, 0, 30, 20, 10, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0};

}  // namespace picture_files
