// Serves a saved LeNet without training code: the smaller program of the program size benchmark.
import lamina;
using namespace lamina;
#include "lenet.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto test = datasets::fashion_mnist(data_split::test);
  auto ref = reference_factory<lenet, input<"N", 1, 28, 28>>::from_file(argv[1], {.optimize = true}).create();
  long hits = 0;
  for (auto [image, label] : test) hits += item(argmax(ref(image))) == label;
  return hits > 8000 ? 0 : 1;
}
