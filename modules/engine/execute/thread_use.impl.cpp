// Decides by run times whether runs use the threads of a pool.
module lamina:execute.thread_use.impl;
import :execute;
import lamina.std;

namespace lamina::detail {

namespace {

constexpr int slow_runs = 4;   // excess of slow over quick runs that triggers a trial
constexpr int tried_runs = 4;  // runs per mean
constexpr thread_use::clock::duration shortest = std::chrono::milliseconds(8),
                                      longest = std::chrono::milliseconds(512);  // time alone

}  // namespace

void thread_use::ran(bool alone, clock::duration took, clock::time_point now) {
  switch (doing_) {
    case sharing: {
      // The usual time falls immediately and rises slowly; first runs, with new memory, do not count.
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
    case trying_alone: {  // compares with `alone_time_`, which still is the mean of shared runs
      sum_ += took;
      if (++runs_ < tried_runs) return;
      const clock::duration mean = sum_ / tried_runs, shared = alone_time_;
      if (mean < shared - shared / 16) {
        stay_ = std::clamp(2 * stay_, shortest, longest);
        until_ = now + stay_;
        begin(staying_alone);
        alone_time_ = mean;
      } else {  // something else slows down all runs
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
