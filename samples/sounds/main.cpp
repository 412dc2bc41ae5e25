// Classifies sounds by their spectra: bells, tones and sweeps in WAV files that the program writes first, or your own
// files.
//
//   sounds [FOLDER]      FOLDER/<class>/*.wav: up to 8 classes; each sound is cut or padded to one second.
//                        `speak.sh FOLDER` writes such files of spoken words
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t rate = 8000, frames = rate, bands = 24, times = 1 + frames / 160;

// The input [times, bands] is treated as a picture with one channel.
constexpr auto net = sequential(
    nn::unsqueeze{{1}}, nn::batch_norm2d{.num_features = 1},
    nn::conv2d{.in_channels = 1, .out_channels = 8, .kernel_size = 5, .padding = 2}, nn::relu{}, nn::max_pool2d{},
    nn::conv2d{.in_channels = 8, .out_channels = 16, .padding = 1}, nn::relu{}, nn::max_pool2d{}, nn::flatten{},
    nn::linear{.in_features = 16 * (times / 4) * (bands / 4), .out_features = 8});

// Writes 40 files per class, which differ in pitch and loudness.
std::string write_sounds(const std::filesystem::path& folder) {
  const char* const names[] = {"bell", "fall", "rise", "tone"};
  const philox random(1);
  for (std::uint64_t i = 0; i < 160; ++i) {
    waveform w{matrix<float>(1, frames), rate};
    const double pitch = 900 + 600 * random.uniform<double>(i), loudness = 0.2 + 0.6 * random.uniform<double>(i + 160);
    const double bend = i % 4 == 1 ? -300 : i % 4 == 2 ? 300 : 0;
    for (std::int64_t k = 0; float& out : w.samples.writable()) {
      const double t = static_cast<double>(k++) / rate, fade = i % 4 == 0 ? std::exp(-6 * t) : 1;
      out = static_cast<float>(loudness * fade * std::sin(6.2831853 * t * (pitch + bend * t)));
    }
    std::filesystem::create_directories(folder / names[i % 4]);
    write_wav((folder / names[i % 4] / (std::to_string(i) + ".wav")).string(), w);
  }
  return folder.string();
}

}  // namespace

int main(int argc, char** argv) try {
  const auto folder = argc > 1 ? argv[1] : write_sounds(std::filesystem::temp_directory_path() / "lamina-sounds");
  const auto sounds = datasets::audio_folder(folder, {.rate = rate, .frames = frames});
  const auto [train, test] = dataset::split(sounds, 0.75, 1);

  // Augmentation: each epoch shifts each sound in time and adds different noise.
  const audio_features spectrum(mel_options{.frames = {.length = 256}, .bands = bands, .rate = rate});
  const auto changed = [&](const labeled_sound& s, const augment::position& at) {
    const auto sound = add_noise(time_shift(s.sound, {.max = 800}, at), {.high = 0.02}, at);
    return std::pair(spectrum(sound), s.label);
  };
  const auto unchanged = [&](const labeled_sound& s) { return std::pair(spectrum(s.sound), s.label); };

  model<net, input<"N", times, bands>> learner({.seed = 1});
  const auto report = fit(learner, train | dataset::cache() | dataset::map(changed, 1), loss::cross_entropy{},
                          optim::adam{.lr = 2e-3}, {.epochs = 30, .batch = 20, .schedule = optim::cosine{}});
  const double right = evaluate(learner, test | dataset::map(unchanged), metric::accuracy{})[0].value;
  std::printf("%d classes, %d sounds; loss %.3f, accuracy %.1f %% on %d test sounds\n",
              static_cast<int>(sounds.class_names().size()), static_cast<int>(train.size()), report.epochs.back().loss,
              100 * right, static_cast<int>(test.size()));
  return right >= 0.8 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "sounds: %s\n", e.what());
  return 2;
}
