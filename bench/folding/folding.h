// Gain of folding batch norms into the preceding weights, behind plain functions.
#pragma once

namespace bench::folding {

/// One picture through a reference model created with or without `optimize`: a residual block of ResNet, 64 channels of
/// 56 x 56, and a bottleneck of MobileNetV2, 24 channels of 56 x 56.
void residual_folded();
void residual_plain();
void bottleneck_folded();
void bottleneck_plain();

}  // namespace bench::folding
