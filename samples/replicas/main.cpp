// Data-parallel training on several processes: each computes a part of every batch. All have the same weights,
// bit-identical to training in one process.
//
//   mpirun -n 2 replicas [WEIGHTS] [--examples N] [--epochs N] [--batch N]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
import lamina;
import lamina.mpi;

using namespace lamina;

namespace {

constexpr auto lenet = sequential(
    sublayer<"conv1">(nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}), nn::tanh{},
    nn::max_pool2d{}, sublayer<"conv2">(nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}), nn::tanh{},
    nn::max_pool2d{}, nn::flatten{}, sublayer<"full">(nn::linear{.in_features = 400, .out_features = 120}), nn::tanh{},
    sublayer<"head">(nn::linear{.in_features = 120, .out_features = 10}));

// The first `count` images of a data set.
image_dataset first(const image_dataset& all, std::int64_t count) {
  const auto& bytes = all.bytes();
  image_dataset::images_type images(count, 1, 28, 28);
  std::copy_n(bytes.data().data(), images.data().size(), images.writable().data());
  lamina::vector<std::int64_t> labels(count);
  std::copy_n(all.labels().data(), static_cast<std::size_t>(count), labels.writable().data());
  return {std::move(images), std::move(labels), all.class_names()};
}

}  // namespace

int main(int argc, char** argv) try {
  std::string weights;
  std::int64_t examples = 60000, epochs = 2, batch = 256;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool number = i + 1 < argc;
    if (word == "--examples" && number) examples = std::atoll(argv[++i]);
    else if (word == "--epochs" && number) epochs = std::atoll(argv[++i]);
    else if (word == "--batch" && number) batch = std::atoll(argv[++i]);
    else weights = word;
  }
  const auto all = mpi::world();
  const auto train = first(datasets::fashion_mnist(data_split::train), examples);
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
  const auto report = fit(net, train, loss::cross_entropy{}, optim::adam{.lr = 2e-3},
                          {.epochs = epochs,
                           .batch = batch,
                           .schedule = optim::one_cycle{},
                           .validation = datasets::fashion_mnist(data_split::test),
                           .observer = progress_bar(),
                           .replicas = all});
  if (all->rank() != 0) return 0;
  std::printf("%d processes: %.2f %% of the test images in %.1f s\n", all->count(),
              100 * *report.epochs.back().validation_accuracy, report.seconds);
  if (!weights.empty()) save_checkpoint(net.parameters(), {}, weights);
} catch (const std::exception& e) {
  std::fprintf(stderr, "replicas: %s\n", e.what());
  return 2;
}
