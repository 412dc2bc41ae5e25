#include "topology_in_header.h"

const void* address_of(const small_model& net) { return &net; }
