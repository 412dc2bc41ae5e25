/* Counts what an instrumented bundle tells: instrumented WEIGHTS. */
#include "lenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int befores, afters, inside;
static const char *last_type;
static const void *last_data;

void lenet_before(int operation, const char *what) {
  if (inside++ || operation != befores++ || !*what) exit(20);
}
void lenet_after(int operation, const char *what) {
  if (--inside || operation != afters++ || !*what) exit(21);
  printf("%s\n", what);
}
void lenet_tensor(int operation, const char *what, const char *type, const void *data, uint64_t bytes) {
  const uint8_t *first = data;
  uint64_t i;
  unsigned sum = 0;
  if (operation != afters - 1 || !*what) exit(22);
  for (i = 0; i < bytes; ++i) sum += first[i];
  printf("  %s %u%s\n", type, (unsigned)bytes, sum ? "" : " of zeros");
  last_type = type, last_data = data;
}

int main(int count, char **words) {
  uint8_t *w = aligned_alloc(64, (LENET_CONSTANT_MEM_SIZE + 63) / 64 * 64), *m = aligned_alloc(64, (LENET_MUTABLE_MEM_SIZE + 63) / 64 * 64);
  uint8_t *a = aligned_alloc(64, (LENET_ACTIVATIONS_MEM_SIZE + 63) / 64 * 64);
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  if (!w || !m || !a || !file || fread(w, 1, LENET_CONSTANT_MEM_SIZE, file) != LENET_CONSTANT_MEM_SIZE) return 23;
  if (lenet_self_test(w, m, a)) return 24;
  printf("%d %d %s\n", befores, afters, last_type);
  fclose(file);
  if (last_data != (const void *)lenet_output(m)) return 25;
  free(w), free(m), free(a);
  return 0;
}
