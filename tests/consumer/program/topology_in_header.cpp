#include "topology_in_header.h"

int main() {
  small_model net({.seed = 42});
  return address_of(net) == &net ? 0 : 1;
}
