// Time of a training step on many processes: simulates the gradient exchange of lamina::mpi round by round on a network
// of a given latency and rate, and compares it with the formula of docs/distributed.md.
//
//   simulate_distributed [--shard MS] [--shards N] [--megabytes MB] [--bucket MB] [--rate MB/S] [--latency US]
//     [--update MS] [--jitter PERCENT] [--parts 1] [--check 1]
//
// `--shards`: shards per process. `--jitter`: maximum extra time of shards, drawn for each process and step.
// `--check 1`: compares the simulation with the formula in cases where it is exact, and fails if they differ.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

struct network {
  double latency, rate;  // seconds per message, bytes per second in each direction
};
struct step {
  double shard = 0.1;         // seconds per shard
  double shards = 1;          // per process
  double backward = 2.0 / 3;  // fraction of a shard's time during which gradients finish, at an even rate
  double bytes = 1e8, bucket = 25 << 20;
  double update = 0.01;
  double jitter = 0;
  bool parts = false;
};

int rounds_of(int ranks) {
  int rounds = 0;
  while (1 << rounds < ranks) ++rounds;
  return rounds;
}

// Simulates consecutive steps: a process begins its next step when it has the sums of the current one.
class simulation {
 public:
  simulation(const step& s, const network& n, int ranks)
      : s_(s), n_(n), ranks_(ranks), rounds_(rounds_of(ranks)), at_(static_cast<std::size_t>(ranks), 0.0) {}
  double seconds_of_a_step(int steps) {
    for (int i = 0; i < steps; ++i) one_step();
    return *std::max_element(at_.begin(), at_.end()) / steps;
  }

 private:
  double random() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  void one_step() {
    const int buckets = static_cast<int>(std::ceil(s_.bytes / s_.bucket));
    const double each = s_.bytes / buckets;
    std::vector<double> shard(at_.size()), compute(at_.size());
    for (std::size_t r = 0; r < at_.size(); ++r) {
      shard[r] = s_.shard * (1 + s_.jitter * random());
      compute[r] = at_[r] + s_.shards * shard[r];
    }
    std::vector<double> engine = at_;  // time at which each process can start its next exchange
    for (int b = 0; b < buckets; ++b) {
      for (std::size_t r = 0; r < at_.size(); ++r) {
        const double left = 1 - static_cast<double>(b + 1) / buckets;
        engine[r] = std::max(engine[r], compute[r] - left * s_.backward * shard[r]);
      }
      sum(engine, each, s_.parts ? b * ranks_ / buckets : -1);
    }
    for (std::size_t r = 0; r < at_.size(); ++r) engine[r] = std::max(engine[r], compute[r]);
    sum(engine, 24, -1);  // loss, hits, samples
    const double update = s_.parts ? s_.update / ranks_ : s_.update;
    for (auto& t : engine) t += update;
    if (s_.parts) gather(engine);
    at_ = engine;
  }
  // Pairwise rounds. Below 64 KiB each process sends the whole buffer; else halves, then the sums go back to all
  // processes or, if `owner` >= 0, to the owner.
  void sum(std::vector<double>& t, double bytes, int owner) const {
    const bool halves = bytes >= 65536;
    double part = bytes;
    for (int i = 0; i < rounds_; ++i) {
      if (halves) part /= 2;
      exchange(t, i, part);
    }
    for (int i = rounds_; halves && i-- > 0; part *= 2)
      if (owner < 0) exchange(t, i, part);
      else give_back(t, i, part, owner);
  }
  double message(double bytes) const { return n_.latency + bytes / n_.rate; }
  void exchange(std::vector<double>& t, int round, double bytes) const {
    for (int r = 0; r < ranks_; ++r) {
      const int partner = r ^ (1 << round);
      if (partner < r) continue;
      double &a = t[static_cast<std::size_t>(r)], &b = t[static_cast<std::size_t>(partner)];
      a = b = std::max(a, b) + message(bytes);
    }
  }
  void give_back(std::vector<double>& t, int round, double bytes, int owner) const {
    for (int r = 0; r < ranks_; ++r) {
      if (((r ^ owner) >> round) != 0) continue;
      double &taker = t[static_cast<std::size_t>(r)], &giver = t[static_cast<std::size_t>(r ^ (1 << round))];
      const double begin = std::max(taker, giver);
      taker = begin + message(bytes);
      giver = begin + bytes / n_.rate;
    }
  }
  // All-gather of the parts: one message per round; each process receives all bytes except its own part.
  void gather(std::vector<double>& t) const {
    double part = s_.bytes / ranks_;
    for (int i = 0; i < rounds_; ++i, part *= 2) exchange(t, i, part);
  }

  step s_;
  network n_;
  int ranks_, rounds_;
  std::vector<double> at_;
  std::uint64_t state_ = 1;
};

// Formula of docs/distributed.md.
double formula(const step& s, const network& n, int ranks) {
  const double k = std::ceil(s.bytes / s.bucket), rounds = rounds_of(ranks), part = (ranks - 1.0) / ranks;
  const double half = part * s.bytes / n.rate + k * rounds * n.latency;  // reduction; way back costs the same
  const double e = 2 * half;
  const double h = s.backward * s.shard * (1 - 1 / k);
  double all = s.shards * s.shard + std::max(e - h, e / k) + rounds * (n.latency + 24 / n.rate) + s.update;
  if (s.parts) all += part * s.bytes / n.rate + rounds * n.latency - s.update * part;
  return all;
}

bool check() {
  bool good = true;
  for (const double rate : {1e7, 1e9, 1e11})
    for (int ranks = 2; ranks <= 1024; ranks *= 2) {
      step s;
      s.bucket = 5e6;
      const network n{1e-5, rate};
      const double seen = simulation(s, n, ranks).seconds_of_a_step(3), wanted = formula(s, n, ranks);
      if (std::abs(seen - wanted) > 1e-9 * wanted) {
        std::printf("%d processes, %g bytes/s: %.9f s; the formula gives %.9f\n", ranks, rate, seen, wanted);
        good = false;
      }
    }
  // A step takes longer if processes wait for each other, and if there are more messages.
  step even, uneven;
  uneven.jitter = 0.2;
  const network n{1e-5, 1e11};
  const double one = simulation(even, n, 64).seconds_of_a_step(20),
               other = simulation(uneven, n, 64).seconds_of_a_step(20);
  if (!(other > one * 1.1 && other < one * 1.25)) {
    std::printf("steps of %.4f s take %.4f where shards take up to 20%% longer\n", one, other);
    good = false;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  step s;
  network n{50e-6, 1.25e9};
  bool checks = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    const double number = std::atof(argv[i + 1]);
    if (word == "--shard") s.shard = number / 1e3;
    else if (word == "--shards") s.shards = number;
    else if (word == "--megabytes") s.bytes = number * 1e6;
    else if (word == "--bucket") s.bucket = number * 1024 * 1024;
    else if (word == "--rate") n.rate = number * 1e6;
    else if (word == "--latency") n.latency = number / 1e6;
    else if (word == "--update") s.update = number / 1e3;
    else if (word == "--jitter") s.jitter = number / 100;
    else if (word == "--parts") s.parts = number != 0;
    else if (word == "--check") checks = number != 0;
    else return std::fprintf(stderr, "simulate_distributed: unknown option `%s`\n", argv[i]), 2;
  }
  if (!(s.shard > 0 && s.shards >= 1 && s.bytes > 0 && s.bucket > 0 && n.rate > 0 && n.latency >= 0 && s.update >= 0 &&
        s.jitter >= 0))
    return std::fprintf(stderr, "simulate_distributed: expected numbers above 0\n"), 2;
  if (checks) return check() ? 0 : 1;
  const double alone = s.shards * s.shard + s.update;
  std::printf("%9s  %10s  %10s  %10s\n", "processes", "step, ms", "formula", "efficiency");
  for (int ranks = 2; ranks <= 1024; ranks *= 2) {
    const double seen = simulation(s, n, ranks).seconds_of_a_step(20);
    std::printf("%9d  %10.2f  %10.2f  %9.1f%%\n", ranks, 1e3 * seen, 1e3 * formula(s, n, ranks), 100 * alone / seen);
  }
}
