// A network of ResNet-50's size, served by reference models.   Source: He et al., "Deep Residual Learning for Image
// Recognition" (2015), arXiv:1512.03385; the stride is at the 3 x 3 convolutions, as torchvision has it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serving.h"

import lamina;

namespace {

using namespace lamina;

struct bottleneck {
  std::int64_t in, width, stride;
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t out = 4 * width;
    auto conv = [&](std::string_view name, std::string_view norm, std::int64_t from, std::int64_t to, int kernel, std::int64_t step, const auto& v) {
      return s(norm, nn::batch_norm2d{to},
               s(name, nn::conv2d{.in_channels = from, .out_channels = to, .kernel = kernel, .stride = static_cast<int>(step), .padding = kernel / 2, .bias = false}, v));
    };
    auto y = conv("conv3", "bn3", width, out, 1, 1, relu(conv("conv2", "bn2", width, width, 3, stride, relu(conv("conv1", "bn1", in, width, 1, 1, x)))));
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
constexpr auto resnet50 = sequential(
    sublayer<"conv1">(nn::conv2d{.in_channels = 3, .out_channels = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false}),
    sublayer<"bn1">(nn::batch_norm2d{64}), nn::relu{}, nn::max_pool2d{.kernel = 3, .stride = 2, .padding = 1},
    sublayer<"layer1">(stage{64, 64, 1, 3}), sublayer<"layer2">(stage{256, 128, 2, 4}), sublayer<"layer3">(stage{512, 256, 2, 6}),
    sublayer<"layer4">(stage{1024, 512, 2, 3}), nn::global_avg_pool2d{}, nn::flatten{}, sublayer<"fc">(nn::linear{.in = 2048, .out = 1000}));

using factory_type = reference_factory<resnet50, input<1, 3, 224, 224>>;
using image = tensor<float, extents<1, 3, 224, 224>>;

const factory_type& factory() {
  static const factory_type f(factory_type::model_type({.seed = 1}), {.optimize = true});
  return f;
}
image grey() {
  image x;
  for (float& v : x.writable()) v = 0.5f;
  return x;
}

}  // namespace

namespace bench::serving {

struct large_reference {
  decltype(factory().create()) net = factory().create();
};
large_reference* make_large_reference() { return new large_reference; }
void release(large_reference* r) { delete r; }
void classify(large_reference& r) {
  static const image x = grey();
  auto y = r.net(x);
  __asm__ volatile("" ::"r"(y.data().data()) : "memory");
}
std::size_t own_bytes(const large_reference& r) { return r.net.bytes(); }
std::size_t shared_bytes_of_large() { return factory().shared_bytes(); }

}  // namespace bench::serving
