// Standard headers after the import: both see one std::vector.
import lamina;

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

int compute_without_headers();
int compute_after_both();

int main() {
  std::vector<std::int64_t> sizes{4, 2, 3};
  std::sort(sizes.begin(), sizes.end());
  const auto s = lamina::shape::of(sizes);
  std::ostringstream out;
  out << s.string() + "!" << lamina::vector<float>{1, 2};
  if (out.str() != "[2x3x4]![1. 2.]") return 1;
  std::map<std::string, std::variant<int, double>> numbers{{"two", 2}, {"half", 0.5}};
  for (const auto& [name, number] : numbers)
    if (number.index() != (name == "two" ? 0u : 1u)) return 2;
  if (std::accumulate(1 + sizes.begin(), sizes.end(), std::int64_t(0)) != 7) return 3;
  if (std::abs(lamina::item(lamina::scalar<float>(-2.f))) != 2.f) return 4;
  if (int failed = compute_without_headers()) return 10 + failed;
  if (int failed = compute_after_both()) return 20 + failed;
  return 0;
}
