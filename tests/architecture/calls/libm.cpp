// Calls a function that the kernels of a linear layer may call.
#include <cmath>

extern "C" float lamina_calls_libm(float x) { return std::exp(x) + std::hypot(x, 1.0f); }
