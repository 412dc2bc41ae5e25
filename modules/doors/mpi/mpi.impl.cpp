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

// Bytes per message. Two messages are in flight while earlier ones are added.
constexpr std::size_t message_bytes = std::size_t(4) << 20;

void check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char description[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, description, &length);
  throw state_error("mpi: " + std::string(what) + ": " + std::string(description, static_cast<std::size_t>(length)));
}

// All-reduce sum by recursive halving and doubling. In each round, pairs of processes exchange numbers. Small arrays:
// each partner adds the whole array. Large arrays: each partner adds one half, so that every process ends with a part
// of the sums; then the rounds run in reverse to distribute the parts. That takes twice as many messages, but at most
// twice the array's bytes for any number of processes. Both partners add in the same order.
// If only one process needs the sum, the reverse rounds send the parts to this owner: of each pair that has such parts,
// the partner nearer to the owner receives those of the other.
class pairwise_exchange {
 public:
  static constexpr int everyone = -1;
  template <class T> pairwise_exchange(MPI_Comm all, int rank, int count, view<T> numbers, int owner)
      : all_(all),
        rank_(rank),
        type_(std::same_as<T, float> ? MPI_FLOAT : MPI_DOUBLE),
        bytes_(sizeof(T)),
        numbers_(reinterpret_cast<std::byte*>(numbers.data())) {
    range whole{0, numbers.size()};
    if (whole.count * bytes_ < halved_bytes)
      for (int distance = 1; distance < count; distance *= 2) rounds_.push_back({rank ^ distance, whole, whole, true});
    else {
      for (int distance = 1; distance < count; distance *= 2) {
        const range low{whole.first, whole.count / 2}, high{whole.first + low.count, whole.count - low.count};
        const bool lower = (rank & distance) == 0;
        rounds_.push_back({rank ^ distance, lower ? high : low, lower ? low : high, true});
        whole = rounds_.back().taken;
      }
      for (std::size_t i = rounds_.size(); i-- > 0;) {
        const range none{0, 0}, here = rounds_[i].taken, there = rounds_[i].given;
        const int partner = rounds_[i].partner;
        if (owner == everyone) rounds_.push_back({partner, here, there, false});
        else if (((rank ^ owner) >> i) == 0) rounds_.push_back({partner, none, there, false});
        else if (((partner ^ owner) >> i) == 0) rounds_.push_back({partner, here, none, false});
      }
    }
  }
  // Makes progress with messages that have arrived. `buffer` is memory for two messages. Returns whether anything was
  // done.
  bool advance(std::vector<std::byte>& buffer) {
    if (is_done()) return false;
    const round& r = rounds_[round_];
    const std::size_t messages = messages_of(r);
    bool moved = false;
    for (; begun_ < messages && begun_ < ended_ + 2; ++begun_, moved = true) begin(r, begun_, buffer);
    if (ended_ < messages) {
      int arrived = 0;
      check(MPI_Testall(2, under_way_[ended_ % 2], &arrived, MPI_STATUSES_IGNORE), "exchange with another process");
      if (!arrived) return moved;
      if (r.adds) add(r, ended_, buffer);
      ++ended_;
    }
    if (ended_ == messages) ++round_, begun_ = ended_ = 0;
    return true;
  }
  bool is_done() const { return round_ == rounds_.size(); }

 private:
  struct range {
    std::size_t first, count;
  };
  struct round {
    int partner;
    range given, taken;
    bool adds;  // whether received numbers are added to the local ones or replace them
  };
  static constexpr std::size_t halved_bytes = std::size_t(64) << 10;
  std::size_t each() const { return message_bytes / bytes_; }
  std::size_t messages_of(const round& r) const {
    return (std::max(r.given.count, r.taken.count) + each() - 1) / each();
  }
  range part(range whole, std::size_t message) const {
    const std::size_t first = std::min(message * each(), whole.count);
    return {whole.first + first, std::min(each(), whole.count - first)};
  }
  std::byte* at(std::size_t i) const { return numbers_ + i * bytes_; }
  void begin(const round& r, std::size_t message, std::vector<std::byte>& buffer) {
    buffer.resize(2 * message_bytes);
    const range given = part(r.given, message), taken = part(r.taken, message);
    MPI_Request* requests = under_way_[message % 2];
    void* to = r.adds ? buffer.data() + message % 2 * message_bytes : at(taken.first);
    check(MPI_Irecv(to, static_cast<int>(taken.count), type_, r.partner, 0, all_, &requests[0]), "receive");
    check(MPI_Isend(at(given.first), static_cast<int>(given.count), type_, r.partner, 0, all_, &requests[1]), "send");
  }
  void add(const round& r, std::size_t message, const std::vector<std::byte>& buffer) const {
    const range taken = part(r.taken, message);
    const std::byte* received = buffer.data() + message % 2 * message_bytes;
    if (bytes_ == sizeof(float)) add<float>(r.partner, at(taken.first), received, taken.count);
    else add<double>(r.partner, at(taken.first), received, taken.count);
  }
  template <class T> void add(int partner, std::byte* here, const std::byte* there, std::size_t count) const {
    auto* local = reinterpret_cast<T*>(here);
    const auto* received = reinterpret_cast<const T*>(there);
    if (rank_ < partner)
      for (std::size_t i = 0; i < count; ++i) local[i] = local[i] + received[i];
    else
      for (std::size_t i = 0; i < count; ++i) local[i] = received[i] + local[i];
  }

  MPI_Comm all_;
  int rank_;
  MPI_Datatype type_;
  std::size_t bytes_;
  std::byte* numbers_;
  std::vector<round> rounds_;
  std::size_t round_ = 0, begun_ = 0, ended_ = 0;  // messages of this round that were started and completed
  MPI_Request under_way_[2][2];
};

// Serializes MPI calls by a lock, so that MPI_THREAD_SERIALIZED suffices for the background thread that advances sums.
// If MPI allows calls from one thread only, sums advance in `progress`.
class processes final : public replicas {
 public:
  processes(MPI_Comm all, bool threads) : all_(all), threads_(threads) {
    check(MPI_Comm_rank(all_, &rank_), "rank");
    check(MPI_Comm_size(all_, &count_), "number of processes");
  }
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;
  ~processes() override {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    begun_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void sum(view<float> numbers) override { begin(numbers), finish_sums(); }
  void sum(view<double> numbers) override { begin(numbers), finish_sums(); }
  void begin_sum(view<float> numbers) override { begin(numbers); }
  void begin_sum(view<double> numbers) override { begin(numbers); }
  void begin_sum_for(int owner, view<float> numbers) override { begin(numbers, owner); }
  void begin_sum_for(int owner, view<double> numbers) override { begin(numbers, owner); }
  void progress() override {
    if (threads_) return;
    std::lock_guard lock(mutex_);
    while (advance()) {}
    raise_error();
  }
  void finish_sums() override {
    std::lock_guard lock(mutex_);  // the other thread waits
    while (!sums_.empty() && !error_)
      if (!advance()) std::this_thread::yield();
    raise_error();
  }
  void broadcast(void* bytes, std::size_t count) override {
    std::lock_guard lock(mutex_);
    in_calls(bytes, count, [&](void* at, int n) { check(MPI_Bcast(at, n, MPI_BYTE, 0, all_), "broadcast"); });
  }
  void send(int from, int to, void* bytes, std::size_t count) override {
    if (from == to || (rank_ != from && rank_ != to)) return;
    std::lock_guard lock(mutex_);
    in_calls(bytes, count, [&](void* at, int n) {
      if (rank_ == from) check(MPI_Send(at, n, MPI_BYTE, to, 1, all_), "send");
      else check(MPI_Recv(at, n, MPI_BYTE, from, 1, all_, MPI_STATUS_IGNORE), "receive");
    });
  }
  void all_gather(void* bytes, view<const std::size_t> ends) override {
    std::lock_guard lock(mutex_);
    if (ends[ends.size() - 1] <= max_bytes) {
      std::vector<int> begins, counts;
      for (std::size_t begin = 0; const std::size_t end : ends) {
        begins.push_back(static_cast<int>(begin));
        counts.push_back(static_cast<int>(end - begin));
        begin = end;
      }
      check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, bytes, counts.data(), begins.data(), MPI_BYTE, all_),
            "gather");
      return;
    }
    std::size_t begin = 0;
    for (int r = 0; r < count_; ++r) {
      const std::size_t end = ends[static_cast<std::size_t>(r)];
      in_calls(static_cast<char*>(bytes) + begin, end - begin,
               [&](void* at, int n) { check(MPI_Bcast(at, n, MPI_BYTE, r, all_), "gather"); });
      begin = end;
    }
  }
  void fail(std::string_view why) noexcept override {
    std::lock_guard lock(mutex_);
    char host[MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    if (MPI_Get_processor_name(host, &length) != MPI_SUCCESS) length = 0;
    std::fprintf(stderr, "lamina: process %d of %d on %.*s: %.*s\n", rank_, count_, length, host,
                 static_cast<int>(why.size()), why.data());
    std::fflush(stderr);
    MPI_Abort(all_, 1);
  }

 private:
  // MPI counts are ints.
  static constexpr std::size_t max_bytes = std::size_t(1) << 30;
  template <class F> static void in_calls(void* bytes, std::size_t count, F f) {
    for (std::size_t at = 0; at < count; at += max_bytes)
      f(static_cast<char*>(bytes) + at, static_cast<int>(std::min(max_bytes, count - at)));
  }
  template <class T> void begin(view<T> numbers, int owner = pairwise_exchange::everyone) {
    {
      std::lock_guard lock(mutex_);
      sums_.emplace_back(all_, rank_, count_, numbers, owner);
      if (!threads_) return;
      if (!thread_.joinable()) thread_ = std::thread([this] { run_in_background(); });
    }
    begun_.notify_one();
  }
  // Sums run one at a time, so that messages of two sums cannot be confused.
  bool advance() {
    if (sums_.empty() || error_) return false;
    try {
      const bool moved = sums_.front().advance(buffer_);
      if (!sums_.front().is_done()) return moved;
      sums_.pop_front();
      return true;
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
  }
  void raise_error() const {
    if (error_) std::rethrow_exception(error_);
  }
  // The background thread: polls often while messages arrive, and backs off while none do.
  void run_in_background() {
    constexpr std::chrono::microseconds shortest(10), longest(200);
    auto pause = shortest;
    std::unique_lock lock(mutex_);
    while (!ends_) {
      if (sums_.empty() || error_) {
        begun_.wait(lock, [this] { return ends_ || (!sums_.empty() && !error_); });
        pause = shortest;
        continue;
      }
      const bool moved = advance();
      lock.unlock();
      if (!moved) std::this_thread::sleep_for(pause);
      pause = moved ? shortest : std::min(2 * pause, longest);
      lock.lock();
    }
  }

  MPI_Comm all_;
  const bool threads_;  // MPI allows calls from several threads, one at a time
  int rank_ = 0, count_ = 1;
  std::mutex mutex_;
  std::condition_variable begun_;
  std::deque<pairwise_exchange> sums_;
  std::vector<std::byte> buffer_;  // receive buffer
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
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
  return std::make_shared<processes>(own, threads >= MPI_THREAD_SERIALIZED);
}

}  // namespace

std::shared_ptr<replicas> world() {
  static const std::shared_ptr<replicas> all = connected();
  return all;
}

}  // namespace lamina::mpi
