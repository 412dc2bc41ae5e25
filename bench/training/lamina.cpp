// Our contender of training steps (problem 23): nets on batches of random numbers, step after step.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "process_memory.h"

import lamina;

#include "../lenet/lenet.h"

namespace {

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

// ResNet-20 for images of 32 x 32; a block that changes the shape has a convolution of 1 x 1 beside it.
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

/// Numbers that look random: reals in [-1, 1), or whole numbers below `below`.
template <class Tensor> Tensor numbers(Tensor x, std::int64_t seed, std::int64_t below = 0) {
  const philox random(seed);
  auto data = x.writable();
  for (std::size_t i = 0; i < data.size(); ++i)
    if constexpr (std::is_same_v<typename Tensor::element_type, float>) data[i] = 2 * random.uniform(i) - 1;
    else data[i] = static_cast<std::int64_t>(random.uniform<double>(i) * static_cast<double>(below));
  return x;
}

struct result {
  double least, median, loss;
  long steps, parameters;
};

/// Steps on one batch for so many seconds, five at least.
template <class Net, class Input, class Targets>
result steps_of(Net& net, const Input& x, const Targets& y, const auto& optimizer, double seconds) {
  using clock_type = std::chrono::steady_clock;
  using passed = std::chrono::duration<double>;
  lamina::training step(net, loss::cross_entropy{}, optimizer);
  result r{0, 0, step(x, y), 1, 0};  // the first one plans
  step(x, y);
  std::vector<double> times;
  const auto begin = clock_type::now();
  while (times.size() < 5 || passed(clock_type::now() - begin).count() < seconds) {
    const auto from = clock_type::now();
    step(x, y);
    times.push_back(passed(clock_type::now() - from).count());
  }
  std::sort(times.begin(), times.end());
  r.least = times.front(), r.median = times[times.size() / 2], r.steps = static_cast<long>(times.size());
  for (const auto& p : net.parameters())
    if (p.trainable()) r.parameters += p.shape().size();
  return r;
}

result measured(std::string_view name, const model_options& options, double seconds) {
  if (name == "lenet") {
    model<lenet, input<"N", 1, 28, 28>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(128, 1, 28, 28), 1),
                    numbers(vector<std::int64_t>(128), 2, classes), optim::adam{.lr = 1e-3}, seconds);
  }
  if (name == "mlp") {
    model<mlp, input<"N", 784>> net(options);
    return steps_of(net, numbers(matrix<float>(64, 784), 1), numbers(vector<std::int64_t>(64), 2, classes),
                    optim::adam{.lr = 1e-3}, seconds);
  }
  if (name == "gru") {
    model<gru, input<"N", "T", 64>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 3>(32, 32, 64), 1),
                    numbers(matrix<std::int64_t>(32, 32), 2, classes), optim::adam{.lr = 1e-3}, seconds);
  }
  if (name == "transformer") {
    model<transformer, port_input<"input", std::int64_t, "N", "T">> net(options);
    return steps_of(net, numbers(matrix<std::int64_t>(16, 64), 1, symbols),
                    numbers(matrix<std::int64_t>(16, 64), 2, symbols), optim::adam{.lr = 1e-3}, seconds);
  }
  if (name == "resnet") {
    model<resnet, input<"N", 3, 32, 32>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(32, 3, 32, 32), 1),
                    numbers(vector<std::int64_t>(32), 2, classes), optim::sgd{.lr = 0.01, .momentum = 0.9}, seconds);
  }
  std::fprintf(stderr, "the net is %s; expected lenet, mlp, gru, transformer or resnet\n", std::string(name).c_str());
  std::exit(2);
}

}  // namespace

// usage: training NET THREADS SECONDS; prints JSON
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long before = bench::resident_bytes();
  const result r = measured(argv[1], {.seed = 1, .threads = std::atoi(argv[2])}, std::atof(argv[3]));
  std::printf(
      "{\"version\": \"%s\", \"least\": %.9f, \"median\": %.9f, \"bytes\": %ld, \"loss\": %.4f, \"steps\": %ld, "
      "\"parameters\": %ld}\n",
      std::string(name_of(target_isa())).c_str(), r.least, r.median, bench::peak_resident_bytes() - before, r.loss,
      r.steps, r.parameters);
}
