// Reference models of LeNet and of a ResNet-50, alone and behind a queue.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "serving.h"

import lamina;
#include "../lenet/lenet.h"
#include "resnet50.h"

namespace {

using namespace lamina;
// A served net and its input image.
template <const auto& Topology, std::int64_t... Extents> struct served {
  using factory_type = reference_factory<Topology, input<"N", Extents...>>;
  using image = tensor<float, extents<Extents...>>;

  static const factory_type& factory() {
    static const factory_type f(typename factory_type::model_type({.seed = 1}), {.optimize = true});
    return f;
  }
  static image gray() {
    image x;
    for (float& v : x.writable()) v = 0.5f;
    return x;
  }

  class reference final : public bench::serving::reference {
   public:
    void classify() override {
      static const image x = gray();
      auto y = net_(x);
      __asm__ volatile("" ::"r"(y.data().data()) : "memory");
    }
    std::size_t own_bytes() const override { return net_.bytes(); }

   private:
    reference_model<typename factory_type::traits> net_ = factory().create();
  };
};
using small = served<lenet, 1, 28, 28>;
using large = served<resnet50::topology, 3, 224, 224>;

}  // namespace

namespace bench::serving {

std::unique_ptr<reference> make_reference(network of) {
  if (of == network::resnet50) return std::make_unique<large::reference>();
  return std::make_unique<small::reference>();
}
std::size_t shared_bytes(network of) {
  return of == network::resnet50 ? large::factory().shared_bytes() : small::factory().shared_bytes();
}
std::int64_t handed_out() { return memory::counters().current; }

queue_result serve(const queue_load& load) {
  using clock = std::chrono::steady_clock;
  batching_queue queue(
      small::factory(),
      {.workers = load.workers, .batch = load.batch, .delay = std::chrono::microseconds(100), .capacity = 4096});
  std::atomic<bool> over{false};
  std::atomic<std::int64_t> answers{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < load.clients; ++c)
    clients.emplace_back([&] {
      const auto x = small::gray();
      std::vector<decltype(queue)::answer_type> open;
      while (!over) {
        open.clear();
        for (int i = 0; i < load.window; ++i) open.push_back(queue.submit(x));
        for (auto& a : open) a.get();
        answers += load.window;
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until all plans are made
  const auto before = queue.statistics();
  const auto begin = clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(load.seconds));
  const auto after = queue.statistics();
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  over = true;
  for (auto& c : clients) c.join();
  const auto images = static_cast<double>(after.answered - before.answered),
             batches = static_cast<double>(after.batches - before.batches);
  return {images / seconds, images / batches};
}

}  // namespace bench::serving
