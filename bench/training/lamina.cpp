// lamina's contender for training steps (problem 23): nets trained step after step on a batch of random numbers.
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

#include "nets.h"

namespace {

using namespace lamina;
using namespace bench;

struct result {
  double least, median, loss;
  long steps, parameters;
};

struct settings {
  double seconds;
  dtype compute;
};

/// Trains on one batch for `how.seconds` seconds, at least five steps.
template <class Net, class Input, class Targets>
result steps_of(Net& net, const Input& x, const Targets& y, const auto& optimizer, const settings& how) {
  using clock_type = std::chrono::steady_clock;
  using passed = std::chrono::duration<double>;
  lamina::training step(net, loss::cross_entropy{}, optimizer, {.compute = how.compute});
  result r{0, 0, step(x, y), 1, 0};  // the first step makes the plan
  step(x, y);
  std::vector<double> times;
  const auto begin = clock_type::now();
  while (times.size() < 5 || passed(clock_type::now() - begin).count() < how.seconds) {
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

result measured(std::string_view name, const model_options& options, const settings& how) {
  if (name == "lenet") {
    model<lenet, input<"N", 1, 28, 28>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(128, 1, 28, 28), 1),
                    numbers(vector<std::int64_t>(128), 2, classes), optim::adam{.lr = 1e-3}, how);
  }
  if (name == "mlp") {
    model<mlp, input<"N", 784>> net(options);
    return steps_of(net, numbers(matrix<float>(64, 784), 1), numbers(vector<std::int64_t>(64), 2, classes),
                    optim::adam{.lr = 1e-3}, how);
  }
  if (name == "wide_mlp") {
    model<wide_mlp, input<"N", 512>> net(options);
    return steps_of(net, numbers(matrix<float>(64, 512), 1), numbers(vector<std::int64_t>(64), 2, classes),
                    optim::adam{.lr = 1e-3}, how);
  }
  if (name == "gru") {
    model<gru, input<"N", "T", 64>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 3>(32, 32, 64), 1),
                    numbers(matrix<std::int64_t>(32, 32), 2, classes), optim::adam{.lr = 1e-3}, how);
  }
  if (name == "transformer") {
    model<transformer, port_input<"input", std::int64_t, "N", "T">> net(options);
    return steps_of(net, numbers(matrix<std::int64_t>(16, 64), 1, symbols),
                    numbers(matrix<std::int64_t>(16, 64), 2, symbols), optim::adam{.lr = 1e-3}, how);
  }
  if (name == "resnet") {
    model<resnet, input<"N", 3, 32, 32>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(32, 3, 32, 32), 1),
                    numbers(vector<std::int64_t>(32), 2, classes), optim::sgd{.lr = 0.01, .momentum = 0.9}, how);
  }
  if (name == "resnet18") {
    model<resnet18, input<"N", 3, 64, 64>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(16, 3, 64, 64), 1),
                    numbers(vector<std::int64_t>(16), 2, classes), optim::sgd{.lr = 0.01, .momentum = 0.9}, how);
  }
  if (name == "mobilenet") {
    model<mobilenet, input<"N", 3, 32, 32>> net(options);
    return steps_of(net, numbers(tensor_of_rank<float, 4>(32, 3, 32, 32), 1),
                    numbers(vector<std::int64_t>(32), 2, classes), optim::sgd{.lr = 0.01, .momentum = 0.9}, how);
  }
  std::fprintf(stderr,
               "the net is %s; expected lenet, mlp, wide_mlp, gru, transformer, resnet, resnet18 or mobilenet\n",
               std::string(name).c_str());
  std::exit(2);
}

}  // namespace

// usage: training NET THREADS SECONDS [bfloat16]; prints JSON
int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const settings how{std::atof(argv[3]), argc == 5 ? dtype::bfloat16 : dtype::float32};
  const long before = bench::resident_bytes();
  const result r = measured(argv[1], {.seed = 1, .threads = std::atoi(argv[2])}, how);
  std::printf(
      "{\"version\": \"%s\", \"least\": %.9f, \"median\": %.9f, \"bytes\": %ld, \"loss\": %.4f, \"steps\": %ld, "
      "\"parameters\": %ld}\n",
      std::string(name_of(target_isa())).c_str(), r.least, r.median, bench::peak_resident_bytes() - before, r.loss,
      r.steps, r.parameters);
}
