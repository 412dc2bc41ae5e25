/* Damages the weights of a bundle again and again: fuzz WEIGHTS EXECUTIONS SEED.  HEADER, ENTRY, BUNDLE and CAPITALS are given
 * by the compiler. Nothing may be read or written outside of the three regions, damage is noticed by the check of the weights,
 * and an entry that runs on damaged numbers gives results or a code. */
#define _DEFAULT_SOURCE
#include HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
enum { size = NAME(CAPITALS, _CONSTANT_MEM_SIZE), head = 64 };

/* `bytes` that end where memory ends. */
static uint8_t *guarded(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  uint8_t *memory = mmap(0, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, whole, PROT_READ | PROT_WRITE)) exit(20);
  return memory + whole - bytes;
}

static uint64_t state;
static uint64_t draw(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

static int fail(long execution, const char *what) {
  fprintf(stderr, "execution %ld: %s\n", execution, what);
  return 1;
}

int main(int count, char **words) {
  uint8_t *whole = malloc(size), *weights = guarded(size), *variables = guarded(NAME(CAPITALS, _MUTABLE_MEM_SIZE));
  uint8_t *activations = guarded(NAME(CAPITALS, _ACTIVATIONS_MEM_SIZE));
  FILE *file = count == 4 ? fopen(words[1], "rb") : 0;
  long executions = count == 4 ? atol(words[2]) : 0, i, refused = 0, ran = 0, values = 0, shortened = 0;
  if (!whole || !file || fread(whole, 1, size, file) != size || fgetc(file) != EOF) return 21;
  fclose(file);
  state = strtoull(words[3], 0, 10);
  memset(variables, 0, NAME(CAPITALS, _MUTABLE_MEM_SIZE));
  memset(activations, 0xff, NAME(CAPITALS, _ACTIVATIONS_MEM_SIZE));
  for (i = 0; i < executions; ++i) {
    int changes = 1 + (int)draw(8), checked, status;
    if (draw(4) == 0) { /* a file that ends early, where memory ends */
      size_t rest = draw(size / 64) * 64;
      uint8_t *early = weights + size - rest;
      memcpy(early, whole, rest);
      if (NAME(BUNDLE, _check_weights)(early, rest) == LAMINA_BUNDLE_OK) return fail(i, "a file that ends early is taken");
      ++shortened;
      continue;
    }
    memcpy(weights, whole, size);
    while (changes--) weights[draw(draw(2) ? head : size)] ^= (uint8_t)(1 + draw(255));
    checked = NAME(BUNDLE, _check_weights)(weights, size);
    if (checked == LAMINA_BUNDLE_OK && memcmp(weights + head, whole + head, size - head)) return fail(i, "damage is not noticed");
    status = ENTRY(weights, variables, activations);
    if (checked != LAMINA_BUNDLE_OK && checked != LAMINA_BUNDLE_WEIGHTS_CHECKSUM && status != checked) return fail(i, "the entry takes another head");
    refused += status >= LAMINA_BUNDLE_NO_WEIGHTS && status <= LAMINA_BUNDLE_WEIGHTS_CHECKSUM;
    ran += status == LAMINA_BUNDLE_OK, values += status == LAMINA_BUNDLE_VALUE;
    if (status == LAMINA_BUNDLE_NULL || status == LAMINA_BUNDLE_MISALIGNED || status > LAMINA_BUNDLE_VALUE) return fail(i, "an odd code");
  }
  printf("%ld executions: %ld short files, %ld refused, %ld ran, %ld of them refused a value\n", executions, shortened, refused, ran + values, values);
  free(whole);
  return refused && ran && shortened ? 0 : fail(i, "some kind of damage was never tried");
}
