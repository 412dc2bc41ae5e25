// Several processes that train one model together: what training needs of them.
export module lamina:train.replicas;
import :core;
import lamina.std;

namespace lamina {

/// Processes, or threads, that train copies of one model: `lamina::mpi::world()` of the module `lamina.mpi`, or a class of your own.
/// Their number is a power of two. All of them call the same functions in the same order.
export class replicas {
 public:
  virtual ~replicas() = default;
  /// Which of them this one is, from 0.
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// Replaces the numbers by the sums over all of them. The sums are added in pairs, 0 + 1, 2 + 3, then those of four, and so on, so
  /// that each one has the same bits, and those of one process that adds in this order.
  virtual void sum(view<float> numbers) = 0;
  virtual void sum(view<double> numbers) = 0;
  /// Begins such a sum, which may go on while this one computes: the numbers are left alone until `finish_sums`. All begin the
  /// same sums in the same order. Without an override it is `sum`.
  virtual void begin_sum(view<float> numbers) { sum(numbers); }
  virtual void begin_sum(view<double> numbers) { sum(numbers); }
  /// Begins a sum that rank `owner` alone needs; what the others find in their numbers is left open. Without an override it is
  /// `begin_sum`.
  virtual void begin_sum_for(int owner, view<float> numbers);
  virtual void begin_sum_for(int owner, view<double> numbers);
  /// Called now and then between `begin_sum` and `finish_sums`, for those that have no thread to go on with sums.
  virtual void progress() {}
  /// Waits for all sums that were begun.
  virtual void finish_sums() {}
  /// Gives the bytes of rank 0 to all.
  virtual void broadcast(void* bytes, std::size_t count) = 0;
  /// Gives bytes of rank `from` to rank `to`; those of the others, which may be null, are left alone. Without an override it is made
  /// of sums that carry twice as many bytes.
  virtual void send(int from, int to, void* bytes, std::size_t count);
  /// Gives to all the bytes that each one has: those of rank r lie from `ends[r - 1]`, or 0, to `ends[r]`. Without an override it is
  /// made of sums, as `send`.
  virtual void all_gather(void* bytes, view<const std::size_t> ends);
  /// Ends all of them, where this one alone has failed and the others wait for it. Does not return where the process can be ended;
  /// where it returns, no sum that was begun touches its numbers any more.
  virtual void fail(std::string_view why) noexcept = 0;
};

}  // namespace lamina
