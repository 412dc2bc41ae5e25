/* Runs a bundle of any net by its table:  bundled WEIGHTS INPUT...  writes out_0, out_1, ... of its outputs' bytes. -DHEADER, ENTRY,
 * SELF_TEST and CONFIG name what it calls. */
#include HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t size_of(const lamina_bundle_symbol *s) {
  const char *e = s->element;
  const size_t one = strstr(e, "64") ? 8 : strstr(e, "32") ? 4 : strstr(e, "16") ? 2 : 1;
  return one * (size_t)s->size;
}
static void read_file(const char *path, uint8_t *to, size_t bytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(to, 1, bytes, file) != bytes || fgetc(file) != EOF) exit(20);
  fclose(file);
}

int main(int count, char **words) {
  const lamina_bundle_config *c = &CONFIG;
  uint8_t *weights = aligned_alloc(c->alignment, c->constant_size), *variables = aligned_alloc(c->alignment, c->mutable_size);
  uint8_t *activations = aligned_alloc(c->alignment, c->activations_size);
  uint64_t i;
  int next = 2, status;
  if (count < 2 || !weights || !variables || !activations) return 21;
  read_file(words[1], weights, c->constant_size);
  status = SELF_TEST(weights, variables, activations);
  if (status) return status;
  for (i = 0; i < c->symbol_count; ++i)
    if (c->symbols[i].kind == LAMINA_BUNDLE_INPUT) {
      if (next == count) return 22;
      read_file(words[next++], variables + c->symbols[i].offset, size_of(c->symbols + i));
    }
  status = ENTRY(weights, variables, activations);
  if (status) return status;
  for (i = 0, next = 0; i < c->symbol_count; ++i)
    if (c->symbols[i].kind == LAMINA_BUNDLE_OUTPUT) {
      char name[32];
      FILE *file;
      sprintf(name, "out_%d", next++);
      file = fopen(name, "wb");
      if (!file || fwrite(variables + c->symbols[i].offset, 1, size_of(c->symbols + i), file) != size_of(c->symbols + i) ||
          fclose(file))
        return 23;
    }
  return 0;
}
