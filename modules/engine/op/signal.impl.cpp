module lamina:op.signal.impl;
import :core;
import :dtype;
import :op;
import :op.computed_shape;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.linear;
import :op.shape;
import :op.signal;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using namespace detail;

namespace {

constexpr std::int64_t longest = 1 << 14;  // maximum length of a transform: its matrix has the square
constexpr double pi = 3.14159265358979323846;

std::int64_t known_extent(std::string_view function, const value& x, int axis) {
  const dim n = x.shape()[axis];
  if (n.is_number()) return n.code;
  text t;
  raise(error_kind::shape,
        t << function << ": the extent of axis " << axis << " must be known; give a number or a length");
}
// cos and sin of 2 pi k / n.
struct root_of_unity {
  double cosine, sine;
  root_of_unity(std::int64_t k, std::int64_t n) {
    const double angle = 2 * pi * static_cast<double>(k % n) / static_cast<double>(n);
    cosine = std::cos(angle);
    sine = std::sin(angle);
  }
};
// The matrix [given * parts, wanted * results] that transforms `given` numbers of `parts` components.
std::vector<double> matrix_of(const dft_attributes& a, std::int64_t n, std::int64_t given, int parts,
                              std::int64_t coefficients, int results) {
  std::vector<double> m(static_cast<std::size_t>(given * parts * coefficients * results));
  const bool half = a.inverse && a.onesided;
  const double by = a.inverse ? 1. / static_cast<double>(n) : 1.;
  for (std::int64_t t = 0; t < given; ++t)
    for (std::int64_t k = 0; k < coefficients; ++k) {
      const root_of_unity angle(t * k, n);
      const double sine = a.inverse ? -angle.sine : angle.sine;
      const double both = half && t > 0 && 2 * t != n ? 2 : 1;  // counts the conjugate as well
      const auto at = [&](int part, int result) -> double& {
        return m[static_cast<std::size_t>(((t * parts + part) * coefficients + k) * results + result)];
      };
      at(0, 0) = by * both * angle.cosine;
      if (results == 2) at(0, 1) = -by * sine;
      if (parts == 2) {
        at(1, 0) = by * both * sine;
        if (results == 2) at(1, 1) = by * angle.cosine;
      }
    }
  return m;
}

value window_of(const value& size, bool periodic, dtype element, const std::function<value(const value&)>& f) {
  program& p = size.owner();
  const value n = reshape(converted(size, dtype::int64), lamina::shape{});
  const value at = arange(p.number(std::int64_t(0), dtype::int64), n, p.number(std::int64_t(1), dtype::int64));
  const value whole = max(periodic ? n : value(n - 1), 1);
  return converted(f(converted(at, dtype::float64) * (2 * pi) / converted(whole, dtype::float64)), element);
}

}  // namespace

value dft(const value& x, dft_attributes a, const origin&) {
  const auto& s = x.shape();
  if (!is_real(x.type().element)) {
    text t;
    raise(error_kind::type, t << "dft: float32 or float64 is expected, not " << x.type());
  }
  const int rank = s.rank, axis = axis_of("dft", a.axis, s);
  if (axis == rank - 1 || (s.back() != dim(1) && s.back() != dim(2))) {
    text t;
    raise(error_kind::shape,
          t << "dft: expected a last axis of 1 (real) or 2 (complex), and another axis to transform, not " << s);
  }
  const bool half = a.inverse && a.onesided;
  const int parts = static_cast<int>(s.back().code), results = half ? 1 : 2;
  const std::int64_t given = known_extent("dft", x, axis);
  const std::int64_t n = a.length ? *a.length : half ? 2 * (given - 1) : given;
  if (n < 1 || n > longest) {
    text t;
    raise(error_kind::value, t << "dft: a length of " << n << " is outside 1.." << longest);
  }
  value rows = with_axis_moved(x, axis, rank - 2);
  const std::int64_t used = std::min(given, half ? n / 2 + 1 : n);  // the others would be multiplied by zeros
  if (used < given) rows = slice(rows, slice_attributes{0, used, rank - 2, 1});
  const std::int64_t coefficients = a.onesided && !a.inverse ? n / 2 + 1 : n;
  const value matrix = constant_list(x.owner(), x.type().element, matrix_of(a, n, used, parts, coefficients, results),
                                     {dim(used * parts), dim(coefficients * results)});
  std::vector<int> together(static_cast<std::size_t>(rank - 2), 1);
  together.push_back(2);
  const bool single = rank == 2;
  value flat = merged(rows, together);
  if (single) flat = unsqueeze(flat, axes(0));
  value y = matmul(flat, matrix);
  if (single) y = squeeze(y, axes(0));
  std::vector<extent_value> to;
  for (int i = 0; i < rank - 2; ++i) to.push_back(extent_of(y, i));
  to.push_back(known_extent(coefficients));
  to.push_back(known_extent(results));
  return with_axis_moved(reshaped(y, to), rank - 2, axis);
}

value stft(const value& signal, const std::optional<value>& window, stft_attributes a, const origin&) {
  const value x = signal.shape().rank == 2 ? value(unsqueeze(signal, axes(2))) : signal;
  text t;
  if (x.shape().rank != 3)
    raise(error_kind::shape, t << "stft: signals [B, L] or [B, L, 1 or 2] are expected, not " << signal.shape());
  const std::int64_t length = known_extent("stft", x, 1), n = window     ? known_extent("stft", *window, 0)
                                                              : a.length ? *a.length
                                                                         : length;
  if (n < 1 || n > length)
    raise(error_kind::shape, t << "stft: frames of " << n << " positions do not fit a signal of " << length);
  if (a.step < 1) raise(error_kind::value, t << "stft: a step of " << a.step << " is below 1");
  const std::int64_t frames = 1 + (length - n) / a.step;
  std::vector<std::int64_t> at;
  for (std::int64_t f = 0; f < frames; ++f)
    for (std::int64_t i = 0; i < n; ++i) at.push_back(f * a.step + i);
  value cut = gather(x, constant_list(x.owner(), dtype::int64, at, {dim(frames), dim(n)}), 1);
  if (window) cut = cut * unsqueeze(converted(*window, x.type().element), axes(1));
  return dft(cut, {.axis = 2, .onesided = a.onesided});
}

value hann_window(const value& size, bool periodic, dtype element, const origin&) {
  return window_of(size, periodic, element, [](const value& phase) { return value(square(sin(phase * 0.5))); });
}
value hamming_window(const value& size, bool periodic, dtype element, const origin&) {
  constexpr double alpha = 25. / 46;
  return window_of(size, periodic, element, [](const value& phase) { return value(alpha - cos(phase) * (1 - alpha)); });
}
value blackman_window(const value& size, bool periodic, dtype element, const origin&) {
  return window_of(size, periodic, element,
                   [](const value& phase) { return value(cos(phase) * -0.5 + cos(phase * 2) * 0.08 + 0.42); });
}

namespace {
bool makes_bands(const mel_attributes& a) {
  constexpr std::int64_t max = 1 << 20;
  return a.bands >= 1 && a.bands <= max && a.length >= 1 && a.length <= max && a.rate >= 1 && a.low >= 0 &&
         a.low <= a.high && a.high < 1e12 && (a.length / 2 + 1) * a.bands <= (std::int64_t(1) << 28);
}
}  // namespace
any_tensor mel_weight_matrix(mel_attributes a, dtype element) {
  text t;
  if (!makes_bands(a))
    raise(error_kind::value, t << "mel_weight_matrix: " << a.bands << " bands of transforms of " << a.length
                               << " samples at " << a.rate << " Hz from " << a.low << " to " << a.high
                               << " Hz are not possible");
  const std::int64_t bins = a.length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.); };
  const double from = mel(a.low), step = (mel(a.high) - from) / static_cast<double>(a.bands + 2);
  const auto bin = [&](std::int64_t i) {
    const double hertz = 700 * std::expm1((static_cast<double>(i) * step + from) / 2595 * std::log(10.));
    return static_cast<std::int64_t>(
        std::floor(static_cast<double>(a.length + 1) * hertz / static_cast<double>(a.rate)));
  };
  std::vector<double> weights(static_cast<std::size_t>(bins * a.bands));
  for (std::int64_t i = 0; i < a.bands; ++i) {
    const std::int64_t low = bin(i), center = bin(i + 1), high = bin(i + 2);
    const auto set = [&](std::int64_t j, double v) {
      if (j < bins) weights[static_cast<std::size_t>(j * a.bands + i)] = v;
    };
    if (low == center) set(center, 1);
    else
      for (std::int64_t j = low; j <= center && j < bins; ++j)
        set(j, static_cast<double>(j - low) / static_cast<double>(center - low));
    for (std::int64_t j = center; j < high && j < bins; ++j)
      set(j, static_cast<double>(high - j) / static_cast<double>(high - center));
  }
  any_tensor m(tensor_type{element, {dim(bins), dim(a.bands)}});
  with_type(element, [&]<class T>() {
    T* to = reinterpret_cast<T*>(m.mutable_data());
    for (std::size_t i = 0; i < weights.size(); ++i) to_element(weights[i], to[i]);
  });
  return m;
}

value dft(const value& x, const value& axis, const std::optional<value>& length, computed_dft_attributes a,
          const origin&) {
  return length ? apply<op::computed_dft>(a, x, axis, *length) : apply<op::computed_dft>(a, x, axis);
}
value stft(const value& signal, const value& step, const std::optional<value>& length,
           const std::optional<value>& window, computed_stft_attributes a, const origin&) {
  const value n = length ? *length : signal.owner().number(std::int64_t(-1), dtype::int64);
  return window ? apply<op::computed_stft>(a, signal, step, n, *window) : apply<op::computed_stft>(a, signal, step, n);
}
value mel_weight_matrix(const value& bands, const value& length, const value& rate, const value& low, const value& high,
                        dtype element, const origin&) {
  return apply<op::mel_weights>({element}, bands, length, rate, low, high);
}

}  // namespace lamina

namespace lamina::op {

namespace {
bool one_number(const tensor_type& t, dtype element, inference& out) {
  if (t.element == element && (t.dims.rank == 0 || (t.dims.rank == 1 && may_equal(t.dims[0], 1)))) return true;
  out.of_elements = t.element != element;
  out.why << "one " << element << " number is expected, not " << t;
  return false;
}
std::int64_t whole(const any_tensor& t) { return t.elements<std::int64_t>()[0]; }
std::int64_t whole(const value& v) { return whole(v.owner().at(v.id()).constant); }
shape open_shape(int rank, dim last) {
  shape s;
  for (int i = 0; i < rank - 1; ++i) s.push_back(dyn);
  s.push_back(last);
  return s;
}
}  // namespace

namespace {
// Whether operands fit a transform; else records the reason.
bool are_of_dft(view<const tensor_type> in, inference& out) {
  if (in.size() < 2 || in.size() > 3) {
    out.why << "takes numbers, an axis and an optional length";
    return false;
  }
  if (!detail::takes(domain::real, in[0].element, out)) return false;
  for (std::size_t i = 1; i < in.size(); ++i)
    if (!one_number(in[i], dtype::int64, out)) return false;
  if (in[0].dims.rank < 2) out.why << "expected an axis before that of real and imaginary parts";
  return out.why.empty();
}
bool are_of_stft(view<const tensor_type> in, inference& out) {
  if (in.size() < 3 || in.size() > 4) {
    out.why << "takes signals, a step, a length and an optional window";
    return false;
  }
  const shape& x = in[0].dims;
  if (!detail::takes(domain::real, in[0].element, out) || !one_number(in[1], dtype::int64, out) ||
      !one_number(in[2], dtype::int64, out))
    return false;
  const bool signals = x.rank == 2 || (x.rank == 3 && (may_equal(x[2], 1) || may_equal(x[2], 2)));
  const bool window = in.size() < 4 || (in[3].dims.rank == 1 && detail::takes(domain::real, in[3].element, out));
  if ((!signals || !window) && out.why.empty())
    out.why << "signals [B, L] or [B, L, 1 or 2] and a window [N] are expected";
  return out.why.empty();
}
}  // namespace

void computed_dft::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!are_of_dft(in, out)) return;
  const shape& x = in[0].dims;
  const any_tensor *axis = out.elements_of(1), *length = out.elements_of(2);
  const bool known = axis && (length || in.size() == 2);
  const int at = axis ? detail::normal_axis(whole(*axis), x.rank) : 0;
  if (axis && (at < 0 || at == x.rank - 1)) {
    out.why << "axis " << whole(*axis) << " cannot be transformed";
    return;
  }
  const dim parts = x.back();
  if (!known || !x[at].is_number() || !parts.is_number())
    return out.result(in[0].element, open_shape(x.rank, a.inverse && a.onesided ? 1 : 2));
  const std::int64_t given = x.at(at), n = length ? whole(*length) : a.inverse && a.onesided ? 2 * (given - 1) : given;
  if (n < 1 || n > longest || (parts != dim(1) && parts != dim(2))) {
    out.why << "a last axis of " << parts << " and a length of " << n << " cannot be transformed";
    return;
  }
  shape s = x;
  s[at] = dim(a.onesided && !a.inverse ? n / 2 + 1 : n);
  s[x.rank - 1] = dim(a.inverse && a.onesided ? 1 : 2);
  out.result(in[0].element, s);
}
value computed_dft::bind(const attributes& a, view<const value> in) {
  dft_attributes d{.axis = whole(in[1]), .inverse = a.inverse, .onesided = a.onesided};
  if (in.size() == 3) d.length = whole(in[2]);
  return lamina::dft(in[0], d);
}

void computed_stft::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!are_of_stft(in, out)) return;
  const shape& x = in[0].dims;
  const any_tensor *step = out.elements_of(1), *length = out.elements_of(2);
  const bool counted =
      x[1].is_number() && (x.rank == 2 || x[2].is_number()) && (in.size() < 4 || in[3].dims[0].is_number());
  if (!step || !length || !counted) return out.result(in[0].element, shape{x[0], dyn, dyn, 2});
  const std::int64_t n = in.size() == 4 ? in[3].dims.at(0) : whole(*length) >= 0 ? whole(*length) : x.at(1);
  if (whole(*step) < 1 || n < 1 || n > x.at(1) || n > longest) {
    out.why << "frames of " << n << " positions every " << whole(*step) << " do not fit";
    return;
  }
  out.result(in[0].element, shape{x[0], dim(1 + (x.at(1) - n) / whole(*step)), dim(a.onesided ? n / 2 + 1 : n), 2});
}
value computed_stft::bind(const attributes& a, view<const value> in) {
  stft_attributes s{.step = whole(in[1]), .onesided = a.onesided};
  if (whole(in[2]) >= 0) s.length = whole(in[2]);
  return lamina::stft(in[0], in.size() == 4 ? std::optional<value>(in[3]) : std::nullopt, s);
}

namespace {
mel_attributes mel_of(const any_tensor* const (&of)[5]) {
  return {whole(*of[0]), whole(*of[1]), whole(*of[2]), static_cast<double>(of[3]->elements<float>()[0]),
          static_cast<double>(of[4]->elements<float>()[0])};
}
}  // namespace
void mel_weights::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!is_floating(a.element)) return out.refuse(a.element, "a floating type for the weights", "float");
  const any_tensor* known[5];
  bool all = true;
  for (std::size_t i = 0; i < 5; ++i) {
    if (!one_number(in[i], i < 3 ? dtype::int64 : dtype::float32, out)) return;
    known[i] = out.elements_of(i);
    all = all && known[i];
  }
  if (!all) return out.result(a.element, shape{dyn, dyn});
  const mel_attributes m = mel_of(known);
  if (!makes_bands(m)) {
    out.why << m.bands << " bands of transforms of " << m.length << " samples at " << m.rate << " Hz are not possible";
    return;
  }
  out.result(a.element, shape{dim(m.length / 2 + 1), dim(m.bands)});
}
value mel_weights::bind(const attributes& a, view<const value> in) {
  const any_tensor* known[5];
  for (std::size_t i = 0; i < 5; ++i) known[i] = &in[i].owner().at(in[i].id()).constant;
  return in[0].owner().constant(lamina::mel_weight_matrix(mel_of(known), a.element));
}

}  // namespace lamina::op
