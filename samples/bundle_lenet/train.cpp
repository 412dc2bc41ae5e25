// Trains LeNet on Fashion-MNIST for one epoch and saves it. Also writes some training images as MODEL.samples.npy and
// some test images as pictures whose file names end in their class:   bundle_lenet_train MODEL PICTURES
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
import lamina;

namespace la = lamina;
namespace nn = lamina::nn;

inline constexpr auto lenet = la::sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 400, .out_features = 120}, nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10});

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: bundle_lenet_train MODEL PICTURES\n", stderr), 2;
  const auto train = la::datasets::fashion_mnist(la::data_split::train),
             test = la::datasets::fashion_mnist(la::data_split::test);
  la::model<lenet, la::input<"N", 1, 28, 28>> net({.seed = 42});
  const auto report = la::fit(net, train, la::loss::cross_entropy{}, la::optim::adam{.lr = 3e-3},
                              {.epochs = 1, .schedule = la::optim::one_cycle{}, .validation = test});
  la::save_net(argv[1], net);
  std::printf("accuracy %.4f\n", *report.epochs.back().validation_accuracy);

  // Calibration samples for a profile: some of the training images.
  la::tensor<float, la::extents<la::dyn, 1, 28, 28>> samples(200);
  auto pixels = samples.writable();
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(train.bytes().data()[i]) / 255;
  la::write_npy(std::string(argv[1]) + ".samples.npy", samples);

  std::filesystem::create_directories(argv[2]);
  const auto* pixel = test.bytes().data().data();
  for (std::int64_t i = 0; i < 100; ++i) {
    std::string name = test.class_names()[static_cast<std::size_t>(test.label(i))];
    for (char& c : name)
      if (c == '/' || c == ' ') c = '_';
    std::ofstream picture(std::string(argv[2]) + "/" + std::to_string(i) + "-" + name + ".pgm", std::ios::binary);
    picture << "P5\n28 28\n255\n";
    picture.write(reinterpret_cast<const char*>(pixel + i * 784), 784);
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "bundle_lenet_train: %s\n", e.what());
  return 1;
}
