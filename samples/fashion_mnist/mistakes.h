// A labeled sheet of the images that were taken for another class with the most confidence.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct mistake {
  std::int64_t index = 0;  // in the test set
  std::int64_t label = 0, predicted = 0;
  double probability = 0;                // of the predicted class
  std::span<const std::uint8_t> pixels;  // row by row; 0 is the ground
};

/// The worst first, at most `most`.
std::vector<mistake> worst(std::vector<mistake> all, std::size_t most);

std::string mistake_sheet(const std::vector<mistake>& shown, std::size_t all, std::int64_t side,
                          const std::vector<std::string>& class_names);
