// What folding batch norms into the weights before them gains, behind plain functions.
#pragma once

namespace bench::folding {

/// A residual block of ResNet, 64 channels of 56 x 56, and a bottleneck of MobileNetV2, 24 channels of 56 x 56: one
/// picture through a reference model, made with and without `optimize`.
void residual_folded();
void residual_plain();
void bottleneck_folded();
void bottleneck_plain();

}  // namespace bench::folding
