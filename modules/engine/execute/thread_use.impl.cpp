// When runs use the threads of a pool, by the times that they take.
module lamina:execute.thread_use.impl;
import :execute;
import lamina.std;

namespace lamina::detail {

namespace {

constexpr int slow_runs = 4;   // more than quick ones, that make a try
constexpr int tried_runs = 4;  // of which a mean is taken
constexpr thread_use::clock::duration shortest = std::chrono::milliseconds(8),
                                      longest = std::chrono::milliseconds(512);  // that runs stay alone

}  // namespace

void thread_use::ran(bool alone, clock::duration took, clock::time_point now) {
  switch (doing_) {
    case sharing: {
      // The usual time falls at once and rises slowly, and is not that of a first run, in which memory is new.
      if (usual_ == clock::duration{} && ++runs_ < tried_runs) return;
      usual_ = usual_ == clock::duration{} ? took : std::min(took, usual_ + usual_ / 256);
      sum_ += (took - sum_) / 8;
      slow_ = took > usual_ + usual_ / 4 ? slow_ + 1 : std::max(0, slow_ - 1);
      if (slow_ < slow_runs || now < next_try_) return;
      const clock::duration mean = sum_;
      begin(trying_alone);
      alone_time_ = mean;
      return;
    }
    case trying_alone: {  // against `alone_time_`, which is still the mean of shared runs
      sum_ += took;
      if (++runs_ < tried_runs) return;
      const clock::duration mean = sum_ / tried_runs, shared = alone_time_;
      if (mean < shared - shared / 16) {
        stay_ = std::clamp(2 * stay_, shortest, longest);
        until_ = now + stay_;
        begin(staying_alone);
        alone_time_ = mean;
      } else {  // something else slows all runs
        next_try_ = now + std::clamp(2 * stay_, shortest, longest);
        begin(sharing);
        slow_ = 0, usual_ = shared, sum_ = shared;
      }
      return;
    }
    case staying_alone:
      if (alone) {
        alone_time_ += (took - alone_time_) / 8;
        return;
      }
      begin(trying_to_share);
      [[fallthrough]];
    case trying_to_share:
      sum_ += took;
      if (++runs_ < tried_runs) return;
      if (const clock::duration mean = sum_ / tried_runs; mean < alone_time_ - alone_time_ / 16) {
        begin(sharing);
        slow_ = 0, sum_ = usual_ = mean;
        stay_ /= 2;
      } else {
        stay_ = std::clamp(2 * stay_, shortest, longest);
        until_ = now + stay_;
        begin(staying_alone);
      }
  }
}

}  // namespace lamina::detail
