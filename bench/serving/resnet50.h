// A network of ResNet-50's size; include after `import lamina;`.   Source: He et al., "Deep Residual Learning for Image
// Recognition" (2015), arXiv:1512.03385; the stride is at the 3 x 3 convolutions, as in torchvision.
#pragma once

namespace resnet50 {

using namespace lamina;

struct bottleneck {
  std::int64_t in, width, stride;
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t out = 4 * width;
    auto conv = [&](std::string_view name, std::string_view norm, std::int64_t from, std::int64_t to, int kernel,
                    std::int64_t step, const auto& v) {
      return s(norm, nn::batch_norm2d{to},
               s(name,
                 nn::conv2d{.in_channels = from,
                            .out_channels = to,
                            .kernel_size = kernel,
                            .stride = static_cast<int>(step),
                            .padding = kernel / 2,
                            .bias = false},
                 v));
    };
    auto y = conv("conv3", "bn3", width, out, 1, 1,
                  relu(conv("conv2", "bn2", width, width, 3, stride, relu(conv("conv1", "bn1", in, width, 1, 1, x)))));
    if (in == out && stride == 1) return relu(y + x);
    return relu(y + conv("downsample.0", "downsample.1", in, out, 1, stride, x));
  }
};
struct stage {
  std::int64_t in, width, stride, count;
  constexpr auto forward(auto& s, const auto& x) const {
    constexpr std::string_view names[] = {"0", "1", "2", "3", "4", "5"};
    auto y = s(names[0], bottleneck{in, width, stride}, x);
    for (std::int64_t i = 1; i < count; ++i) y = s(names[i], bottleneck{4 * width, width, 1}, y);
    return y;
  }
};
inline constexpr auto topology = sequential(
    sublayer<"conv1">(
        nn::conv2d{.in_channels = 3, .out_channels = 64, .kernel_size = 7, .stride = 2, .padding = 3, .bias = false}),
    sublayer<"bn1">(nn::batch_norm2d{64}), nn::relu{}, nn::max_pool2d{.kernel_size = 3, .stride = 2, .padding = 1},
    sublayer<"layer1">(stage{64, 64, 1, 3}), sublayer<"layer2">(stage{256, 128, 2, 4}),
    sublayer<"layer3">(stage{512, 256, 2, 6}), sublayer<"layer4">(stage{1024, 512, 2, 3}), nn::global_avg_pool2d{},
    nn::flatten{}, sublayer<"fc">(nn::linear{.in_features = 2048, .out_features = 1000}));

}  // namespace resnet50
