// LeNet as a plan of this process, and as a bundle.
#pragma once
#include <string>
#include <vector>

namespace bench::bundle {

/// Writes the bundle for one image into a folder: lenet.o, lenet.h and lenet.weights.
void write(const std::string& folder);
/// Runs the plan of this process on `image()` with one thread.
void run();
const std::vector<float>& image();
const std::vector<float>& scores();

}  // namespace bench::bundle
