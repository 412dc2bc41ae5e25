/* What an entry answers to wrong pointers and wrong weights: misuse WEIGHTS prints the codes. */
#include "lenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
  uint8_t *w = aligned_alloc(64, LENET_CONSTANT_MEM_SIZE + 64), *m = aligned_alloc(64, LENET_MUTABLE_MEM_SIZE + 64);
  uint8_t *a = aligned_alloc(64, LENET_ACTIVATIONS_MEM_SIZE + 64);
  const size_t size = LENET_CONSTANT_MEM_SIZE;
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  size_t at;
  int unseen = 0;
  if (!w || !m || !a || !file || fread(w, 1, size, file) != size) return 20;
  memset(m, 0, LENET_MUTABLE_MEM_SIZE);
  printf("%d", lenet(w, m, a));
  printf(" null %d %d %d %d", lenet(0, m, a), lenet(w, 0, a), lenet(w, m, 0), lenet_check_weights(0, size));
  printf(" misaligned %d %d %d %d", lenet(w + 1, m, a), lenet(w, m + 32, a), lenet(w, m, a + 4), lenet_check_weights(w + 8, size));
  w[0] ^= 1, printf(" magic %d %d", lenet(w, m, a), lenet_check_weights(w, size)), w[0] ^= 1;
  w[8] ^= 4, printf(" version %d %d", lenet(w, m, a), lenet_check_weights(w, size)), w[8] ^= 4;
  w[16] ^= 64, printf(" size %d %d", lenet(w, m, a), lenet_check_weights(w, size)), w[16] ^= 64;
  w[24] ^= 1, printf(" checksum %d %d", lenet(w, m, a), lenet_check_weights(w, size)), w[24] ^= 1;
  printf(" short %d %d %d", lenet_check_weights(w, size - 1), lenet_check_weights(w, 63), lenet_check_weights(w, 0));
  for (at = 64; at < size; at += 997) {
    w[at] ^= 0x80;
    unseen += lenet_check_weights(w, size) != LAMINA_BUNDLE_WEIGHTS_CHECKSUM;
    w[at] ^= 0x80;
  }
  printf(" unseen %d", unseen);
  w[size - 96] ^= 1; /* the outputs that the self-test expects */
  printf(" damaged %d", lenet_self_test(w, m, a));
  w[size - 96] ^= 1;
  printf(" whole %d\n", lenet_self_test(w, m, a));
  free(w), free(m), free(a);
  return 0;
}
