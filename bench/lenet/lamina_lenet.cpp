// Our contender of problem 11: LeNet-5 trained with Adam on batches of Fashion-MNIST.
#include <chrono>
#include <cstdio>
#include <cstdlib>

import lamina;
#include "lenet.h"

// usage: lamina_lenet OUT DIRECTORY BATCH STEPS THREADS
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const long batch = std::atol(argv[3]), steps = std::atol(argv[4]), warm_up = 20;
  const auto train = lamina::datasets::fashion_mnist(lamina::part::train, argv[2]);
  lamina::model<lenet, lamina::input<"N", 1, 28, 28>> net({.seed = 42, .threads = std::atoi(argv[5])});

  std::chrono::steady_clock::time_point begin, end;
  double loss = 0;
  lamina::fit(net, train, lamina::loss::cross_entropy{}, lamina::optim::adam{.lr = 1e-3},
              {.epochs = 1, .batch = batch, .observer = [&](const lamina::training_progress& p) {
                 if (p.batch == warm_up) begin = std::chrono::steady_clock::now();
                 if (p.batch < warm_up + steps) return true;
                 end = std::chrono::steady_clock::now();
                 loss = p.loss;
                 return false;
               }});
  const double seconds = std::chrono::duration<double>(end - begin).count();
  std::FILE* out = std::fopen(argv[1], "w");
  if (!out) return 2;
  std::fprintf(out, "{\"name\": \"lamina\", \"isa\": \"%s\", \"images_per_second\": %.1f, \"loss\": %.4f}\n",
               std::string(lamina::name_of(lamina::target_isa())).c_str(), static_cast<double>(batch * steps) / seconds,
               loss);
  return std::fclose(out) == 0 ? 0 : 2;
}
