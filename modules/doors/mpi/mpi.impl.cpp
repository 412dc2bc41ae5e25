module;
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <cstdio>
#include <cstdlib>
module lamina.mpi:world.impl;
import lamina.mpi;
import lamina;
import lamina.std;

namespace lamina::mpi {

namespace {

// Numbers of one message; two are under way, while those before them are added.
constexpr std::size_t message_bytes = std::size_t(4) << 20;

void check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw state_error("mpi: " + std::string(what) + ": " + std::string(words, static_cast<std::size_t>(length)));
}

MPI_Datatype type_of(const float*) { return MPI_FLOAT; }
MPI_Datatype type_of(const double*) { return MPI_DOUBLE; }

class processes final : public replicas {
 public:
  explicit processes(MPI_Comm all) : all_(all) {
    check(MPI_Comm_rank(all_, &rank_), "rank");
    check(MPI_Comm_size(all_, &count_), "number of processes");
  }
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void sum(view<float> numbers) override { sum(numbers.data(), numbers.size(), floats_); }
  void sum(view<double> numbers) override { sum(numbers.data(), numbers.size(), doubles_); }
  void broadcast(void* bytes, std::size_t count) override {
    constexpr std::size_t most = std::size_t(1) << 30;
    for (std::size_t at = 0; at < count; at += most)
      check(MPI_Bcast(static_cast<char*>(bytes) + at, static_cast<int>(std::min(most, count - at)), MPI_BYTE, 0, all_),
            "broadcast");
  }
  void fail(std::string_view why) noexcept override {
    char host[MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    if (MPI_Get_processor_name(host, &length) != MPI_SUCCESS) length = 0;
    std::fprintf(stderr, "lamina: process %d of %d on %.*s: %.*s\n", rank_, count_, length, host,
                 static_cast<int>(why.size()), why.data());
    std::fflush(stderr);
    MPI_Abort(all_, 1);
  }

 private:
  // Pairs of processes add what they have, then pairs of pairs: each has the sum of twice as many after a round.
  template <class T> void sum(T* numbers, std::size_t count, std::vector<T>& received) {
    const std::size_t each = message_bytes / sizeof(T), messages = (count + each - 1) / each;
    received.resize(std::min(2 * each, count));
    for (int distance = 1; distance < count_; distance *= 2) {
      const int partner = rank_ ^ distance;
      MPI_Request under_way[2][2];
      const auto length = [&](std::size_t m) { return std::min(each, count - m * each); };
      const auto begin = [&](std::size_t m) {
        const auto n = static_cast<int>(length(m));
        check(MPI_Irecv(received.data() + m % 2 * each, n, type_of(numbers), partner, 0, all_, &under_way[m % 2][0]),
              "receive");
        check(MPI_Isend(numbers + m * each, n, type_of(numbers), partner, 0, all_, &under_way[m % 2][1]), "send");
      };
      for (std::size_t m = 0; m < messages + 1; ++m) {
        if (m < messages) begin(m);
        if (m == 0) continue;
        const std::size_t done = m - 1;
        check(MPI_Waitall(2, under_way[done % 2], MPI_STATUSES_IGNORE), "exchange with another process");
        T* mine = numbers + done * each;
        const T* theirs = received.data() + done % 2 * each;
        for (std::size_t i = 0; i < length(done); ++i)
          mine[i] = rank_ < partner ? mine[i] + theirs[i] : theirs[i] + mine[i];
      }
    }
  }

  MPI_Comm all_;
  int rank_ = 0, count_ = 1;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

void finalize() {
  int done = 0;
  if (MPI_Finalized(&done) == MPI_SUCCESS && !done) MPI_Finalize();
}

std::shared_ptr<replicas> connected() {
  int done = 0, begun = 0, threads = MPI_THREAD_SINGLE;
  check(MPI_Finalized(&done), "state");
  if (done) throw state_error("mpi: MPI was finalized already; call `mpi::world` before");
  check(MPI_Initialized(&begun), "state");
  if (begun) check(MPI_Query_thread(&threads), "state");
  else {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "initialization");
    std::atexit(finalize);
  }
  if (threads < MPI_THREAD_FUNNELED)
    throw state_error(
        "mpi: MPI was initialized for programs of one thread; expected MPI_Init_thread with MPI_THREAD_FUNNELED or "
        "more");
  MPI_Comm own = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &own), "communicator");
  check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "communicator");
  return std::make_shared<processes>(own);
}

}  // namespace

std::shared_ptr<replicas> world() {
  static const std::shared_ptr<replicas> all = connected();
  return all;
}

}  // namespace lamina::mpi
