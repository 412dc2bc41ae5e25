// A quick run checks that each problem still works, at its smallest size. Its timings are meaningless.
#pragma once

namespace bench {

/// Whether this is a quick run; `parse` sets it.
inline bool quick = false;

/// Number of repetitions: `count`, or `less` in a quick run.
template <class Count> Count repetitions(Count count, Count less = 1) { return quick ? less : count; }

}  // namespace bench
