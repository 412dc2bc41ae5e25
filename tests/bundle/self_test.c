/* Runs the self-test of any bundle in memory of exactly its sizes: HEADER, ENTRY and SIZE(what) are given by the compiler. */
#include HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

int main(int count, char **words) {
  uint8_t *weights = aligned_alloc(64, NAME(CAPITALS, _CONSTANT_MEM_SIZE));
  uint8_t *variables = aligned_alloc(64, NAME(CAPITALS, _MUTABLE_MEM_SIZE));
  uint8_t *activations = aligned_alloc(64, NAME(CAPITALS, _ACTIVATIONS_MEM_SIZE));
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  int status;
  if (!weights || !variables || !activations || !file) return 20;
  if (fread(weights, 1, NAME(CAPITALS, _CONSTANT_MEM_SIZE), file) != NAME(CAPITALS, _CONSTANT_MEM_SIZE) || fgetc(file) != EOF) return 21;
  fclose(file);
  memset(variables, 0xff, NAME(CAPITALS, _MUTABLE_MEM_SIZE));
  memset(activations, 0xff, NAME(CAPITALS, _ACTIVATIONS_MEM_SIZE)); /* quiet NaNs: nothing may rely on zeros */
  status = NAME(ENTRY, _self_test)(weights, variables, activations);
  if (!status) status = NAME(ENTRY, _self_test)(weights, variables, activations); /* in memory as the first run left it */
  free(weights), free(variables), free(activations);
  return status;
}
