// Standard headers before the import: both see one std::vector.
#include <cstdint>
#include <iostream>
#include <vector>

import lamina;

int main() {
  std::vector<std::int64_t> sizes{2, 3, 4};
  auto s = lamina::shape::of(sizes);
  std::cout << s.string() << '\n';
  try {
    lamina::detail::raise(lamina::error_kind::shape, "shapes differ");
  } catch (const lamina::shape_error& e) {
    std::cout << e.what() << '\n';
    return s.size() == 24 ? 0 : 1;
  }
  return 2;
}
