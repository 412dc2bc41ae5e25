// A network of MobileNetV2's size, its batch norms folded into the convolutions; include after `import lamina;`.
// Source: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), arXiv:1801.04381, table 2.
#pragma once

namespace mobilenet_v2 {

using namespace lamina;

constexpr auto conv(std::int64_t in, std::int64_t out, int kernel, int stride, std::int64_t groups = 1) {
  return nn::conv2d{.in_channels = in,
                    .out_channels = out,
                    .kernel_size = kernel,
                    .stride = stride,
                    .padding = kernel / 2,
                    .groups = groups};
}

struct inverted_residual {
  std::int64_t in, out, stride, expansion;
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t hidden = in * expansion;
    const auto deepened = [&](const auto& v) {
      return s("project", conv(hidden, out, 1, 1),
               relu6(s("depthwise", conv(hidden, hidden, 3, static_cast<int>(stride), hidden), v)));
    };
    const auto y = expansion == 1 ? deepened(x) : deepened(relu6(s("expand", conv(in, hidden, 1, 1), x)));
    return in == out && stride == 1 ? x + y : y;
  }
};
struct stage {
  std::int64_t in, out, stride, expansion, count;
  constexpr auto forward(auto& s, const auto& x) const {
    constexpr std::string_view names[] = {"0", "1", "2", "3"};
    auto y = s(names[0], inverted_residual{in, out, stride, expansion}, x);
    for (std::int64_t i = 1; i < count; ++i) y = s(names[i], inverted_residual{out, out, 1, expansion}, y);
    return y;
  }
};
inline constexpr auto topology = sequential(
    conv(3, 32, 3, 2), nn::relu6{}, sublayer<"stage1">(stage{32, 16, 1, 1, 1}),
    sublayer<"stage2">(stage{16, 24, 2, 6, 2}), sublayer<"stage3">(stage{24, 32, 2, 6, 3}),
    sublayer<"stage4">(stage{32, 64, 2, 6, 4}), sublayer<"stage5">(stage{64, 96, 1, 6, 3}),
    sublayer<"stage6">(stage{96, 160, 2, 6, 3}), sublayer<"stage7">(stage{160, 320, 1, 6, 1}), conv(320, 1280, 1, 1),
    nn::relu6{}, nn::global_avg_pool2d{}, nn::flatten{}, nn::linear{.in_features = 1280, .out_features = 1000});

}  // namespace mobilenet_v2
