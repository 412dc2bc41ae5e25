// Offsets for blocks of memory that live over ranges of time.
module lamina:plan.memory.impl;
import :core;
import :plan;
import lamina.std;

namespace lamina {

std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak) {
  std::int32_t end = 0;
  for (auto& b : blocks) end = std::max(end, b.last + 1);
  std::vector<std::size_t> alive(static_cast<std::size_t>(end) + 1);
  for (auto& b : blocks)
    for (auto t = b.first; t <= b.last; ++t) alive[static_cast<std::size_t>(t)] += (b.bytes + 63) / 64 * 64;
  live_peak = 0;
  for (auto a : alive) live_peak = std::max(live_peak, a);

  std::vector<std::size_t> order(blocks.size());
  std::vector<std::int64_t> best(blocks.size());
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (int strategy = 0; strategy < 3 && best_bytes > live_peak; ++strategy) {
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      const auto &a = blocks[x], &b = blocks[y];
      if (strategy == 0) return a.bytes > b.bytes;
      if (strategy == 1) return a.first < b.first;
      return static_cast<std::size_t>(a.last - a.first + 1) * a.bytes > static_cast<std::size_t>(b.last - b.first + 1) * b.bytes;
    });
    std::size_t bytes = 0;
    std::vector<std::size_t> placed;
    for (auto i : order) {
      auto& b = blocks[i];
      auto size = static_cast<std::int64_t>((b.bytes + 63) / 64 * 64);
      // The smallest gap between placed blocks of the same time that is large enough.
      std::vector<std::pair<std::int64_t, std::int64_t>> taken;
      for (auto k : placed)
        if (blocks[k].first <= b.last && b.first <= blocks[k].last)
          taken.emplace_back(blocks[k].offset, blocks[k].offset + static_cast<std::int64_t>((blocks[k].bytes + 63) / 64 * 64));
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
