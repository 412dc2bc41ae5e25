module lamina:data.augment.impl;
import :core;
import :data.augment;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::augment {

namespace {

enum class stream : std::int64_t { crop, flip, rotation, cutout, jitter, mixup, cutmix };

// Four random words for a position, from a stream distinct from those of operations and shuffles.
philox::words words_at(const position& at, stream s) {
  const std::int64_t site = 0xff000000 + at.site * 16 + static_cast<std::int64_t>(s);
  return philox(at.seed, site, at.epoch).block(static_cast<std::uint64_t>(at.index));
}
double unit(std::uint32_t word) { return static_cast<double>(word) * 0x1p-32; }
// A number in 0..n-1.
std::int64_t below(std::uint32_t word, std::int64_t n) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(word) * static_cast<std::uint64_t>(n) >> 32);
}

void check_range(std::string_view caller, std::string_view option, double value, double least, double max) {
  if (value >= least && value <= max) return;
  text t;
  t << "augment::" << caller << ": " << option << " is " << value << "; expected ";
  if (max > 1e9) t << "at least " << least;
  else t << least << " to " << max;
  detail::raise(error_kind::value, t);
}

template <class T> T stored(float v) {
  if constexpr (std::same_as<T, float>) return v;
  else return static_cast<T>(std::lround(std::clamp(v, 0.f, 255.f)));
}

struct pixels_of {
  std::int64_t channels, height, width;
  explicit pixels_of(const shape& s) : channels(s.at(0)), height(s.at(1)), width(s.at(2)) {}
};

// Applies f(plane, out) to each channel of a new image [channels x height x width].
template <class T, class F>
picture_tensor<T> by_channel(const picture_tensor<T>& x, std::int64_t height, std::int64_t width, F&& f) {
  const pixels_of p(x.shape());
  auto out = picture_tensor<T>::uninitialized({dim(p.channels), dim(height), dim(width)});
  const T* from = x.data().data();
  T* to = out.writable().data();
  for (std::int64_t c = 0; c < p.channels; ++c) f(from + c * p.height * p.width, to + c * height * width);
  return out;
}

// The crop at (top, left) of the image, which may be negative.
template <class T> picture_tensor<T> part(const picture_tensor<T>& x, std::int64_t height, std::int64_t width,
                                          std::int64_t top, std::int64_t left) {
  const pixels_of p(x.shape());
  return by_channel(x, height, width, [&](const T* from, T* to) {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t y = top + i, z = left + j;
        const bool inside = y >= 0 && y < p.height && z >= 0 && z < p.width;
        to[i * width + j] = inside ? from[y * p.width + z] : T(0);
      }
  });
}
// Number of crop positions along each axis.
std::pair<std::int64_t, std::int64_t> places(std::string_view caller, const shape& s, const crop_options& o) {
  constexpr double max = 1e18;
  check_range(caller, "height", static_cast<double>(o.height), 1, max);
  check_range(caller, "width", static_cast<double>(o.width), 1, max);
  check_range(caller, "padding", static_cast<double>(o.padding), 0, 1e9);
  const std::int64_t rows = s.at(1) + 2 * o.padding - o.height + 1, columns = s.at(2) + 2 * o.padding - o.width + 1;
  if (rows < 1 || columns < 1) {
    text t;
    t << "augment::" << caller << ": crop " << o.height << "x" << o.width << " of image " << s << " with padding "
      << o.padding << "; expected a crop within the padded image";
    detail::raise(error_kind::shape, t);
  }
  return {rows, columns};
}

// Bilinear sample of a plane; zero outside.
template <class T> float between(const T* plane, const pixels_of& p, double y, double x) {
  const double top = std::floor(y), left = std::floor(x);
  const double fy = y - top, fx = x - left;
  double sum = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const double row = top + i, column = left + j;
      if (row < 0 || column < 0 || row >= static_cast<double>(p.height) || column >= static_cast<double>(p.width))
        continue;
      const auto at = static_cast<std::int64_t>(row) * p.width + static_cast<std::int64_t>(column);
      sum += (i ? fy : 1 - fy) * (j ? fx : 1 - fx) * static_cast<double>(plane[at]);
    }
  return static_cast<float>(sum);
}

void check_batch(std::string_view caller, const mixed_batch& b) {
  if (b.images.extent(0) == b.targets.extent(0)) return;
  text t;
  t << "augment::" << caller << ": images " << b.images.shape() << " and targets " << b.targets.shape()
    << "; expected equal numbers of rows";
  detail::raise(error_kind::shape, t);
}
std::vector<std::int64_t> partners(const mixed_batch& b, const position& at, stream s) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(b.images.extent(0)));
  std::iota(order.begin(), order.end(), std::int64_t(0));
  const auto w = words_at(at, s);
  shuffle(view<std::int64_t>(order), philox(static_cast<std::int64_t>(static_cast<std::uint64_t>(w[3]) << 32 | w[2])));
  return order;
}
// Row i becomes share * row i + (1 - share) * row order[i].
template <class X> X mixed_rows(const X& x, view<const std::int64_t> order, float share) {
  X out = X::uninitialized(x.shape());
  const std::int64_t step = x.shape().size(1, x.shape().rank);
  const float* from = x.data().data();
  float* to = out.writable().data();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const float *a = from + static_cast<std::int64_t>(i) * step, *b = from + order[i] * step;
    for (std::int64_t k = 0; k < step; ++k) *to++ = share * a[k] + (1 - share) * b[k];
  }
  return out;
}

}  // namespace

template <class T> picture_tensor<T> center_crop(const picture_tensor<T>& x, const crop_options& o) {
  const auto [rows, columns] = places("center_crop", x.shape(), o);
  return part(x, o.height, o.width, (rows - 1) / 2 - o.padding, (columns - 1) / 2 - o.padding);
}
template <class T>
picture_tensor<T> random_crop(const picture_tensor<T>& x, const crop_options& o, const position& at) {
  const auto [rows, columns] = places("random_crop", x.shape(), o);
  const auto w = words_at(at, stream::crop);
  return part(x, o.height, o.width, below(w[0], rows) - o.padding, below(w[1], columns) - o.padding);
}

template <class T> picture_tensor<T> flip_horizontal(const picture_tensor<T>& x) {
  const pixels_of p(x.shape());
  return by_channel(x, p.height, p.width, [&](const T* from, T* to) {
    for (std::int64_t i = 0; i < p.height; ++i)
      for (std::int64_t j = 0; j < p.width; ++j) to[i * p.width + j] = from[i * p.width + p.width - 1 - j];
  });
}
template <class T> picture_tensor<T> flip_vertical(const picture_tensor<T>& x) {
  const pixels_of p(x.shape());
  return by_channel(x, p.height, p.width, [&](const T* from, T* to) {
    for (std::int64_t i = 0; i < p.height; ++i)
      for (std::int64_t j = 0; j < p.width; ++j) to[i * p.width + j] = from[(p.height - 1 - i) * p.width + j];
  });
}
template <class T> picture_tensor<T> random_flip(const picture_tensor<T>& x, const position& at, double probability) {
  check_range("random_flip", "probability", probability, 0, 1);
  return unit(words_at(at, stream::flip)[0]) < probability ? flip_horizontal(x) : x;
}

template <class T> picture_tensor<T> rotate(const picture_tensor<T>& x, double degrees) {
  check_range("rotate", "degrees", degrees, -1e6, 1e6);
  const pixels_of p(x.shape());
  // Multiples of 90 degrees are exact.
  const double quarters = std::fmod(degrees, 360.0) / 90;
  const bool quarter = quarters == std::nearbyint(quarters);
  const double angle = quarters * 1.57079632679489661923;
  const double s = quarter ? std::nearbyint(std::sin(angle)) : std::sin(angle);
  const double c = quarter ? std::nearbyint(std::cos(angle)) : std::cos(angle);
  const double middle_y = static_cast<double>(p.height - 1) / 2, middle_x = static_cast<double>(p.width - 1) / 2;
  return by_channel(x, p.height, p.width, [&](const T* from, T* to) {
    for (std::int64_t i = 0; i < p.height; ++i)
      for (std::int64_t j = 0; j < p.width; ++j) {
        const double dy = static_cast<double>(i) - middle_y, dx = static_cast<double>(j) - middle_x;
        to[i * p.width + j] = stored<T>(between(from, p, middle_y + s * dx + c * dy, middle_x + c * dx - s * dy));
      }
  });
}
template <class T> picture_tensor<T> random_rotation(const picture_tensor<T>& x, double degrees, const position& at) {
  return rotate(x, (2 * unit(words_at(at, stream::rotation)[0]) - 1) * degrees);
}

template <class T> picture_tensor<T> resize(const picture_tensor<T>& x, std::int64_t height, std::int64_t width) {
  check_range("resize", "height", static_cast<double>(height), 1, 1e18);
  check_range("resize", "width", static_cast<double>(width), 1, 1e18);
  const pixels_of p(x.shape());
  if (p.height < 1 || p.width < 1) {
    text t;
    t << "augment::resize: the picture is " << x.shape() << "; expected at least one pixel";
    detail::raise(error_kind::shape, t);
  }
  const auto source = [](std::int64_t i, std::int64_t n, std::int64_t made) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(n) / static_cast<double>(made) - 0.5;
    return std::clamp(at, 0.0, static_cast<double>(n - 1));
  };
  return by_channel(x, height, width, [&](const T* from, T* to) {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        to[i * width + j] = stored<T>(between(from, p, source(i, p.height, height), source(j, p.width, width)));
  });
}

template <class T> picture_tensor<T> cutout(const picture_tensor<T>& x, std::int64_t size, const position& at) {
  check_range("cutout", "size", static_cast<double>(size), 0, 1e18);
  const pixels_of p(x.shape());
  picture_tensor<T> out = x.copy();
  const auto w = words_at(at, stream::cutout);
  const std::int64_t top = below(w[0], p.height) - size / 2, left = below(w[1], p.width) - size / 2;
  T* to = out.writable().data();
  for (std::int64_t c = 0; c < p.channels; ++c)
    for (std::int64_t i = std::max<std::int64_t>(top, 0); i < std::min(top + size, p.height); ++i)
      for (std::int64_t j = std::max<std::int64_t>(left, 0); j < std::min(left + size, p.width); ++j)
        to[(c * p.height + i) * p.width + j] = T(0);
  return out;
}

template <class T>
picture_tensor<T> color_jitter(const picture_tensor<T>& x, const jitter_options& o, const position& at) {
  check_range("color_jitter", "brightness", static_cast<double>(o.brightness), 0, 1);
  check_range("color_jitter", "contrast", static_cast<double>(o.contrast), 0, 1);
  check_range("color_jitter", "saturation", static_cast<double>(o.saturation), 0, 1);
  const pixels_of p(x.shape());
  const std::int64_t n = p.height * p.width;
  const auto w = words_at(at, stream::jitter);
  const auto factor = [&](std::size_t i, float strength) {
    return static_cast<float>(1 + (2 * unit(w[i]) - 1) * static_cast<double>(strength));
  };
  const float b = factor(0, o.brightness), c = factor(1, o.contrast), s = factor(2, o.saturation);
  const auto kept = [](float v) { return std::clamp(v, 0.f, std::same_as<T, float> ? 1.f : 255.f); };
  std::vector<float> all(static_cast<std::size_t>(p.channels * n));
  const T* from = x.data().data();
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kept(static_cast<float>(from[i]) * b);
  const auto luminance = [&](std::int64_t i) {
    const auto value = [&](std::int64_t channel) { return all[static_cast<std::size_t>(channel * n + i)]; };
    if (p.channels == 3) return 0.299f * value(0) + 0.587f * value(1) + 0.114f * value(2);
    float sum = 0;
    for (std::int64_t k = 0; k < p.channels; ++k) sum += value(k);
    return sum / static_cast<float>(std::max<std::int64_t>(p.channels, 1));
  };
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(luminance(i));
  const auto mean = static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(n, 1)));
  for (auto& v : all) v = kept(mean + c * (v - mean));
  if (p.channels == 3)
    for (std::int64_t i = 0; i < n; ++i) {
      const float l = luminance(i);
      for (std::int64_t k = 0; k < 3; ++k) {
        float& v = all[static_cast<std::size_t>(k * n + i)];
        v = kept(l + s * (v - l));
      }
    }
  auto out = picture_tensor<T>::uninitialized(x.shape());
  T* to = out.writable().data();
  for (std::size_t i = 0; i < all.size(); ++i) to[i] = stored<T>(all[i]);
  return out;
}

picture_tensor<float> normalize(const picture_tensor<float>& x, view<const float> mean, view<const float> deviation) {
  const pixels_of p(x.shape());
  const auto channels = static_cast<std::size_t>(p.channels);
  if (mean.size() != channels || deviation.size() != channels) {
    text t;
    t << "augment::normalize: " << mean.size() << " means and " << deviation.size() << " deviations for a picture "
      << x.shape() << "; expected one of each per channel";
    detail::raise(error_kind::shape, t);
  }
  for (float d : deviation)
    if (!(d > 0))
      check_range("normalize", "a deviation", static_cast<double>(d), std::numeric_limits<double>::min(), 1e18);
  std::size_t channel = 0;
  return by_channel(x, p.height, p.width, [&](const float* from, float* to) {
    for (std::int64_t i = 0; i < p.height * p.width; ++i) to[i] = (from[i] - mean[channel]) / deviation[channel];
    ++channel;
  });
}

mixed_batch mixup(const mixed_batch& b, const position& at) {
  check_batch("mixup", b);
  const auto order = partners(b, at, stream::mixup);
  const auto share = static_cast<float>(unit(words_at(at, stream::mixup)[0]));
  return {mixed_rows(b.images, order, share), mixed_rows(b.targets, order, share)};
}

mixed_batch cutmix(const mixed_batch& b, const position& at) {
  check_batch("cutmix", b);
  const auto order = partners(b, at, stream::cutmix);
  const auto w = words_at(at, stream::cutmix);
  const shape& s = b.images.shape();
  const std::int64_t height = s.at(2), width = s.at(3);
  const auto center = philox(static_cast<std::int64_t>(w[1])).block(0);
  const double side = std::sqrt(1 - unit(w[0]));
  const auto rows = static_cast<std::int64_t>(side * static_cast<double>(height));
  const auto columns = static_cast<std::int64_t>(side * static_cast<double>(width));
  const std::int64_t middle_y = below(center[0], height), middle_x = below(center[1], width);
  const std::int64_t top = std::clamp<std::int64_t>(middle_y - rows / 2, 0, height),
                     bottom = std::clamp<std::int64_t>(middle_y - rows / 2 + rows, 0, height),
                     left = std::clamp<std::int64_t>(middle_x - columns / 2, 0, width),
                     right = std::clamp<std::int64_t>(middle_x - columns / 2 + columns, 0, width);
  auto images = b.images.copy();
  const float* from = b.images.data().data();
  float* to = images.writable().data();
  for (std::int64_t i = 0; i < s.at(0); ++i)
    for (std::int64_t c = 0; c < s.at(1); ++c)
      for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = left; x < right; ++x) {
          const auto place = [&](std::int64_t sample) { return ((sample * s.at(1) + c) * height + y) * width + x; };
          to[place(i)] = from[place(order[static_cast<std::size_t>(i)])];
        }
  const double cut = static_cast<double>((bottom - top) * (right - left));
  const auto share = static_cast<float>(1 - cut / static_cast<double>(std::max<std::int64_t>(height * width, 1)));
  return {images, mixed_rows(b.targets, order, share)};
}

#define LAMINA_AUGMENT(T)                                                                                    \
  template picture_tensor<T> center_crop<T>(const picture_tensor<T>&, const crop_options&);                  \
  template picture_tensor<T> random_crop<T>(const picture_tensor<T>&, const crop_options&, const position&); \
  template picture_tensor<T> flip_horizontal<T>(const picture_tensor<T>&);                                   \
  template picture_tensor<T> flip_vertical<T>(const picture_tensor<T>&);                                     \
  template picture_tensor<T> random_flip<T>(const picture_tensor<T>&, const position&, double);              \
  template picture_tensor<T> rotate<T>(const picture_tensor<T>&, double);                                    \
  template picture_tensor<T> random_rotation<T>(const picture_tensor<T>&, double, const position&);          \
  template picture_tensor<T> resize<T>(const picture_tensor<T>&, std::int64_t, std::int64_t);                \
  template picture_tensor<T> cutout<T>(const picture_tensor<T>&, std::int64_t, const position&);             \
  template picture_tensor<T> color_jitter<T>(const picture_tensor<T>&, const jitter_options&, const position&);
LAMINA_AUGMENT(float)
LAMINA_AUGMENT(std::uint8_t)
#undef LAMINA_AUGMENT

}  // namespace lamina::augment
