// Interface of a library for convolution: a convolution with bias and ReLU in the library's preferred layout.
#pragma once
#include <string>

#include "measure.h"

namespace bench::conv {

/// Square feature maps, batch 1.  Dense operands: `in` [channels, size, size], `weight` [out, channels / groups,
/// kernel, kernel], `bias` [out].
struct problem {
  long channels, size, out_channels, kernel, stride, padding, groups;
  const float *in, *weight, *bias;
  long out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flops() const {
    return 2.0 * static_cast<double>(out_channels * out_size() * out_size() * (channels / groups) * kernel * kernel);
  }
};

/// A bound convolution: the call, and its result in the dense layout for comparison.
struct bound {
  call run;
  std::function<void(float* plain)> fetch;
};
/// A library; absent if `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<bound(const problem&)> bind;
};

library lamina();
library onednn();

}  // namespace bench::conv
