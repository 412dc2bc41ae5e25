// Standard headers after both imports: the library and its wrapper of the standard library.
import lamina.std;
import lamina;

#include <iostream>
#include <random>
#include <vector>

int compute_after_both() {
  std::vector<float> numbers{1, 2, 3};
  auto seen = lamina::borrow(std::span(numbers), {3});
  seen += 1;
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> draw(0, 1);
  if (numbers != std::vector<float>{2, 3, 4} || draw(engine) > 1) return 1;
  return 0;
}
