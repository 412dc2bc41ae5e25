// What a library brings to convolution: a convolution with bias and ReLU in the layout that it likes best.
#pragma once
#include <string>

#include "measure.h"

namespace bench::conv {

/// Square maps, batch 1.  `in`, `weight`, `bias` are plain: [channels, size, size], [out, channels / groups, kernel,
/// kernel], [out].
struct problem {
  long channels, size, out_channels, kernel, stride, padding, groups;
  const float *in, *weight, *bias;
  long out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flops() const {
    return 2.0 * static_cast<double>(out_channels * out_size() * out_size() * (channels / groups) * kernel * kernel);
  }
};

/// A bound convolution: the call, and its result in the plain layout for comparison.
struct bound {
  call run;
  std::function<void(float* plain)> fetch;
};
/// A library; absent where `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<bound(const problem&)> bind;
};

library lamina();
library onednn();

}  // namespace bench::conv
