// Nets of the training benchmark, and their training data. Include after `import lamina;`.
#pragma once
#include "../lenet/lenet.h"

namespace bench {
using namespace lamina;

constexpr std::int64_t classes = 10, symbols = 256;

inline constexpr auto mlp = sequential(nn::linear{784, 256}, nn::relu{}, nn::linear{256, classes});

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
