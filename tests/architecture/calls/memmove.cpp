// Calls a function that the kernels of a linear layer may not call.
#include <cstring>

extern "C" void lamina_moves_memory(void* to, const void* from, std::size_t n) { std::memmove(to, from, n); }
