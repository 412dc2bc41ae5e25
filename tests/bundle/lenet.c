/* Runs the bundle `lenet`: lenet WEIGHTS IN OUT reads the input's bytes from IN and writes the output's to OUT. */
#include "lenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory of exactly `size` bytes that a file holds; a sanitizer then sees every step beyond. */
static uint8_t *read_file(const char *path, size_t size) {
  uint8_t *bytes = aligned_alloc(LENET_MEM_ALIGN, (size + 63) / 64 * 64);
  FILE *file = fopen(path, "rb");
  if (!bytes || !file || fread(bytes, 1, size, file) != size || fgetc(file) != EOF) exit(20);
  fclose(file);
  return bytes;
}

int main(int count, char **words) {
  uint8_t *weights, *variables, *activations, *input;
  FILE *out;
  int status;
  if (count != 4) return 21;
  weights = read_file(words[1], LENET_CONSTANT_MEM_SIZE);
  input = read_file(words[2], LENET_INPUT_BYTES);
  variables = aligned_alloc(LENET_MEM_ALIGN, (LENET_MUTABLE_MEM_SIZE + 63) / 64 * 64);
  activations = aligned_alloc(LENET_MEM_ALIGN, (LENET_ACTIVATIONS_MEM_SIZE + 63) / 64 * 64);
  memset(activations, 0xff, LENET_ACTIVATIONS_MEM_SIZE); /* quiet NaNs: nothing may rely on zeros */
  memset(variables, 0xff, LENET_MUTABLE_MEM_SIZE);
  status = lenet_self_test(weights, variables, activations);
  if (status) return status;
  memcpy(lenet_input(variables), input, LENET_INPUT_BYTES);
  status = lenet(weights, variables, activations);
  if (status) return status;
  out = fopen(words[3], "wb");
  if (!out || fwrite(lenet_output(variables), 1, LENET_OUTPUT_BYTES, out) != LENET_OUTPUT_BYTES || fclose(out)) return 22;
  free(weights), free(variables), free(activations), free(input);
  return 0;
}
