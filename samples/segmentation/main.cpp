// Semantic segmentation: a small U-Net (Ronneberger, Fischer, Brox, 2015) labels each pixel of noisy pictures as
// background, circle or box.
//
//   segmentation [FILE.ppm]      writes eight pictures with their true and predicted labels: circles red, boxes blue
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t side = 32, kinds = 3;  // background, circle, box

// Skip connection: concatenates the input and the result of the body along the channels.
template <Layer Body> struct beside {
  Body body;
  constexpr auto forward(auto& s, const auto& x) const { return concat<1>(x, s("body", body, x)); }
};
constexpr auto block(std::int64_t in, std::int64_t out) {
  return sequential(nn::conv2d{.in_channels = in, .out_channels = out, .padding = 1, .bias = false},
                    nn::batch_norm2d{.num_features = out}, nn::relu{});
}
// Downsamples to half the width and height, runs the body, upsamples; with a skip connection.
constexpr auto below(std::int64_t channels, auto body) {
  return beside{sequential(
      nn::max_pool2d{}, block(channels, 2 * channels), body,
      nn::conv_transpose2d{.in_channels = 2 * channels, .out_channels = channels, .kernel_size = 2, .stride = 2})};
}
constexpr auto unet =
    sequential(block(1, 8), below(8, sequential(below(16, block(32, 32)), block(32, 16))), block(16, 8),
               nn::conv2d{.in_channels = 8, .out_channels = kinds, .kernel_size = 1}, nn::permute{{0, 2, 3, 1}});

// Pictures of three shapes of random brightness in noise, and the class of each pixel.
struct drawings {
  std::int64_t count, seed;
  std::int64_t size() const { return count; }
  auto operator[](std::int64_t i) const {
    tensor<float, extents<1, side, side>> picture;
    tensor<std::int64_t, extents<side, side>> kind;
    auto number = [random = philox(seed, 0, i), drawn = 0u](float low, float high) mutable {
      return low + (high - low) * random.uniform(drawn++);
    };
    for (float& pixel : picture.writable()) pixel = number(0, 0.5f);
    for (int n = 0; n < 3; ++n) {
      const bool circle = number(0, 1) < 0.5f;
      const float cx = number(4, side - 4), cy = number(4, side - 4), size = number(3, 8), light = number(0.4f, 0.9f);
      for (std::int64_t k = 0; k < side * side; ++k) {
        const float dx = cx - float(k % side), dy = cy - float(k / side);
        if (circle ? dx * dx + dy * dy > size * size : std::max(dx * dx, dy * dy) > 0.8f * size * size) continue;
        picture.writable(0, k / side, k % side) = light + number(-0.2f, 0.2f);
        kind.writable(k / side, k % side) = circle ? 1 : 2;
      }
    }
    return std::pair(picture, kind);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const drawings train{1024, 1}, test{64, 2};
  model<unet, input<"N", 1, side, side>> net({.seed = 1});
  fit(net, train, loss::cross_entropy{}, optim::adam{.lr = 1e-2}, {.epochs = 14, .batch = 16, .read_threads = 1});
  const double iou = evaluate(net, test, metric::mean_iou{})[0].value;
  std::printf("mean IoU %.3f of background, circles and boxes\n", iou);
  const auto found = evaluate(argmax<-1>(tensor<float, extents<dyn, side, side, kinds>>(predict(net, test)[0])));
  const std::string colors[] = {"   ", "\xe0\x30\x30", "\x30\x60\xe0"};
  std::string bytes = "P6 " + std::to_string(3 * side) + " " + std::to_string(8 * side) + " 255\n";
  for (std::int64_t i = 0, y = 0; i < 8; y = (y + 1) % side, i += y == 0) {
    const auto [picture, kind] = test[i];
    for (std::int64_t x = 0; x < side; ++x) bytes.append(3, char(255 * std::clamp(picture(0, y, x), 0.f, 1.f)));
    for (std::int64_t x = 0; x < side; ++x) bytes += colors[kind(y, x)];
    for (std::int64_t x = 0; x < side; ++x) bytes += colors[found(i, y, x)];
  }
  if (argc > 1) write_file_atomically(argv[1], [&](writer& file) { file.write(bytes); });
  return iou >= 0.8 ? 0 : 1;
}
