// Points in a plane, a net of one layer in float64 that learns it, and its loss and gradient in plain loops. Include it
// after `import lamina;`, <cmath>, <cstring>, <utility> and <vector>.
#pragma once

namespace plane_test {

using numbers = std::vector<double>;

struct point {
  lamina::tensor<double, lamina::extents<3>> x;
  double y = 0;
};
// Point i is number i + first of a sequence with period 105.
struct plane {
  std::int64_t count = 0, first = 0;
  std::int64_t size() const { return count; }
  point operator[](std::int64_t i) const {
    point p{lamina::tensor<double, lamina::extents<3>>::uninitialized({3}), 0};
    const auto at = i + first;
    const double a = static_cast<double>(at % 7) / 7, b = static_cast<double>(at % 5) / 5,
                 c = static_cast<double>(at % 3) / 3;
    auto out = p.x.writable();
    out[0] = a, out[1] = b, out[2] = c;
    p.y = 2 * a - b + 0.5 * c + 1;
    return p;
  }
};

inline constexpr auto line =
    lamina::sequential(lamina::sublayer<"line">(lamina::nn::linear{.in_features = 3, .out_features = 1}));
using wide_model = lamina::model<line, lamina::input<"N", 3>, lamina::policies<lamina::element<double>>>;

inline const auto squared = [](const lamina::ir::value& y, const lamina::ir::value& t) {
  return lamina::reduce_mean(lamina::square(lamina::reshape(y, t.shape()) - t));
};

// Weights, then the bias.
template <class Model> numbers weights_of(const Model& net) {
  numbers all;
  for (const auto* name : {"line.weight", "line.bias"})
    for (double x : net.parameters().find(name)->value().template elements<double>()) all.push_back(x);
  return all;
}

// The gradient of the mean of squares over points of the plane.
inline numbers gradient(const numbers& w, const plane& data) {
  numbers g(4);
  for (std::int64_t i = 0; i < data.count; ++i) {
    const point p = data[i];
    const auto x = p.x.data();
    const double off = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] - p.y;
    for (std::size_t k = 0; k < 3; ++k) g[k] += 2 * off * x[k] / static_cast<double>(data.count);
    g[3] += 2 * off / static_cast<double>(data.count);
  }
  return g;
}

inline double distance(const numbers& a, const numbers& b) {
  double max = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) max = std::fmax(max, std::fabs(a[i] - b[i]));
  return max;
}

inline auto tensors_of(const plane& data) {
  lamina::matrix<double> x(data.count, 3);
  lamina::vector<double> y(data.count);
  for (std::int64_t i = 0; i < data.count; ++i) {
    const point p = data[i];
    std::memcpy(x.writable().data() + 3 * i, p.x.data().data(), 3 * sizeof(double));
    y.writable()[static_cast<std::size_t>(i)] = p.y;
  }
  return std::pair(x, y);
}

}  // namespace plane_test
