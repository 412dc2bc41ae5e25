// Audio: WAV files, resampling, and random augmentations.
export module lamina:audio;
import :core;
import :random;
import :tensor;
import lamina.std;

namespace lamina {

// ---- files ----------------------------------------------------------------------------------------------------------

/// Audio samples from -1 to 1, [channels x frames]. Frame i is `i / rate` seconds after the start.
export struct waveform {
  matrix<float> samples;
  std::int64_t rate = 0;  ///< frames per second
  std::int64_t channels() const { return samples.extent(0); }
  std::int64_t frames() const { return samples.extent(1); }
};

/// Sample format of a file: integers of 8 (unsigned) to 32 bits, or floats.
export enum class wav_format { pcm8, pcm16, pcm24, pcm32, float32, float64 };
/// Header of a WAV file.
export struct wav_info {
  std::int64_t rate = 0, channels = 0, frames = 0;
  wav_format format = wav_format::pcm16;
};
/// Frames to read: `count` frames from `first` on; a negative count means all remaining ones.
export struct frame_range {
  std::int64_t first = 0, count = -1;
};

/// Reads a WAV file: PCM of 8, 16, 24 or 32 bits, float32 or float64, also as WAVE_FORMAT_EXTENSIBLE, with any number
/// of channels and chunks in any order. Integers are divided by 2^(bits - 1); 32-bit integers and float64 are rounded
/// to float.
/// Errors: file_error naming file and field; unsupported_error for other encodings; value_error for a range outside the
///         file. The header is checked against the file size before anything is allocated.
/// Source: IBM, Microsoft, "Multimedia Programming Interface and Data Specifications 1.0" (1991), "RIFF WAVE".
export waveform read_wav(const std::string& path, frame_range range = {});
/// The same for bytes in memory; `name` is the prefix of messages.
export waveform decode_wav(view<const std::byte> bytes, std::string_view name = "wav", frame_range range = {});
/// Reads only the header of a file.
export wav_info inspect_wav(const std::string& path);
/// Writes a WAV file with `write_file_atomically`. Integer formats round, and clip to -1 to 1.
/// Errors: value_error for no channel, a rate below 1, more than 4 GiB, or a sample that is not finite; file_error.
export void write_wav(const std::string& path, const waveform& w, wav_format format = wav_format::pcm16);

// ---- rates and channels ---------------------------------------------------------------------------------------------

/// The mean of all channels. Errors: shape_error for no channels.
export waveform to_mono(const waveform& w);

/// Low-pass filter: a sinc with `zero_crossings` on each side, times a Kaiser window.
struct resample_options {
  std::int64_t zero_crossings = 24;
  double rolloff = 0.945;  ///< edge of the pass band, as a fraction of the lower rate's Nyquist frequency
  double beta = 9.0;       ///< of the window: larger values attenuate more, with a wider transition band
};
/// Resamples to another rate: ceil(frames * rate / w.rate) frames, each from the surrounding samples, with zeros
/// outside.
/// Numerics: sums in double, in a fixed order.   Errors: value_error for rates below 1 or options out of range.
/// Source:   Smith, "Digital Audio Resampling" (2002), with the ratio of the rates in lowest terms.
export waveform resample(const waveform& w, std::int64_t rate, const resample_options& o = {});

// ---- random augmentations -------------------------------------------------------------------------------------------
//
// Draws depend only on `at` and the position, never on threads or earlier draws: `seed` is that of the
// training, `step` the number of the sample, counted over all epochs.

/// Adds white noise with a standard deviation drawn from a range.   Errors: value_error unless 0 <= low <= high.
struct noise_options {
  double low = 0.001, high = 0.015;
};
export waveform add_noise(const waveform& w, const noise_options& o, random_state at);
/// Applies a gain in decibels drawn from a range.   Errors: value_error unless low <= high.
struct gain_options {
  double low = -6, high = 6;
};
export waveform random_gain(const waveform& w, const gain_options& o, random_state at);
/// Shifts in time by up to `max` frames in either direction, filling with zeros.   Errors: value_error for a negative
/// `max`.
struct shift_options {
  std::int64_t max = 1600;
};
export waveform time_shift(const waveform& w, const shift_options& o, random_state at);

/// Sets `count` stripes, each with a width drawn from 0 to `max`, to `value`.
struct mask_options {
  std::int64_t count = 1, max = 10;
  float value = 0;
};
/// Masks features [frames x bands] over ranges of frames or of bands.   Errors: value_error for a negative count or
/// width.
/// Source: Park and others, "SpecAugment" (2019), arXiv:1904.08779.
export matrix<float> time_mask(const matrix<float>& features, const mask_options& o, random_state at);
export matrix<float> frequency_mask(const matrix<float>& features, const mask_options& o, random_state at);

}  // namespace lamina
