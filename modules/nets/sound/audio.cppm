// Sound: WAV files, sampling rates, and changes that training draws at random.
export module lamina:audio;
import :core;
import :random;
import :tensor;
import lamina.std;

namespace lamina {

// ---- files ----------------------------------------------------------------------------------------------------------

/// Sound as numbers of -1 to 1, [channels x frames]. Frame i is `i / rate` seconds after the beginning.
export struct waveform {
  matrix<float> samples;
  std::int64_t rate = 0;  ///< frames in a second
  std::int64_t channels() const { return samples.extent(0); }
  std::int64_t frames() const { return samples.extent(1); }
};

/// How samples lie in a file: integers of 8 (unsigned) to 32 bits, or floats.
export enum class wav_format { pcm8, pcm16, pcm24, pcm32, float32, float64 };
/// What the header of a WAV file says.
export struct wav_info {
  std::int64_t rate = 0, channels = 0, frames = 0;
  wav_format format = wav_format::pcm16;
};
/// Which frames are read: `count` from `first` on; all that there are where it is negative.
export struct frame_range {
  std::int64_t first = 0, count = -1;
};

/// Reads a WAV file: PCM of 8, 16, 24 or 32 bits, float32 or float64, also as WAVE_FORMAT_EXTENSIBLE, any number of channels,
/// chunks in any order. Integers are divided by 2^(bits - 1); those of 32 bits and float64 are rounded to float.
/// Errors: file_error naming file and field; unsupported_error for another coding; value_error for a range outside of the file.
///         The header is checked against the size of the file before anything is allocated.
/// Source: IBM, Microsoft, "Multimedia Programming Interface and Data Specifications 1.0" (1991), "RIFF WAVE".
export waveform read_wav(const std::string& path, frame_range range = {});
/// The same of bytes in memory; `name` begins the messages.
export waveform decode_wav(view<const std::byte> bytes, std::string_view name = "wav", frame_range range = {});
/// The header of a file alone.
export wav_info inspect_wav(const std::string& path);
/// Writes a WAV file with `write_file_atomically`. Integers are rounded, and numbers outside of -1 to 1 clipped.
/// Errors: value_error for no channel, a rate below 1, more than 4 GiB, or a number that is not finite; file_error.
export void write_wav(const std::string& path, const waveform& w, wav_format format = wav_format::pcm16);

// ---- rates and channels ---------------------------------------------------------------------------------------------

/// The mean of all channels. Errors: shape_error for none.
export waveform to_mono(const waveform& w);

/// A low-pass filter: a sinc of so many zero crossings on each side, times a Kaiser window.
struct resample_options {
  std::int64_t zero_crossings = 24;
  double rolloff = 0.945;  ///< the edge of the pass band, of the lower rate's half
  double beta = 9.0;       ///< of the window: more suppresses more, in a wider transition
};
/// The same sound at another rate: ceil(frames * rate / w.rate) frames, computed from the samples around each, 0 outside.
/// Numerics: sums in double, in one order.   Errors: value_error for rates below 1 or options outside of their ranges.
/// Source:   Smith, "Digital Audio Resampling" (2002), with the ratio of the rates in lowest terms.
export waveform resample(const waveform& w, std::int64_t rate, const resample_options& o = {});

// ---- changes at random ----------------------------------------------------------------------------------------------
//
// What is drawn depends on `at` and the position alone, never on threads or on what was drawn before: `seed` is that of a
// training, `step` the number of the sample, counted over all epochs.

/// White noise whose standard deviation is drawn from a range.   Errors: value_error unless 0 <= low <= high.
struct noise_options {
  double low = 0.001, high = 0.015;
};
export waveform add_noise(const waveform& w, const noise_options& o, random_state at);
/// Louder or softer by a number of decibels that is drawn from a range.   Errors: value_error unless low <= high.
struct gain_options {
  double low = -6, high = 6;
};
export waveform random_gain(const waveform& w, const gain_options& o, random_state at);
/// Later or earlier by at most `max` frames; what comes in is 0.   Errors: value_error for a negative `max`.
struct shift_options {
  std::int64_t max = 1600;
};
export waveform time_shift(const waveform& w, const shift_options& o, random_state at);

/// So many stripes, each of a width that is drawn from 0 to `max`, are set to `value`.
struct mask_options {
  std::int64_t count = 1, max = 10;
  float value = 0;
};
/// Masks of features [frames x bands]: over some frames, or over some bands.   Errors: value_error for a negative count or width.
/// Source: Park and others, "SpecAugment" (2019), arXiv:1904.08779.
export matrix<float> time_mask(const matrix<float>& features, const mask_options& o, random_state at);
export matrix<float> frequency_mask(const matrix<float>& features, const mask_options& o, random_state at);

}  // namespace lamina
