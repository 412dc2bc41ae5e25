// The streams of streams behind plain functions.
#pragma once

namespace bench::streams {

/// A net served one sample at a time, and the figure published for the best static library, in nanoseconds a step on a
/// machine whose probe has 117 GFLOPS; 0 where there is none.
struct problem {
  const char* name;
  double published;
  void (*step)();
};
extern const problem problems[];
extern const int problem_count;

}  // namespace bench::streams
