// The nets of the streams benchmark behind plain functions.
#pragma once

namespace bench::streams {

/// A net streamed one sample at a time, and the published time of the best static library, in nanoseconds per step on a
/// machine with an FMA probe of 117 GFLOPS; 0 if there is none.
struct problem {
  const char* name;
  double published;
  void (*step)();
};
extern const problem problems[];
extern const int problem_count;

}  // namespace bench::streams
