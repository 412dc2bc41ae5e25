// Reference models with and without folded batch norms.
#include <cstdint>

#include "folding.h"

import lamina;

namespace {

using namespace lamina;

struct residual {
  std::int64_t channels = 64;
  constexpr auto forward(auto& s, const auto& x) const {
    const nn::conv2d conv{
        .in_channels = channels, .out_channels = channels, .kernel_size = 3, .padding = 1, .bias = false};
    auto y = relu(s("bn1", nn::batch_norm2d{channels}, s("conv1", conv, x)));
    return relu(s("bn2", nn::batch_norm2d{channels}, s("conv2", conv, y)) + x);
  }
};
constexpr auto residual_block = sequential(residual{});
constexpr std::int64_t wide = 144;
constexpr auto bottleneck = sequential(
    nn::conv2d{.in_channels = 24, .out_channels = wide, .kernel_size = 1, .bias = false}, nn::batch_norm2d{wide},
    nn::relu6{},
    nn::conv2d{
        .in_channels = wide, .out_channels = wide, .kernel_size = 3, .padding = 1, .groups = wide, .bias = false},
    nn::batch_norm2d{wide}, nn::relu6{},
    nn::conv2d{.in_channels = wide, .out_channels = 24, .kernel_size = 1, .bias = false}, nn::batch_norm2d{24});

template <const auto& Net, std::int64_t Channels> struct served {
  using input_type = tensor<float, extents<1, Channels, 56, 56>>;
  using factory = reference_factory<Net, input<1, Channels, 56, 56>>;
  explicit served(bool folded)
      : with(model<Net, input<1, Channels, 56, 56>>({.seed = 1}), {.optimize = folded}), one(with.create()) {
    auto d = x.writable();
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>(i * 2654435761u % 1000u) / 500.f - 1.f;
  }
  void run() {
    auto y = one(x);
    __asm__ volatile("" ::"r"(y.data().data()) : "memory");
  }
  factory with;
  reference_model<typename factory::traits> one;
  input_type x;
};
template <const auto& Net, std::int64_t Channels, bool Folded> void run() {
  static served<Net, Channels> s(Folded);
  s.run();
}

}  // namespace

namespace bench::folding {

void residual_folded() { run<residual_block, 64, true>(); }
void residual_plain() { run<residual_block, 64, false>(); }
void bottleneck_folded() { run<bottleneck, 24, true>(); }
void bottleneck_plain() { run<bottleneck, 24, false>(); }

}  // namespace bench::folding
