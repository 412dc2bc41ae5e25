// Accuracy of a net and of its quantized form on the test images of Fashion-MNIST, and their time per image:
//   bundle_lenet_accuracy MODEL QUANTIZED
// Exit status 1 if quantization costs more than half a percentage point of accuracy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>
import lamina;

namespace la = lamina;

namespace {

struct result {
  double accuracy, microseconds;
};

result measure(const la::saved_net& net, const la::image_dataset& test) {
  auto model = net.factory().create();
  const auto pixels = test.bytes().data();
  const std::int64_t count = test.size(), batch = 100;
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < count; first += batch) {
    la::tensor<float, la::extents<la::dyn, 1, 28, 28>> x(batch);
    auto to = x.writable();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(pixels[static_cast<std::size_t>(first) * 784 + i]) / 255;
    const auto scores = model(std::vector<la::any_tensor>{x})[0];
    const auto all = scores.elements<float>();
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto* row = all.data() + i * 10;
      right += std::max_element(row, row + 10) - row == test.label(first + i);
    }
  }
  const std::vector<la::any_tensor> one{la::tensor<float, la::extents<la::dyn, 1, 28, 28>>(1)};
  double best = 1e9;
  for (int i = 0; i < 2000; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    model(one);
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return {100 * static_cast<double>(right) / static_cast<double>(count), best};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: bundle_lenet_accuracy MODEL QUANTIZED\n", stderr), 2;
  const auto test = la::datasets::fashion_mnist(la::data_split::test);
  const auto whole = measure(la::load_net(argv[1]), test), quantized = measure(la::load_net(argv[2]), test);
  std::printf("float: %.2f %%, %.1f us; int8: %.2f %%, %.1f us\n", whole.accuracy, whole.microseconds,
              quantized.accuracy, quantized.microseconds);
  return whole.accuracy - quantized.accuracy > 0.5;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bundle_lenet_accuracy: %s\n", e.what());
  return 2;
}
