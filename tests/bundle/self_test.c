/* Runs the self-test of any bundle: HEADER, ENTRY and CAPITALS are given by the compiler. Each region ends where memory ends,
 * and the weights cannot be written. */
#define _DEFAULT_SOURCE
#include HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

static size_t page;

/* `size` bytes, before and behind which nothing can be read or written. */
static uint8_t *guarded(size_t size, uint8_t **first) {
  size_t whole = (size + page - 1) / page * page;
  uint8_t *memory = mmap(0, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + page, whole, PROT_READ | PROT_WRITE)) exit(20);
  *first = memory + page;
  memset(*first, 0xff, whole); /* quiet NaNs: nothing may rely on zeros */
  return *first + whole - size;
}

int main(int count, char **words) {
  const size_t size = NAME(CAPITALS, _CONSTANT_MEM_SIZE);
  uint8_t *weights, *variables, *activations, *first;
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  int status;
  page = (size_t)sysconf(_SC_PAGESIZE);
  activations = guarded(NAME(CAPITALS, _ACTIVATIONS_MEM_SIZE), &first);
  variables = guarded(NAME(CAPITALS, _MUTABLE_MEM_SIZE), &first);
  weights = guarded(size, &first);
  if (!file || fread(weights, 1, size, file) != size || fgetc(file) != EOF) return 21;
  fclose(file);
  if (mprotect(first, (size + page - 1) / page * page, PROT_READ)) return 22;
  status = NAME(ENTRY, _self_test)(weights, variables, activations);
  if (!status) status = NAME(ENTRY, _self_test)(weights, variables, activations); /* in memory as the first run left it */
  return status;
}
