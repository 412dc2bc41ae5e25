// lamina's side of the idle CPU benchmark behind a plain function.
#pragma once

namespace bench::idle {

/// Computes on `threads` threads, in a context that persists after the call.
void run(int threads);

}  // namespace bench::idle
