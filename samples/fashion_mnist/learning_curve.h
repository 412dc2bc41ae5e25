// Loss and accuracy by epoch, as a picture.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

struct epoch_point {
  std::int64_t epoch = 0;
  double loss = 0, accuracy = 0, validation_loss = 0, validation_accuracy = 0;
};

std::string learning_curve(const std::vector<epoch_point>& epochs, const options& o);
