#include "classifier.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "metrics.h"
import lamina;

using namespace lamina;

namespace {

// The net of samples/fashion_mnist, then softmax: it has no parameters, so the names in the file still match.
constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 400, .out_features = 120}, nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10},
    nn::softmax{});
using image_input = input<"N", 1, image_side, image_side>;
using factory_type = reference_factory<lenet, image_input>;
using net_type = factory_type::model_type;
using queue_type = batching_queue<factory_type::traits>;
using sample = tensor<float, extents<1, image_side, image_side>>;

// Pixels scaled as in the training of samples/fashion_mnist.
sample brightness(const image_bytes& image) {
  sample x;
  auto to = x.writable();
  for (std::size_t i = 0; i < image_pixels; ++i) to[i] = static_cast<float>(image[i] / 255.0);
  return x;
}

// Loads saved parameters; throws if one is not finite, because then each prediction would be NaN.
net_type read_weights(const std::string& path) {
  net_type net;
  load(net, path);
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const auto& p = net.parameters()[i];
    const auto* numbers = reinterpret_cast<const float*>(p.value().data());
    if (!std::all_of(numbers, numbers + p.value().shape().size(), [](float x) { return std::isfinite(x); }))
      throw std::runtime_error(path + ": parameter `" + p.name() + "` has a value that is not finite");
  }
  return net;
}

}  // namespace

const std::array<const char*, class_count> class_names{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                                       "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct classifier::implementation {
  const classifier_options options;
  factory_type factory;
  queue_type queue;
  std::mutex reloading;
  std::atomic<std::int64_t> reloads{0}, failed_reloads{0};

  explicit implementation(const classifier_options& o)
      : options(o),
        factory(read_weights(o.weights), {.optimize = true}),
        queue(factory, {.workers = o.workers, .batch = o.batch, .delay = o.delay, .capacity = o.capacity}) {}
};

classifier::classifier(const classifier_options& o) : impl_(std::make_unique<implementation>(o)) {}
classifier::~classifier() = default;

namespace {

// Converts the current exception to a verdict.
prediction failure_of_now() {
  try {
    throw;
  } catch (const deadline_error&) { return {.what = verdict::late}; } catch (const stopped_error&) {
    return {.what = verdict::stopping};
  } catch (const out_of_memory&) { return {.what = verdict::no_memory}; } catch (const std::bad_alloc&) {
    return {.what = verdict::no_memory};
  } catch (const std::exception& e) { return {.what = verdict::failed, .reason = e.what()}; }
}

struct queued_image final : classification {
  queue_type::answer_type answer;

  bool ready() override { return answer.wait_for(std::chrono::nanoseconds(0)); }
  prediction take() override {
    try {
      const auto y = answer.get();
      prediction p{.what = verdict::classified};
      std::copy(y.data().begin(), y.data().end(), p.probabilities.begin());
      const auto best = std::max_element(p.probabilities.begin(), p.probabilities.end());
      p.label = static_cast<std::size_t>(best - p.probabilities.begin());
      return p;
    } catch (...) { return failure_of_now(); }
  }
};

}  // namespace

std::unique_ptr<classification> classifier::begin(const image_bytes& image, std::function<void()> done,
                                                  prediction& why) {
  try {
    auto accepted = std::make_unique<queued_image>();
    auto answer = impl_->queue.try_submit_within(impl_->options.patience, brightness(image));
    if (!answer) {
      why.what = verdict::full;
      return nullptr;
    }
    accepted->answer = std::move(*answer);
    accepted->answer.on_ready(std::move(done));
    return accepted;
  } catch (...) {
    why = failure_of_now();
    return nullptr;
  }
}

bool classifier::reload(std::string& message) {
  std::lock_guard lock(impl_->reloading);
  try {
    impl_->factory.update(read_weights(impl_->options.weights));
    message = impl_->options.weights;
    ++impl_->reloads;
    return true;
  } catch (const std::exception& e) {
    message = e.what();
    ++impl_->failed_reloads;
    return false;
  }
}

void classifier::stop() { impl_->queue.shutdown_now(); }

std::string classifier::metrics() const {
  const auto s = impl_->queue.statistics();
  metrics_text m;
  m.counter("lamina_requests_total", "Images by outcome.",
            {{"outcome=\"answered\"", s.answered},
             {"outcome=\"failed\"", s.failed},
             {"outcome=\"expired\"", s.expired},
             {"outcome=\"stopped\"", s.stopped},
             {"outcome=\"refused\"", s.refused}});
  m.gauge("lamina_requests_waiting", "Images waiting for a batch.", s.waiting);
  m.gauge("lamina_requests_running", "Images in running batches.", s.running);
  const auto& bounds = latency_histogram::bounds;
  m.histogram("lamina_request_seconds", "Seconds from receiving an image to answering.", {bounds.begin(), bounds.end()},
              {s.latency.counts.begin(), s.latency.counts.end()}, s.latency.sum);
  std::vector<double> sizes;
  std::vector<std::int64_t> counts;
  double images = 0;
  std::size_t n = 1;
  for (std::size_t max = 1; n < s.batch_sizes.size(); max *= 2) {
    counts.push_back(0);
    sizes.push_back(static_cast<double>(max));
    for (; n <= max && n < s.batch_sizes.size(); ++n) {
      counts.back() += s.batch_sizes[n];
      images += static_cast<double>(n) * static_cast<double>(s.batch_sizes[n]);
    }
  }
  counts.push_back(0);
  m.histogram("lamina_batch_images", "Images per batch.", sizes, counts, images);
  m.counter("lamina_reloads_total", "Reloads of the weights file.",
            {{"result=\"good\"", impl_->reloads}, {"result=\"refused\"", impl_->failed_reloads}});
  const auto plans = impl_->factory.plans().statistics();
  m.counter("lamina_plans_total", "Plans requested by workers: found in the cache or built.",
            {{"result=\"hit\"", static_cast<std::int64_t>(plans.hits)},
             {"result=\"made\"", static_cast<std::int64_t>(plans.builds)}});
  m.gauge("lamina_weights_bytes", "Bytes of weights shared by all workers.",
          static_cast<std::int64_t>(impl_->factory.shared_bytes()));
  m.gauge("lamina_memory_bytes", "Bytes allocated by lamina.", memory::counters().current);
  m.gauge("lamina_memory_cached_bytes", "Bytes cached by lamina for reuse.", memory::counters().cached);
  return m.text();
}

void write_untrained(const std::string& path, std::int64_t seed) {
  save(model<lenet, image_input>({.seed = seed}), path);
}
