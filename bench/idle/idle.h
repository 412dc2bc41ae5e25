// Our side of idle CPU behind a plain function.
#pragma once

namespace bench::idle {

/// Computes on as many threads, in a context that stays.
void run(int threads);

}  // namespace bench::idle
