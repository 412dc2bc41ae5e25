// A program without a single header: everything that it needs comes with the module.
import lamina;

using namespace lamina;

int main() {
  shape images{"N", 1, 28, 28}, batch{64, 1, 28, 28};
  if (!fits(images, batch) || images.is_static() || batch.size() != 64 * 28 * 28) return 1;
  if (label(batch.string()) != label("[64x1x28x28]")) return 2;

  // Iteration over a view, whose iterators need no header.
  const int numbers[] = {1, 2, 3};
  int sum = 0;
  for (int number : view<const int>(numbers)) sum += number;
  if (sum != 6) return 3;

  auto sides = dict(key<"lhs"> = 2, key<"rhs"> = 0.5);
  return sides[key<"lhs">] == 2 && sides[key<"rhs">] == 0.5 ? 0 : 4;
}
