/* Two bundles in one program, of which each has its own kernels. */
#include "first.h"
#include "second.h"

#include <stdalign.h>

static const alignas(64) uint8_t first_weights[] = {
#include "first.weights.txt"
};
static const alignas(64) uint8_t second_weights[] = {
#include "second.weights.txt"
};
static alignas(64) uint8_t first_variables[FIRST_MUTABLE_MEM_SIZE], first_activations[FIRST_ACTIVATIONS_MEM_SIZE];
static alignas(64) uint8_t second_variables[SECOND_MUTABLE_MEM_SIZE], second_activations[SECOND_ACTIVATIONS_MEM_SIZE];

int main(void) {
  if (sizeof first_weights != FIRST_CONSTANT_MEM_SIZE || sizeof second_weights != SECOND_CONSTANT_MEM_SIZE) return 20;
  if (first(second_weights, first_variables, first_activations) == 0) return 21;
  return first_self_test(first_weights, first_variables, first_activations) + second_self_test(second_weights, second_variables, second_activations);
}
