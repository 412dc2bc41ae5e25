// Blocks of numbers and pairwise sums.
module lamina:train.blocks.impl;
import :core;
import :dtype;
import :train.replicas;
import lamina.std;

namespace lamina {

/// Receiver of a sum that all ranks need.
constexpr int everyone = -1;

/// A range of numbers in a block.
struct number_range {
  std::int64_t first = 0, count = 0;
};

/// Contiguous numbers of one element type, float32 or float64.
class number_block {
 public:
  number_block(dtype element, std::int64_t count) : element_(element) {
    if (element == dtype::float64) doubles_.resize(static_cast<std::size_t>(count));
    else floats_.resize(static_cast<std::size_t>(count));
  }
  void* at(std::int64_t i) {
    return element_ == dtype::float64 ? static_cast<void*>(doubles_.data() + i) : floats_.data() + i;
  }
  void clear() {
    std::fill(floats_.begin(), floats_.end(), 0.0F);
    std::fill(doubles_.begin(), doubles_.end(), 0.0);
  }
  /// Adds a range of another block to the same range.
  void add(const number_block& o, number_range which) {
    if (element_ == dtype::float64) add(doubles_, o.doubles_, which);
    else add(floats_, o.floats_, which);
  }
  void scale(number_range which, double by) {
    for (auto i = static_cast<std::size_t>(which.first), end = i + static_cast<std::size_t>(which.count); i < end; ++i)
      if (element_ == dtype::float64) doubles_[i] *= by;
      else floats_[i] = static_cast<float>(static_cast<double>(floats_[i]) * by);
  }
  bool finite() const {
    const auto is = [](auto x) { return std::isfinite(x); };
    return std::all_of(floats_.begin(), floats_.end(), is) && std::all_of(doubles_.begin(), doubles_.end(), is);
  }
  /// `owner`: the only rank that needs the sum, or `everyone`.
  void begin_sum(replicas& all, number_range which, int owner = everyone) {
    if (element_ == dtype::float64) begin_sum(all, doubles_, which, owner);
    else begin_sum(all, floats_, which, owner);
  }

 private:
  template <class T> static void begin_sum(replicas& all, std::vector<T>& numbers, number_range which, int owner) {
    const view<T> some(numbers.data() + which.first, static_cast<std::size_t>(which.count));
    if (owner == everyone) all.begin_sum(some);
    else all.begin_sum_for(owner, some);
  }
  template <class T> static void add(std::vector<T>& to, const std::vector<T>& from, number_range which) {
    for (auto i = static_cast<std::size_t>(which.first), end = i + static_cast<std::size_t>(which.count); i < end; ++i)
      to[i] = from[i] + to[i];
  }
  dtype element_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

/// Adds blocks pairwise, in order of arrival: (0 + 1) + (2 + 3), then groups of eight, and so on. Stores at most one
/// block per binary digit of their count.
class pairwise_sum {
 public:
  pairwise_sum(dtype element, std::int64_t count) : element_(element), count_(count) {}
  /// Returns a block to fill and then pass to `add`.
  number_block take() {
    if (free_.empty()) return {element_, count_};
    number_block b = std::move(free_.back());
    free_.pop_back();
    return b;
  }
  void add(number_block b) {
    add_to(b);
    take_in(std::move(b));
  }
  /// `add` in two parts, for a block that is filled range by range: `add_to` for each finished range, then `take_in`.
  void add_to(number_block& b, number_range which) const {
    for (std::size_t level = 0; added_ >> level & 1u; ++level) b.add(levels_[level].front(), which);
  }
  void add_to(number_block& b) const { add_to(b, {0, count_}); }
  void take_in(number_block b) {
    std::size_t level = 0;
    for (; added_ >> level & 1u; ++level) {
      free_.push_back(std::move(levels_[level].front()));
      levels_[level].clear();
    }
    if (levels_.size() <= level) levels_.resize(level + 1);
    levels_[level].push_back(std::move(b));
    ++added_;
  }
  std::size_t added() const { return added_; }
  /// The sum, if the number of blocks is a power of two.
  number_block& total() { return levels_.back().front(); }
  void restart() {
    for (auto& l : levels_) {
      for (auto& b : l) free_.push_back(std::move(b));
      l.clear();
    }
    levels_.clear();
    added_ = 0;
  }

 private:
  dtype element_;
  std::int64_t count_;
  std::size_t added_ = 0;
  std::vector<std::vector<number_block>> levels_;  // per binary digit, one block or none
  std::vector<number_block> free_;
};

}  // namespace lamina
