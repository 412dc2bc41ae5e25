// Trains a small net on the processes of MPI, for the tests: mpi_program OUT [--checkpoint FILE] [--stop BATCH] [--sums] [--bucket BYTES]
// [--funneled], which lets one thread call MPI, and what goes wrong on one of them: [--fail | --kill | --slow] RANK.
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

// Sums of every length, which messages cut, against those that are added in pairs here.
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
  std::string out, checkpoint;
  std::string_view wrong;
  int wrong_rank = -1, stop = -1;
  std::int64_t bucket = 0;
  bool sums = false, funneled = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--sums") sums = true;
    else if (word == "--funneled") funneled = true;
    else if (word.starts_with("--") && i + 1 < argc) {
      ++i;
      if (word == "--checkpoint") checkpoint = argv[i];
      else if (word == "--stop") stop = std::atoi(argv[i]);
      else if (word == "--bucket") bucket = std::atoll(argv[i]);
      else wrong = word, wrong_rank = std::atoi(argv[i]);
    } else out = word;
  }
  int threads = 0;
  if (funneled) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &threads);
  const auto all = mpi::world();
  if (sums) check_sums(*all);
  const bool here = all->rank() == wrong_rank;
  regular_model net({.seed = 1 + all->rank()});  // the weights are those of process 0
  auto data = squares(120, 1);
  if (here && wrong == "--fail") {
    // A label that the others do not have.
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
  fit(net, data, loss::cross_entropy{}, optim::adam{.lr = 0.01},
      {.epochs = 4,
       .batch = 16,
       .schedule = schedule,
       .validation = squares(50, 2),
       .observer = watch,
       .checkpoint = checkpoint,
       .resume = !checkpoint.empty(),
       .replicas = all,
       .bucket_bytes = bucket});
  if (all->rank() == 0) save_checkpoint(net.parameters(), {}, out);
  if (funneled) MPI_Finalize();
} catch (const std::exception& e) {
  std::fprintf(stderr, "mpi_program: %s\n", e.what());
  return 3;
}
