// Offsets for blocks of memory that live over ranges of time.
module lamina:plan.memory.impl;
import :core;
import :optimize;
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

// A block takes the smallest gap that is large enough; in the given order. Gives the bytes that are needed.
std::size_t place_in_gaps(view<memory_block> blocks, const std::vector<std::size_t>& order) {
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
  return bytes;
}

// Dynamic programming over the blocks in order of time: each takes the memory of blocks that are over, which grows if need
// be, or memory of its own. Of the assignments so far those of the fewest bytes are kept, up to `kept`.
std::size_t place_in_turn(view<memory_block> blocks) {
  struct room { std::size_t bytes; std::int32_t last; };
  struct assignment { std::size_t bytes = 0; std::vector<room> rooms; std::vector<std::int32_t> room_of; };
  struct choice { std::size_t bytes, from; std::int32_t room; };
  constexpr std::size_t kept = 64;
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return blocks[x].first < blocks[y].first; });
  std::vector<assignment> all(1);
  for (auto i : order) {
    const auto& b = blocks[i];
    const auto size = rounded(b.bytes);
    std::vector<choice> choices;
    for (std::size_t a = 0; a < all.size(); ++a) {
      choices.push_back({all[a].bytes + size, a, -1});
      for (std::size_t r = 0; r < all[a].rooms.size(); ++r)
        if (const auto& room = all[a].rooms[r]; room.last < b.first)
          choices.push_back({all[a].bytes + (size > room.bytes ? size - room.bytes : 0), a, static_cast<std::int32_t>(r)});
    }
    std::stable_sort(choices.begin(), choices.end(), [](const choice& x, const choice& y) { return x.bytes < y.bytes; });
    if (choices.size() > kept) choices.resize(kept);
    std::vector<assignment> next;
    for (const auto& c : choices) {
      assignment a = all[c.from];
      a.bytes = c.bytes;
      if (c.room < 0) a.rooms.push_back({size, b.last});
      else a.rooms[static_cast<std::size_t>(c.room)] = {std::max(a.rooms[static_cast<std::size_t>(c.room)].bytes, size), b.last};
      a.room_of.push_back(c.room < 0 ? static_cast<std::int32_t>(a.rooms.size()) - 1 : c.room);
      next.push_back(std::move(a));
    }
    all = std::move(next);
  }
  const assignment& best = all[0];
  std::vector<std::int64_t> offset;
  std::int64_t at = 0;
  for (const auto& r : best.rooms) {
    offset.push_back(at);
    at += static_cast<std::int64_t>(r.bytes);
  }
  for (std::size_t k = 0; k < order.size(); ++k) blocks[order[k]].offset = offset[static_cast<std::size_t>(best.room_of[k])];
  return static_cast<std::size_t>(at);
}

}  // namespace

std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak, memory_sharing how) {
  std::int32_t end = 0;
  for (auto& b : blocks) end = std::max(end, b.last + 1);
  std::vector<std::size_t> alive(static_cast<std::size_t>(end) + 1);
  for (auto& b : blocks)
    for (auto t = b.first; t <= b.last; ++t) alive[static_cast<std::size_t>(t)] += rounded(b.bytes);
  live_peak = 0;
  for (auto a : alive) live_peak = std::max(live_peak, a);
  if (how == memory_sharing::dynamic) return place_in_turn(blocks);
  if (how == memory_sharing::none) {
    std::int64_t at = 0;
    for (auto& b : blocks) {
      b.offset = at;
      at += static_cast<std::int64_t>(rounded(b.bytes));
    }
    return static_cast<std::size_t>(at);
  }
  std::vector<urgency> urgencies;
  for (auto& b : blocks) {
    urgency u{b.bytes, static_cast<std::size_t>(b.last - b.first + 1), 0, b.first};
    for (auto t = b.first; t <= b.last; ++t) u.pressure = std::max(u.pressure, alive[static_cast<std::size_t>(t)]);
    urgencies.push_back(u);
  }

  std::vector<std::size_t> order(blocks.size());
  std::vector<std::int64_t> best(blocks.size());
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  const int orders = how == memory_sharing::greedy ? 1 : urgency::orders;
  for (int strategy = 0; strategy < orders && best_bytes > live_peak; ++strategy) {
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return urgencies[x].in(strategy) > urgencies[y].in(strategy);
    });
    const std::size_t bytes = place_in_gaps(blocks, order);
    if (bytes < best_bytes) {
      best_bytes = bytes;
      for (std::size_t i = 0; i < blocks.size(); ++i) best[i] = blocks[i].offset;
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = best[i];
  return blocks.empty() ? 0 : best_bytes;
}

}  // namespace lamina
