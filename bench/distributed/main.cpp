// Time of a training step on the processes of MPI: a perceptron whose gradients take megabytes. docs/distributed.md has its figures.
//
//   mpirun -n 2 bench_distributed [--width N] [--batch N] [--shards N] [--steps N] [--bucket KB] [--parts 1]
//     [--latency US] [--rate MB/S]   adds to each sum what its messages would take on such a network, beside computing
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>
import lamina;
import lamina.mpi;

using namespace lamina;

namespace {

template <std::int64_t Width> constexpr auto perceptron =
    sequential(nn::flatten{}, sublayer<"a">(nn::linear{.in_features = 784, .out_features = Width}), nn::relu{},
               sublayer<"b">(nn::linear{.in_features = Width, .out_features = Width}), nn::relu{},
               sublayer<"c">(nn::linear{.in_features = Width, .out_features = Width}), nn::relu{},
               sublayer<"head">(nn::linear{.in_features = Width, .out_features = 10}));

image_dataset noise(std::int64_t count) {
  image_dataset::images_type images(count, 1, 28, 28);
  lamina::vector<std::int64_t> labels(count);
  std::uint32_t state = 1;
  for (auto& x : images.writable()) x = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  for (auto& x : labels.writable()) x = (state = state * 1664525u + 1013904223u) >> 28 & 7;
  return {std::move(images), std::move(labels), {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
}

struct settings {
  std::int64_t width = 1024, batch = 64, shards = 2, steps = 40, bucket = 25 << 10, parts = 0, latency = 0, rate = 0;
};

// Replicas on a network that is slower: a sum is over no sooner than its messages would be, one sum after the other.
class slower final : public replicas {
 public:
  slower(std::shared_ptr<replicas> inside, const settings& s)
      : inside_(std::move(inside)),
        latency_(1e-6 * static_cast<double>(s.latency)),
        rate_(1e6 * static_cast<double>(s.rate)) {}
  int rank() const override { return inside_->rank(); }
  int count() const override { return inside_->count(); }
  void sum(view<float> numbers) override { begin_sum(numbers), finish_sums(); }
  void sum(view<double> numbers) override { begin_sum(numbers), finish_sums(); }
  void begin_sum(view<float> numbers) override {
    add(numbers.size() * sizeof(float));
    inside_->begin_sum(numbers);
  }
  void begin_sum(view<double> numbers) override {
    add(numbers.size() * sizeof(double));
    inside_->begin_sum(numbers);
  }
  void progress() override { inside_->progress(); }
  void finish_sums() override {
    inside_->finish_sums();
    std::this_thread::sleep_until(over_);
  }
  void broadcast(void* bytes, std::size_t count) override { inside_->broadcast(bytes, count); }
  void fail(std::string_view why) noexcept override { inside_->fail(why); }

 private:
  using clock = std::chrono::steady_clock;
  // Rounds of a sum are those of lamina::mpi: of less than 64 KiB each pair sends all, else halves, and back.
  void add(std::size_t bytes) {
    const double ranks = count(), rounds = std::bit_width(static_cast<unsigned>(count())) - 1;
    const bool halves = bytes >= std::size_t(64) << 10;
    const double sent = static_cast<double>(bytes) * (halves ? 2 * (ranks - 1) / ranks : rounds);
    const double seconds = (halves ? 2 : 1) * rounds * latency_ + (rate_ > 0 ? sent / rate_ : 0);
    over_ = std::max(over_, clock::now()) +
            std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  }
  std::shared_ptr<replicas> inside_;
  double latency_, rate_;
  clock::time_point over_{};
};

template <std::int64_t Width> void measure(const settings& s) {
  std::shared_ptr<replicas> all = mpi::world();
  if (s.latency > 0 || s.rate > 0) all = std::make_shared<slower>(all, s);
  const auto data = noise(s.batch * s.steps);
  model<perceptron<Width>, input<"N", 1, 28, 28>> net({.seed = 1, .threads = 1});
  std::vector<double> seconds;
  auto last = std::chrono::steady_clock::now();
  const auto watch = [&](const training_progress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (!p.epoch_ended) seconds.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
    return true;
  };
  fit(net, data, loss::cross_entropy{}, optim::sgd{.lr = 1e-3, .momentum = 0.9},
      {.batch = s.batch,
       .observer = watch,
       .shards = s.shards,
       .replicas = all,
       .bucket_bytes = s.bucket << 10,
       .shard_optimizer = s.parts != 0});
  if (all->rank() != 0) return;
  std::sort(seconds.begin(), seconds.end());
  std::size_t bytes = 0;
  for (const auto& p : net.parameters())
    if (p.role() == state_role::parameter) bytes += p.value().bytes();
  std::printf(
      "%d processes, %.2f MB, %lld shards, parts of %lld KB%s, %lld us, %lld MB/s: %.2f ms a step, %.2f at best\n",
      all->count(), static_cast<double>(bytes) / 1e6, static_cast<long long>(s.shards),
      static_cast<long long>(s.bucket), s.parts ? ", optimizer in parts" : "", static_cast<long long>(s.latency),
      static_cast<long long>(s.rate), 1e3 * seconds[seconds.size() / 2], 1e3 * seconds[0]);
}

}  // namespace

int main(int argc, char** argv) try {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    const std::int64_t number = std::atoll(argv[i + 1]);
    if (word == "--width") s.width = number;
    else if (word == "--batch") s.batch = number;
    else if (word == "--shards") s.shards = number;
    else if (word == "--steps") s.steps = number;
    else if (word == "--bucket") s.bucket = number;
    else if (word == "--parts") s.parts = number;
    else if (word == "--latency") s.latency = number;
    else if (word == "--rate") s.rate = number;
    else return std::fprintf(stderr, "bench_distributed: `%s` is no option\n", argv[i]), 2;
  }
  if (s.width == 2048) measure<2048>(s);
  else if (s.width == 1024) measure<1024>(s);
  else if (s.width == 512) measure<512>(s);
  else
    return std::fprintf(stderr, "bench_distributed: `--width` is %lld; expected 512, 1024 or 2048\n",
                        static_cast<long long>(s.width)),
           2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_distributed: %s\n", e.what());
  return 2;
}
