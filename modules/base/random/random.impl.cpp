module lamina:random.impl;
import :core;
import :random;
import lamina.std;

namespace lamina {

double philox::gauss(double v, double w, bool second) {
  double radius = std::sqrt(-2 * std::log(1 - v)), angle = 6.283185307179586476925 * w;
  return radius * (second ? std::sin(angle) : std::cos(angle));
}

namespace {

// The upper half of a 128-bit product: a random 64-bit number scaled to 0..n-1.
std::uint64_t scaled(std::uint64_t a, std::uint64_t n) {
  std::uint64_t a0 = a & 0xffffffff, a1 = a >> 32, n0 = n & 0xffffffff, n1 = n >> 32;
  std::uint64_t middle = a1 * n0 + (a0 * n0 >> 32), other = a0 * n1 + (middle & 0xffffffff);
  return a1 * n1 + (middle >> 32) + (other >> 32);
}

}  // namespace

void shuffle(view<std::int64_t> values, const philox& stream) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[scaled(stream.bits(i), i)]);
}

std::vector<std::int64_t> permutation(std::int64_t n, std::int64_t seed, std::int64_t epoch) {
  if (n < 0) {
    text t;
    t << "permutation: `n` is " << n << "; expected 0 or more";
    detail::raise(error_kind::value, t);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t(0));
  shuffle(order, philox(seed, shuffle_site, epoch));
  return order;
}

}  // namespace lamina
