// Real-time audio: an LSTM learns an amplifier's distortion, which has memory, from examples, then replaces it.
// The stream processes one sample per step without allocations, locks or system calls.
//
//   stream [--steps N] [--error LARGEST]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string_view>
#include <vector>

import lamina;
namespace la = lamina;
namespace nn = lamina::nn;

// The function to learn: a soft limiter with feedback from output to input.
struct amplifier {
  float before = 0;
  float operator()(float x) { return before = std::tanh(2 * x - 0.6f * before); }
};

// Test signal: a few sines of random pitch and phase.
struct player {
  explicit player(unsigned seed) {
    std::mt19937 random(seed);
    for (auto& s : sines) s = {0.02 + 0.2 * uniform(random), 6.28 * uniform(random)};
  }
  static double uniform(std::mt19937& r) { return static_cast<double>(r()) / 4294967296.0; }
  float operator()(long t) const {
    double x = 0;
    for (const auto& s : sines) x += 0.4 * std::sin(s.pitch * static_cast<double>(t) + s.phase);
    return static_cast<float>(x);
  }
  struct sine {
    double pitch, phase;
  };
  sine sines[3];
};

constexpr std::int64_t iterations = 64, samples = 16;
inline constexpr auto model_of_it =
    la::sequential(nn::lstm{.input_size = 1, .hidden_size = 16}, nn::linear{.in_features = 16, .out_features = 1});

int main(int count, char** arguments) {
  long steps = 1500;
  double largest = 0.1;
  for (int i = 1; i + 1 < count; i += 2) {
    std::string_view name = arguments[i];
    if (name == "--steps") steps = std::atol(arguments[i + 1]);
    else if (name == "--error") largest = lamina::number_in(arguments[i + 1]).value_or(0);
  }
  la::model<model_of_it, la::input<"T", "N", 1>> net({.seed = 1});
  la::training step(net, la::loss::mse{}, la::optim::adam{.lr = 5e-3});
  la::tensor<float, la::extents<iterations, samples, 1>> x, y;
  for (long k = 0; k < steps; ++k) {
    auto in = x.writable(), out = y.writable();
    for (std::int64_t n = 0; n < samples; ++n) {
      amplifier real;
      player music(static_cast<unsigned>(k * samples + n));
      for (std::int64_t t = 0; t < iterations; ++t) {
        auto at = static_cast<std::size_t>(t * samples + n);
        in[at] = music(t);
        out[at] = real(in[at]);
      }
    }
    double loss = step(x, y);
    if ((k + 1) % 250 == 0) std::printf("step %4ld   mean square error %.6f\n", k + 1, loss);
  }

  // Stream it: one sample in, one sample out, for far longer than the training sequences.
  auto box = la::stream(la::reference_factory<model_of_it, la::input<"T", "N", 1>>(net).create());
  constexpr long length = 48000;
  std::vector<float> music(length), served(length);
  player tune(1u << 31);
  for (long t = 0; t < length; ++t) music[static_cast<std::size_t>(t)] = tune(t);
  auto begin = std::chrono::steady_clock::now();
  for (std::size_t t = 0; t < length; ++t)
    box.step(std::span<const float>(&music[t], 1), std::span<float>(&served[t], 1));
  std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  amplifier real;
  double worst = 0, square = 0;
  for (std::size_t t = 0; t < length; ++t) {
    double off = static_cast<double>(std::abs(served[t] - real(music[t])));
    worst = std::max(worst, off);
    square += off * off;
  }
  double error = std::sqrt(square / length);
  std::printf("served %ld samples: %.0f ns each, %zu bytes of memory; RMS error %.4f, max %.4f\n", length,
              took.count() / length, box.memory_bytes(), error, worst);
  return error < largest ? 0 : 1;
}
