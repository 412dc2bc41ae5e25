// Spectra of sound, as parts of nets and for data sets.
export module lamina:audio.features;
import :core;
import :audio;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Frames of `window` samples every `step`, each times a periodic Hann window and filled up with zeros to `length`.
export struct spectrogram_options {
  std::int64_t length = 512;  ///< samples of a transform, at most 16384; its results are length / 2 + 1 frequencies
  std::int64_t window = 0;    ///< samples of a frame; 0 for `length`
  std::int64_t step = 160;
  double power = 2;    ///< 2 for power, 1 for magnitude
  bool center = true;  ///< frame i is around sample i * step, with zeros outside; else it begins there
};

/// What frequencies mean to an ear: linear to 1000 Hz and logarithmic above (Slaney), or 2595 log10(1 + f / 700) (HTK).
export enum class mel_scale { slaney, htk };
/// What becomes of the power in a band.
export enum class mel_level {
  power,      ///< nothing
  logarithm,  ///< log(max(x, floor))
  decibel     ///< 10 log10(max(x, floor)), and at least the largest one minus `range`
};
export struct mel_options {
  spectrogram_options frames{};
  std::int64_t bands = 64, rate = 16000;
  double low = 0, high = 0;  ///< edges in Hz; a `high` of 0 for half of the rate
  mel_scale scale = mel_scale::slaney;
  bool normalized = true;  ///< bands have an area of 1, rather than a height
  mel_level level = mel_level::logarithm;
  double floor = 1e-10;
  double range = 80;  ///< of decibels; 0 for no limit
};
export struct mfcc_options {
  mel_options mel{.level = mel_level::decibel};
  std::int64_t coefficients = 20;
};

/// Triangles over the frequencies of a transform, evenly spaced on the mel scale: [length / 2 + 1, bands].
/// Errors: value_error for numbers that make no bands.
/// Source: Slaney, "Auditory Toolbox" (1998); Young and others, "The HTK Book" (2006).
export matrix<float> mel_filters(const mel_options& o);
/// The discrete cosine transform II, orthonormal: [from, to].
export matrix<float> cosine_transform(std::int64_t from, std::int64_t to);

// ---- in nets --------------------------------------------------------------------------------------------------------

/// The power of the frequencies in frames of a signal.
/// Shapes:  [B, L] -> [B, frames, length / 2 + 1], with 1 + (L - window) / step frames, or 1 + L / step around their centers.
/// Errors:  value_error for options outside of their ranges; shape_error where L is not known or shorter than a frame.
export value spectrogram(const value& signal, const spectrogram_options& o = {});
/// The same in bands of the mel scale.   Shapes: [B, L] -> [B, frames, bands].
export value mel_spectrogram(const value& signal, const mel_options& o = {});
/// Cepstral coefficients: a cosine transform of the levels in those bands.   Shapes: [B, L] -> [B, frames, coefficients].
/// Source:  Davis, Mermelstein, "Comparison of Parametric Representations for Monosyllabic Word Recognition" (1980).
export value mfcc(const value& signal, const mfcc_options& o = {});

// ---- for data sets --------------------------------------------------------------------------------------------------

/// The same for waveforms of one channel and any length, as a function of data sets: `dataset::map(features)`.
/// Several threads may call one; bits do not depend on which does.
export class audio_features {
 public:
  explicit audio_features(const spectrogram_options& o);
  explicit audio_features(const mel_options& o);
  explicit audio_features(const mfcc_options& o);
  /// [frames x bands].   Errors: shape_error for more channels than one, or less than one frame; value_error for another rate
  /// than that of the bands.
  matrix<float> operator()(const waveform& w) const;

 private:
  struct implementation;
  std::shared_ptr<implementation> impl_;
};

}  // namespace lamina
