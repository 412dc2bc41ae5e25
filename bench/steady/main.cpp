// Steady state (problem 28): allocations, locks and system calls per run; time of the slowest runs relative to the
// median.
#include <x86intrin.h>

#include <sys/mman.h>

#include "arguments.h"
#include "counters.h"
#include "measure.h"
#include "network.h"

namespace {

using namespace bench;

constexpr long inferences = 1000;
long first_batch() { return repetitions(20L, 2L); }
long batches() { return repetitions(50L, 2L); }

void count_inference() {
  for (int i = 0; i < 10; ++i) steady::infer();
  steady::begin();
  for (long i = 0; i < inferences; ++i) steady::infer();
  steady::end();
}
void count_training() {
  steady::train(first_batch(), batches(), [] { steady::begin(); }, [] { steady::end(); });
}
// Self-test of the counters: ten allocations, ten locks and ten system calls.
void count_examples() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  steady::begin();
  for (int i = 0; i < 10; ++i) {
    void* volatile p = std::malloc(32);
    std::free(p);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    sched_yield();
  }
  steady::end();
}

void add_counts(report& all, const std::string& what, const steady::counts& c, long runs) {
  const std::pair<const char*, long> lines[] = {
      {"allocations", c.allocations}, {"locks", c.locks}, {"system calls", c.system_calls}};
  for (const auto& [name, count] : lines) {
    row r;
    r.problem = "28 steady state";
    r.shape = what + ": " + name + " a run";
    r.unit = "1";
    r.ours = static_cast<double>(count) / static_cast<double>(runs);
    r.floor = "ours <= 0";
    show(r);
    all.add(std::move(r));
  }
}

struct spread {
  double median, high, worst;  // median in clock ticks; the others as multiples of it
};
template <class Run> spread spread_of(long runs, Run run) {
  std::vector<unsigned> ticks(static_cast<std::size_t>(runs));
  for (unsigned& t : ticks) {
    const unsigned long long begin = __rdtsc();
    run();
    t = static_cast<unsigned>(__rdtsc() - begin);
  }
  std::sort(ticks.begin(), ticks.end());
  const double median = ticks[ticks.size() / 2];
  return {median, ticks[ticks.size() - ticks.size() / 1000 - 1] / median, ticks.back() / median};
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  const steady::counts example = steady::counted(count_examples);
  if (example.allocations != 10 || example.locks != 10 || example.system_calls != 10) {
    std::fprintf(stderr, "the counters are wrong: %ld allocations, %ld locks, %ld system calls; expected 10 each\n",
                 example.allocations, example.locks, example.system_calls);
    return 1;
  }
  report all;
  add_counts(all, "LeNet inference, batch 1", steady::counted(count_inference), inferences);
  add_counts(all, "LeNet training step, batch 64", steady::counted(count_training), batches());

  for (int i = 0; i < 1000; ++i) steady::infer();
  const spread lenet = spread_of(repetitions(1000000L, 1000L), [] { steady::infer(); });
  const auto begin = std::chrono::steady_clock::now();
  const unsigned long long ticks = __rdtsc();
  for (int i = 0; i < 10000; ++i) steady::infer();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double ticks_per_us = static_cast<double>(__rdtsc() - ticks) / (seconds.count() * 1e6);
  // the machine's own spread: a chain of dependent operations of about the same duration
  const long turns = std::lround(lenet.median / 4);
  const spread probe = spread_of(repetitions(200000L, 1000L), [turns] {
    float x = 1;
    for (long i = 0; i < turns; ++i) __asm__ volatile("mulss %0, %0" : "+x"(x));
  });
  const auto text = [](double x) { return std::to_string(std::lround(x)); };

  row r;
  r.problem = "28 steady state";
  r.shape = "LeNet inference, batch 1: 99.9th percentile of 10^6 runs / median";
  r.unit = "1";
  r.ours = lenet.high;
  r.floor = "ours <= 3";
  r.goal = "ours <= 1.5";
  r.note = "median " + std::to_string(lenet.median / ticks_per_us).substr(0, 5) + " us; worst " + text(lenet.worst) +
           " x; the probe's 99.9th percentile " + std::to_string(probe.high).substr(0, 4) + " x, its worst of 200000 " +
           text(probe.worst) + " x";
  r.peers = {{"RTNeural", "", "", {}, {}}};
  show(r);
  all.add(std::move(r));
  all.write(a.out);
}
