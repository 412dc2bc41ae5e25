// Serving (problem 13): LeNet and a ResNet-50 served by 1 to 8 reference models on two cores, compared with the gain of
// an FMA probe from the second core.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "arguments.h"
#include "measure.h"
#include "serving.h"

namespace {

using namespace bench;
using clock_type = std::chrono::steady_clock;

/// A net, seconds per round, number of rounds, and warm-up images per worker.
struct served_net {
  const char* name;
  serving::network which;
  double seconds;
  int turns, warm_up;
};
served_net lenet() {
  return {"LeNet", serving::network::lenet, repetitions(0.15, 0.01), repetitions(9), repetitions(20)};
}
served_net resnet50() { return {"ResNet-50", serving::network::resnet50, repetitions(2.5, 0.01), repetitions(3), 1}; }

struct load {
  double per_second = 0;            // calls of all threads
  std::vector<float> microseconds;  // per call, if requested
};

// Runs threads that each create a worker and call it until the time of a round is over.
template <class Make>
load run(int threads, const std::vector<int>& cores, const served_net& net, bool each, Make make) {
  std::atomic<bool> over{false};
  std::barrier start(threads + 1);
  std::vector<load> parts(static_cast<std::size_t>(threads));
  std::vector<std::thread> all;
  for (auto& part : parts)
    all.emplace_back([&] {
      pin(cores);
      auto call = make();
      for (int i = 0; i < net.warm_up; ++i) call();
      if (each) part.microseconds.reserve(1 << 20);
      start.arrive_and_wait();
      const auto begin = clock_type::now();
      auto now = begin;
      long count = 0;
      do {
        call();
        ++count;
        if (!each) continue;
        const auto then = clock_type::now();
        if (part.microseconds.size() < part.microseconds.capacity())
          part.microseconds.push_back(std::chrono::duration<float, std::micro>(then - now).count());
        now = then;
      } while (!over);
      part.per_second = static_cast<double>(count) / std::chrono::duration<double>(clock_type::now() - begin).count();
    });
  start.arrive_and_wait();
  std::this_thread::sleep_for(std::chrono::duration<double>(net.seconds));
  over = true;
  for (auto& t : all) t.join();
  load sum;
  for (auto& part : parts) {
    sum.per_second += part.per_second;
    sum.microseconds.insert(sum.microseconds.end(), part.microseconds.begin(), part.microseconds.end());
  }
  return sum;
}

auto worker(const served_net& net) {
  return [which = net.which] { return [r = serving::make_reference(which)] { r->classify(); }; };
}
auto probe() {
  return [] { fma_probe(); };
}

double spread(std::vector<float>& x) {
  std::sort(x.begin(), x.end());
  return x[x.size() - x.size() / 100 - 1] / x[x.size() / 2];
}

row served(const std::string& shape, int threads, const char* unit, double ours) {
  row r;
  r.problem = "13 serving";
  r.shape = shape;
  r.threads = threads;
  r.unit = unit;
  r.ours = ours;
  return r;
}
std::string digits(double x) { return std::to_string(x).substr(0, 5); }

// Images and probes per second by the number of workers.
struct rates {
  std::map<int, double> ours, probe;
  double scaling() const { return ours.at(2) / ours.at(1); }
  double probe_scaling() const { return probe.at(2) / probe.at(1); }
};

// Interleaves all measurements, so that other load on the machine affects them alike; keeps the best round.
template <class Also> rates measured(const served_net& net, const std::vector<int>& cores, Also also) {
  rates best;
  for (int turn = 0; turn < net.turns; ++turn) {
    for (int n : {1, 2}) best.probe[n] = std::max(best.probe[n], run(n, cores, net, false, probe).per_second);
    for (int n : {1, 2, 4, 8}) best.ours[n] = std::max(best.ours[n], run(n, cores, net, false, worker(net)).per_second);
    also();
  }
  return best;
}

void add_rows(report& all, const served_net& net, const rates& of) {
  const std::string name = net.name;
  for (auto [threads, per_second] : of.ours) {
    const char* models = threads == 1 ? " reference model" : " reference models";
    auto r = served(name + ", batch 1, " + std::to_string(threads) + models + " on 2 cores", threads, "images/s",
                    per_second);
    r.peers = {measured_later("ONNX Runtime")};
    r.goal = "ratio >= 1.0";
    all.add(r);
  }
  auto two = served(name + ": what a second worker gains, by what it gains an FMA probe", 2, "1",
                    of.scaling() / of.probe_scaling());
  two.floor = "ours >= 0.95";
  two.note = name + " " + digits(of.scaling()) + ", the probe " + digits(of.probe_scaling());
  all.add(two);
  auto eight = served(name + ": eight workers on two cores, by two", 8, "1", of.ours.at(8) / of.ours.at(2));
  eight.floor = "ours >= 0.95";
  all.add(eight);
}

}  // namespace

int main(int argc, char** argv) {
  auto cores = usable_cores();
  const arguments a = parse(argc, argv);
  if (cores.size() < 2) {
    std::fprintf(stderr, "serving needs two cores; this machine has one\n");
    return 2;
  }
  cores.resize(2);
  pin(cores);
  std::vector<double> ours, theirs;  // p99 / p50 per round
  double probe_us = 0;
  {
    const auto r = serving::make_reference(lenet().which);
    probe_us = seconds_of([&] { r->classify(); }, repetitions(2000L, 20L)) * 1e6;
  }
  // A chain of dependent operations that takes about as long as one image.
  long links = 1000;
  const auto chain = [&links] {
    float x = 1;
    for (long i = 0; i < links; ++i) __asm__ volatile("mulss %0, %0" : "+x"(x));
  };
  links = std::lround(1000 * probe_us * 1e-6 / seconds_of(chain, 20000));
  const rates small = measured(lenet(), cores, [&] {
    auto of_lenet = run(2, cores, lenet(), true, worker(lenet())),
         of_chain = run(2, cores, lenet(), true, [&] { return chain; });
    ours.push_back(spread(of_lenet.microseconds));
    theirs.push_back(spread(of_chain.microseconds));
  });
  const rates large = measured(resnet50(), cores, [] {});

  report all;
  const double probe_scaling = std::min(small.probe_scaling(), large.probe_scaling());
  const bool quiet = probe_scaling > 1.7;  // otherwise other processes use these cores
  add_rows(all, lenet(), small);
  add_rows(all, resnet50(), large);
  const double best = *std::min_element(ours.begin(), ours.end()),
               probe_best = *std::min_element(theirs.begin(), theirs.end());
  auto tail = served("LeNet: 99th percentile / median, 2 reference models on 2 cores", 2, "1", best);
  tail.median = summary(ours).median;
  tail.floor = "ours <= " + digits(std::max(2.0, 1.2 * probe_best));
  tail.note = "that of a chain of dependent operations that takes as long: " + digits(probe_best) + ", in the middle " +
              digits(summary(theirs).median);
  all.add(tail);
  const struct {
    int batch, clients, window;
  } loads[] = {{1, 8, 16}, {8, 8, 16}, {32, 8, 32}};
  for (auto [batch, clients, window] : loads) {
    serving::queue_result q;
    for (int turn = 0; turn < repetitions(3); ++turn) {
      const auto next = serving::serve(
          {.workers = 2, .batch = batch, .clients = clients, .window = window, .seconds = repetitions(0.3, 0.01)});
      if (next.images_per_s > q.images_per_s) q = next;
    }
    auto r = served("a queue, 2 workers, 8 clients, batches of up to " + std::to_string(batch), 2, "images/s",
                    q.images_per_s);
    r.peers = {{"2 reference models without a queue", "batch 1", "", small.ours.at(2), {}}};
    r.ratio = q.images_per_s / small.ours.at(2);
    r.note = digits(q.images_per_batch) + " images a batch; clients run on the same cores";
    all.add(r);
  }
  report results;
  for (row r : all.rows()) {
    if (!quiet)
      r.note += (r.note.empty() ? "noisy: a second core gives the probe " : "; noisy: a second core gives the probe ") +
                digits(probe_scaling);
    show(r);
    results.add(std::move(r));
  }
  results.write(a.out);
}
