// Trains LeNet, saves it, reloads it and serves it with two workers: program of the compile time and program size
// benchmarks.
import lamina;
using namespace lamina;
#include "lenet.h"

int main() {
  const auto train = datasets::fashion_mnist(data_split::train), test = datasets::fashion_mnist(data_split::test);
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 42});
  fit(net, train, loss::cross_entropy{}, optim::adam{.lr = 3e-3},
      {.epochs = 5, .batch = 64, .schedule = optim::one_cycle{}, .validation = test, .observer = progress_bar()});
  save(net, "lenet.safetensors");

  auto factory = reference_factory<lenet, input<"N", 1, 28, 28>>::from_file("lenet.safetensors", {.optimize = true});
  long hits[2] = {};
  parallel_workers(2, [&](int worker) {
    auto ref = factory.create();
    for (auto [image, label] : shard(test, worker, 2)) hits[worker] += item(argmax(ref(image))) == label;
  });
  return hits[0] + hits[1] > 8000 ? 0 : 1;
}
