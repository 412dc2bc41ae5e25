// LeNet's inference and training steps.
#include "network.h"

import lamina;
#include "../lenet/lenet.h"

namespace {

using namespace lamina;

struct bound_network {
  model<lenet, input<"N", 1, 28, 28>> net{{.seed = 1}};
  tensor<float, extents<dyn, dyn, dyn, dyn>> in = evaluate(filled(0.5f, 1, 1, 28, 28));
  matrix<float> out = evaluate(zeros<float>(1, 10));
  executor* run = nullptr;
  bound_network() {
    const shape extents[] = {in.shape()};
    run = &net.core().at(view<const shape>(extents, 1));
    run->bind_input(0, in.data().data());
    run->bind_output(0, out.writable().data());
  }
};

}  // namespace

namespace bench::steady {

void infer() {
  static bound_network network;
  network.run->run();
}

void train(long first, long count, void (*before)(), void (*after)()) {
  const auto data = datasets::fashion_mnist(data_split::train);
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
  fit(net, data, loss::cross_entropy{}, optim::adam{.lr = 1e-3},
      {.epochs = 1, .batch = 64, .observer = [&](const training_progress& p) {
         if (p.batch == first) before();
         if (p.batch < first + count) return true;
         after();
         return false;
       }});
}

}  // namespace bench::steady
