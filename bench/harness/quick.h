// A quick run shows that every problem still works, at its smallest size. Its figures mean nothing.
#pragma once

namespace bench {

/// Whether this is a quick run; `parse` sets it.
inline bool quick = false;

/// How often something is done: `count` times, or `less` in a quick run.
template <class Count> Count repetitions(Count count, Count less = 1) { return quick ? less : count; }

}  // namespace bench
