#include "constant_in_header.h"

int main() {
  sized<input_shape> here;
  return counter_elsewhere(here) == here.counter() && here.rank == 4 ? 0 : 1;
}
