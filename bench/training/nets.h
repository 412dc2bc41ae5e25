// Nets of the training benchmark, and their training data. Include after `import lamina;`.
#pragma once
#include "../lenet/lenet.h"

namespace bench {
using namespace lamina;

constexpr std::int64_t classes = 10, symbols = 256;

inline constexpr auto mlp = sequential(nn::linear{784, 256}, nn::relu{}, nn::linear{256, classes});

inline constexpr auto wide_mlp =
    sequential(nn::linear{512, 2048}, nn::relu{}, nn::linear{2048, 2048}, nn::relu{}, nn::linear{2048, classes});

inline constexpr auto gru =
    sequential(nn::gru{.input_size = 64, .hidden_size = 64, .batch_first = true}, nn::linear{64, classes});

constexpr nn::transformer_encoder_layer block{.d_model = 128,
                                              .nhead = 4,
                                              .dim_feedforward = 512,
                                              .dropout = 0,
                                              .activation = nn::feedforward_activation::gelu,
                                              .norm_first = true,
                                              .causal = true};
inline constexpr auto transformer =
    sequential(nn::embedding{symbols, 128}, block, block, nn::layer_norm{{128}}, nn::linear{128, symbols});

// ResNet-20 for images of 32 x 32; a block that changes the shape has a 1 x 1 convolution in its skip connection.
// Source: He et al., "Deep Residual Learning for Image Recognition" (2015), arXiv:1512.03385.
struct residual_block {
  std::int64_t in, out;
  constexpr auto forward(auto& s, const auto& x) const {
    const int stride = in == out ? 1 : 2;
    auto conv = [&](std::string_view name, std::string_view norm, std::int64_t from, int kernel, int step,
                    const auto& v) {
      return s(norm, nn::batch_norm2d{out},
               s(name,
                 nn::conv2d{.in_channels = from,
                            .out_channels = out,
                            .kernel_size = kernel,
                            .stride = step,
                            .padding = kernel / 2,
                            .bias = false},
                 v));
    };
    auto y = conv("conv2", "bn2", out, 3, 1, relu(conv("conv1", "bn1", in, 3, stride, x)));
    if (in == out) return relu(y + x);
    return relu(y + conv("conv3", "bn3", in, 1, stride, x));
  }
};
inline constexpr auto resnet = sequential(
    nn::conv2d{.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1, .bias = false},
    nn::batch_norm2d{16}, nn::relu{}, residual_block{16, 16}, residual_block{16, 16}, residual_block{16, 16},
    residual_block{16, 32}, residual_block{32, 32}, residual_block{32, 32}, residual_block{32, 64},
    residual_block{64, 64}, residual_block{64, 64}, nn::global_avg_pool2d{}, nn::flatten{}, nn::linear{64, classes});

inline constexpr auto resnet18 = sequential(
    nn::conv2d{.in_channels = 3, .out_channels = 64, .kernel_size = 7, .stride = 2, .padding = 3, .bias = false},
    nn::batch_norm2d{64}, nn::relu{}, nn::max_pool2d{.kernel_size = 3, .stride = 2, .padding = 1},
    residual_block{64, 64}, residual_block{64, 64}, residual_block{64, 128}, residual_block{128, 128},
    residual_block{128, 256}, residual_block{256, 256}, residual_block{256, 512}, residual_block{512, 512},
    nn::global_avg_pool2d{}, nn::flatten{}, nn::linear{512, classes});

// A smaller MobileNetV2 for images of 32 x 32.
// Source: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), arXiv:1801.04381.
struct inverted_residual {
  std::int64_t in, out, expansion;
  int stride;
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t wide = in * expansion;
    const nn::conv2d expand{.in_channels = in, .out_channels = wide, .kernel_size = 1, .bias = false},
        depthwise{.in_channels = wide,
                  .out_channels = wide,
                  .kernel_size = 3,
                  .stride = stride,
                  .padding = 1,
                  .groups = wide,
                  .bias = false},
        project{.in_channels = wide, .out_channels = out, .kernel_size = 1, .bias = false};
    auto y = relu6(s("bn1", nn::batch_norm2d{wide}, s("conv1", expand, x)));
    y = relu6(s("bn2", nn::batch_norm2d{wide}, s("conv2", depthwise, y)));
    auto z = s("bn3", nn::batch_norm2d{out}, s("conv3", project, y));
    if (in == out && stride == 1) return z + x;
    return z;
  }
};
inline constexpr auto mobilenet =
    sequential(nn::conv2d{.in_channels = 3, .out_channels = 32, .kernel_size = 3, .padding = 1, .bias = false},
               nn::batch_norm2d{32}, nn::relu6{}, inverted_residual{32, 16, 1, 1}, inverted_residual{16, 24, 6, 1},
               inverted_residual{24, 24, 6, 1}, inverted_residual{24, 32, 6, 2}, inverted_residual{32, 32, 6, 1},
               inverted_residual{32, 64, 6, 2}, inverted_residual{64, 64, 6, 1}, inverted_residual{64, 96, 6, 1},
               inverted_residual{96, 160, 6, 2}, inverted_residual{160, 160, 6, 1},
               nn::conv2d{.in_channels = 160, .out_channels = 640, .kernel_size = 1, .bias = false},
               nn::batch_norm2d{640}, nn::relu6{}, nn::global_avg_pool2d{}, nn::flatten{}, nn::linear{640, classes});

/// Pseudorandom numbers: reals in [-1, 1), or integers in [0, below) if `below` > 0.
template <class Tensor> Tensor numbers(Tensor x, std::int64_t seed, std::int64_t below = 0) {
  const philox random(seed);
  auto data = x.writable();
  for (std::size_t i = 0; i < data.size(); ++i)
    if constexpr (std::is_same_v<typename Tensor::element_type, float>) data[i] = 2 * random.uniform(i) - 1;
    else data[i] = static_cast<std::int64_t>(random.uniform<double>(i) * static_cast<double>(below));
  return x;
}

}  // namespace bench
