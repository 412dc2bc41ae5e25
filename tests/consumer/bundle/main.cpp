#include <cstdio>
#include <cstring>

#include "net.h"

alignas(NET_MEM_ALIGN) static uint8_t weights[NET_CONSTANT_MEM_SIZE], variables[NET_MUTABLE_MEM_SIZE], activations[NET_ACTIVATIONS_MEM_SIZE];

int main() {
  std::FILE* file = std::fopen(NET_WEIGHTS, "rb");
  if (!file || std::fread(weights, 1, sizeof weights, file) != sizeof weights) return 1;
  if (int wrong = net_self_test(weights, variables, activations)) return wrong;
  std::memset(variables, 0, sizeof variables);
  return net_of_one(weights, variables, activations);
}
