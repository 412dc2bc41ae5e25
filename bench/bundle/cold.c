/* A program that classifies one image and ends: how long it takes from its start is the cold start of a bundle. */
#include "lenet.h"

#include <stdalign.h>
#include <stdio.h>

static alignas(64) uint8_t weights[LENET_CONSTANT_MEM_SIZE], variables[LENET_MUTABLE_MEM_SIZE], activations[LENET_ACTIVATIONS_MEM_SIZE];

int main(int count, char **words) {
  FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
  if (!file || fread(weights, 1, sizeof weights, file) != sizeof weights) return 1;
  return lenet(weights, variables, activations);
}
