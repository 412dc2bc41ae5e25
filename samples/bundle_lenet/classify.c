/* Classifies pictures of clothing in plain C: no library, no heap, one object file and its weights.
 *
 *   bundle_lenet PICTURE.pgm...      pictures of 28 x 28 gray pixels, as PGM (P5)
 *
 * Eight pictures at a time go through the entry lenet_of_8, what is left through the entry lenet; both share the weights. */
#include "lenet.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { pixels = LENET_INPUT_ELEMENTS, classes = LENET_OUTPUT_ELEMENTS, most = 8 };

static alignas(LENET_MEM_ALIGN) uint8_t weights[LENET_CONSTANT_MEM_SIZE];
static alignas(LENET_MEM_ALIGN) uint8_t variables[LENET_OF_8_MUTABLE_MEM_SIZE];
static alignas(LENET_MEM_ALIGN) uint8_t activations[LENET_OF_8_ACTIVATIONS_MEM_SIZE];

static const char *const names[classes] = {"T-shirt_top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle_boot"};

static int fail(const char *file, const char *why) {
  fprintf(stderr, "%s: %s\n", file, why);
  return 1;
}

static int read_weights(const char *path) {
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(weights, 1, sizeof weights, file) : 0;
  if (!file) return fail(path, "cannot be read");
  fclose(file);
  if (lenet_check_weights(weights, size)) return fail(path, "is not the weights file of this program");
  return 0;
}

static int read_picture(const char *path, float *to) {
  uint8_t bytes[pixels];
  int width, height, white, i;
  FILE *file = fopen(path, "rb");
  int whole = file && fscanf(file, "P5 %d %d %d", &width, &height, &white) == 3 && width == 28 && height == 28 && white == 255;
  whole = whole && fgetc(file) != EOF && fread(bytes, 1, pixels, file) == pixels;
  if (file) fclose(file);
  if (!whole) return fail(path, "expected an 8-bit grayscale PGM of 28 x 28 pixels");
  for (i = 0; i < pixels; ++i) to[i] = (float)bytes[i] / 255;
  return 0;
}

static void print_class(const char *path, const float *scores) {
  int best = 0, i;
  for (i = 1; i < classes; ++i)
    if (scores[i] > scores[best]) best = i;
  printf("%s: %s\n", path, names[best]);
}

int main(int count, char **words) {
  int at, status, i;
  if (count < 2) return fail("usage", "bundle_lenet PICTURE.pgm...");
  if (read_weights(LENET_WEIGHTS)) return 1;
  for (at = 1; at < count;) {
    int n = count - at >= most ? most : 1;
    float *in = n == most ? lenet_of_8_input(variables) : lenet_input(variables);
    float *out = n == most ? lenet_of_8_output(variables) : lenet_output(variables);
    for (i = 0; i < n; ++i)
      if (read_picture(words[at + i], in + i * pixels)) return 1;
    status = n == most ? lenet_of_8(weights, variables, activations) : lenet(weights, variables, activations);
    if (status) return fail("lenet", "invalid arguments");
    for (i = 0; i < n; ++i) print_class(words[at + i], out + i * classes);
    at += n;
  }
  return 0;
}
