// Data-parallel training with several processes: the communication interface.
export module lamina:train.replicas;
import :core;
import lamina.std;

namespace lamina {

/// Processes, or threads, that train copies of one model: `lamina::mpi::world()` of module `lamina.mpi`, or your own
/// class. Their number is a power of two. All must call the same functions in the same order.
export class replicas {
 public:
  virtual ~replicas() = default;
  /// Index of this process, from 0.
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// All-reduce: replaces the numbers by their sums over all processes. Sums are added pairwise, 0 + 1, 2 + 3, then
  /// fours, and so on, so that every process gets the same bits, equal to those of one process that adds in this order.
  virtual void sum(view<float> numbers) = 0;
  virtual void sum(view<double> numbers) = 0;
  /// Begins an asynchronous sum, which may run while this process computes: do not access the numbers until
  /// `finish_sums`. All processes begin the same sums in the same order. The default calls `sum`.
  virtual void begin_sum(view<float> numbers) { sum(numbers); }
  virtual void begin_sum(view<double> numbers) { sum(numbers); }
  /// Begins a sum that only rank `owner` needs; the numbers of the others are then unspecified. The default calls
  /// `begin_sum`.
  virtual void begin_sum_for(int owner, view<float> numbers);
  virtual void begin_sum_for(int owner, view<double> numbers);
  /// Called repeatedly between `begin_sum` and `finish_sums`, for implementations without a background thread.
  virtual void progress() {}
  /// Waits for all pending sums.
  virtual void finish_sums() {}
  /// Sends the bytes of rank 0 to all.
  virtual void broadcast(void* bytes, std::size_t count) = 0;
  /// Sends bytes of rank `from` to rank `to`; those of other ranks, which may be null, are unchanged. The default is
  /// built from sums that carry twice as many bytes.
  virtual void send(int from, int to, void* bytes, std::size_t count);
  /// Gathers the bytes of each rank on all: rank r has those from `ends[r - 1]`, or 0, to `ends[r]`. The default is
  /// built from sums, as `send`.
  virtual void all_gather(void* bytes, view<const std::size_t> ends);
  /// Ends all processes after a failure of this one, while the others wait for it. Does not return if the process can
  /// be ended; if it returns, no pending sum accesses its numbers any more.
  virtual void fail(std::string_view why) noexcept = 0;
};

}  // namespace lamina
