module lamina:audio.impl;
import :core;
import :audio;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

constexpr double pi = 3.14159265358979323846;

[[noreturn]] void refuse(const text& what, error_kind kind = error_kind::value) { detail::raise(kind, what); }

// A modifiable copy.
waveform copy_of(const waveform& w) { return {w.samples.copy(), w.rate}; }

// ---- rates ----------------------------------------------------------------------------------------------------------

// Modified Bessel function of the first kind and order 0, by its series.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > 1e-17 * sum; ++k) {
    const double factor = x / (2 * k);
    term *= factor * factor;
    sum += term;
  }
  return sum;
}

/// The filter as a function of the distance from its center, in input samples.
class sinc_filter {
 public:
  sinc_filter(double scale, const resample_options& o)
      : scale_(scale), half_(static_cast<double>(o.zero_crossings) / scale), beta_(o.beta), whole_(bessel(o.beta)) {}
  double half_width() const { return half_; }
  double operator()(double distance) const {
    const double at = distance / half_;
    if (at <= -1 || at >= 1) return 0;
    const double angle = pi * scale_ * distance, sinc = angle == 0 ? 1 : std::sin(angle) / angle;
    return scale_ * sinc * bessel(beta_ * std::sqrt(1 - at * at)) / whole_;
  }

 private:
  double scale_, half_, beta_, whole_;
};

/// Filter weights for all distances between output and input samples: one row per phase.
class phase_table {
 public:
  phase_table(std::int64_t from, std::int64_t to, const sinc_filter& f)
      : from_(from), to_(to), filter_(f), taps_(2 * static_cast<std::int64_t>(std::ceil(f.half_width())) + 1) {
    if (to <= max_weights / taps_)
      for (std::int64_t phase = 0; phase < to; ++phase) fill(phase, weights_);
  }
  /// The weights of output sample i; sets `first` to the input sample of the first weight.
  const double* of(std::int64_t i, std::int64_t& first) {
    const std::int64_t position = i * from_, phase = position % to_;
    first = position / to_ - taps_ / 2;
    if (!weights_.empty() && !single_) return weights_.data() + phase * taps_;
    single_ = true;
    weights_.clear();
    fill(phase, weights_);
    return weights_.data();
  }
  std::int64_t taps() const { return taps_; }

 private:
  static constexpr std::int64_t max_weights = std::int64_t(1) << 21;
  void fill(std::int64_t phase, std::vector<double>& to) const {
    for (std::int64_t k = 0; k < taps_; ++k)
      to.push_back(filter_(static_cast<double>(phase) / static_cast<double>(to_) - static_cast<double>(k - taps_ / 2)));
  }
  std::int64_t from_, to_;
  sinc_filter filter_;
  std::int64_t taps_;
  bool single_ = false;  // too many phases for a table: keeps one row
  std::vector<double> weights_;
};

// Random stream site of each kind of augmentation.
enum class change : std::int64_t { noise_level = 0x61756400, noise, gain, shift, time_mask, frequency_mask };
philox stream_of(change c, random_state at) { return philox(at, static_cast<std::int64_t>(c)); }
double between(double low, double high, const philox& from) { return low + (high - low) * from.uniform<double>(0); }
/// A uniform integer from 0 to `last`.
std::int64_t whole(std::int64_t last, const philox& from, std::uint64_t element) {
  return std::min(last, static_cast<std::int64_t>(from.uniform<double>(element) * static_cast<double>(last + 1)));
}

matrix<float> masked(const matrix<float>& features, const mask_options& o, const philox& from, int axis,
                     std::string_view caller) {
  if (o.count < 0 || o.max < 0)
    refuse(text() << caller << ": `count` is " << o.count << " and `max` is " << o.max << "; expected 0 or more");
  matrix<float> made = features.copy();
  const std::int64_t rows = made.extent(0), columns = made.extent(1), length = made.extent(axis);
  auto out = made.writable();
  for (std::int64_t i = 0; i < o.count; ++i) {
    const auto n = static_cast<std::uint64_t>(2 * i);
    const std::int64_t width = whole(std::min(o.max, length), from, n), first = whole(length - width, from, n + 1);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        if (const std::int64_t at = axis == 0 ? r : c; at >= first && at < first + width)
          out[static_cast<std::size_t>(r * columns + c)] = o.value;
  }
  return made;
}

}  // namespace

waveform to_mono(const waveform& w) {
  const std::int64_t channels = w.channels();
  if (channels < 1) refuse(text() << "to_mono: the waveform has no channels", error_kind::shape);
  if (channels == 1) return w;
  const auto frames = static_cast<std::size_t>(w.frames());
  waveform made{matrix<float>::uninitialized({1, w.frames()}), w.rate};
  auto out = made.samples.writable();
  const auto in = w.samples.data();
  for (std::size_t i = 0; i < frames; ++i) {
    double sum = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) sum += static_cast<double>(in[c * frames + i]);
    out[i] = static_cast<float>(sum / static_cast<double>(channels));
  }
  return made;
}

waveform resample(const waveform& w, std::int64_t rate, const resample_options& o) {
  constexpr std::int64_t max_rate = (std::int64_t(1) << 32) - 1;
  if (rate < 1 || rate > max_rate || w.rate < 1 || w.rate > max_rate)
    refuse(text() << "resample: from a rate of " << w.rate << " to " << rate << "; expected 1 to 2^32 - 1");
  if (o.zero_crossings < 1 || o.zero_crossings > 4096)
    refuse(text() << "resample: `zero_crossings` is " << o.zero_crossings << "; expected 1 to 4096");
  if (!(o.rolloff > 0 && o.rolloff <= 1))
    refuse(text() << "resample: `rolloff` is " << o.rolloff << "; expected more than 0 and at most 1");
  if (!(o.beta >= 0 && o.beta <= 100)) refuse(text() << "resample: `beta` is " << o.beta << "; expected 0 to 100");
  if (rate == w.rate) return w;
  const std::int64_t common = std::gcd(rate, w.rate), to = rate / common, from = w.rate / common;
  const double ratio = static_cast<double>(to) / static_cast<double>(from), scale = std::min(1., ratio) * o.rolloff;
  if (static_cast<double>(o.zero_crossings) / scale > 1e7)
    refuse(text() << "resample: from a rate of " << w.rate << " to " << rate
                  << " each frame depends on more than 10^7 others");
  std::int64_t last = 0;  // largest product of a position and a rate
  if (__builtin_mul_overflow(w.frames(), to, &last) || __builtin_add_overflow(last, from, &last))
    refuse(text() << "resample: " << w.frames() << " frames from a rate of " << w.rate << " to " << rate
                  << " are too many");
  const std::int64_t frames = w.frames(), made_frames = (frames * to + from - 1) / from;
  if (__builtin_mul_overflow(made_frames, from, &last))
    refuse(text() << "resample: " << frames << " frames from a rate of " << w.rate << " to " << rate
                  << " are too many");
  waveform made{matrix<float>::uninitialized({w.channels(), made_frames}), rate};
  auto out = made.samples.writable();
  const auto in = w.samples.data();
  phase_table weights(from, to, sinc_filter(scale, o));
  for (std::int64_t i = 0; i < made_frames; ++i) {
    std::int64_t first = 0;
    const double* const h = weights.of(i, first);
    const std::int64_t begin = std::max<std::int64_t>(0, -first), end = std::min(weights.taps(), frames - first);
    for (std::int64_t c = 0; c < w.channels(); ++c) {
      const float* const x = in.data() + c * frames + first;
      double sum = 0;
      for (std::int64_t k = begin; k < end; ++k) sum += h[k] * static_cast<double>(x[k]);
      out[static_cast<std::size_t>(c * made_frames + i)] = static_cast<float>(sum);
    }
  }
  return made;
}

waveform add_noise(const waveform& w, const noise_options& o, random_state at) {
  if (!(o.low >= 0 && o.low <= o.high && std::isfinite(o.high)))
    refuse(text() << "add_noise: deviations of " << o.low << " to " << o.high << "; expected 0 <= low <= high");
  waveform made = copy_of(w);
  const auto deviation = static_cast<float>(between(o.low, o.high, stream_of(change::noise_level, at)));
  const philox from = stream_of(change::noise, at);
  auto out = made.samples.writable();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += deviation * from.normal(i);
  return made;
}

waveform random_gain(const waveform& w, const gain_options& o, random_state at) {
  if (!(o.low <= o.high && std::isfinite(o.low) && std::isfinite(o.high)))
    refuse(text() << "random_gain: " << o.low << " to " << o.high << " decibels; expected low <= high");
  waveform made = copy_of(w);
  const auto by = static_cast<float>(std::pow(10., between(o.low, o.high, stream_of(change::gain, at)) / 20));
  for (float& x : made.samples.writable()) x *= by;
  return made;
}

waveform time_shift(const waveform& w, const shift_options& o, random_state at) {
  if (o.max < 0) refuse(text() << "time_shift: `max` is " << o.max << "; expected 0 or more");
  const std::int64_t frames = w.frames(), max = std::min(o.max, frames),
                     later = whole(2 * max, stream_of(change::shift, at), 0) - max;
  waveform made{matrix<float>({w.channels(), frames}), w.rate};
  auto out = made.samples.writable();
  const auto in = w.samples.data();
  for (std::int64_t c = 0; c < w.channels(); ++c)
    for (std::int64_t i = std::max<std::int64_t>(0, later); i < std::min(frames, frames + later); ++i)
      out[static_cast<std::size_t>(c * frames + i)] = in[static_cast<std::size_t>(c * frames + i - later)];
  return made;
}

matrix<float> time_mask(const matrix<float>& features, const mask_options& o, random_state at) {
  return masked(features, o, stream_of(change::time_mask, at), 0, "time_mask");
}
matrix<float> frequency_mask(const matrix<float>& features, const mask_options& o, random_state at) {
  return masked(features, o, stream_of(change::frequency_mask, at), 1, "frequency_mask");
}

}  // namespace lamina
