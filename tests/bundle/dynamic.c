/* Finds its way by the table of a bundle alone: two entries, of 16 numbers each.  dynamic WEIGHTS */
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lamina_bundle_symbol *find(const lamina_bundle_config *c, const char *name, char kind) {
  uint64_t i;
  for (i = 0; i < c->symbol_count; ++i)
    if (c->symbols[i].kind == kind && strcmp(c->symbols[i].name, name) == 0) return c->symbols + i;
  exit(20);
}

static void show(int (*entry)(const uint8_t *, uint8_t *, uint8_t *), const lamina_bundle_config *c, const uint8_t *weights) {
  uint8_t *variables = aligned_alloc(c->alignment, c->mutable_size), *activations = aligned_alloc(c->alignment, c->activations_size);
  const lamina_bundle_symbol *in = find(c, "x", LAMINA_BUNDLE_INPUT), *out = find(c, "y", LAMINA_BUNDLE_OUTPUT);
  const lamina_bundle_symbol *constant = find(c, "three", LAMINA_BUNDLE_CONSTANT);
  float three;
  uint64_t i;
  for (i = 0; i < in->size; ++i) ((float *)(void *)(variables + in->offset))[i] = 2;
  if (entry(weights, variables, activations)) exit(21);
  memcpy(&three, weights + constant->offset, sizeof three);
  printf("%d %s %d of %g:", (int)in->size, out->element, (int)out->size, three);
  for (i = 0; i < out->size; ++i) printf(" %g", ((float *)(void *)(variables + out->offset))[i]);
  printf("\n");
  free(variables), free(activations);
}

int main(int count, char **words) {
  uint8_t *weights = aligned_alloc(sums_config.alignment, sums_config.constant_size);
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  if (!weights || !file || fread(weights, 1, sums_config.constant_size, file) != sums_config.constant_size) return 22;
  show(sums, &sums_config, weights);
  show(products, &products_config, weights);
  free(weights);
  return 0;
}
