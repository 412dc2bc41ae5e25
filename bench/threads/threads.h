// One answer of a whole model on one thread and on two.
#pragma once

namespace bench::threads {

enum class network { resnet50, mobilenet_v2, lenet, mlp };

/// Microseconds of one answer.
struct answer {
  double one_thread, two_threads;
};
/// The least of `rounds` rounds in which both numbers of threads take turns.
answer answer_of(network of, int rounds);

}  // namespace bench::threads
