// The in-process plan from which the bundle is written.
#include <string>
#include <vector>

#include "bundle.h"

import lamina;
import lamina.bundle;

namespace {

using namespace lamina;

inline constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 400, .out_features = 120}, nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10});

struct network {
  model<lenet, input<"N", 1, 28, 28>> net{{.seed = 1}};
  std::vector<float> in, out = std::vector<float>(10);
  executor* bound = nullptr;
  network() {
    philox stream(1, 5);
    for (std::size_t i = 0; i < 784; ++i) in.push_back(static_cast<float>(stream.uniform<double>(i)));
    const shape extents[] = {{1, 1, 28, 28}};
    bound = &net.core().at(view<const shape>(extents, 1));
    bound->bind_input(0, in.data());
    bound->bind_output(0, out.data());
    bound->run();
  }
};
network& one() {
  static network n;
  return n;
}

}  // namespace

namespace bench::bundle {

void write(const std::string& folder) {
  lamina::bundle::write(one().net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = folder});
}
void run() { one().bound->run(); }
const std::vector<float>& image() { return one().in; }
const std::vector<float>& scores() { return one().out; }

}  // namespace bench::bundle
