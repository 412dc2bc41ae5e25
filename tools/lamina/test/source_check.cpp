// Checks that modules written by `lamina source` compute the numbers of their models.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

import images_source;
import joined_source;
import lamina.onnx;
import norms_source;
import recurrent_source;
import rows_source;
import saved_source;
import transformer_source;

using namespace lamina;

namespace {

bool close(const any_tensor& expected, const any_tensor& is, double& worst) {
  if (expected.type() != is.type() || expected.shape().size() == 0) return false;
  const auto a = expected.elements<float>(), b = is.elements<float>();
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::fmax(worst, std::abs(static_cast<double>(a[i] - b[i])) / (1 + std::abs(static_cast<double>(a[i]))));
  return worst <= 1e-5;
}
template <class... X> bool same(const char* model, auto&& net, const X&... x) {
  const std::string file = model;
  const saved_net from = file.ends_with(".onnx") ? onnx::load(file) : load_net(file);
  const auto expected = from.factory().create()({any_tensor(x)...});
  double worst = 0;
  bool good = true;
  std::size_t at = 0;
  const auto results = net(x...);
  if constexpr (requires { results.shape(); }) good = close(expected[at++], results, worst);
  else {
    const auto& [first, second, third] = results;
    good = close(expected[at++], first, worst);
    good &= close(expected[at++], second, worst);
    good &= close(expected[at++], third, worst);
  }
  good = good && at == expected.size();
  std::printf("%s: differs by %.1e%s\n", model, worst, good ? "" : ", WRONG");
  return good;
}
template <class X> X numbers(X x) {
  auto all = x.writable();
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return x;
}

// Shapes are checked at compile time.
static_assert(decltype(images_source::load())::traits::inputs == 1);

}  // namespace

int main() {
  bool good = same("images.onnx", images_source::load(), numbers(tensor<float, extents<dyn, 2, 9, 8>>(3)));
  good &= same("joined.onnx", joined_source::load(), numbers(tensor<float, extents<dyn, 3, 4, 4>>(2)));
  good &= same("rows.onnx", rows_source::load(), numbers(tensor<float, extents<dyn, dyn, 6>>(2, 5)));
  good &= same("saved", saved_source::load(), numbers(tensor<float, extents<dyn, 1, 12, 12>>(4)));
  good &= same("norms.onnx", norms_source::load(), numbers(tensor<float, extents<dyn, 4, 3, 5>>(2)));
  good &= same("recurrent.onnx", recurrent_source::load(), numbers(tensor<float, extents<dyn, dyn, 3>>(5, 2)));
  tensor<std::int64_t, extents<dyn, 6>> ids(3);
  for (std::size_t i = 0; i < 18; ++i) ids.writable()[i] = static_cast<std::int64_t>(i * 7 % 11);
  good &= same("transformer.onnx", transformer_source::load(), ids, numbers(tensor<float, extents<dyn, 1, 6, 6>>(3)));
  return good ? 0 : 1;
}
