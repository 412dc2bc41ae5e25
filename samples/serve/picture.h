// Images as they come over the net.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Reads a PNG of this size as brightness, row by row, transparent pixels as black. False: `why` says what is wrong.
bool read_png(const std::string& bytes, unsigned width, unsigned height, std::vector<std::uint8_t>& pixels,
              std::string& why);
