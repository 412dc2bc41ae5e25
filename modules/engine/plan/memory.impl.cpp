// Offsets for blocks of memory that live over ranges of time.
module lamina:plan.memory.impl;
import :core;
import :plan;
import lamina.std;

namespace lamina {

namespace {

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// What orders blocks for placing, largest first. `pressure` is the most bytes alive at any time of the block's life: where
// it is tight, there is the least choice, so those go first in half of the orders.
struct urgency {
  std::size_t bytes, length, pressure;
  std::int32_t first;
  using key = std::pair<std::size_t, std::size_t>;
  static constexpr int orders = 7;
  key in(int order) const {
    const auto late = std::numeric_limits<std::size_t>::max() - static_cast<std::size_t>(first);
    switch (order) {
      case 0: return {bytes, 0};
      case 1: return {pressure, length};
      case 2: return {pressure, bytes};
      case 3: return {length * bytes, 0};
      case 4: return {pressure, late};
      case 5: return {length, bytes};
      default: return {late, 0};
    }
  }
};

}  // namespace

// The best of several orders; in each, a block takes the smallest gap that is large enough.
std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak) {
  std::int32_t end = 0;
  for (auto& b : blocks) end = std::max(end, b.last + 1);
  std::vector<std::size_t> alive(static_cast<std::size_t>(end) + 1);
  for (auto& b : blocks)
    for (auto t = b.first; t <= b.last; ++t) alive[static_cast<std::size_t>(t)] += rounded(b.bytes);
  live_peak = 0;
  for (auto a : alive) live_peak = std::max(live_peak, a);
  std::vector<urgency> urgencies;
  for (auto& b : blocks) {
    urgency u{b.bytes, static_cast<std::size_t>(b.last - b.first + 1), 0, b.first};
    for (auto t = b.first; t <= b.last; ++t) u.pressure = std::max(u.pressure, alive[static_cast<std::size_t>(t)]);
    urgencies.push_back(u);
  }

  std::vector<std::size_t> order(blocks.size());
  std::vector<std::int64_t> best(blocks.size());
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (int strategy = 0; strategy < urgency::orders && best_bytes > live_peak; ++strategy) {
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return urgencies[x].in(strategy) > urgencies[y].in(strategy);
    });
    std::size_t bytes = 0;
    std::vector<std::size_t> placed;
    for (auto i : order) {
      auto& b = blocks[i];
      auto size = static_cast<std::int64_t>(rounded(b.bytes));
      // Gaps between placed blocks of the same time.
      std::vector<std::pair<std::int64_t, std::int64_t>> taken;
      for (auto k : placed)
        if (blocks[k].first <= b.last && b.first <= blocks[k].last)
          taken.emplace_back(blocks[k].offset, blocks[k].offset + static_cast<std::int64_t>(rounded(blocks[k].bytes)));
      std::sort(taken.begin(), taken.end());
      std::int64_t at = 0, chosen = -1, gap = 0;
      for (auto [from, to] : taken) {
        if (from - at >= size && (chosen < 0 || from - at < gap)) { chosen = at; gap = from - at; }
        at = std::max(at, to);
      }
      b.offset = chosen >= 0 ? chosen : at;
      bytes = std::max(bytes, static_cast<std::size_t>(b.offset + size));
      placed.push_back(i);
    }
    if (bytes < best_bytes) {
      best_bytes = bytes;
      for (std::size_t i = 0; i < blocks.size(); ++i) best[i] = blocks[i].offset;
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = best[i];
  return blocks.empty() ? 0 : best_bytes;
}

}  // namespace lamina
