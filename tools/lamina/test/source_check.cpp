// The nets that `lamina source` has written as modules give the numbers of the models that they are of.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

import images_source;
import joined_source;
import lamina.onnx;
import rows_source;
import saved_source;

using namespace lamina;

namespace {

template <class X> bool same(const char* model, auto&& net, const X& x) {
  const std::string file = model;
  const saved_net from = file.ends_with(".onnx") ? onnx::load(file) : load_net(file);
  const any_tensor expected = from.factory().create()({any_tensor(x)})[0];
  const any_tensor is = net(x);
  bool good = expected.type() == is.type();
  double worst = 0;
  const auto a = expected.elements<float>(), b = is.elements<float>();
  for (std::size_t i = 0; good && i < a.size(); ++i)
    worst = std::fmax(worst, std::abs(static_cast<double>(a[i] - b[i])) / (1 + std::abs(static_cast<double>(a[i]))));
  good = good && worst <= 1e-5 && a.size() > 0;
  std::printf("%s: differs by %.1e%s\n", model, worst, good ? "" : ", WRONG");
  return good;
}
template <class X> X numbers(X x) {
  auto all = x.writable();
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return x;
}

// Shapes are checked by the compiler.
static_assert(decltype(images_source::load())::traits::inputs == 1);

}  // namespace

int main() {
  bool good = same("images.onnx", images_source::load(), numbers(tensor<float, extents<dyn, 2, 9, 8>>(3)));
  good &= same("joined.onnx", joined_source::load(), numbers(tensor<float, extents<dyn, 3, 4, 4>>(2)));
  good &= same("rows.onnx", rows_source::load(), numbers(tensor<float, extents<dyn, dyn, 6>>(2, 5)));
  good &= same("saved", saved_source::load(), numbers(tensor<float, extents<dyn, 1, 12, 12>>(4)));
  return good ? 0 : 1;
}
