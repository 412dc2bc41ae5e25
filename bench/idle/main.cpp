// Idle CPU (problem 19): CPU time used during an idle second, after runs on all threads.
#include <chrono>
#include <thread>

#include <time.h>

#include "arguments.h"
#include "idle.h"
#include "report.h"

namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

bench::row idle_after(int threads) {
  bench::idle::run(threads);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  bench::row r;
  r.problem = "19 idle CPU";
  r.shape = "one second after a run of a 256x256 layer";
  r.threads = threads;
  r.unit = "CPU s";
  r.ours = cpu_seconds() - before;
  r.floor = "ours <= 0.02";
  r.goal = "ours <= 0.005";
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a = bench::parse(argc, argv);
  bench::report all;
  for (const int threads : {2, 4}) all.add(idle_after(threads));
  for (const bench::row& r : all.rows())
    std::printf("%s, %d threads: %.6f CPU s\n", bench::title(r.problem).c_str(), r.threads, *r.ours);
  all.write(a.out);
}
