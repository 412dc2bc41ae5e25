// Latency of a whole model on one thread and on two.
#pragma once

namespace bench::threads {

enum class network { resnet50, mobilenet_v2, lenet, mlp };

/// Latency of one inference, in microseconds.
struct answer {
  double one_thread, two_threads;
};
/// Minimum over `rounds` rounds, which alternate between one and two threads.
answer answer_of(network of, int rounds);

}  // namespace bench::threads
