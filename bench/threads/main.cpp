// One answer on two threads (problem 31): latency of a whole model on two threads, compared with one.
#include <algorithm>
#include <string>
#include <vector>

#include "arguments.h"
#include "machine.h"
#include "measure.h"
#include "threads.h"

int main(int argc, char** argv) {
  using namespace bench;
  std::vector<int> cores = usable_cores();
  const arguments a = parse(argc, argv);
  cores.resize(std::min<std::size_t>(cores.size(), 2));
  pin(cores);
  report all;
  const auto add = [&all](const char* shape, threads::network of, int rounds, const char* floor, const char* goal) {
    const auto best = threads::answer_of(of, rounds);
    row r;
    r.problem = "31 one answer on two threads";
    r.shape = shape;
    r.threads = 2;
    r.unit = "us";
    r.ours = best.two_threads;
    r.floor = floor;
    r.goal = goal;
    r.ratio = best.one_thread / best.two_threads;
    result one;
    one.name = "one thread of lamina";
    one.value = best.one_thread;
    r.peers = {one};
    all.add(std::move(r));
  };
  add("ResNet-50", threads::network::resnet50, repetitions(10, 2), "ratio >= 1.8", "ratio >= 1.95");
  add("MobileNetV2", threads::network::mobilenet_v2, repetitions(60, 5), "ratio >= 1.6", "ratio >= 1.95");
  add("LeNet", threads::network::lenet, repetitions(1000, 50), "ratio >= 0.97", "");
  add("MLP 784-256-10", threads::network::mlp, repetitions(1000, 50), "ratio >= 1.2", "");
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
