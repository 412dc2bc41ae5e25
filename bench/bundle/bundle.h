// LeNet in this process, and its bundle.
#pragma once
#include <string>
#include <vector>

namespace bench::bundle {

/// Writes lenet.o, lenet.h and lenet.weights for one image into a folder.
void write(const std::string& folder);
/// Runs the plan of this process on `image()`, one thread.
void run();
const std::vector<float>& image();
const std::vector<float>& scores();

}  // namespace bench::bundle
