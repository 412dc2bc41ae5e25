// lamina's inference: one model per number of threads, each in its own context.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

import lamina;
#include "../lenet/lenet.h"
#include "../serving/resnet50.h"
#include "mobilenet_v2.h"
#include "threads.h"

namespace {

constexpr auto mlp =
    lamina::sequential(lamina::nn::flatten{}, lamina::nn::linear{.in_features = 784, .out_features = 256},
                       lamina::nn::relu{}, lamina::nn::linear{.in_features = 256, .out_features = 10});

template <const auto& Net, std::int64_t... Extents> bench::threads::answer measured(int rounds) {
  using clock = std::chrono::steady_clock;
  using net_type = lamina::model<Net, lamina::input<1, Extents...>>;
  net_type one({.seed = 42, .threads = 1}), two({.seed = 42, .threads = 2});
  lamina::tensor<float, lamina::extents<1, Extents...>> image;
  float number = 0;
  for (float& pixel : image.writable()) pixel = (number = number < 1 ? number + 0.07f : 0);
  bench::threads::answer least{1e18, 1e18};
  const auto time = [&](net_type& net, double& best) {
    (void)net(image);  // makes the plan and warms the caches
    for (int run = 0; run < 3; ++run) {
      const auto begin = clock::now();
      (void)net(image);
      best = std::min(best, std::chrono::duration<double, std::micro>(clock::now() - begin).count());
    }
  };
  for (int round = 0; round < rounds; ++round) time(one, least.one_thread), time(two, least.two_threads);
  return least;
}

}  // namespace

bench::threads::answer bench::threads::answer_of(network of, int rounds) {
  switch (of) {
    case network::resnet50: return measured<resnet50::topology, 3, 224, 224>(rounds);
    case network::mobilenet_v2: return measured<mobilenet_v2::topology, 3, 224, 224>(rounds);
    case network::lenet: return measured<lenet, 1, 28, 28>(rounds);
    case network::mlp: break;
  }
  return measured<mlp, 784>(rounds);
}
