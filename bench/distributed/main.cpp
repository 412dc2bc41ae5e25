// Time of a training step on several MPI processes; the default net is a perceptron with megabytes of gradients.
// docs/distributed.md has the results.
//
//   mpirun -n 2 bench_distributed [--width N] [--batch N] [--shards N] [--steps N] [--bucket KB] [--parts 1]
//     [--latency US] [--rate MB/S]   adds to each sum its message time on such a network, overlapped with computing
//     [--net perceptron|lenet|resnet]
//     [--probe 1]   also times fused multiply-adds in all processes at once; scaling.py compares the two
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
import lamina;
import lamina.mpi;

#include "../training/nets.h"
#include "machine.h"

using namespace lamina;

namespace {

template <std::int64_t Width> constexpr auto perceptron =
    sequential(nn::flatten{}, sublayer<"a">(nn::linear{.in_features = 784, .out_features = Width}), nn::relu{},
               sublayer<"b">(nn::linear{.in_features = Width, .out_features = Width}), nn::relu{},
               sublayer<"c">(nn::linear{.in_features = Width, .out_features = Width}), nn::relu{},
               sublayer<"head">(nn::linear{.in_features = Width, .out_features = 10}));

auto samples(std::array<std::int64_t, 3> pictures, std::int64_t count) {
  tensor_of_rank<float, 4> images(count, pictures[0], pictures[1], pictures[2]);
  return dataset::of_tensors(bench::numbers(std::move(images), 1), bench::numbers(vector<std::int64_t>(count), 2, 10));
}

struct settings {
  std::int64_t width = 1024, batch = 64, shards = 2, steps = 40, bucket = 25 << 10, parts = 0, latency = 0, rate = 0,
               probe = 0;
  std::string_view net = "perceptron";
};

// Replicas on a simulated slower network: a sum completes no earlier than its messages would; sums run one at a time.
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
  // Rounds of a sum as in lamina::mpi: below 64 KiB pairs exchange the whole buffer, else halves, then send sums back.
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

// Time of an FMA probe that all processes run at once: the mean over processes of each one's median.
double probe_seconds(replicas& all) {
  std::vector<double> seconds;
  for (int i = 0; i < 40; ++i) {
    float together = 0;
    all.sum(view<float>(&together, 1));  // barrier: all start together
    seconds.push_back(bench::fma_probe());
  }
  std::sort(seconds.begin(), seconds.end());
  double sum = seconds[seconds.size() / 2];  // median of this process
  all.sum(view<double>(&sum, 1));
  return sum / all.count();
}

template <class Net> void measure(const settings& s, Net net, std::array<std::int64_t, 3> pictures) {
  std::shared_ptr<replicas> all = mpi::world();
  if (s.latency > 0 || s.rate > 0) all = std::make_shared<slower>(all, s);
  const auto data = samples(pictures, s.batch * s.steps);
  const double probe = s.probe ? probe_seconds(*all) : 0;
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
      "%d processes, %s, %.2f MB, %lld shards, parts of %lld KB%s, %lld us, %lld MB/s: %.3f ms a step, %.3f at best",
      all->count(), std::string(s.net).c_str(), static_cast<double>(bytes) / 1e6, static_cast<long long>(s.shards),
      static_cast<long long>(s.bucket), s.parts ? ", optimizer in parts" : "", static_cast<long long>(s.latency),
      static_cast<long long>(s.rate), 1e3 * seconds[seconds.size() / 2], 1e3 * seconds[0]);
  if (s.probe) std::printf(", probe %.4f ms", 1e3 * probe);
  std::printf("\n");
}

const model_options one_thread{.seed = 1, .threads = 1};
template <std::int64_t Width> void measure_perceptron(const settings& s) {
  measure(s, model<perceptron<Width>, input<"N", 1, 28, 28>>(one_thread), {1, 28, 28});
}
int run(const settings& s) {
  if (s.net == "lenet") return measure(s, model<lenet, input<"N", 1, 28, 28>>(one_thread), {1, 28, 28}), 0;
  if (s.net == "resnet") return measure(s, model<bench::resnet, input<"N", 3, 32, 32>>(one_thread), {3, 32, 32}), 0;
  if (s.net != "perceptron")
    return std::fprintf(stderr, "bench_distributed: `--net` is %s; expected perceptron, lenet or resnet\n",
                        std::string(s.net).c_str()),
           2;
  if (s.width == 2048) return measure_perceptron<2048>(s), 0;
  if (s.width == 1024) return measure_perceptron<1024>(s), 0;
  if (s.width == 512) return measure_perceptron<512>(s), 0;
  return std::fprintf(stderr, "bench_distributed: `--width` is %lld; expected 512, 1024 or 2048\n",
                      static_cast<long long>(s.width)),
         2;
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
    else if (word == "--probe") s.probe = number;
    else if (word == "--net") s.net = argv[i + 1];
    else return std::fprintf(stderr, "bench_distributed: unknown option `%s`\n", argv[i]), 2;
  }
  return run(s);
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_distributed: %s\n", e.what());
  return 2;
}
