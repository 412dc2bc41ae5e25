// What the cores can do at most, so that served images can be held against it.
#pragma once

/// Fused multiply-adds per second, in 1e9, of as many threads as `workers` says, each busy for about 0.1 s.
double fma_rate(int workers);
