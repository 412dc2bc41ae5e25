// The entry points of libFuzzer. This file is always instrumented for coverage, because libFuzzer requires some; the
// preset `fuzz` instruments the library too.
#include "examine.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  examine(data, size);
  return 0;
}
