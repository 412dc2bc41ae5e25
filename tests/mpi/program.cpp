// Trains a small net on MPI processes, for the tests: mpi_program OUT [--checkpoint FILE] [--write FILE] [--stop BATCH]
// [--sums] [--bucket BYTES] [--parts] [--together] [--across] [--funneled] [--fail | --kill | --slow RANK]
//   --write     writes a checkpoint without resuming from it
//   --parts     shards the optimizer
//   --together  clips all gradients together
//   --across    statistics of all shards
//   --funneled  only one thread calls MPI
//   --fail, --kill, --slow  what goes wrong in process RANK
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

import lamina;
import lamina.mpi;

#include "squares.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

// Bytes from one process, and sums for one process, split into messages.
void check_transfers(replicas& all) {
  const auto count = static_cast<std::size_t>(all.count());
  const auto byte = [](std::size_t i) { return static_cast<unsigned char>(i * 7 % 251); };
  for (const std::size_t each : {0U, 1U, 999U, (5U << 20) + 3U}) {
    std::vector<unsigned char> bytes(each * count);
    std::vector<std::size_t> ends;
    for (std::size_t r = 0; r < count; ++r) ends.push_back((r + 1) * each - (r + 1 < count && each > 2 ? r % 3 : 0));
    const auto rank = static_cast<std::size_t>(all.rank());
    for (std::size_t i = rank ? ends[rank - 1] : 0; i < ends[rank]; ++i) bytes[i] = byte(i);
    all.all_gather(bytes.data(), lamina::view<const std::size_t>(ends));
    for (std::size_t i = 0; i < ends.back(); ++i)
      if (bytes[i] != byte(i)) throw std::runtime_error("byte " + std::to_string(i) + " of all is wrong");
    const int last = all.count() - 1;
    std::vector<unsigned char> own(each, static_cast<unsigned char>(all.rank() + 1));
    all.send(last, 0, own.data(), each);
    for (const auto b : own)
      if (b != (all.rank() == 0 ? last + 1 : all.rank() + 1)) throw std::runtime_error("a byte that was sent is wrong");
  }
  for (int owner = 0; owner < all.count(); ++owner)
    for (const std::size_t length : {3U, (3U << 20) + 5U}) {
      std::vector<double> mine(length), same(length);
      for (std::size_t i = 0; i < length; ++i)
        mine[i] = same[i] = static_cast<double>(all.rank() + 1) / static_cast<double>(i % 97 + 3);
      all.begin_sum_for(owner, view<double>(mine));
      all.begin_sum(view<double>(same));
      all.finish_sums();
      if (all.rank() == owner && mine != same) throw std::runtime_error("a sum for one process is wrong");
    }
}

// Sums of every length, split into messages, compared with pairwise sums computed here.
void check_sums(replicas& all) {
  for (const std::size_t length : {0U, 1U, 7U, 1U << 20, (3U << 20) + 5U}) {
    const auto number = [&](int rank, std::size_t i) {
      return static_cast<float>(rank + 1) / static_cast<float>(i % 97 + 3);
    };
    std::vector<float> mine(length);
    for (std::size_t i = 0; i < length; ++i) mine[i] = number(all.rank(), i);
    all.sum(view<float>(mine));
    for (std::size_t i = 0; i < length; i += length < 100 ? 1 : 1009) {
      std::vector<float> x;
      for (int r = 0; r < all.count(); ++r) x.push_back(number(r, i));
      for (; x.size() > 1; x.resize(x.size() / 2))
        for (std::size_t k = 0; k < x.size() / 2; ++k) x[k] = x[2 * k] + x[2 * k + 1];
      if (x[0] != mine[i]) throw std::runtime_error("a sum of " + std::to_string(length) + " numbers is wrong");
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::string out, checkpoint, write;
  std::string_view wrong;
  int wrong_rank = -1, stop = -1;
  std::int64_t bucket = 0;
  bool sums = false, funneled = false, parts = false, together = false, across = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--sums") sums = true;
    else if (word == "--funneled") funneled = true;
    else if (word == "--parts") parts = true;
    else if (word == "--together") together = true;
    else if (word == "--across") across = true;
    else if (word.starts_with("--") && i + 1 < argc) {
      ++i;
      if (word == "--checkpoint") checkpoint = argv[i];
      else if (word == "--write") write = argv[i];
      else if (word == "--stop") stop = std::atoi(argv[i]);
      else if (word == "--bucket") bucket = std::atoll(argv[i]);
      else wrong = word, wrong_rank = std::atoi(argv[i]);
    } else out = word;
  }
  int threads = 0;
  if (funneled) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &threads);
  const auto all = mpi::world();
  if (sums) check_sums(*all), check_transfers(*all);
  const bool here = all->rank() == wrong_rank;
  auto data = squares(120, 1);
  if (here && wrong == "--fail") {
    // A label that only this process has.
    lamina::vector<std::int64_t> labels(120);
    auto out_of = labels.writable();
    for (std::size_t i = 0; i < out_of.size(); ++i) out_of[i] = static_cast<std::int64_t>(i % 4);
    data = {data.bytes(), std::move(labels), {"a", "b", "c", "d"}};
  }
  int batches = 0;
  observer watch = [&](const training_progress& p) { return p.epoch_ended || ++batches != stop; };
  const optim::schedule schedule = [&](double base, std::int64_t step, std::int64_t) {
    if (here && wrong == "--kill" && step == 5) std::raise(SIGKILL);
    if (here && wrong == "--slow" && step % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return base;
  };
  const fit_options options{.epochs = 4,
                            .batch = 16,
                            .schedule = schedule,
                            .validation = squares(50, 2),
                            .observer = watch,
                            .checkpoint = checkpoint.empty() ? write : checkpoint,
                            .resume = !checkpoint.empty(),
                            .replicas = all,
                            .bucket_bytes = bucket,
                            .shard_optimizer = parts};
  const optim::adam adam{.lr = 0.01};
  const auto train = [&](auto net) {
    if (together)
      fit(net, data, loss::cross_entropy{}, optim::clipped{.base = adam, .norm = 0.1, .together = true}, options);
    else fit(net, data, loss::cross_entropy{}, adam, options);
    if (parts) gather_slots(net.parameters(), *all);
    if (all->rank() == 0) save_checkpoint(net.parameters(), {}, out);
  };
  // All processes end with the weights of process 0.
  if (across) train(across_model({.seed = 1 + all->rank()}));
  else train(regular_model({.seed = 1 + all->rank()}));
  if (funneled) MPI_Finalize();
} catch (const std::exception& e) {
  std::fprintf(stderr, "mpi_program: %s\n", e.what());
  return 3;
}
