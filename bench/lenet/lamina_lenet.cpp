// lamina's contender: LeNet-5 trained with Adam on batches of Fashion-MNIST, then inference only.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

import lamina;
#include "lenet.h"

namespace {

using clock_type = std::chrono::steady_clock;

/// Inference rate in images per second with batches of `count` images: the best of several rounds.
template <class Net> double inference_rate(Net& net, long count) {
  lamina::tensor<float, lamina::extents<lamina::dyn, 1, 28, 28>> images(count);
  lamina::matrix<float> scores(count, 10);
  float number = 0;
  for (float& pixel : images.writable()) pixel = (number = number < 1 ? number + 0.07f : 0);
  const long runs = 2000 / count + 1;
  double best = 0;
  for (int turn = 0; turn < 7; ++turn) {
    const auto begin = clock_type::now();
    for (long i = 0; i < runs; ++i) net.run(images, scores);
    const std::chrono::duration<double> spent = clock_type::now() - begin;
    if (turn > 0) best = std::max(best, static_cast<double>(runs * count) / spent.count());  // round 0 makes the plan
  }
  return best;
}

}  // namespace

// usage: lamina_lenet OUT DIRECTORY BATCH STEPS THREADS
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const long batch = std::atol(argv[3]), steps = std::atol(argv[4]), warm_up = 20;
  const auto train = lamina::datasets::fashion_mnist(lamina::data_split::train, argv[2]);
  lamina::model<lenet, lamina::input<"N", 1, 28, 28>> net({.seed = 42, .threads = std::atoi(argv[5])});

  clock_type::time_point begin, end;
  double loss = 0;
  lamina::fit(net, train, lamina::loss::cross_entropy{}, lamina::optim::adam{.lr = 1e-3},
              {.epochs = 1, .batch = batch, .observer = [&](const lamina::training_progress& p) {
                 if (p.batch == warm_up) begin = clock_type::now();
                 if (p.batch < warm_up + steps) return true;
                 end = clock_type::now();
                 loss = p.loss;
                 return false;
               }});
  const double seconds = std::chrono::duration<double>(end - begin).count();
  std::FILE* out = std::fopen(argv[1], "w");
  if (!out) return 2;
  std::fprintf(out,
               "{\"name\": \"lamina\", \"isa\": \"%s\", \"images_per_second\": %.1f, \"loss\": %.4f, "
               "\"inference_1\": %.1f, \"inference_batch\": %.1f}\n",
               std::string(lamina::name_of(lamina::target_isa())).c_str(), static_cast<double>(batch * steps) / seconds,
               loss, inference_rate(net, 1), inference_rate(net, batch));
  return std::fclose(out) == 0 ? 0 : 2;
}
