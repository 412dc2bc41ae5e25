// Learns sounds: bells, tones and sweeps in WAV files, which it writes first, a folder for each class.
//
//   sounds [FOLDER]      FOLDER/<class>/*.wav of your own: up to 8 classes, each sound cut to or filled up to half a second
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

import lamina;
namespace la = lamina;
namespace nn = lamina::nn;

constexpr std::int64_t rate = 8000, frames = 4000, bands = 24, times = 1 + frames / 160;
inline constexpr auto net = la::sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 8, .kernel_size = 5, .padding = 2}, nn::relu{}, nn::max_pool2d{},
    nn::conv2d{.in_channels = 8, .out_channels = 16, .padding = 1}, nn::relu{}, nn::max_pool2d{}, nn::flatten{},
    nn::linear{.in_features = 16 * (times / 4) * (bands / 4), .out_features = 8});

// Forty files of each class, whose pitch and loudness differ.
void write_sounds(const std::filesystem::path& folder) {
  const char* const names[] = {"bell", "fall", "rise", "tone"};
  const la::philox random(1);
  for (std::uint64_t i = 0; i < 160; ++i) {
    la::waveform w{la::matrix<float>(1, frames), rate};
    const double pitch = 900 + 600 * random.uniform<double>(i), loud = 0.2 + 0.6 * random.uniform<double>(i + 160);
    const double bend = i % 4 == 1 ? -600 : i % 4 == 2 ? 600 : 0;
    auto out = w.samples.writable();
    for (std::size_t k = 0; k < out.size(); ++k) {
      const double t = static_cast<double>(k) / rate, fade = i % 4 == 0 ? std::exp(-12 * t) : 1;
      out[k] = static_cast<float>(loud * fade * std::sin(6.2831853 * t * (pitch + bend * t)));
    }
    std::filesystem::create_directories(folder / names[i % 4]);
    la::write_wav((folder / names[i % 4] / (std::to_string(i) + ".wav")).string(), w);
  }
}

// Levels in bands of the mel scale, and classes. In training (epoch >= 0) each sound is changed by what its number draws.
using batch = std::pair<la::tensor<float, la::extents<la::dyn, 1, times, bands>>, la::vector<std::int64_t>>;
batch read(const la::audio_dataset& sounds, la::view<const std::int64_t> which, std::int64_t epoch) {
  static const la::audio_features features(la::mel_options{.frames = {.length = 256}, .bands = bands, .rate = rate});
  batch made(which.size(), which.size());
  auto& [x, y] = made;
  for (std::int64_t k = 0; k < y.size(); ++k) {
    const std::int64_t i = which[static_cast<std::size_t>(k)];
    auto [sound, label] = sounds[i];
    const la::random_state at{.seed = 1, .step = epoch * sounds.size() + i};
    if (epoch >= 0) sound = la::add_noise(la::time_shift(sound, {.max = 400}, at), {.high = 0.05}, at);
    const auto levels = features(sound);
    for (std::size_t j = 0; auto& out : x.writable(k)) out = levels.data()[j++] / 10;
    y.writable(k) = label;
  }
  return made;
}

int main(int count, char** arguments) try {
  const auto made = std::filesystem::temp_directory_path() / "lamina-sounds";
  if (count < 2) write_sounds(made);
  const auto sounds =
      la::datasets::audio_folder(count < 2 ? made.string() : arguments[1], {.rate = rate, .frames = frames});
  const auto order = la::permutation(sounds.size(), 1, 0);
  const la::view<const std::int64_t> all(order), kept = all.subview(0, all.size() / 4);
  la::model<net, la::input<"N", 1, times, bands>> learner({.seed = 1});
  la::training step(learner, la::loss::cross_entropy{}, la::optim::adam{.lr = 2e-3});
  for (std::int64_t epoch = 0; epoch < 40; ++epoch)
    for (std::size_t first = kept.size(), n = 0; first < all.size(); first += n) {
      const auto [x, y] = read(sounds, all.subview(first, n = std::min<std::size_t>(20, all.size() - first)), epoch);
      const double loss = step(x, y);
      if (first + n == all.size() && epoch % 10 == 9) std::printf("epoch %d   loss %.3f\n", int(epoch) + 1, loss);
    }
  const auto [x, y] = read(sounds, kept, -1);
  const auto found = la::evaluate(la::argmax<1>(learner(x)));
  int right = 0;
  for (std::int64_t i = 0; i < y.size(); ++i) right += found(i) == y(i);
  std::printf("%d of %d sounds that were not trained on are told apart\n", right, int(y.size()));
  return 10 * right >= 8 * y.size() ? 0 : 1;
} catch (const std::exception& e) { return std::fprintf(stderr, "sounds: %s\n", e.what()), 2; }
