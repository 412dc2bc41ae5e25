// expect: the data type samples is not an operand: it needs `void read(lamina::view<element_type> out) const`, or data_traits
import lamina;
using namespace lamina;

#ifdef BAD
#define WITHOUT_READ
#endif
#include "samples.h"

void use() { auto y = evaluate(samples()); }
