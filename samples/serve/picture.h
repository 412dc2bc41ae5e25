// Decoding of uploaded images.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Decodes a PNG of this size to brightness, row by row; transparent pixels become black. False on error: `why` has
/// the reason.
bool read_png(const std::string& bytes, unsigned width, unsigned height, std::vector<std::uint8_t>& pixels,
              std::string& why);
