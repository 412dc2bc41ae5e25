// What libFuzzer calls. This unit alone is always instrumented for coverage, as libFuzzer asks for some; the preset `fuzz`
// instruments the library too.
#include "examine.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  examine(data, size);
  return 0;
}
