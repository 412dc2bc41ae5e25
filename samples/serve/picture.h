// Images as they come over the net.
#pragma once
#include <string>

#include "classifier.h"

/// Reads a PNG of 28 x 28 pixels as brightness, transparent pixels as black. False: `why` says what is wrong.
bool read_png(const std::string& bytes, image_bytes& image, std::string& why);
