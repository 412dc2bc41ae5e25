module lamina:initializer.impl;
import :core;
import :dtype;
import :initializer;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

[[noreturn]] void refuse(std::string_view name, auto&&... parts) {
  text t;
  t << "parameter `" << name << "`: ";
  ((t << parts), ...);
  detail::raise(error_kind::value, t);
}
void check_range(std::string_view name, std::string_view what, double low, double high) {
  if (!(low < high)) refuse(name, what, " needs low below high but has ", low, " and ", high);
}
void check_positive(std::string_view name, std::string_view what, std::string_view quantity, double v) {
  if (!(v > 0)) refuse(name, what, " needs a positive ", quantity, " but has ", v);
}

/// Standard normal cumulative distribution function, without loss of precision below 0.
double below(double z) { return 0.5 * std::erfc(-z * 0.70710678118654752); }

/// Quantile of a standard normal distribution truncated to [low, high], at probability u.
double between(double low, double high, double u) {
  if (low > 0) return -between(-high, -low, 1 - u);  // the lower tail has higher precision
  const double first = below(low), p = first + u * (below(high) - first);
  double l = low, h = high;
  for (int i = 0; i < 60 && l < h; ++i) {
    const double middle = 0.5 * (l + h);
    if (middle <= l || middle >= h) break;
    (below(middle) < p ? l : h) = middle;
  }
  return 0.5 * (l + h);
}

/// Standard deviation of a standard normal distribution truncated at two deviations.
constexpr double cut_deviation = 0.87962566103423978;

/// A matrix with orthonormal columns, rows >= columns: the Q of a random normal matrix by Householder reflections, with
/// signs that make R's diagonal positive.
std::vector<double> orthogonal_columns(std::size_t rows, std::size_t columns, const philox& stream) {
  std::vector<double> a(rows * columns), q(rows * columns), sign(columns, 1);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = stream.normal<double>(i);
  // Reflections are stored column by column below the diagonal of `a`, their first elements in `head`.
  std::vector<double> head(columns);
  auto reflect = [&](std::vector<double>& m, std::size_t k, std::size_t from) {
    for (std::size_t c = from; c < columns; ++c) {
      double dot = head[k] * m[k * columns + c];
      for (std::size_t r = k + 1; r < rows; ++r) dot += a[r * columns + k] * m[r * columns + c];
      m[k * columns + c] -= 2 * dot * head[k];
      for (std::size_t r = k + 1; r < rows; ++r) m[r * columns + c] -= 2 * dot * a[r * columns + k];
    }
  };
  for (std::size_t k = 0; k < columns; ++k) {
    double length = 0;
    for (std::size_t r = k; r < rows; ++r) length += a[r * columns + k] * a[r * columns + k];
    length = std::sqrt(length);
    const double top = a[k * columns + k], to = top > 0 ? -length : length;
    sign[k] = to < 0 ? -1 : 1;
    head[k] = top - to;
    double norm = head[k] * head[k];
    for (std::size_t r = k + 1; r < rows; ++r) norm += a[r * columns + k] * a[r * columns + k];
    const double scale = norm > 0 ? 1 / std::sqrt(norm) : 0;
    head[k] *= scale;
    for (std::size_t r = k + 1; r < rows; ++r) a[r * columns + k] *= scale;
    reflect(a, k, k + 1);
  }
  for (std::size_t c = 0; c < columns; ++c) q[c * columns + c] = 1;
  for (std::size_t k = columns; k-- > 0;) reflect(q, k, 0);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) q[r * columns + c] *= sign[c];
  return q;
}

/// Value of element i, for every kind but orthogonal.
struct random_values {
  initializer how;
  philox stream;
  double operator()(std::uint64_t i) const {
    switch (how.how) {
      case initializer::kind::uniform: return how.a + (how.b - how.a) * stream.uniform<double>(i);
      case initializer::kind::normal: return how.a + how.b * stream.normal<double>(i);
      case initializer::kind::truncated_normal:
        return how.a +
               how.b * between((how.low - how.a) / how.b, (how.high - how.a) / how.b, stream.uniform<double>(i));
      default: return how.a;
    }
  }
};

/// Converts a scaled variance to a distribution for this shape.
initializer scaled(std::string_view name, const initializer& how, const shape& s) {
  check_positive(name, "variance_scaling", "scale", how.a);
  const fans f = fans_of(s, how.layout);
  const double fan = how.mode == fan_mode::in ? f.in : how.mode == fan_mode::out ? f.out : 0.5 * (f.in + f.out);
  const double variance = how.a / std::max(fan, 1.0), deviation = std::sqrt(variance), limit = std::sqrt(3 * variance);
  switch (how.distribution) {
    case fan_distribution::uniform: return initializer::uniform(-limit, limit);
    case fan_distribution::truncated: return initializer::truncated_normal(0, deviation / cut_deviation);
    default: return initializer::normal(0, deviation);
  }
}

void check(std::string_view name, const initializer& how, const tensor_type& type) {
  using kind = initializer::kind;
  if (how.how == kind::uniform) check_range(name, "uniform", how.a, how.b);
  if (how.how == kind::normal) check_positive(name, "normal", "deviation", how.b);
  if (how.how == kind::truncated_normal) {
    check_positive(name, "truncated_normal", "deviation", how.b);
    check_range(name, "truncated_normal", how.low, how.high);
  }
  if (how.how == kind::orthogonal) {
    check_positive(name, "orthogonal", "gain", how.a);
    if (type.dims.rank < 2) refuse(name, "orthogonal needs a rank of at least 2 but has the shape ", type.dims);
  }
  if (how.how == kind::constant)
    with_type(type.element, [&]<class T>() {
      T as_it_is{};
      if (!detail::to_element(how.a, as_it_is)) refuse(name, "the number ", how.a, " does not fit ", type.element);
    });
  if (how.how == kind::constant || (how.how == kind::uniform && type.element != dtype::boolean) ||
      is_floating(type.element))
    return;
  text t;
  t << "parameter `" << name << "` of " << type.element << " takes constant or uniform initializers only";
  detail::raise(error_kind::type, t);
}

template <class T> T as(double v) {
  if constexpr (is_small_integer<T>) return T(static_cast<int>(std::floor(v)));
  else if constexpr (std::is_class_v<T>) return T(static_cast<float>(v));
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(std::floor(v));
  else return static_cast<T>(v);
}

}  // namespace

void fill(any_tensor& out, const initializer& how, std::int64_t seed, std::string_view name) {
  const shape& s = out.shape();
  check(name, how, out.type());
  if (!out.memory().unique()) detail::write_refused(s, out.memory());
  // The name selects a parameter's stream, so adding another parameter changes no bits.
  std::uint64_t site = 1469598103934665603u;
  for (char c : name) site = (site ^ static_cast<unsigned char>(c)) * 1099511628211u;
  const philox stream(seed, static_cast<std::int64_t>(site & 0x7fffffffu));
  with_type(out.element(), [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      if (s.size() > 0) std::memset(out.mutable_data(), how.a != 0, static_cast<std::size_t>(s.size()));
    } else {
      auto* to = reinterpret_cast<T*>(out.mutable_data());
      const auto n = static_cast<std::size_t>(s.size());
      if (how.how == initializer::kind::orthogonal) {
        if (n == 0) return;
        const auto rows = static_cast<std::size_t>(s.at(0)), columns = n / rows;
        const bool wide = rows < columns;
        const auto q = wide ? orthogonal_columns(columns, rows, stream) : orthogonal_columns(rows, columns, stream);
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t c = 0; c < columns; ++c)
            to[r * columns + c] = as<T>(how.a * (wide ? q[c * rows + r] : q[r * columns + c]));
        return;
      }
      const random_values from{how.how == initializer::kind::variance_scaling ? scaled(name, how, s) : how, stream};
      for (std::size_t i = 0; i < n; ++i) to[i] = as<T>(from(i));
    }
  });
}

}  // namespace lamina
