// Audio features: spectrograms, mel bands and MFCC, as operations in nets and as functions for data sets.
export module lamina:audio.features;
import :core;
import :audio;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Frames of `window` samples every `step`, each multiplied by a periodic Hann window and zero-padded to `length`.
export struct spectrogram_options {
  std::int64_t length = 512;  ///< size of the transform, at most 16384; yields length / 2 + 1 frequencies
  std::int64_t window = 0;    ///< samples per frame; 0 for `length`
  std::int64_t step = 160;
  double power = 2;    ///< 2 for power, 1 for magnitude
  bool center = true;  ///< frame i is centered on sample i * step, with zeros outside; else it begins there
};

/// Perceptual frequency scale: linear to 1000 Hz and logarithmic above (Slaney), or 2595 log10(1 + f / 700) (HTK).
export enum class mel_scale { slaney, htk };
/// Conversion of the power x in a band.
export enum class mel_level {
  power,      ///< unchanged
  logarithm,  ///< log(max(x, floor))
  decibel     ///< 10 log10(max(x, floor)), clamped below at the maximum minus `range`
};
export struct mel_options {
  spectrogram_options frames{};
  std::int64_t bands = 64, rate = 16000;
  double low = 0, high = 0;  ///< edges in Hz; a `high` of 0 means half the rate
  mel_scale scale = mel_scale::slaney;
  bool normalized = true;  ///< triangles have area 1 instead of height 1
  mel_level level = mel_level::logarithm;
  double floor = 1e-10;
  double range = 80;  ///< dynamic range in decibels; 0 for no limit
};
export struct mfcc_options {
  mel_options mel{.level = mel_level::decibel};
  std::int64_t coefficients = 20;
};

/// Triangular filters over the frequencies of a transform, evenly spaced on the mel scale: [length / 2 + 1, bands].
/// Errors: value_error for options that give no valid bands.
/// Source: Slaney, "Auditory Toolbox" (1998); Young and others, "The HTK Book" (2006).
export matrix<float> mel_filters(const mel_options& o);
/// Matrix of the orthonormal discrete cosine transform II: [from, to].
export matrix<float> cosine_transform(std::int64_t from, std::int64_t to);

// ---- in nets --------------------------------------------------------------------------------------------------------

/// Spectrogram: power or magnitude by frequency for each frame of a signal.
/// Shapes:  [B, L] -> [B, frames, length / 2 + 1], with 1 + (L - window) / step frames, or 1 + L / step if centered.
/// Errors:  value_error for options out of range; shape_error if L is symbolic or shorter than a frame.
export value spectrogram(const value& signal, const spectrogram_options& o = {});
/// The same in mel bands.   Shapes: [B, L] -> [B, frames, bands].
export value mel_spectrogram(const value& signal, const mel_options& o = {});
/// Mel-frequency cepstral coefficients: cosine transform of the band levels.   Shapes: [B, L] -> [B, frames,
/// coefficients].
/// Source:  Davis, Mermelstein, "Comparison of Parametric Representations for Monosyllabic Word Recognition" (1980).
export value mfcc(const value& signal, const mfcc_options& o = {});

// ---- for data sets --------------------------------------------------------------------------------------------------

/// The same features for waveforms of one channel and any length, as a function for data sets:
/// `dataset::map(features)`. Thread-safe; bits do not depend on the calling thread.
export class audio_features {
 public:
  explicit audio_features(const spectrogram_options& o);
  explicit audio_features(const mel_options& o);
  explicit audio_features(const mfcc_options& o);
  /// [frames x bands].   Errors: shape_error for more than one channel, or less than one frame; value_error if the rate
  /// differs from the options'.
  matrix<float> operator()(const waveform& w) const;

 private:
  struct implementation;
  std::shared_ptr<implementation> impl_;
};

}  // namespace lamina
