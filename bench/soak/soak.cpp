// Soak test: serves for a given time and fails if memory grows. Clients send images of several shapes, one at a time
// and in bursts, while weights are replaced and caches are emptied.
//   soak [SECONDS]        60 by default; an hour is 3600
//   soak SECONDS leak     leaks on purpose, to show that the test fails
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "process_memory.h"

import lamina;

using namespace lamina;

namespace {

using clock_type = std::chrono::steady_clock;

constexpr auto net = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 8, .kernel_size = 3, .padding = 1}, nn::batch_norm2d{8}, nn::relu{},
    nn::conv2d{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1}, nn::global_avg_pool2d{},
    nn::flatten{}, nn::linear{.in_features = 8, .out_features = 512}, nn::relu{},
    nn::linear{.in_features = 512, .out_features = 512}, nn::relu{}, nn::linear{.in_features = 512, .out_features = 4});
using images = input<"N", 1, "H", "W">;
using net_type = model<net, images>;
using factory_type = reference_factory<net, images>;
using image = tensor<float, extents<1, dyn, dyn>>;
using logits = vector<float, 4>;

constexpr int clients = 4, workers = 2, shapes = 24;  // more shapes than a reference model caches plans for

image picture(int i) {
  image x(8 + i % 6, 8 + i / 6);
  auto to = x.writable();
  for (std::size_t k = 0; k < to.size(); ++k)
    to[k] = static_cast<float>((k * 37 + static_cast<std::size_t>(i)) % 11) / 11;
  return x;
}
bool same(const logits& a, const logits& b) {
  return std::memcmp(a.data().data(), b.data().data(), 4 * sizeof(float)) == 0;
}

struct soak {
  std::vector<net_type> nets;
  factory_type factory;
  std::vector<image> pictures;
  std::vector<std::vector<logits>> expected{2};  // per set of weights
  batching_queue<factory_type::traits> queue;
  std::atomic<bool> over{false}, leaking{false};
  std::atomic<std::int64_t> answers{0}, wrong{0}, exchanges{0};

  soak()
      : nets(two_nets()),
        factory(nets[0], {.optimize = true}),
        queue(factory, {.workers = workers, .batch = 8, .delay = std::chrono::microseconds(200), .capacity = 64}) {
    for (int i = 0; i < shapes; ++i) pictures.push_back(picture(i));
    for (std::size_t n = 0; n < 2; ++n) {
      factory.update(nets[n]);
      auto ref = factory.create();
      for (const auto& p : pictures) expected[n].push_back(ref(p));
    }
  }
  static std::vector<net_type> two_nets() {
    std::vector<net_type> all;
    all.emplace_back(model_options{.seed = 1});
    all.emplace_back(model_options{.seed = 2});
    return all;
  }

  void client(int number) {
    std::vector<std::pair<std::size_t, decltype(queue)::answer_type>> open;
    std::size_t at = static_cast<std::size_t>(number) * 5;
    for (std::int64_t round = 0; !over; ++round) {
      const int burst = round % 3 == 0 ? 1 : 12;
      for (int i = 0; i < burst; ++i) {
        at = (at + (round % 2 ? 1 : 7)) % shapes;
        open.emplace_back(at, queue.submit(pictures[at]));
      }
      for (auto& [i, a] : open) {
        const auto y = a.get();
        wrong += !same(y, expected[0][i]) && !same(y, expected[1][i]);
        ++answers;
      }
      open.clear();
      if (round % 100 == 99) memory::trim();
    }
  }
  void exchange() {
    for (std::size_t n = 0; !over; n = 1 - n) {
      factory.update(nets[n]);
      ++exchanges;
      memory::trim();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (!leaking) continue;
      void* volatile lost = std::malloc(30000);  // volatile: keeps the compiler from removing the allocation
      std::memset(lost, 1, 30000);
    }
  }
};

// 10th percentile of the samples: memory in use at low load.
double least(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 10];
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  if (argc > 3 || (argc == 3 && std::strcmp(argv[2], "leak") != 0) || !(seconds >= 1)) {
    std::fprintf(stderr, "usage: soak [SECONDS [leak]]\n");
    return 2;
  }
  // Limits malloc's per-thread arenas and heap fragmentation from weights, which would look like drift.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 65536);
  soak s;
  s.leaking = argc == 3;
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) threads.emplace_back([&s, c] { s.client(c); });
  threads.emplace_back([&s] { s.exchange(); });

  // Memory varies with the batches, so each measurement is a low percentile of many samples; a leak raises that, too.
  // Half of the time is warm-up; the sixth after it is compared with the last sixth. If memory grew, the test measures
  // again, because a leak continues.
  const auto rest = [](double t) { std::this_thread::sleep_for(std::chrono::duration<double>(t)); };
  const auto look = [&rest](double t) {
    std::vector<double> pages;
    for (const auto begin = clock_type::now(); clock_type::now() - begin < std::chrono::duration<double>(t); rest(0.02))
      pages.push_back(static_cast<double>(bench::proportional_bytes()));
    return least(pages);
  };
  const double sixth = seconds / 6;
  rest(3 * sixth);
  double before = look(sixth);
  rest(sixth);
  double after = look(sixth);
  for (int again = 0; again < 3 && after > 1.01 * before; ++again) {
    std::printf("PSS %.2f MB, then %.2f MB; measuring again\n", before / 1e6, after / 1e6);
    before = after;
    rest(sixth);
    after = look(sixth);
  }
  s.over = true;
  for (auto& t : threads) t.join();
  s.queue.shutdown();
  const auto figures = s.queue.statistics();
  if (!(before > 0)) {
    std::fprintf(stderr, "soak: cannot read /proc/self/smaps_rollup\n");
    return 1;
  }
  const double drift = after / before - 1;
  std::printf("%.0f s: %lld answers in %lld batches, %lld weight updates, %lld wrong\n", seconds,
              static_cast<long long>(s.answers), static_cast<long long>(figures.batches),
              static_cast<long long>(s.exchanges), static_cast<long long>(s.wrong));
  std::printf("PSS %.2f MB after warming up, %.2f MB at the end: %+.2f %%\n", before / 1e6, after / 1e6, 100 * drift);
  std::printf("allocated by lamina at the end: %.0f kB\n", static_cast<double>(memory::counters().current) / 1e3);
  bool good = s.wrong == 0 && s.answers > 0 && figures.answered == s.answers &&
              figures.failed + figures.expired + figures.stopped == 0;
  if (!good) std::printf("answers are wrong or missing\n");
  if (drift > 0.01) {
    std::printf("memory grew by more than 1 %%\n");
    good = false;
  }
  return good ? 0 : 1;
}
