// LeNet's reference models, alone and behind a queue.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "serving.h"

import lamina;
#include "../lenet/lenet.h"

namespace {

using namespace lamina;
using factory_type = reference_factory<lenet, input<"N", 1, 28, 28>>;
using image = tensor<float, extents<1, 28, 28>>;

const factory_type& factory() {
  static const factory_type f(factory_type::model_type({.seed = 1}));
  return f;
}
image grey() {
  image x;
  for (float& v : x.writable()) v = 0.5f;
  return x;
}

}  // namespace

namespace bench::serving {

struct reference {
  decltype(factory().create()) net = factory().create();
};
reference* make_reference() { return new reference; }
void release(reference* r) { delete r; }
void classify(reference& r) {
  static const image x = grey();
  auto y = r.net(x);
  __asm__ volatile("" ::"r"(y.data().data()) : "memory");
}
std::size_t own_bytes(const reference& r) { return r.net.bytes(); }
std::size_t shared_bytes() { return factory().shared_bytes(); }
std::int64_t handed_out() { return memory::counters().current; }

queue_result serve(const queue_load& load) {
  using clock = std::chrono::steady_clock;
  batching_queue queue(factory(), {.workers = load.workers, .batch = load.batch, .delay = std::chrono::microseconds(100), .capacity = 4096});
  std::atomic<bool> over{false};
  std::atomic<std::int64_t> answers{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < load.clients; ++c)
    clients.emplace_back([&] {
      const image x = grey();
      std::vector<decltype(queue)::answer_type> open;
      while (!over) {
        open.clear();
        for (int i = 0; i < load.window; ++i) open.push_back(queue.submit(x));
        for (auto& a : open) a.get();
        answers += load.window;
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));    // plans are made
  const auto before = queue.statistics();
  const auto begin = clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(load.seconds));
  const auto after = queue.statistics();
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  over = true;
  for (auto& c : clients) c.join();
  const auto images = static_cast<double>(after.answered - before.answered), batches = static_cast<double>(after.batches - before.batches);
  return {images / seconds, images / batches};
}

}  // namespace bench::serving
