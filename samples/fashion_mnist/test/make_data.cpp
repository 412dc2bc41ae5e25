// Writes a small data set in the format of Fashion-MNIST: make_data DIRECTORY TRAIN TEST. Each class is a bright block
// at a different position in noise, so that a net learns it within seconds.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

namespace {

constexpr int side = 28;

struct noise {
  std::uint32_t state = 1;
  int below(int n) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(n));
  }
};

void put_number(std::ofstream& file, std::uint32_t n) {
  for (int shift : {24, 16, 8, 0}) file.put(static_cast<char>(n >> shift & 0xff));
}

bool write_part(const std::string& prefix, int count, std::uint32_t seed) {
  std::ofstream images(prefix + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(prefix + "-labels-idx1-ubyte", std::ios::binary);
  put_number(images, 0x00000803);
  for (int n : {count, side, side}) put_number(images, static_cast<std::uint32_t>(n));
  put_number(labels, 0x00000801);
  put_number(labels, static_cast<std::uint32_t>(count));
  noise random{seed};
  for (int i = 0; i < count; ++i) {
    const int label = random.below(10);
    const int left = 1 + 5 * (label % 5) + random.below(3), top = 3 + 12 * (label / 5) + random.below(3);
    labels.put(static_cast<char>(label));
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) {
        const bool inside = x >= left && x < left + 5 && y >= top && y < top + 8;
        images.put(static_cast<char>(inside ? 180 + random.below(70) : random.below(90)));
      }
  }
  return images.flush().good() && labels.flush().good();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc == 4 ? argv[1] : "";
  if (argc == 4 && write_part(directory + "/train", std::atoi(argv[2]), 1) &&
      write_part(directory + "/t10k", std::atoi(argv[3]), 2))
    return 0;
  std::cerr << "usage: make_data DIRECTORY TRAIN TEST; the directory must be writable\n";
  return 2;
}
