// Debug build (problem 27): LeNet inference, compiled in each build type.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

import lamina;
#include "lenet.h"

namespace {

/// Microseconds of a run on `count` images: the minimum of 40 rounds.
double run_time(auto& net, long count) {
  using clock_type = std::chrono::steady_clock;
  lamina::tensor<float, lamina::extents<lamina::dyn, 1, 28, 28>> images(count);
  lamina::matrix<float> scores(count, 10);
  float number = 0;
  for (float& pixel : images.writable()) pixel = (number = number < 1 ? number + 0.07f : 0);
  net.run(images, scores);  // makes the plan
  const long runs = 320 / count;
  double best = 1e9;
  for (int turn = 0; turn < 40; ++turn) {
    const auto begin = clock_type::now();
    for (long i = 0; i < runs; ++i) net.run(images, scores);
    const std::chrono::duration<double, std::micro> spent = clock_type::now() - begin;
    best = std::min(best, spent.count() / static_cast<double>(runs));
  }
  return best;
}

}  // namespace

// usage: inference OUT
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  lamina::model<lenet, lamina::input<"N", 1, 28, 28>> net({.seed = 42, .threads = 1});
  std::FILE* out = std::fopen(argv[1], "w");
  if (!out) return 2;
  std::fprintf(out, "{\"isa\": \"%s\", \"1\": %.4f, \"32\": %.4f}\n",
               std::string(lamina::name_of(lamina::target_isa())).c_str(), run_time(net, 1), run_time(net, 32));
  return std::fclose(out) == 0 ? 0 : 2;
}
