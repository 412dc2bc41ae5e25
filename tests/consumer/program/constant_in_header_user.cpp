#include "constant_in_header.h"

int* counter_elsewhere(sized<input_shape> there) { return there.counter(); }
