// Peak arithmetic rate of the cores, a reference for the rate of served images.
#pragma once

/// Fused multiply-adds per second, in 1e9, of `workers` threads together; each runs for about 0.1 s.
double fma_rate(int workers);
