/* C, and C++ too. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "net.h"

alignas(NET_MEM_ALIGN) static uint8_t weights[NET_CONSTANT_MEM_SIZE], variables[NET_MUTABLE_MEM_SIZE], activations[NET_ACTIVATIONS_MEM_SIZE];

int main(void) {
  FILE *file = fopen(NET_WEIGHTS, "rb");
  int wrong;
  if (!file || fread(weights, 1, sizeof weights, file) != sizeof weights) return 20;
  wrong = net_self_test(weights, variables, activations);
  if (wrong) return wrong;
  memset(variables, 0, sizeof variables);
  return net_of_one(weights, variables, activations);
}
