// A new optimizer: computes the new value of a parameter from its old value and its gradient, with operations.
#include <iostream>
import lamina;
using namespace lamina;

// ---- the extension
/// Lion: w -= lr (sign(beta1 m + (1 - beta1) g) + decay w); m = beta2 m + (1 - beta2) g.
/// Source: Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), arXiv:2302.06675.
struct lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, decay = 0;
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const {
    ir::value m = s.slot("momentum", w.type());
    s.assign(m, m * beta2 + g * (1 - beta2));
    return w - s.rate(w) * (sign(m * beta1 + g * (1 - beta1)) + w * decay);
  }
};
// ---- its use

inline constexpr auto net = sequential(nn::flatten{}, nn::linear{.in_features = 16, .out_features = 2});

int main() {
  // Images of two classes: upper half bright or not.
  tensor<std::uint8_t, extents<dyn, dyn, dyn, dyn>> pixels(64, 1, 4, 4);
  vector<std::int64_t> classes(64);
  for (std::int64_t i = 0; i < 64; ++i) {
    classes.writable(i) = i % 2;
    for (std::int64_t k = 0; k < 16; ++k) pixels.writable(i, 0, k / 4, k % 4) = (k < 8) == (i % 2 == 1) ? 200 : 10;
  }
  image_dataset data(pixels, classes, {"dark", "bright"});
  model<net, input<"N", 1, 4, 4>> m({.seed = 7});
  auto report = fit(m, data, loss::cross_entropy{}, lion{.lr = 0.01}, {.epochs = 20, .batch = 16});
  std::cout << "accuracy " << report.epochs.back().accuracy << "\n";
}
