module lamina:audio.features.impl;
import :core;
import :audio;
import :audio.features;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.activation;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.signal;
import :op.tile;
import :op.view;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

constexpr double pi = 3.14159265358979323846;

[[noreturn]] void refuse(std::string_view caller, const text& what, error_kind kind = error_kind::value) {
  text t;
  detail::raise(kind, t << caller << ": " << what);
}

std::int64_t window_of(const spectrogram_options& o) { return o.window > 0 ? o.window : o.length; }
void check(const spectrogram_options& o, std::string_view caller) {
  if (o.length < 1 || o.length > 16384) refuse(caller, text() << "`length` is " << o.length << "; expected 1 to 16384");
  if (o.window < 0 || o.window > o.length)
    refuse(caller, text() << "`window` is " << o.window << "; expected 0 to " << o.length);
  if (o.step < 1 || o.step > (std::int64_t(1) << 30))
    refuse(caller, text() << "`step` is " << o.step << "; expected 1 to 2^30");
  if (o.power != 1 && o.power != 2) refuse(caller, text() << "`power` is " << o.power << "; expected 1 or 2");
}
double high_of(const mel_options& o) { return o.high > 0 ? o.high : static_cast<double>(o.rate) / 2; }
void check(const mel_options& o, std::string_view caller) {
  check(o.frames, caller);
  if (o.bands < 1 || o.bands > 4096) refuse(caller, text() << "`bands` is " << o.bands << "; expected 1 to 4096");
  if (o.rate < 1 || o.rate > (std::int64_t(1) << 32))
    refuse(caller, text() << "`rate` is " << o.rate << "; expected 1 to 2^32");
  if (!(o.low >= 0 && o.low < high_of(o) && high_of(o) <= static_cast<double>(o.rate) / 2))
    refuse(caller,
           text() << "bands from " << o.low << " to " << high_of(o) << " Hz; expected 0 <= low < high <= rate / 2");
  if (!(o.floor > 0)) refuse(caller, text() << "`floor` is " << o.floor << "; expected more than 0");
  if (!(o.range >= 0)) refuse(caller, text() << "`range` is " << o.range << "; expected 0 or more");
}
void check(const mfcc_options& o, std::string_view caller) {
  check(o.mel, caller);
  if (o.coefficients < 1 || o.coefficients > o.mel.bands)
    refuse(caller,
           text() << "`coefficients` is " << o.coefficients << "; expected 1 to the number of bands, " << o.mel.bands);
}

/// The window, centered in a row of the transform's length.
matrix<float> window_row(const spectrogram_options& o) {
  const std::int64_t n = window_of(o), before = (o.length - n) / 2;
  matrix<float> w(1, o.length);
  auto out = w.writable();
  for (std::int64_t i = 0; i < n; ++i)
    out[static_cast<std::size_t>(before + i)] =
        static_cast<float>(0.5 - 0.5 * std::cos(2 * pi * static_cast<double>(i) / static_cast<double>(n)));
  return w;
}

// ---- after the transform --------------------------------------------------------------------------------------------

// A constant matrix in the element type of `like`.
value constant_of(const value& like, const matrix<float>& m) {
  return detail::converted(like.owner().constant(m), like.type().element);
}
// Takes a transform [..., frequencies, 2].
value levels(const value& transform, const spectrogram_options& o) {
  const value power = reduce_sum(square(transform), {-1});
  return o.power == 2 ? power : value(sqrt(power));
}
value levels(const value& transform, const mel_options& o) {
  const value bands = matmul(levels(transform, o.frames), constant_of(transform, mel_filters(o)));
  if (o.level == mel_level::power) return bands;
  const value logs = log(max(bands, o.floor));
  if (o.level == mel_level::logarithm) return logs;
  const value decibels = logs * (10 / std::log(10.));
  if (o.range == 0) return decibels;
  return max(decibels, reduce_max(decibels, reduce_attributes{.axes = {-2, -1}, .keepdim = true}) - o.range);
}
value levels(const value& transform, const mfcc_options& o) {
  return matmul(levels(transform, o.mel), constant_of(transform, cosine_transform(o.mel.bands, o.coefficients)));
}
const spectrogram_options& frames_of(const spectrogram_options& o) { return o; }
const spectrogram_options& frames_of(const mel_options& o) { return o.frames; }
const spectrogram_options& frames_of(const mfcc_options& o) { return o.mel.frames; }

/// Zero padding before and after a signal, so that windows are centered in frames of `length` samples.
struct borders {
  std::int64_t before = 0, after = 0;
  explicit borders(const spectrogram_options& o) {
    const std::int64_t n = window_of(o), left = (o.length - n) / 2;
    before = o.center ? o.length / 2 : left;
    after = o.center ? o.length / 2 : o.length - n - left;
  }
};

template <class Options> value features_of(const value& signal, const Options& o, std::string_view caller) {
  check(o, caller);
  const spectrogram_options& f = frames_of(o);
  if (signal.shape().rank != 2)
    refuse(caller, text() << "signals [B, L] are expected, not " << signal.shape(), error_kind::shape);
  const borders b(f);
  const value padded = b.before + b.after > 0 ? value(pad(signal, {1, b.before, b.after})) : signal;
  const value window = signal.owner().constant(window_row(f)[0]);
  return levels(stft(padded, window, {.step = f.step}), o);
}

}  // namespace

matrix<float> mel_filters(const mel_options& o) {
  check(o, "mel_filters");
  const auto mel = [&](double hertz) {
    if (o.scale == mel_scale::htk) return 2595 * std::log10(1 + hertz / 700);
    return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
  };
  const auto hertz = [&](double m) {
    if (o.scale == mel_scale::htk) return 700 * (std::pow(10., m / 2595) - 1);
    return m < 15 ? m * 200 / 3 : 1000 * std::exp((m - 15) * std::log(6.4) / 27);
  };
  const std::int64_t bins = o.frames.length / 2 + 1;
  const double first = mel(o.low), last = mel(high_of(o));
  const auto edge = [&](std::int64_t i) {
    return hertz(first + (last - first) * static_cast<double>(i) / static_cast<double>(o.bands + 1));
  };
  matrix<float> weights(bins, o.bands);
  auto out = weights.writable();
  for (std::int64_t b = 0; b < o.bands; ++b) {
    const double low = edge(b), center = edge(b + 1), high = edge(b + 2), height = o.normalized ? 2 / (high - low) : 1;
    for (std::int64_t k = 0; k < bins; ++k) {
      const double f = static_cast<double>(k) * static_cast<double>(o.rate) / static_cast<double>(o.frames.length);
      const double rise = (f - low) / (center - low), fall = (high - f) / (high - center);
      out[static_cast<std::size_t>(k * o.bands + b)] = static_cast<float>(height * std::max(0., std::min(rise, fall)));
    }
  }
  return weights;
}

matrix<float> cosine_transform(std::int64_t from, std::int64_t to) {
  if (from < 1 || to < 1 || to > from || from > 4096)
    refuse("cosine_transform",
           text() << "from " << from << " numbers to " << to << "; expected 1 to 4096, `to` at most `from`");
  matrix<float> m(from, to);
  auto out = m.writable();
  for (std::int64_t i = 0; i < from; ++i)
    for (std::int64_t k = 0; k < to; ++k) {
      const double angle = pi * static_cast<double>(k * (2 * i + 1)) / static_cast<double>(2 * from),
                   scale = std::sqrt((k == 0 ? 1 : 2) / static_cast<double>(from));
      out[static_cast<std::size_t>(i * to + k)] = static_cast<float>(scale * std::cos(angle));
    }
  return m;
}

value spectrogram(const value& signal, const spectrogram_options& o) { return features_of(signal, o, "spectrogram"); }
value mel_spectrogram(const value& signal, const mel_options& o) { return features_of(signal, o, "mel_spectrogram"); }
value mfcc(const value& signal, const mfcc_options& o) { return features_of(signal, o, "mfcc"); }

// ---- waveforms ------------------------------------------------------------------------------------------------------

// Cuts the frames itself, so that one program with a symbolic number of frames serves signals of any length.
struct audio_features::implementation {
  spectrogram_options frames;
  std::int64_t rate = 0;  // 0: any
  std::shared_ptr<const program> of;
  std::mutex lock;
  std::vector<session> idle;  // checked out by one thread at a time

  session take() {
    const std::scoped_lock held(lock);
    if (idle.empty()) return session(of);
    session s = std::move(idle.back());
    idle.pop_back();
    return s;
  }
  void give_back(session s) {
    const std::scoped_lock held(lock);
    idle.push_back(std::move(s));
  }
  template <class Options> static std::shared_ptr<implementation> make(const Options& o) {
    check(o, "audio_features");
    auto made = std::make_shared<implementation>();
    made->frames = frames_of(o);
    const auto p = std::make_shared<program>();
    const value in = p->input("frames", {dtype::float32, shape{1, dyn, made->frames.length}});
    const value windowed = in * p->constant(window_row(made->frames));
    const value transform = dft(unsqueeze(windowed, axes{3}), {.axis = 2, .onesided = true});
    p->output("features", levels(transform, o));
    made->of = p;
    return made;
  }
};

audio_features::audio_features(const spectrogram_options& o) : impl_(implementation::make(o)) {}
audio_features::audio_features(const mel_options& o) : impl_(implementation::make(o)) { impl_->rate = o.rate; }
audio_features::audio_features(const mfcc_options& o) : impl_(implementation::make(o)) { impl_->rate = o.mel.rate; }

matrix<float> audio_features::operator()(const waveform& w) const {
  constexpr std::string_view caller = "audio_features";
  const spectrogram_options& f = impl_->frames;
  if (w.channels() != 1)
    refuse(caller, text() << "expected a waveform of one channel; got " << w.channels() << "; to_mono makes one",
           error_kind::shape);
  if (impl_->rate && w.rate != impl_->rate)
    refuse(caller, text() << "expected a rate of " << impl_->rate << "; got " << w.rate << "; resample changes it");
  const borders b(f);
  const std::int64_t samples = w.frames(), padded = samples + b.before + b.after;
  if (padded < f.length)
    refuse(caller, text() << samples << " samples are less than a frame of " << window_of(f), error_kind::shape);
  const std::int64_t count = 1 + (padded - f.length) / f.step;
  any_tensor cut(tensor_type{dtype::float32, {1, count, f.length}});
  float* const out = reinterpret_cast<float*>(cut.mutable_data());
  const auto in = w.samples.data();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < f.length; ++k) {
      const std::int64_t at = i * f.step + k - b.before;
      out[i * f.length + k] = at >= 0 && at < samples ? in[static_cast<std::size_t>(at)] : 0;
    }
  session s = impl_->take();
  const std::vector<any_tensor> made = s.run(view<const any_tensor>(&cut, 1));
  impl_->give_back(std::move(s));
  return made[0].as<float, extents<dyn, dyn, dyn>>()[0];
}

}  // namespace lamina
