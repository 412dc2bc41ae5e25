// Uses a bundle as a module.  module WEIGHTS
#include <cstdio>
#include <cstdlib>
import lenet;

int main(int count, char** words) {
  auto take = [](auto size) { return static_cast<unsigned char*>(std::aligned_alloc(lenet_memory::alignment, size)); };
  auto *w = take(lenet_memory::constant_bytes), *m = take(lenet_memory::mutable_bytes),
       *a = take(lenet_memory::activation_bytes);
  auto* file = count == 2 ? std::fopen(words[1], "rb") : nullptr;
  if (!file || std::fread(w, 1, lenet_memory::constant_bytes, file) != lenet_memory::constant_bytes) return 20;
  if (auto wrong = lenet_self_test(w, m, a)) return wrong;
  float* scores = lenet_memory::output(m);
  static_assert(lenet_memory::output_elements == 10);
  std::printf("%d\n", scores[0] == scores[0]);
  const int status = lenet(w, m, a);
  if (status != lenet_codes::ok || lenet(nullptr, m, a) != lenet_codes::null ||
      lenet(w, m + 1, a) != lenet_codes::misaligned)
    return 21;
  if (lenet_check_weights(w, 8) != lenet_codes::no_weights) return 22;
  if (lenet_check_weights(w, lenet_memory::constant_bytes - 8) != lenet_codes::weights_size) return 23;
  w[8] ^= 1;
  if (lenet(w, m, a) != lenet_codes::weights_version) return 24;
  w[8] ^= 1, w[lenet_memory::constant_bytes - 1] ^= 1;
  if (lenet_check_weights(w, lenet_memory::constant_bytes) != lenet_codes::weights_checksum) return 25;
  static_assert(lenet_codes::value == 7 && lenet_codes::self_test == 8);
  std::fclose(file);
  std::free(w), std::free(m), std::free(a);
  return status;
}
